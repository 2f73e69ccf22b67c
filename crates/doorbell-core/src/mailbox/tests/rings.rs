//! Who is rung, by state of the worker and setting of the switches: exact counts.

use crate::class::Class;
use crate::mailbox::Posted;
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::switches::{CallCoalesce, IdleNotify, SwitchWord, Switches};
use crate::testing::{Inbox, Item, Log, post, remote_with};
use crate::worker::Local;
use doorbell_machine::{Counter, Host};

/// What a worker does when it is posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Running,
    Spinning,
    Parked,
}

const WORKERS: [Worker; 3] = [Worker::Running, Worker::Spinning, Worker::Parked];

fn remote_in(worker: Worker, switches: Switches) -> RemoteRef<Host> {
    let remote = remote_with(switches);
    if worker != Worker::Running {
        let _ = remote.bell().announce_spin();
    }
    if worker == Worker::Parked {
        let _ = remote.bell().announce_park();
    }
    remote
}

/// What `posts` posts made of the bell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    rings: u64,
    rings_awake: u64,
    rings_for_stalled: u64,
    notified: bool,
    pass: bool,
}

fn made_by(
    posts: u64,
    worker: Worker,
    idle_notify: IdleNotify,
    call_coalesce: CallCoalesce,
) -> Made {
    let remote = remote_in(
        worker,
        Switches {
            idle_notify,
            call_coalesce,
            ..Switches::default()
        },
    );
    let (log, inbox) = (Log::default(), Inbox::default());
    for entry in 0..posts {
        assert_eq!(post(&remote, entry, &log), Posted::Yes);
    }
    let signals = remote.bell().end_idle();
    // SAFETY: this thread is the worker.
    let served = unsafe { remote.serve(&inbox) };
    assert_eq!((served.delivered, log.len() as u64), (posts, posts));
    let counts = remote.counts();
    Made {
        rings: counts.rings.get(),
        rings_awake: counts.rings_awake.get(),
        rings_for_stalled: counts.rings_for_stalled.get(),
        notified: signals.notified,
        pass: signals.pass,
    }
}

const NOTHING: Made = Made {
    rings: 0,
    rings_awake: 0,
    rings_for_stalled: 0,
    notified: false,
    pass: false,
};

const POSTS: u64 = 5;

#[test]
fn s6_on_rings_a_parked_worker_once_and_no_other() {
    for posts in [1, POSTS] {
        for worker in WORKERS {
            let made = made_by(posts, worker, IdleNotify::On, CallCoalesce::On);
            let parked = worker == Worker::Parked;
            let expected = Made {
                rings: u64::from(parked),
                notified: parked,
                ..NOTHING
            };
            assert_eq!(made, expected, "{posts} posts, {worker:?}");
        }
    }
}

#[test]
fn idle_notify_off_asks_for_a_pass_with_every_kick() {
    for posts in [1, POSTS] {
        for worker in WORKERS {
            let made = made_by(posts, worker, IdleNotify::Off, CallCoalesce::On);
            let idle = worker != Worker::Running;
            let expected = Made {
                rings: u64::from(worker == Worker::Parked),
                notified: idle,
                pass: idle,
                ..NOTHING
            };
            assert_eq!(made, expected, "{posts} posts, {worker:?}");
        }
    }
}

#[test]
fn always_ring_rings_a_spinning_worker_for_the_first_post() {
    for posts in [1, POSTS] {
        for worker in WORKERS {
            let made = made_by(posts, worker, IdleNotify::AlwaysRing, CallCoalesce::On);
            let expected = Made {
                rings: u64::from(worker != Worker::Running),
                rings_awake: u64::from(worker == Worker::Spinning),
                notified: worker == Worker::Parked,
                ..NOTHING
            };
            assert_eq!(made, expected, "{posts} posts, {worker:?}");
        }
    }
}

#[test]
fn base_rings_for_every_post_to_a_worker_that_is_not_spinning() {
    for posts in [1, POSTS] {
        for worker in WORKERS {
            let made = made_by(posts, worker, IdleNotify::On, CallCoalesce::Base);
            let expected = match worker {
                Worker::Spinning => NOTHING,
                // Only the first ring ends a park.
                Worker::Parked => Made {
                    rings: posts,
                    rings_awake: posts - 1,
                    notified: true,
                    ..NOTHING
                },
                Worker::Running => Made {
                    rings: posts,
                    rings_awake: posts,
                    notified: true,
                    ..NOTHING
                },
            };
            assert_eq!(made, expected, "{posts} posts, {worker:?}");
        }
    }
}

#[test]
fn base_with_idle_notify_off_is_both() {
    for worker in WORKERS {
        let made = made_by(POSTS, worker, IdleNotify::Off, CallCoalesce::Base);
        let expected = match worker {
            // Also when it was told already.
            Worker::Spinning => (0, 0),
            Worker::Parked => (POSTS, POSTS - 1),
            Worker::Running => (POSTS, POSTS),
        };
        assert_eq!((made.rings, made.rings_awake), expected, "{worker:?}");
        assert!(made.notified && made.pass, "{made:?}");
    }
}

#[test]
fn a_change_of_the_switches_counts_from_the_next_post() {
    let switches = std::sync::Arc::new(SwitchWord::new(Switches::default()));
    let remote = RemoteRef::<Host>::alone(&switches);
    let log = Log::default();
    let base = Switches {
        call_coalesce: CallCoalesce::Base,
        ..Switches::default()
    };
    for (settings, rings) in [
        (Switches::default(), 0),
        (base, 1),
        (base, 2),
        (Switches::default(), 2),
    ] {
        switches.store(settings);
        assert_eq!(post(&remote, 100, &log), Posted::Yes);
        assert_eq!(remote.counts().rings.get(), rings, "{settings}");
    }
    // SAFETY: this thread is the worker, and its items stay in place until delivered.
    let served = unsafe { remote.serve(&Inbox::default()) };
    assert_eq!((served.delivered, log.len()), (4, 4));
}

