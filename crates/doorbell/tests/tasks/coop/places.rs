//! The first poll of an operation takes its place, also where the budget of the poll is used up.

use super::{PER_POLL, STARVED};
use doorbell::coop::cooperative;
use doorbell::net::{AsyncFd, TcpListener, UdpSocket};
use doorbell::sync::Mutex;
use doorbell::time::{Instant, interval_at, sleep, timeout};
use doorbell::{Builder, Class, JoinHandle, JoinSet, Runtime};
use futures::future::{BoxFuture, LocalBoxFuture};
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

/// Spends the whole budget of one poll, and goes on in that poll.
async fn spend() {
    doorbell::yield_now().await;
    for _ in 0..PER_POLL {
        sleep(Duration::ZERO).await;
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// What asks, in a form that can be polled in two tasks of different classes.
type Asks = BoxFuture<'static, ()>;

/// Polls once and tells that; then waits inside the same poll until it may go on.
async fn ask(mut asks: Asks, asked: Sender<()>, go_on: Receiver<()>) {
    let mut first = Some(go_on);
    poll_fn(move |cx| {
        let polled = asks.as_mut().poll(cx);
        if let Some(go_on) = first.take() {
            asked.send(()).unwrap();
            // The sender is dropped where nothing is waited for.
            let _ = go_on.recv_timeout(STARVED);
        }
        polled
    })
    .await;
}

/// Who was served first: `A`, who had used up its budget when it asked, or `B`, who asked later. `release` lets
/// the next one be served. `A` goes on only after `B` had time to overtake it.
fn first_served(
    rt: &Runtime,
    classes: [Class; 2],
    make: impl Fn(Sender<char>, char) -> Asks,
    release: impl FnOnce(),
) -> [char; 2] {
    let (served, order) = mpsc::channel();
    let (asked, has_asked) = mpsc::channel();
    let (a_may_go_on, a_goes_on) = mpsc::channel();
    let a = make(served.clone(), 'A');
    let tell = asked.clone();
    let a = rt.task().class(classes[0]).on(1).spawn(async move {
        spend().await;
        ask(a, tell, a_goes_on).await;
    });
    has_asked.recv_timeout(STARVED).unwrap();
    let (b_may_go_on, b_goes_on) = mpsc::channel();
    drop(b_may_go_on);
    let b = ask(make(served, 'B'), asked, b_goes_on);
    let b = rt.task().class(classes[1]).on(2).spawn(b);
    has_asked.recv_timeout(STARVED).unwrap();
    release();
    std::thread::sleep(Duration::from_millis(50));
    a_may_go_on.send(()).unwrap();
    rt.block_on(a).unwrap();
    rt.block_on(b).unwrap();
    [order.recv().unwrap(), order.recv().unwrap()]
}

fn runtime() -> Runtime {
    Builder::new().cores(3).build().unwrap()
}

/// A way to wait for a lock, which calls the closure while it has the lock.
type Locks = fn(Arc<Mutex<()>>, Box<dyn FnOnce() + Send>) -> Asks;

/// As [`first_served`], for waits for one lock.
fn first_locked(classes: [Class; 2], lock: Locks) -> [char; 2] {
    let rt = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let make = |served: Sender<char>, who| -> Asks {
        lock(
            Arc::clone(&mutex),
            Box::new(move || served.send(who).unwrap()),
        )
    };
    first_served(&rt, classes, make, || drop(guard))
}

const LOCK: Locks = |mutex, tell| {
    Box::pin(async move {
        let _guard = mutex.lock().await;
        tell();
    })
};

#[test]
fn c1_a_spent_budget_does_not_lose_the_place_in_the_queue_for_a_lock() {
    let owned: Locks = |mutex, tell| {
        Box::pin(async move {
            let _guard = mutex.lock_owned().await;
            tell();
        })
    };
    let timed: Locks = |mutex, tell| {
        Box::pin(async move {
            let _guard = timeout(LONG, mutex.lock()).await.unwrap();
            tell();
        })
    };
    let wrapped: Locks = |mutex, tell| {
        Box::pin(async move {
            let _guard = cooperative(mutex.lock()).await;
            tell();
        })
    };
    let ways = [
        ("lock", LOCK),
        ("lock_owned", owned),
        ("timeout", timed),
        ("cooperative", wrapped),
    ];
    for (name, lock) in ways {
        assert_eq!(first_locked([Class::FAIR; 2], lock), ['A', 'B'], "{name}");
    }
}

#[test]
fn c1_an_urgent_task_with_a_spent_budget_gets_the_lock_before_a_batch_task() {
    let classes = [Class::rt(50), Class::BATCH];
    assert_eq!(first_locked(classes, LOCK), ['A', 'B']);
}

#[test]
fn a_lock_that_a_spent_budget_holds_back_goes_on_when_its_future_is_dropped() {
    let rt = Builder::new().cores(1).build().unwrap();
    let held_back = rt.spawn(async {
        let mutex = Mutex::new(());
        spend().await;
        let mut lock = Box::pin(mutex.lock());
        assert!(futures::poll!(lock.as_mut()).is_pending());
        // Nobody overtakes it.
        assert!(mutex.try_lock().is_err());
        drop(lock);
        mutex.try_lock().is_ok()
    });
    assert!(rt.block_on(held_back).unwrap());
}

#[test]
fn c1_a_spent_budget_does_not_lose_the_place_of_a_call_that_waits_for_room() {
    let rt = Builder::new().cores(3).mailbox_limit(1).build().unwrap();
    let (go, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    let busy = rt.task().on(0).spawn(async move {
        began.send(()).unwrap();
        let _ = gate.recv_timeout(STARVED);
    });
    begun.recv().unwrap();
    let fills = rt.try_call_on(0, || ()).unwrap();
    let handle = rt.handle().clone();
    let make = |served: Sender<char>, who| -> Asks {
        let handle = handle.clone();
        Box::pin(async move {
            let call = handle.call_on(0, move || served.send(who).unwrap());
            call.await.unwrap();
        })
    };
    let order = first_served(&rt, [Class::FAIR; 2], make, || drop(go));
    assert_eq!(order, ['A', 'B']);
    rt.block_on(fills).unwrap();
    rt.block_on(busy).unwrap();
}

/// Long polls on all Fair workers, which end when the senders are dropped.
fn hogs(rt: &Runtime) -> (Vec<Sender<()>>, Vec<JoinHandle<()>>) {
    let (sits, sitting) = mpsc::channel();
    let all = (0..rt.cores()).map(|core| {
        let (let_go, end) = mpsc::channel::<()>();
        let sits = sits.clone();
        let hog = rt.task().on(core).spawn(async move {
            sits.send(()).unwrap();
            let _ = end.recv_timeout(2 * STARVED);
        });
        (let_go, hog)
    });
    let all = all.unzip();
    for _ in 0..rt.cores() {
        sitting.recv_timeout(STARVED).unwrap();
    }
    all
}

/// Whether `done` is told while an urgent task that has used up its budget is inside the poll in which it first
/// polled `waits`, and all Fair workers are inside long polls.
fn is_raised<F>(
    rt: &Runtime,
    waits: impl FnOnce() -> F + Send + 'static,
    done: Receiver<()>,
) -> bool
where
    F: Future + Send + 'static,
{
    let (let_go, busy) = hogs(rt);
    let (tell, told) = mpsc::channel();
    let waits = rt.task().class(Class::rt(50)).on(0).spawn(async move {
        spend().await;
        let mut waits = Box::pin(waits());
        let mut first = Some(done);
        poll_fn(move |cx| {
            let polled = waits.as_mut().poll(cx);
            if let Some(done) = first.take() {
                tell.send(done.recv_timeout(STARVED).is_ok()).unwrap();
            }
            polled
        })
        .await;
    });
    let raised = told.recv_timeout(2 * STARVED).unwrap();
    drop(let_go);
    for task in busy {
        rt.block_on(task).unwrap();
    }
    rt.block_on(waits).unwrap();
    raised
}

#[test]
fn c1_a_task_is_raised_for_a_task_with_a_spent_budget() {
    type Wait = fn(JoinHandle<()>) -> BoxFuture<'static, ()>;
    let ways: [(&str, Wait); 3] = [
        ("JoinHandle", |task| Box::pin(async { task.await.unwrap() })),
        ("JoinSet", |task| {
            let mut set = JoinSet::new();
            set.insert(task);
            Box::pin(async move { set.join_next().await.unwrap().unwrap() })
        }),
        ("timeout", |task| {
            Box::pin(async { timeout(LONG, task).await.unwrap().unwrap() })
        }),
    ];
    for (name, wait) in ways {
        let rt = runtime();
        let (tell, told) = mpsc::channel();
        let waits = move || {
            let task = doorbell::task().class(Class::FAIR);
            wait(task.spawn(async move { tell.send(()).unwrap() }))
        };
        assert!(is_raised(&rt, waits, told), "{name}");
    }
}

#[test]
fn c1_the_holder_of_a_lock_is_raised_for_a_task_with_a_spent_budget() {
    let rt = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let (holds, held) = mpsc::channel();
    let (open, gate) = futures::channel::oneshot::channel::<()>();
    let (tell, told) = mpsc::channel();
    let theirs = Arc::clone(&mutex);
    let holder = rt.spawn(async move {
        let guard = theirs.lock().await;
        holds.send(()).unwrap();
        gate.await.unwrap();
        drop(guard);
        tell.send(()).unwrap();
    });
    held.recv_timeout(STARVED).unwrap();
    let waits = move || {
        open.send(()).unwrap();
        async move { drop(mutex.lock().await) }
    };
    assert!(is_raised(&rt, waits, told));
    rt.block_on(holder).unwrap();
}

/// Something that has to wait, and what ends that.
struct Waiting {
    name: &'static str,
    waits: LocalBoxFuture<'static, ()>,
    end: Box<dyn FnOnce() + Send>,
}

fn waiting<F>(
    name: &'static str,
    waits: impl Future<Output = F> + 'static,
    end: impl FnOnce() + Send + 'static,
) -> Waiting {
    Waiting {
        name,
        waits: Box::pin(async move {
            waits.await;
        }),
        end: Box::new(end),
    }
}

/// A blocking wait, and what ends it.
fn gate() -> (
    impl FnOnce() + Send + Clone + 'static,
    impl FnOnce() + Send + 'static,
) {
    let (open, opened) = mpsc::channel::<()>();
    let opened = Arc::new(StdMutex::new(opened));
    let wait = move || {
        let _ = opened.lock().unwrap().recv_timeout(STARVED);
    };
    (wait, move || drop(open))
}

fn of_tasks() -> Vec<Waiting> {
    let mut all = Vec::new();
    let task = |open: futures::channel::oneshot::Receiver<()>| async move {
        let _ = open.await;
    };
    let (end, opened) = futures::channel::oneshot::channel();
    all.push(waiting("JoinHandle", doorbell::spawn(task(opened)), || {
        drop(end);
    }));
    let (end, opened) = futures::channel::oneshot::channel();
    let mut set = JoinSet::new();
    set.spawn(task(opened));
    all.push(waiting(
        "JoinSet",
        async move { set.join_next().await },
        || drop(end),
    ));
    let (end, opened) = futures::channel::oneshot::channel();
    let mut set = JoinSet::new();
    set.spawn(task(opened));
    let with_id = async move { set.join_next_with_id().await };
    all.push(waiting("JoinSet, with the id", with_id, || drop(end)));
    let (end, opened) = futures::channel::oneshot::channel();
    let local = doorbell::spawn_local(task(opened));
    all.push(waiting("LocalJoinHandle", local, || drop(end)));
    let (end, opened) = futures::channel::oneshot::channel();
    let child = async move { doorbell::scope(async |s| drop(s.spawn(task(opened)).await)).await };
    all.push(waiting("ScopedJoinHandle", child, || drop(end)));
    let (end, opened) = futures::channel::oneshot::channel();
    let scoped = async move { doorbell::scope(async |s| drop(s.spawn(task(opened)))).await };
    all.push(waiting("scope", scoped, || drop(end)));
    let (wait, end) = gate();
    all.push(waiting("Call", doorbell::call_on(1, wait), end));
    let (wait, end) = gate();
    let wait = StdMutex::new(Some(wait));
    let many = doorbell::call_many([1], move |_| wait.lock().unwrap().take().unwrap()());
    all.push(waiting("CallMany", many, end));
    let (wait, end) = gate();
    all.push(waiting(
        "BlockingHandle",
        doorbell::spawn_blocking(wait),
        end,
    ));
    all
}

fn of_time() -> Vec<Waiting> {
    let soon = Duration::from_millis(50);
    // They are made in their first poll.
    let sleeps = async move { sleep(soon).await };
    let ends = async move { timeout(soon, pending::<()>()).await };
    let ticks = async move { interval_at(Instant::now() + soon, soon).tick().await };
    vec![
        waiting("Sleep", sleeps, || ()),
        waiting("Timeout", ends, || ()),
        waiting("Interval", ticks, || ()),
    ]
}

fn of_net() -> Vec<Waiting> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any).unwrap();
    let to = listener.local_addr().unwrap();
    let accepts = async move { drop(listener.accept().await) };
    let connect = move || drop(std::net::TcpStream::connect(to).unwrap());
    let socket = UdpSocket::bind(any).unwrap();
    let at = socket.local_addr().unwrap();
    let receives = async move { drop(socket.recv_from(&mut [0]).await) };
    let sends = move || {
        let from = std::net::UdpSocket::bind(any).unwrap();
        from.send_to(b"x", at).unwrap();
    };
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let fd = AsyncFd::new(here);
    let readable = async move { fd.readable().await.is_ok() };
    let (full, reader) = doorbell::net::pipe::pipe().unwrap();
    while full.try_write(&[0; 4_096]).is_ok() {}
    let writes = async move { full.write(&[0]).await.is_ok() };
    let drains = move || while reader.try_read(&mut [0; 4_096]).is_ok() {};
    vec![
        waiting("accept", accepts, connect),
        waiting("recv_from", receives, sends),
        waiting("readable", readable, move || drop(there)),
        waiting("write", writes, drains),
    ]
}

/// Polls it once, in a poll whose budget is used up.
async fn poll_spent(waits: &mut LocalBoxFuture<'static, ()>, wakes: &Arc<Wakes>) -> Poll<()> {
    spend().await;
    let waker = Waker::from(Arc::clone(wakes));
    waits.as_mut().poll(&mut Context::from_waker(&waker))
}

/// What is wrong with it, if anything.
async fn look_at(waiting: Waiting) -> Option<&'static str> {
    let Waiting {
        name,
        mut waits,
        end,
    } = waiting;
    let wakes = Arc::new(Wakes::default());
    let polled = poll_spent(&mut waits, &wakes).await;
    // `FuturesUnordered`, which a set is made of, wakes its task when it has polled all of its futures.
    let wakes_itself = name.starts_with("JoinSet") || matches!(name, "scope" | "ScopedJoinHandle");
    if polled.is_ready() || wakes.0.swap(0, SeqCst) != usize::from(wakes_itself) {
        return Some("is woken by the budget");
    }
    end();
    let begin = Instant::now();
    while wakes.0.load(SeqCst) == 0 {
        if begin.elapsed() > STARVED {
            return Some("is not woken");
        }
        sleep(Duration::from_millis(1)).await;
    }
    wakes.0.store(0, SeqCst);
    let polled = poll_spent(&mut waits, &wakes).await;
    // Deadlines do not depend on the budget.
    if polled.is_ready() != matches!(name, "Sleep" | "Interval" | "Timeout") {
        return Some("goes beyond the budget");
    }
    if polled.is_pending() && wakes.0.load(SeqCst) == 0 {
        return Some("is not polled again");
    }
    doorbell::yield_now().await;
    let is_lost = polled.is_pending() && futures::poll!(waits).is_pending();
    is_lost.then_some("is lost")
}

#[test]
fn c1_what_has_to_wait_waits_from_its_first_poll_on_whatever_was_spent() {
    let rt = Builder::new().cores(2).build().unwrap();
    let task = rt.spawn_local_on(0, || async {
        let mut failed = Vec::new();
        for waiting in [of_tasks(), of_time(), of_net()].into_iter().flatten() {
            let name = waiting.name;
            failed.extend(look_at(waiting).await.map(|what| (name, what)));
        }
        failed
    });
    let failed = rt.block_on(task).unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}
