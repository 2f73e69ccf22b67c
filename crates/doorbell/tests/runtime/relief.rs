//! The end of a runtime while a task blocks its worker and waits for what another task of the runtime has.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class, Runtime};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// Which tasks have the senders that the blocked one waits for.
#[derive(Clone, Copy, Debug)]
enum Owners {
    /// They sleep when the worker begins to wait.
    Sleep,
    /// They come while it waits.
    ComeLater,
    /// The same, and only that worker may run them.
    ComePinned,
}

const ALL: [Owners; 3] = [Owners::Sleep, Owners::ComeLater, Owners::ComePinned];

/// A pinned task that blocks the worker of core 0 until there is no sender any more. Returns once it does.
fn block(rt: &Runtime, class: Class, rx: Receiver<()>) {
    let (here, is_here) = channel();
    drop(rt.task().class(class).on(0).spawn(async move {
        here.send(()).unwrap();
        assert!(rx.recv().is_err(), "nobody sends");
    }));
    is_here.recv().unwrap();
}

fn own(rt: &Runtime, class: Class, owners: Owners, tx: &Sender<()>) {
    for _ in 0..8 {
        let task = rt.task().class(class);
        let task = match owners {
            Owners::Sleep | Owners::ComeLater => task,
            Owners::ComePinned => task.on(0),
        };
        let tx = tx.clone();
        drop(task.spawn(async move {
            let _kept = tx;
            doorbell::time::sleep(HOUR).await;
        }));
    }
}

/// Ends the runtime on a thread of its own, and waits for that.
#[track_caller]
fn end(rt: Runtime, what: &str) {
    let (ended, is_ended) = channel();
    let ends = std::thread::spawn(move || {
        drop(rt);
        ended.send(()).unwrap();
    });
    let in_time = is_ended.recv_timeout(Duration::from_secs(60));
    assert!(in_time.is_ok(), "the drop of the runtime hangs: {what}");
    ends.join().unwrap();
}

fn round(cores: usize, class: Class, owners: Owners) {
    let rt = Builder::new().cores(cores).build().unwrap();
    let (tx, rx) = channel();
    if matches!(owners, Owners::Sleep) {
        own(&rt, class, owners, &tx);
        // Some have begun to sleep on core 0.
        std::thread::sleep(Duration::from_micros(300));
    }
    block(&rt, class, rx);
    if !matches!(owners, Owners::Sleep) {
        own(&rt, class, owners, &tx);
    }
    drop(tx);
    end(rt, &format!("{cores} cores, {class}, {owners:?}"));
}

fn rounds(times: usize) {
    for number in 0..times {
        for cores in [1, 2, 4, 8] {
            let owners = ALL[number % ALL.len()];
            let class =
                [Class::FAIR, Class::FAIR, Class::BATCH, Class::rt(3)][number / ALL.len() % 4];
            round(cores, class, owners);
        }
    }
}

/// `DOORBELL_RELIEF_ROUNDS=1000` makes a stress of it.
#[test]
fn d25_a_runtime_ends_although_a_task_blocks_its_worker_on_what_another_task_has() {
    let asked = std::env::var("DOORBELL_RELIEF_ROUNDS").ok();
    rounds(asked.map_or(12, |asked| asked.parse().expect("a number")));
}

/// Waits in its drop until the sender is gone.
struct Waits(Receiver<()>);

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

#[test]
fn d25_an_end_with_a_timeout_does_not_wait_for_the_drop_of_a_task() {
    let rt = Builder::new().cores(1).build().unwrap();
    let (tx, rx) = channel();
    let waits = Waits(rx);
    drop(rt.spawn(async move {
        let _kept = waits;
        std::future::pending::<()>().await;
    }));
    let (end_poll, polls) = channel();
    block(&rt, Class::FAIR, polls);
    let (ended, is_ended) = channel();
    let ends = std::thread::spawn(move || {
        // Long enough that the task of the blocked worker is ended elsewhere.
        let running = rt.shutdown_timeout(Duration::from_secs(1));
        ended.send(running).unwrap();
    });
    let running = is_ended.recv_timeout(Duration::from_secs(20));
    drop((tx, end_poll));
    ends.join().unwrap();
    assert!(running.expect("it ends in time").is_err());
}

/// Tells of its drop.
struct Tells(Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn d25_posts_run_in_order_although_others_looked_into_the_mailbox_meanwhile() {
    let rt = Builder::new().cores(1).build().unwrap();
    let (dropped, was_dropped) = channel();
    let tells = Tells(dropped);
    drop(rt.spawn(async move {
        let _kept = tells;
        std::future::pending::<()>().await;
    }));
    let (end_poll, polls) = channel();
    block(&rt, Class::FAIR, polls);
    let (handle, (seen, sees)) = (rt.handle().clone(), channel());
    let post = |number: u32| {
        let seen = seen.clone();
        handle.post_on(0, move || seen.send(number).unwrap())
    };
    post(1).unwrap();
    let ends = std::thread::spawn(move || drop(rt));
    // The mailbox has been looked into: the first closure waits elsewhere.
    was_dropped.recv().unwrap();
    post(2).unwrap();
    drop(end_poll);
    ends.join().unwrap();
    assert_eq!(sees.try_iter().collect::<Vec<_>>(), [1, 2]);
}
