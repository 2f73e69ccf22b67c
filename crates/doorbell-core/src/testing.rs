//! What the tests of this crate share.
//!
//! * [`model`]: runs a model in every interleaving, and shows that mutants are noticed;
//! * [`Wakes`]: a waker that counts;
//! * [`Item`]: something to post, whose content a checker spins;
//! * [`Idler`]: a worker by hand, made of the same public pieces as the real one.

// Tests of a protocol compare it with locks and atomics that the checkers do not see.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

#[path = "testing_model.rs"]
pub(crate) mod model;

use crate::bell::Announced;
use crate::call::{CallFailed, blocking, wait_for};
use crate::link::{Delivered, Node, Taker};
use crate::mailbox::Posted;
use crate::parcel::Returns;
use crate::queue::Ready;
use crate::scheduler::{Member, RemoteRef, Scheduler, SchedulerSpec, Turns};
use crate::switches::{RtPush, SwitchWord, Switches, TimerPull};
use crate::task::{About, BodyVtable, Join, Kind, write_body};
use crate::worker::{IdlePolicy, Local, Worker, WorkerConfig, WorkerShared, launch_described};
use doorbell_machine::{Cell, Machine, Spun};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Wake;

/// A remote half with these switches.
pub(crate) fn remote_with<M: Machine>(switches: Switches) -> RemoteRef<M> {
    RemoteRef::alone(&Arc::new(SwitchWord::new(switches)))
}

/// A remote half with every switch at its default.
pub(crate) fn remote<M: Machine>() -> RemoteRef<M> {
    remote_with(Switches::default())
}

/// The remote halves of so many workers whose tasks run by rank. None of them is idle.
pub(crate) fn by_rank<M: Machine>(workers: usize, rt_push: RtPush) -> Vec<RemoteRef<M>> {
    let switches = Switches {
        rt_push,
        ..Switches::default()
    };
    let spec = SchedulerSpec {
        turns: Turns::ByRank,
        ..SchedulerSpec::default()
    };
    Scheduler::described(
        workers,
        &Arc::new(SwitchWord::new(switches)),
        spec,
        |_, _| 0,
    )
}

/// The worker with that remote half, with a clock of its own. The test makes its steps.
pub(crate) fn worker_by_hand<M: Machine>(remote: RemoteRef<M>, idle: IdlePolicy) -> Worker<M> {
    let config = WorkerConfig { idle };
    Worker::new(Arc::new(WorkerShared::with(config, remote, Arc::default())))
}

/// Spawns a task on the worker with that remote half.
pub(crate) fn spawn<M: Machine, F>(remote: &RemoteRef<M>, future: F) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    launch_as(remote, Kind::Task, future)
}

/// Launches a task or a call on the worker with that remote half.
pub(crate) fn launch_as<M: Machine, F>(
    remote: &RemoteRef<M>,
    kind: Kind,
    future: F,
) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    launch_about(remote, kind, About::default(), future)
}

/// As [`launch_as`], with what else is said of the task.
pub(crate) fn launch_about<M: Machine, F>(
    remote: &RemoteRef<M>,
    kind: Kind,
    about: About<'_>,
    future: F,
) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let vtable = BodyVtable::of::<F>();
    // SAFETY: the body written is of the table's type and Send, and so is its output, which
    // is the one that the handle is typed with.
    unsafe {
        launch_described(remote.clone(), kind, about, vtable, |body| {
            write_body(body, future);
        })
        .typed()
    }
}

/// As [`launch_as`], with a rank. The test does not wait for it.
pub(crate) fn launch_ranked<M: Machine, F>(remote: &RemoteRef<M>, kind: Kind, rank: u8, future: F)
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let about = About {
        rank,
        ..About::default()
    };
    drop(launch_about(remote, kind, about, future));
}

/// Calls the worker with that remote half and waits. Not from a worker's own thread.
pub(crate) fn call<M: Machine, F, R>(remote: &Member<M>, f: F) -> Result<R, CallFailed<F>>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    // SAFETY: the call is waited for here, once, and nothing of it is kept; closure and result
    // are Send.
    unsafe { blocking(f, |call| wait_for(remote, &call)) }
}

/// Switches with this setting, and every other one at its default.
pub(crate) fn pulling<M: Machine>(timer_pull: TimerPull) -> Arc<SwitchWord<M::Counter>> {
    Arc::new(SwitchWord::new(Switches {
        timer_pull,
        ..Switches::default()
    }))
}

/// A waker that counts. No checker sees the count: it orders nothing in a model.
#[derive(Default)]
pub(crate) struct Wakes(AtomicU64);

impl Wakes {
    pub(crate) fn get(&self) -> u64 {
        // ORDER: Relaxed; a count.
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        // ORDER: Relaxed; a count.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was delivered, in order. A lock that no checker sees: it orders nothing in a model.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    fn open(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().expect("nothing panics while it is held")
    }

    pub(crate) fn push(&self, entry: u64) {
        self.open().push(entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.open().len()
    }

    pub(crate) fn has(&self, entry: u64) -> bool {
        self.open().contains(&entry)
    }

    pub(crate) fn entries(&self) -> Vec<u64> {
        self.open().clone()
    }

    /// Asserts that just these entries were delivered, those of one poster (`entry / 100`) in
    /// order.
    #[track_caller]
    pub(crate) fn assert_once_and_in_order(&self, expected: &[u64]) {
        let entries = self.entries();
        let mut sorted = entries.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "lost, doubled or foreign: {entries:?}");
        for poster in 0..=expected.iter().max().copied().unwrap_or(0) / 100 {
            let mine = entries.iter().filter(|entry| *entry / 100 == poster);
            assert!(mine.is_sorted(), "out of order: {entries:?}");
        }
    }
}

