//! A spinning core whose sockets are ready, while another core has more tasks than it can run.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test plays the outside world"
)]

use doorbell::net::UnixStream;
use doorbell::{Builder, CoreId, IdlePolicy};
use std::os::unix::net::UnixStream as Socket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const SOCKETS: usize = 250;
const TASKS: usize = 600;
const ROUNDS: usize = 8;

/// This many calls, each of which posts the next one, keep a core spinning without a quiet moment.
const CALLS: u32 = 300;
const CALL: Duration = Duration::from_micros(10);

/// Far longer than a round takes, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(60);

fn spin_until(is_over: impl Fn() -> bool, what: &str) {
    let deadline = Instant::now() + LONG;
    while !is_over() {
        assert!(Instant::now() < deadline, "{what}: a task was lost");
        std::thread::yield_now();
    }
}

fn post_chain(left: u32) {
    let call = move || {
        let until = Instant::now() + CALL;
        while Instant::now() < until {}
        if left > 0 {
            post_chain(left - 1);
        }
    };
    doorbell::post_on(1, call).unwrap();
}

/// Spawns a task for each of many descriptors of one socket, on the caller's core.
fn read_often(ours: &Socket, waiting: &Arc<AtomicUsize>, read: &Arc<AtomicUsize>) {
    for _ in 0..SOCKETS {
        let our = ours.try_clone().unwrap();
        let (waiting, read) = (Arc::clone(waiting), Arc::clone(read));
        doorbell::spawn(async move {
            let stream = UnixStream::from_std(our).unwrap();
            waiting.fetch_add(1, SeqCst);
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            read.fetch_add(1, SeqCst);
        });
    }
}

/// The calls leave core 1 no quiet moment, so it looks at its descriptors between two of them. Then it has
/// 250 tasks of its own, and 600 of core 0's to take.
#[test]
fn a_spinning_core_with_ready_sockets_loses_no_task() {
    let builder = Builder::new().cores(2).idle(IdlePolicy::NeverPark);
    let rt = builder.build().unwrap();
    for round in 0..ROUNDS {
        let [ran, read, waiting] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let body = async move {
            let (ours, theirs) = Socket::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let (waits, reads) = (Arc::clone(&waiting), Arc::clone(&read));
            let register = async move { read_often(&ours, &waits, &reads) };
            drop(doorbell::task().on(CoreId::new(1)).spawn(register));
            spin_until(|| waiting.load(SeqCst) == SOCKETS, "registration");
            // While core 1 is inside a poll, the tasks spawned here are offered to no worker.
            let ((enter, entered), (leave, left)) = (channel(), channel());
            let busy = async move {
                enter.send(()).unwrap();
                left.recv_timeout(LONG).unwrap();
                post_chain(CALLS);
            };
            drop(doorbell::task().on(CoreId::new(1)).spawn(busy));
            entered.recv_timeout(LONG).unwrap();
            for _ in 0..TASKS {
                let ran = Arc::clone(&ran);
                doorbell::spawn(async move {
                    ran.fetch_add(1, SeqCst);
                });
            }
            drop(theirs);
            leave.send(()).unwrap();
            // Core 0 stays inside this poll, so core 1 runs everything.
            spin_until(|| read.load(SeqCst) >= SOCKETS, "sockets");
            spin_until(|| ran.load(SeqCst) >= TASKS, "tasks");
            assert_eq!((ran.load(SeqCst), read.load(SeqCst)), (TASKS, SOCKETS));
        };
        let task = rt.task().on(CoreId::new(0)).spawn(body);
        rt.block_on(task)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}
