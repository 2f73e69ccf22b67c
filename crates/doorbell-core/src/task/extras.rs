//! Extras: name, times and place of spawning. Only tasks that have a name or are recorded have them, and no calls.
//! They lie behind the body and the raised node, in the same allocation.

use super::about::{About, Kind};
use super::cell::TaskRef;
use super::schedule::Schedule;
use doorbell_machine::Counter;
use std::alloc::Layout;
use std::borrow::Cow;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// The name of a task. A `'static` text needs no allocation; clones of any other text share one allocation.
///
/// ```
/// use doorbell_core::task::Name;
///
/// assert_eq!(Name::from("beat").as_str(), "beat");
/// assert_eq!(Name::from(format!("beat {}", 2)), Name::from("beat 2"));
/// ```
#[derive(Clone, Debug)]
pub struct Name(Text);

#[derive(Clone, Debug)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Name(Text::Static(text))
    }
}

impl From<Arc<str>> for Name {
    fn from(text: Arc<str>) -> Self {
        Name(Text::Shared(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Name(Text::Shared(text.into()))
    }
}

impl From<Cow<'static, str>> for Name {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

/// The extras of a task.
pub(crate) struct Extras<M: Schedule> {
    name: Option<Name>,
    spawned_at: &'static Location<'static>,
    /// When the task was spawned; 0 where times are not recorded.
    born_ns: u64,
    /// When the task was queued last. The thread that queues it writes this: one at a time.
    woken_ns: M::Counter,
}

impl<M: Schedule> Extras<M> {
    /// The extras of a new task: `None` for calls, and for tasks without a name that are not recorded. `is_recorded`:
    /// the scheduler records something for each task. `is_timed`: it records times.
    #[inline]
    pub(crate) fn of(
        kind: Kind,
        about: &About<'_>,
        is_recorded: bool,
        is_timed: bool,
    ) -> Option<Self> {
        if kind == Kind::Call || (about.name.is_none() && !is_recorded) {
            return None;
        }
        Some(Self::new(about, is_timed))
    }

    #[cold]
    fn new(about: &About<'_>, is_timed: bool) -> Self {
        let born_ns = if is_timed { M::now_ns().max(1) } else { 0 };
        let woken_ns = M::Counter::default();
        woken_ns.set(born_ns);
        Extras {
            name: about.name.cloned(),
            spawned_at: about.spawned_at,
            born_ns,
            woken_ns,
        }
    }

    pub(crate) fn name(&self) -> Option<&Name> {
        self.name.as_ref()
    }

    /// Where the task was spawned.
    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// When the task was queued last; 0 where times are not recorded.
    pub(crate) fn woken_ns(&self) -> u64 {
        self.woken_ns.get()
    }

    /// How long ago the task was spawned; `None` where times are not recorded.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        (self.born_ns != 0).then(|| M::now_ns().saturating_sub(self.born_ns))
    }

    pub(crate) fn note_wake(&self) {
        if self.born_ns != 0 {
            self.woken_ns.set(M::now_ns().max(1));
        }
    }

    /// The layout of a task with extras added, and the offset of the extras.
    pub(crate) fn behind(task: Layout) -> (Layout, usize) {
        let (layout, offset) = task
            .extend(Layout::new::<Self>())
            .expect("a task that fits in memory fits with its name");
        (layout.pad_to_align(), offset)
    }
}

impl<M: Schedule> TaskRef<M> {
    fn extras_place(self) -> Option<NonNull<Extras<M>>> {
        if !self.header().has_extras() {
            return None;
        }
        let (_, offset) = Extras::<M>::behind(self.layout());
        // SAFETY: a task that has extras was allocated with them, and the pointer is valid for all of the task.
        Some(unsafe { self.as_raw().cast::<u8>().add(offset) }.cast())
    }

    /// The task's extras, if it has any.
    pub(crate) fn extras(&self) -> Option<&Extras<M>> {
        // SAFETY: written in `TaskRef::new` before another thread had the task, and there until the task is freed.
        // Only an atomic in them changes.
        self.extras_place().map(|extras| unsafe { extras.as_ref() })
    }

    /// Writes the extras of a new task.
    ///
    /// # Safety
    /// The task was allocated with extras, its header says so, and only the caller has the task yet.
    pub(crate) unsafe fn write_extras(self, extras: Extras<M>) {
        if let Some(place) = self.extras_place() {
            // SAFETY: allocated for them, and empty.
            unsafe { place.write(extras) };
        }
    }

    /// Drops the extras, if there are any.
    ///
    /// # Safety
    /// Only the caller has the task, and it does not use the extras after this.
    pub(crate) unsafe fn drop_extras(self) {
        if let Some(place) = self.extras_place() {
            // SAFETY: written in `TaskRef::new`; the caller's promise.
            unsafe { place.drop_in_place() };
        }
    }

    /// The task's name, if it has one.
    pub(crate) fn name(&self) -> Option<&Name> {
        self.extras()?.name()
    }
}
