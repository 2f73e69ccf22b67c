//! Workers whose tasks wait for descriptors.

use super::threads::Running;
use super::{by_hand, scheduler_by_hand, scheduler_that_idles_by};
use crate::bell::WorkerState;
use crate::io::{Direction, Registration};
use crate::switches::Switches;
use crate::task::{About, Join, Kind};
use crate::testing::{call, launch_about, spawn};
use crate::wait::block_on;
use crate::worker::spin::SpinEnd;
use crate::worker::{IdlePolicy, Pass, Worker, WorkerConfig, WorkerShared};
use doorbell_machine::{Host, Machine, Poller};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

type Remote = crate::scheduler::RemoteRef<Host>;

/// A socket that is registered with a worker. The registration goes first.
struct Socket {
    registration: Registration<Host, Remote>,
    stream: UnixStream,
}

impl Socket {
    /// And the other end.
    fn pair(remote: &Remote) -> (Socket, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        // SAFETY: the fields are dropped in their order.
        let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
        let registration = Registration::new(remote.clone(), fd).unwrap();
        let socket = Socket {
            registration,
            stream,
        };
        (socket, theirs)
    }

    fn poll_byte(&self, cx: &Context<'_>) -> Poll<io::Result<u8>> {
        self.registration.poll_io(cx, Direction::Read, || {
            let mut byte = [0];
            (&self.stream).read_exact(&mut byte)?;
            Ok(byte[0])
        })
    }

    async fn byte(&self) -> io::Result<u8> {
        poll_fn(|cx| self.poll_byte(cx)).await
    }
}

/// Spawns a task that takes one byte out of the socket.
pub(super) fn read_on(remote: &Remote) -> (Join<io::Result<u8>>, UnixStream) {
    let (socket, theirs) = Socket::pair(remote);
    (spawn(remote, async move { socket.byte().await }), theirs)
}

fn until_in_poller(worker: &WorkerShared<Host>) {
    let remote = worker.remote();
    while worker.state() != WorkerState::Parked || !remote.driver().is_kept() {
        std::thread::yield_now();
    }
}

/// As [`read_on`]: the task has been polled, waits for the byte, and the worker has parked since. A worker that was
/// told of the task, and whose thread does not run yet, looks parked too.
fn read_and_park(worker: &WorkerShared<Host>) -> (Join<io::Result<u8>>, UnixStream) {
    let (socket, theirs) = Socket::pair(worker.remote());
    let waits = Arc::new(AtomicBool::new(false));
    let is_polled = Arc::clone(&waits);
    let reads = poll_fn(move |cx| {
        let byte = socket.poll_byte(cx);
        is_polled.store(true, Release);
        byte
    });
    let join = spawn(worker.remote(), reads);
    while !waits.load(Acquire) {
        std::thread::yield_now();
    }
    until_in_poller(worker);
    (join, theirs)
}

/// One worker sleeps in the poller, and if it is busy, another one does.
#[test]
fn one_worker_sleeps_in_the_poller_and_the_next_one_that_falls_asleep_takes_its_place() {
    let [first, second] = scheduler_by_hand();
    let driver = first.shared.remote().driver();
    assert!(driver.try_keep(0).is_none(), "there is no descriptor");
    let (socket, _theirs) = Socket::pair(first.shared.remote());
    assert!(driver.lacks_keeper());
    let keeper = driver.try_keep(0).expect("it is the first");
    assert!(second.shared.remote().driver().try_keep(1).is_none());
    assert_eq!((driver.lacks_keeper(), driver.keeper()), (false, Some(0)));
    drop(keeper);
    assert!(driver.lacks_keeper());
    let keeper = driver.try_keep(1).expect("the first is awake");
    assert_eq!(driver.keeper(), Some(1));
    drop((keeper, socket));
    assert_eq!(driver.keeper(), None);
}

#[test]
fn a_parked_worker_is_woken_by_readiness() {
    let worker = Running::start(0, Switches::default());
    let (join, mut theirs) = read_and_park(&worker.shared);
    let rings = worker.shared.counts().rings;
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(join, 0).unwrap().unwrap(), 7);
    let counts = worker.shared.counts();
    // That it can be written to is an event too.
    assert!((1..=2).contains(&counts.unparks_ready), "{counts:?}");
    assert_eq!(counts.rings, rings, "{counts:?}");
    let _ = worker.end();
}

