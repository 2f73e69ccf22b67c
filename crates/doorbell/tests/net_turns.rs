//! Several tasks that wait for one descriptor.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::{AsyncFd, Direction, TcpListener, TcpStream};
use doorbell::{Builder, JoinHandle, Runtime};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(30);

/// A runtime with one worker, on which tasks run in the order in which they were woken.
fn one_worker() -> Runtime {
    Builder::new().cores(1).build().unwrap()
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..20 {
        doorbell::yield_now().await;
    }
}

#[test]
fn n4_tasks_that_accept_take_turns() {
    const TASKS: usize = 4;
    const CONNECTIONS: usize = 40;
    let runtime = one_worker();
    runtime.block_on(async {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let counts: Arc<[AtomicUsize; TASKS]> = Arc::default();
        for task in 0..TASKS {
            let (listener, counts) = (Arc::clone(&listener), Arc::clone(&counts));
            drop(doorbell::spawn(async move {
                while listener.accept().await.is_ok() {
                    counts[task].fetch_add(1, SeqCst);
                }
            }));
        }
        let total = || counts.iter().map(|it| it.load(SeqCst)).sum::<usize>();
        doorbell::time::sleep(Duration::from_millis(10)).await;
        for connection in 1..=CONNECTIONS {
            let connected = TcpStream::connect(address).await.unwrap();
            while total() < connection {
                doorbell::time::sleep(Duration::from_micros(100)).await;
            }
            drop(connected);
        }
        let counts: Vec<_> = counts.iter().map(|it| it.load(SeqCst)).collect();
        // One by turns; several tasks may look at a time, and the first one on a core takes it.
        let fair = CONNECTIONS / TASKS;
        assert!(counts.iter().all(|it| *it >= fair / 2), "{counts:?}");
    });
}

/// Three tasks wait until `fd` is readable, and take what there is.
fn readers(fd: &Arc<AsyncFd<OwnedFd>>) -> Vec<JoinHandle<bool>> {
    let reader = |_| {
        let fd = Arc::clone(fd);
        doorbell::spawn(async move {
            fd.readable().await.unwrap();
            let take = |fd: &OwnedFd| Ok(rustix::io::read(fd, &mut [0; 8])?);
            fd.try_io(Direction::Read, take).is_ok()
        })
    };
    (0..3).map(reader).collect()
}

#[test]
fn n5_one_event_ends_readable_for_all_who_wait() {
    for cores in [1, 2] {
        let runtime = Builder::new().cores(cores).build().unwrap();
        runtime.block_on(async {
            let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
            let counter = Arc::new(AsyncFd::new(counter));
            for _ in 0..50 {
                let waiters = readers(&counter);
                settle().await;
                doorbell::time::sleep(Duration::from_millis(2)).await;
                rustix::io::write(counter.get_ref(), &1_u64.to_ne_bytes()).unwrap();
                let mut got = 0;
                for waiter in waiters {
                    let ended = doorbell::time::timeout(LONG, waiter).await;
                    got += usize::from(ended.expect("its wait has ended").unwrap());
                }
                assert_eq!(got, 1, "one has taken it");
            }
        });
    }
}
