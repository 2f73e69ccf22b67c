//! Several tasks that wait for one descriptor.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::{AsyncFd, Direction, TcpListener, TcpStream};
use doorbell::{Builder, JoinHandle, Runtime};
use futures::FutureExt;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(30);

/// A runtime with one worker, on which tasks run in the order in which they were woken.
fn one_worker() -> Runtime {
    Builder::new().cores(1).build().unwrap()
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

fn take(fd: &OwnedFd) -> io::Result<usize> {
    Ok(rustix::io::read(fd, &mut [0; 8])?)
}

/// Three tasks wait until `fd` is readable, and take what there is. `waiting` counts those that wait.
fn readers(fd: &Arc<AsyncFd<OwnedFd>>, waiting: &Arc<AtomicUsize>) -> Vec<JoinHandle<bool>> {
    let reader = |_| {
        let (fd, waiting) = (Arc::clone(fd), Arc::clone(waiting));
        doorbell::spawn(async move {
            let mut readable = pin!(fd.readable());
            let first = futures::poll!(readable.as_mut());
            waiting.fetch_add(1, SeqCst);
            if first.is_pending() {
                readable.await.unwrap();
            }
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
                // It is registered, and an older event that comes late does no harm.
                while counter.readable().now_or_never().is_some() {
                    let _ = counter.try_io(Direction::Read, take);
                }
                let waiting = Arc::default();
                let waiters = readers(&counter, &waiting);
                while waiting.load(SeqCst) < waiters.len() {
                    doorbell::time::sleep(Duration::from_micros(100)).await;
                }
                rustix::io::write(counter.get_ref(), &1_u64.to_ne_bytes()).unwrap();
                let mut got = 0;
                for waiter in waiters {
                    let ended = doorbell::time::timeout(LONG, waiter).await;
                    got += usize::from(ended.expect("its wait has ended").unwrap());
                }
                assert!(got <= 1, "one has taken it");
            }
        });
    }
}