#[test]
fn a_request_for_a_pass_rings_a_parked_worker_once() {
    for worker in WORKERS {
        let remote = remote_in(worker, Switches::default());
        for _ in 0..3 {
            remote.request_pass();
        }
        assert_eq!(
            remote.counts().rings.get(),
            u64::from(worker == Worker::Parked)
        );
        let signals = remote.bell().end_idle();
        assert!(signals.notified && signals.pass);
    }
}

/// A worker of a scheduler of its own.
fn remote_of(class: Class, switches: Switches) -> RemoteRef<Host> {
    let spec = SchedulerSpec {
        class,
        ..SchedulerSpec::default()
    };
    let switches = std::sync::Arc::new(SwitchWord::new(switches));
    Scheduler::described(1, &switches, spec, |_, _| 0).remove(0)
}

/// Rings, and those of them in place of another, that a parked worker of that class got by posts and
/// requests of these classes in turn; `None` is a thread that is no worker.
fn rung(class: Class, switches: Switches, from: &[Option<Class>]) -> (u64, u64) {
    let (remote, log) = (remote_of(class, switches), Log::default());
    let _ = remote.bell().announce_spin();
    let _ = remote.bell().announce_park();
    for (entry, class) in from.iter().enumerate() {
        let tell = || match entry % 2 {
            0 => assert_eq!(post(&remote, entry as u64, &log), Posted::Yes),
            _ => remote.request_pass(),
        };
        match class {
            None => tell(),
            Some(class) => Local::new(remote_of(*class, switches)).enter(tell),
        }
    }
    let _ = remote.bell().end_idle();
    // SAFETY: this thread is the worker.
    let _ = unsafe { remote.serve(&Inbox::default()) };
    let counts = remote.counts();
    assert_eq!(
        (counts.rings_awake.get(), counts.rings_for_stalled.get()),
        (0, 0)
    );
    (counts.rings.get(), counts.rings_helped.get())
}

#[test]
fn nobody_waits_for_the_ring_of_a_lower_class() {
    let (batch, fair, rt) = (Some(Class::Batch), Some(Class::Fair), Some(Class::Rt));
    let no_passes = Switches {
        idle_notify: IdleNotify::Off,
        ..Switches::default()
    };
    for switches in [Switches::default(), no_passes] {
        let rung = |class, from: &[_]| rung(class, switches, from);
        for below in [batch, fair, None] {
            assert_eq!(rung(Class::Rt, &[below]), (1, 0));
            // In place of one below another one does, and one that is not below.
            assert_eq!(rung(Class::Rt, &[below, None, fair, batch]), (2, 1));
            assert_eq!(rung(Class::Rt, &[below, rt, rt, below, rt]), (2, 1));
            assert_eq!(rung(Class::Rt, &[below, below, rt, rt, below]), (3, 2));
            assert_eq!(rung(Class::Rt, &[rt, below, rt]), (1, 0));
            assert_eq!(rung(Class::Batch, &[below, rt, fair, batch, None]), (1, 0));
        }
        // Where nobody is below, one rings as ever.
        assert_eq!(rung(Class::Fair, &[fair, None, rt, batch, fair]), (1, 0));
        assert_eq!(rung(Class::Fair, &[None, fair, rt, batch]), (1, 0));
        for level in [fair, rt, None] {
            assert_eq!(rung(Class::Fair, &[batch, level, level, batch]), (2, 1));
        }
    }
}

#[test]
fn a_request_for_a_pass_waits_for_no_lower_ring_although_every_post_rings() {
    let every_post = Switches {
        call_coalesce: CallCoalesce::Base,
        ..Switches::default()
    };
    let rt = Some(Class::Rt);
    assert_eq!(rung(Class::Rt, every_post, &[None, rt]), (2, 1));
    assert_eq!(rung(Class::Rt, every_post, &[rt, rt]), (1, 0));
}

#[test]
fn a_post_after_a_request_does_not_ring_again() {
    let remote = remote_in(Worker::Parked, Switches::default());
    let log = Log::default();
    remote.request_pass();
    assert_eq!(post(&remote, 1, &log), Posted::Yes);
    assert_eq!(remote.counts().rings.get(), 1);
    // SAFETY: this thread is the worker.
    let served = unsafe { remote.serve(&Inbox::default()) };
    assert!(served.signals.pass);
    assert_eq!(log.entries(), [1]);
}

#[test]
fn a_closed_worker_is_not_rung() {
    for idle_notify in [IdleNotify::On, IdleNotify::Off, IdleNotify::AlwaysRing] {
        for call_coalesce in [CallCoalesce::On, CallCoalesce::Base] {
            let switches = Switches {
                idle_notify,
                call_coalesce,
                ..Switches::default()
            };
            for worker in WORKERS {
                let (remote, log) = (remote_in(worker, switches), Log::default());
                assert!(remote.close().is_empty());
                let late = Item::<Host>::boxed(1, &log);
                // SAFETY: the mailbox is closed: the node stays ours.
                assert_eq!(unsafe { remote.post(late) }, Posted::Closed);
                // SAFETY: as above.
                assert_eq!(unsafe { Item::reclaim(late) }, 1);
                assert_eq!(remote.counts().rings.get(), 0, "{switches}, {worker:?}");
            }
        }
    }
}
