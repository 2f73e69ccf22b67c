//! Things that can be awaited, each in a form that is always ready.

use doorbell::coop::{consume_budget, cooperative};
use doorbell::net::{AsyncFd, TcpStream, UdpSocket, lookup_host};
use doorbell::sync::Mutex;
use doorbell::time::{sleep, timeout};
use doorbell::{BlockingHandle, Builder, Handle, JoinHandle, JoinSet, local::LocalJoinHandle};
use futures::future::LocalBoxFuture;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Awaits the primitive once more.
pub(crate) type Step = Box<dyn FnMut() -> LocalBoxFuture<'static, ()>>;

fn step<F: Future + 'static>(mut make: impl FnMut() -> F + 'static) -> Step {
    Box::new(move || {
        let future = make();
        Box::pin(async move {
            future.await;
        })
    })
}

/// A handle of a runtime that has ended: it refuses every request at once.
fn gone() -> Handle {
    // On a worker the drop would not wait for the runtime's end.
    let thread = std::thread::spawn(|| Handle::clone(&Builder::new().cores(1).build().unwrap()));
    thread.join().unwrap()
}

/// All primitives, by name. They are created where they are used, so they need not be `Send`.
pub(crate) fn primitives() -> Vec<(&'static str, Step)> {
    let mut all = of_tasks(&gone());
    all.extend(of_one_task());
    all.extend(of_net());
    all
}

fn of_tasks(gone: &Handle) -> Vec<(&'static str, Step)> {
    let with = |make: fn(&Handle) -> LocalBoxFuture<'static, ()>| {
        let gone = gone.clone();
        step(move || make(&gone))
    };
    vec![
        (
            "JoinHandle",
            with(|gone| {
                let task = gone.spawn(async {});
                Box::pin(async { assert!(task.await.is_err()) })
            }),
        ),
        (
            "JoinSet",
            with(|gone| {
                let mut set = JoinSet::new();
                set.insert(gone.spawn(async {}));
                Box::pin(async move { assert!(set.join_next().await.unwrap().is_err()) })
            }),
        ),
        (
            "JoinSet that is empty",
            step(async || assert!(JoinSet::<()>::new().join_next().await.is_none())),
        ),
        ("scope", step(|| doorbell::scope(async |_| ()))),
        (
            "Call",
            with(|gone| {
                let call = gone.call_on(0, || ());
                Box::pin(async { assert!(call.await.is_err()) })
            }),
        ),
        (
            "Call that is refused",
            step(async || assert!(doorbell::call_on(9, || ()).await.is_err())),
        ),
        (
            "CallMany",
            with(|gone| {
                let calls = gone.call_many([0], |_| ());
                Box::pin(async { assert!(calls.await.unwrap()[0].is_err()) })
            }),
        ),
        (
            "CallMany that is refused",
            step(async || assert!(doorbell::call_many([9], |_| ()).await.is_err())),
        ),
        (
            "BlockingHandle",
            with(|gone| {
                let closure = gone.spawn_blocking(|| ());
                Box::pin(async { assert!(closure.await.is_err()) })
            }),
        ),
        (
            "Handle::core_online",
            step(async || assert!(Handle::current().core_online(9).await.is_err())),
        ),
        (
            "Handle::dump",
            with(|gone| {
                let dump = gone.dump();
                Box::pin(async { assert!(dump.await.is_empty()) })
            }),
        ),
    ]
}