/// A posted thing: freed when delivered, its content in a cell that a checker spins.
#[repr(C)]
pub(crate) struct Item<M: Machine> {
    node: Node<M>,
    content: M::Cell<u64>,
    log: Log,
}

impl<M: Machine> Item<M> {
    pub(crate) fn boxed(entry: u64, log: &Log) -> NonNull<Node<M>> {
        let item = Box::new(Item {
            node: Node::new(deliver_item::<M>),
            content: M::Cell::new(0),
            log: log.clone(),
        });
        // SAFETY: nobody else has the item yet.
        item.content.with_mut(|content| unsafe { *content = entry });
        NonNull::from(Box::leak(item)).cast()
    }

    /// # Safety
    /// `node` is that of an item, and in no queue.
    pub(crate) unsafe fn reclaim(node: NonNull<Node<M>>) -> u64 {
        // SAFETY: the caller's promise; `boxed` leaked it.
        let item = unsafe { Box::from_raw(node.cast::<Item<M>>().as_ptr()) };
        // SAFETY: the item is this thread's again.
        item.content.with(|content| unsafe { *content })
    }
}

/// # Safety
/// As for `Deliver`, for the node of an item.
unsafe fn deliver_item<M: Machine>(node: NonNull<Node<M>>) -> Delivered {
    // SAFETY: the node is that of an item that has left its queue.
    let log = unsafe { node.cast::<Item<M>>().as_ref() }.log.clone();
    // SAFETY: as above.
    log.push(unsafe { Item::reclaim(node) });
    Delivered::Done
}

/// A taker of a mailbox that is no worker: tasks join its queue, parcels wait for their return.
#[derive(Debug)]
pub(crate) struct Inbox<M: Machine> {
    pub(crate) ready: Ready<M>,
    pub(crate) returns: Returns<M>,
}

impl<M: Machine> Default for Inbox<M> {
    fn default() -> Self {
        Inbox {
            ready: Ready::default(),
            returns: Returns::default(),
        }
    }
}

impl<M: Machine> Taker<M> for Inbox<M> {
    unsafe fn take(&self, node: NonNull<Node<M>>, delivered: Delivered) {
        match delivered {
            Delivered::Done => {}
            // SAFETY: passed on.
            Delivered::Task => unsafe { self.ready.push(node) },
            // SAFETY: passed on.
            Delivered::Parcel { room, .. } => unsafe { self.returns.put(node, room) },
            Delivered::Timer => unreachable!("no test posts a timer to an inbox"),
        }
    }
}

/// Posts an item; takes it back if the worker is gone.
pub(crate) fn post<M: Machine>(remote: &Member<M>, entry: u64, log: &Log) -> Posted {
    let node = Item::<M>::boxed(entry, log);
    // SAFETY: the item stays in place until delivered, and `deliver_item` frees it.
    let posted = unsafe { remote.post(node) };
    if posted == Posted::Closed {
        // SAFETY: the node is the caller's again.
        assert_eq!(unsafe { Item::reclaim(node) }, entry);
    }
    posted
}

/// A worker by hand: takes, runs, announces, looks again, parks. Without passes and counts, so
/// that a model of it stays small.
pub(crate) struct Idler<'a, M: Machine> {
    pub(crate) local: &'a Local<M>,
    /// Whether it spins before it parks.
    pub(crate) spins: bool,
    /// How often it announced that it is parked; each time at most one poster rings.
    pub(crate) announced_parks: std::cell::Cell<u64>,
}

impl<'a, M: Machine> Idler<'a, M> {
    pub(crate) fn new(local: &'a Local<M>, spins: bool) -> Self {
        Idler {
            local,
            spins,
            announced_parks: std::cell::Cell::new(0),
        }
    }

    /// Runs until `done`, which is asked whenever nothing is left to run. Idles only then.
    pub(crate) fn until(&self, done: impl Fn() -> bool) {
        let remote = self.local.remote();
        loop {
            // SAFETY: the idler runs on its worker's own thread.
            let _ = unsafe { remote.serve(self.local) };
            let _ = self.local.gather();
            while self.local.run_one() {}
            if done() {
                return;
            }
            if remote.bell().announce_spin() == Announced::Signalled {
                continue;
            }
            if remote.mailbox_is_empty() && self.nothing_came() {
                self.park();
            }
            let _ = remote.bell().end_idle();
        }
    }

    fn nothing_came(&self) -> bool {
        !self.spins || self.local.remote().spin(1) == Spun::Deadline
    }

    fn park(&self) {
        let remote = self.local.remote();
        if remote.bell().announce_park() == Announced::Signalled {
            return;
        }
        self.announced_parks.set(self.announced_parks.get() + 1);
        if remote.mailbox_is_empty() {
            let _ = remote.bell().park(remote.parker(), None);
        }
    }

    /// At most one ring per announced park, and none to a worker that was awake.
    #[track_caller]
    pub(crate) fn assert_rings_are_paid_for(&self) {
        use doorbell_machine::Counter as _;
        let counts = self.local.remote().counts();
        let parks = self.announced_parks.get();
        let helped = counts.rings_helped.get();
        let rings = counts.rings.get() - helped;
        assert!(rings <= parks, "{counts:?}, {parks} parks");
        assert!(helped <= 2 * rings, "{counts:?}");
        assert!(
            counts.rings_for_stalled.get() <= counts.rings.get(),
            "{counts:?}"
        );
        assert_eq!(counts.rings_awake.get(), 0);
    }
}
