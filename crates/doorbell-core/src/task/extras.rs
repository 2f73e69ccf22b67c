//! What only some tasks have. It lies behind the body and the raised node, in the same allocation, so tasks without it
//! and calls neither carry it nor look at it.

use super::about::{About, Kind};
use super::cell::TaskRef;
use super::schedule::Schedule;
use doorbell_machine::Counter;
use std::alloc::Layout;
use std::borrow::Cow;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// The name of a task. A text that is part of the program costs nothing to keep; any other is
/// shared by those who have it.
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

/// What lies behind the body of a task that has any of it.
pub(crate) struct Extras<M: Schedule> {
    name: Option<Name>,
    spawned_at: &'static Location<'static>,
    /// When it was spawned; 0 where times are not recorded.
    born_ns: u64,
    /// When it was queued last. Written by whoever queues it, and there is one at a time.
    woken_ns: M::Counter,
}

impl<M: Schedule> Extras<M> {
    /// What a new task has; `None` if it has nothing. `is_recorded`: something is recorded for each task of its
    /// scheduler. `is_timed`: times are.
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

    /// Where it was launched.
    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// When it was queued last; 0 where times are not recorded.
    pub(crate) fn woken_ns(&self) -> u64 {
        self.woken_ns.get()
    }

    /// How long ago it was spawned, where times are recorded.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        (self.born_ns != 0).then(|| M::now_ns().saturating_sub(self.born_ns))
    }

    pub(crate) fn note_wake(&self) {
        if self.born_ns != 0 {
            self.woken_ns.set(M::now_ns().max(1));
        }
    }

    /// The layout of a task that is laid out so but for its extras, and their offset.
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
        // SAFETY: a task that has extras was allocated with them, and the pointer has all of it.
        Some(unsafe { self.as_raw().cast::<u8>().add(offset) }.cast())
    }

    /// What this task has and others have not.
    pub(crate) fn extras(&self) -> Option<&Extras<M>> {
        // SAFETY: written in `TaskRef::new` before anybody else had the task, and there until it is
        // freed; changed only by atomics.
        self.extras_place().map(|extras| unsafe { extras.as_ref() })
    }

    /// Writes them into a new task.
    ///
    /// # Safety
    /// The task was allocated with extras, its header says so, and nobody else has it yet.
    pub(crate) unsafe fn write_extras(self, extras: Extras<M>) {
        if let Some(place) = self.extras_place() {
            // SAFETY: allocated for them, and empty.
            unsafe { place.write(extras) };
        }
    }

    /// Drops them.
    ///
    /// # Safety
    /// Nobody else has the task any more, and nobody asks for them after this.
    pub(crate) unsafe fn drop_extras(self) {
        if let Some(place) = self.extras_place() {
            // SAFETY: written in `TaskRef::new`; the caller's promise.
            unsafe { place.drop_in_place() };
        }
    }

    /// The name that it was given.
    pub(crate) fn name(&self) -> Option<&Name> {
        self.extras()?.name()
    }
}