fn of_one_task() -> Vec<(&'static str, Step)> {
    let hour = Duration::from_secs(3_600);
    let free = Rc::new(Mutex::new(()));
    let free_owned = Arc::new(Mutex::new(()));
    vec![
        (
            "Mutex::lock",
            step(move || {
                let free = Rc::clone(&free);
                async move { drop(free.lock().await) }
            }),
        ),
        (
            "Mutex::lock_owned",
            step(move || Arc::clone(&free_owned).lock_owned()),
        ),
        ("Sleep of no time", step(|| sleep(Duration::ZERO))),
        (
            "Sleep that has elapsed",
            step(async || {
                let mut sleep = sleep(Duration::ZERO);
                (&mut sleep).await;
                assert!(sleep.is_elapsed());
                sleep.await;
            }),
        ),
        (
            "Timeout of what is ready",
            step(move || timeout(hour, ready(()))),
        ),
        (
            "Timeout of no time",
            step(async || {
                let elapsed = timeout(Duration::ZERO, pending::<()>()).await;
                assert!(elapsed.is_err());
            }),
        ),
        ("consume_budget", step(consume_budget)),
        ("cooperative", step(|| cooperative(ready(())))),
    ]
}

fn of_net() -> Vec<(&'static str, Step)> {
    let to = SocketAddr::from(([127, 0, 0, 1], 9));
    let socket = || Rc::new(UdpSocket::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap());
    let (connecting, sending, asking) = (socket(), socket(), socket());
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let (fd, there) = (Rc::new(AsyncFd::new(here)), Rc::new(there));
    vec![
        (
            "lookup_host",
            step(move || async move { lookup_host(to).await.unwrap().count() }),
        ),
        (
            "TcpStream::connect to nowhere",
            step(async || assert!(TcpStream::connect(Vec::<SocketAddr>::new()).await.is_err())),
        ),
        (
            "UdpSocket::connect",
            step(move || {
                let socket = Rc::clone(&connecting);
                async move { socket.connect(to).await.unwrap() }
            }),
        ),
        (
            "UdpSocket::send_to",
            step(move || {
                let socket = Rc::clone(&sending);
                // The OS may report that the previous datagram had no receiver.
                async move { drop(socket.send_to(b"x", to).await) }
            }),
        ),
        (
            "UdpSocket::writable",
            step(move || {
                let socket = Rc::clone(&asking);
                async move { socket.writable().await.unwrap() }
            }),
        ),
        (
            "AsyncFd::writable",
            step(move || {
                let (fd, there) = (Rc::clone(&fd), Rc::clone(&there));
                async move {
                    fd.writable().await.unwrap();
                    drop(there);
                }
            }),
        ),
    ]
}

/// This many of each, all of which ended before they are awaited.
pub(crate) async fn finished(count: usize) -> Vec<(&'static str, LocalBoxFuture<'static, ()>)> {
    fn all<T, F>(futures: Vec<F>) -> LocalBoxFuture<'static, ()>
    where
        F: Future<Output = T> + Unpin + 'static,
    {
        Box::pin(async move {
            for future in futures {
                future.await;
            }
        })
    }
    let each = |_| async {};
    let tasks: Vec<_> = (0..count).map(each).map(doorbell::spawn).collect();
    let local: Vec<_> = (0..count).map(each).map(doorbell::spawn_local).collect();
    let calls: Vec<_> = (0..count).map(|_| doorbell::call_on(0, || ())).collect();
    let many: Vec<_> = (0..count).map(|_| doorbell::call_all(|_| ())).collect();
    let closures: Vec<_> = (0..count)
        .map(|_| doorbell::spawn_blocking(|| ()))
        .collect();
    let mut set = JoinSet::new();
    set.extend((0..count).map(each));
    let mut scoped = Vec::new();
    doorbell::scope(async |s| scoped.extend((0..count).map(|i| s.spawn(each(i))))).await;
    while !(tasks.iter().all(JoinHandle::is_finished)
        && local.iter().all(LocalJoinHandle::is_finished)
        && closures.iter().all(BlockingHandle::is_finished))
    {
        doorbell::yield_now().await;
    }
    let set: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
        for _ in 0..count {
            set.join_next().await.unwrap().unwrap();
        }
    });
    vec![
        ("JoinHandle", all(tasks)),
        ("LocalJoinHandle", all(local)),
        ("Call", all(calls)),
        ("CallMany", all(many)),
        ("BlockingHandle", all(closures)),
        ("JoinSet", set),
        ("ScopedJoinHandle", all(scoped)),
    ]
}