#[test]
fn a_bell_reaches_a_worker_that_is_parked_in_the_poller() {
    let worker = Running::start(0, Switches::default());
    let (join, mut theirs) = read_and_park(&worker.shared);
    let before = worker.shared.counts();
    for round in 0..20 {
        until_in_poller(&worker.shared);
        assert!(matches!(call(worker.shared.remote(), || round), Ok(it) if it == round));
    }
    let made = worker.shared.counts().since(&before);
    // That it can be written to is an event too, during which the worker is not rung.
    assert!(made.unparks_ready <= 1, "{made:?}");
    assert!((19..=20).contains(&made.rings), "{made:?}");
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(join, 0).unwrap().unwrap(), 7);
    let _ = worker.end();
}

#[test]
fn a_worker_that_parks_on_its_word_gets_a_descriptor_from_another_thread() {
    let worker = Running::start(0, Switches::default());
    worker.until_parked();
    let (socket, mut theirs) = Socket::pair(worker.shared.remote());
    until_in_poller(&worker.shared);
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(socket.byte(), 0).unwrap(), 7);
    drop(socket);
    let _ = worker.end();
}

#[test]
fn a_spinning_worker_gets_a_descriptor_from_another_thread() {
    // For as long as nothing is posted.
    let worker = Running::start(1 << 60, Switches::default());
    while worker.shared.state() != WorkerState::Spinning {
        std::thread::yield_now();
    }
    let (socket, mut theirs) = Socket::pair(worker.shared.remote());
    // Not in the pass that the registration asks for.
    std::thread::sleep(Duration::from_millis(5));
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(socket.byte(), 0).unwrap(), 7);
    drop(socket);
    let counts = worker.end();
    assert_eq!((counts.parks, counts.rings), (0, 0), "{counts:?}");
}

#[test]
fn a_worker_that_runs_looks_at_its_descriptors() {
    let worker = by_hand(0, Switches::default());
    worker.local.enter(|| {
        let done = Arc::new(AtomicBool::new(false));
        let (socket, mut theirs) = Socket::pair(worker.shared.remote());
        let theirs_done = Arc::clone(&done);
        let read = spawn(worker.shared.remote(), async move {
            assert_eq!(socket.byte().await.unwrap(), 7);
            theirs_done.store(true, Relaxed);
        });
        let ours = Arc::clone(&done);
        let busy = spawn(
            worker.shared.remote(),
            poll_fn(move |cx| {
                if ours.load(Relaxed) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }),
        );
        assert!(matches!(worker.pass(), Pass::Work));
        theirs.write_all(&[7]).unwrap();
        let from_ns = Host::now_ns();
        let mut passes = 0;
        while !done.load(Relaxed) {
            worker.run_ready();
            assert!(matches!(worker.pass(), Pass::Work | Pass::Nothing(_)));
            passes += 1;
        }
        let took_ns = Host::now_ns() - from_ns;
        // The task that yields runs behind a look once that is old. The OS may run others meanwhile.
        assert!((2..=3).contains(&passes), "{passes} passes in {took_ns} ns");
        drop((read, busy));
        worker.local.close();
    });
}

/// Two workers of one scheduler on their threads.
struct TwoRunning {
    shared: [Arc<WorkerShared<Host>>; 2],
    threads: [JoinHandle<()>; 2],
}

impl TwoRunning {
    fn start() -> Self {
        let workers: [Worker<Host>; 2] = scheduler_by_hand();
        // A worker belongs to the thread that makes it.
        let shared = workers.map(|worker| {
            let (remote, clock) = (worker.shared.remote().clone(), Arc::default());
            drop(worker);
            let idle = IdlePolicy::Park;
            Arc::new(WorkerShared::with(WorkerConfig { idle }, remote, clock))
        });
        let threads = shared.each_ref().map(|shared| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || Worker::new(shared).run())
        });
        TwoRunning { shared, threads }
    }

    /// Waits until both sleep, one of them in the poller.
    fn until_at_rest(&self) {
        let is_parked = |it: &Arc<WorkerShared<Host>>| it.state() == WorkerState::Parked;
        let driver = self.shared[0].remote().driver();
        while !self.shared.iter().all(is_parked) || !driver.is_kept() {
            std::thread::yield_now();
        }
    }

    fn end(self) {
        self.shared.iter().for_each(|worker| worker.close());
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// A worker is inside a poll that waits for a thread, and that one waits for a descriptor. The other worker's end frees both.
#[test]
fn a_poll_that_waits_for_a_descriptor_elsewhere_does_not_hold_up_the_end() {
    let workers = TwoRunning::start();
    let (socket, _theirs) = Socket::pair(workers.shared[0].remote());
    let (inside, told) = mpsc::channel();
    let waits = spawn(workers.shared[0].remote(), async move {
        let reader = std::thread::spawn(move || {
            inside.send(()).unwrap();
            block_on::<Host, _>(socket.byte(), 0)
        });
        reader.join().unwrap().unwrap_err().kind()
    });
    told.recv().unwrap();
    workers.end();
    assert_eq!(block_on::<Host, _>(waits, 0).unwrap(), io::ErrorKind::Other);
}

/// A socket of the first of two workers by hand, with a byte to read, and whether its reader was woken.
fn ready_socket(worker: &Worker<Host>) -> (Socket, UnixStream, Arc<Woken>) {
    let (socket, mut theirs) = Socket::pair(worker.shared.remote());
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let polled = socket.poll_byte(&Context::from_waker(&waker));
    assert!(polled.is_pending());
    theirs.write_all(&[7]).unwrap();
    (socket, theirs, woken)
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// What `look` does on the second worker, while the first one keeps the poller and gets no CPU, wakes who waits.
fn brings_beside_a_keeper(idle: IdlePolicy, look: impl FnOnce(&Worker<Host>)) {
    let [first, second] = scheduler_that_idles_by(idle);
    assert!(first.try_keep().is_none(), "there is no descriptor");
    let (socket, _theirs, woken) = ready_socket(&first);
    let keeper = first.try_keep();
    assert!(keeper.is_some());
    second.local.enter(|| {
        look(&second);
        assert!(woken.0.load(Relaxed));
        second.local.close();
    });
    drop((keeper, socket));
    first.local.enter(|| first.local.close());
}

#[test]
fn a_full_pass_looks_at_descriptors_also_while_another_worker_keeps_the_poller() {
    brings_beside_a_keeper(IdlePolicy::Park, |worker| {
        assert!(matches!(worker.pass(), Pass::Nothing(_)));
    });
}

#[test]
fn a_worker_that_spins_looks_at_descriptors_also_while_another_one_keeps_the_poller() {
    brings_beside_a_keeper(IdlePolicy::NeverPark, |worker| {
        assert_eq!(worker.spin(), SpinEnd::Busy);
    });
}

#[test]
fn a_worker_that_is_about_to_be_throttled_has_another_one_look_if_nobody_keeps_the_poller() {
    let [first, second] = scheduler_by_hand();
    let (socket, _theirs) = Socket::pair(first.shared.remote());
    let (theirs, keeper) = (second.shared.remote(), first.try_keep());
    theirs.scheduler().idle().enter(1);
    let asks = || {
        first.local.enter(|| first.leave_to_others());
        theirs.bell().signalled()
    };
    assert!(keeper.is_some() && !asks());
    drop(keeper);
    assert!(asks());
    drop(socket);
    let _ = theirs.scheduler().idle().leave(1);
    for worker in [&first, &second] {
        worker.local.enter(|| worker.local.close());
    }
}

/// A worker alone registers a descriptor in its own poll, and spins for as long as nothing comes.
#[test]
fn a_worker_that_spins_for_ever_looks_at_the_descriptor_that_it_has_registered() {
    let [worker] = scheduler_that_idles_by(IdlePolicy::NeverPark);
    worker.local.enter(|| {
        let (socket, _theirs, woken) = ready_socket(&worker);
        worker.local.pace().note_look(Host::now_ns());
        assert_eq!(worker.spin(), SpinEnd::Busy);
        assert!(woken.0.load(Relaxed));
        drop(socket);
        worker.local.close();
    });
}

/// The end of a pipe that is read. It makes no event: nobody who uses it wakes a worker.
fn silent(remote: &Remote, pipe: &io::PipeReader) -> Registration<Host, Remote> {
    // SAFETY: each test drops it before the pipe.
    let fd = unsafe { BorrowedFd::borrow_raw(pipe.as_raw_fd()) };
    Registration::new(remote.clone(), fd).unwrap()
}

#[test]
fn the_keeper_is_told_of_each_256_sources_that_went() {
    let workers = TwoRunning::start();
    let remote = workers.shared[0].remote();
    let [(one, _writes), (other, _other_writes)] = [(); 2].map(|()| io::pipe().unwrap());
    let kept = silent(remote, &one);
    workers.until_at_rest();
    let keeper = remote.driver().keeper().expect("there is a descriptor");
    let before = workers.shared.each_ref().map(|it| it.counts().rings);
    for _ in 0..256 {
        drop(silent(remote, &other));
    }
    workers.until_at_rest();
    let rings = |worker: usize| workers.shared[worker].counts().rings - before[worker];
    assert_eq!([keeper, 1 - keeper].map(rings), [1, 0]);
    drop(kept);
    workers.end();
}

/// The first of two workers has ended, the second one goes on. A thread is refused a registration.
#[test]
fn a_refused_registration_leaves_the_poller_to_the_workers_that_live() {
    let workers = TwoRunning::start();
    let (socket, _theirs) = Socket::pair(workers.shared[0].remote());
    let TwoRunning { shared, threads } = workers;
    let [first, second] = threads;
    shared[0].close();
    first.join().unwrap();
    let (silent, _writes) = io::pipe().unwrap();
    // SAFETY: nothing is registered beyond this test.
    let fd = unsafe { BorrowedFd::borrow_raw(silent.as_raw_fd()) };
    let remote = shared[1].remote();
    assert!(Registration::<Host, Remote>::new(remote.clone(), fd).is_err());
    let poller = remote.driver().poller().unwrap();
    assert!(poller.add(fd, 7).is_ok(), "it is closed");
    poller.remove(fd).unwrap();
    shared[1].close();
    second.join().unwrap();
    drop(socket);
    assert!(
        remote.driver().poller().unwrap().add(fd, 7).is_err(),
        "it is open"
    );
}

#[test]
fn what_another_worker_finds_reaches_the_tasks_of_one_that_is_stuck() {
    let workers = TwoRunning::start();
    let (read, mut theirs) = read_and_park(&workers.shared[0]);
    let done = Arc::new(AtomicBool::new(false));
    let (inside, ours) = (Arc::new(AtomicBool::new(false)), Arc::clone(&done));
    let begun = Arc::clone(&inside);
    // Until the other task has run, it ends not.
    let stuck = launch_about(
        workers.shared[0].remote(),
        Kind::Pinned,
        About::default(),
        async move {
            // Its first long poll: others look after its worker in the second one.
            std::thread::sleep(Duration::from_millis(1));
            let mut has_yielded = false;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut has_yielded, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            begun.store(true, Relaxed);
            while !ours.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        },
    );
    while !inside.load(Relaxed) {
        std::thread::yield_now();
    }
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(read, 0).unwrap().unwrap(), 7);
    done.store(true, Relaxed);
    block_on::<Host, _>(stuck, 0).unwrap();
    workers.end();
}

#[test]
fn a_worker_without_descriptors_has_no_poller() {
    let worker = Running::start(0, Switches::default());
    for round in 0..20 {
        worker.until_parked();
        assert!(matches!(call(worker.shared.remote(), || round), Ok(it) if it == round));
    }
    assert!(worker.shared.remote().driver().poller().is_none());
    let counts = worker.end();
    assert!(counts.rings <= 21, "{counts:?}");
    assert_eq!(counts.unparks_ready, 0);
}

#[test]
fn who_waits_when_the_worker_ends_learns_it() {
    let worker = Running::start(0, Switches::default());
    let remote = worker.shared.remote().clone();
    let (socket, _theirs) = Socket::pair(&remote);
    let waits = std::thread::spawn(move || block_on::<Host, _>(socket.byte(), 0));
    until_in_poller(&worker.shared);
    let _ = worker.end();
    assert_eq!(
        waits.join().unwrap().unwrap_err().kind(),
        io::ErrorKind::Other
    );
    let (stream, _theirs) = UnixStream::pair().unwrap();
    // SAFETY: nothing is registered.
    let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    let refused = Registration::<Host, Remote>::new(remote.clone(), fd);
    assert!(refused.is_err());
    assert!(!remote.driver().has_sources());
}

#[test]
fn what_went_is_freed_while_the_worker_runs() {
    let worker = Running::start(0, Switches::default());
    let remote = worker.shared.remote();
    let (kept, _theirs) = Socket::pair(remote);
    for _ in 0..1_000 {
        drop(Socket::pair(remote));
    }
    assert!(matches!(call(remote, || ()), Ok(())));
    assert_eq!(remote.driver().stranded(), 0);
    drop(kept);
    assert!(!remote.driver().has_sources());
    let counts = worker.end();
    assert!(counts.rings <= 10, "told each 256 of them: {counts:?}");
}
