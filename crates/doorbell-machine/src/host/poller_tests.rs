//! Tests of the host's poller against the contract of the trait, with real descriptors.

use super::poller::{STEPS, Steps};
use super::{Host, HostParker, HostPoller};
use crate::{Machine, ParkEnd, Parker, PollEvents, Poller, PollerError, Readiness, WaitEnd};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

/// Tests that open descriptors lock this, so that each can count its own.
static DESCRIPTORS: Mutex<()> = Mutex::new(());

/// A poller with one end of a pair of sockets in it, under token 7.
fn pair() -> (HostPoller, UnixStream, UnixStream) {
    let poller = HostPoller::open().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    poller.add_fd(ours.as_fd(), 7).unwrap();
    (poller, ours, theirs)
}

fn poll(poller: &HostPoller) -> Vec<(u64, Readiness)> {
    let mut events = PollEvents::new();
    poller.poll(&mut events);
    events.iter().collect()
}

fn wait(poller: &HostPoller, until_ns: Option<u64>) -> (WaitEnd, Vec<(u64, Readiness)>) {
    let mut events = PollEvents::new();
    let end = poller.wait(&AtomicU32::new(0), 0, until_ns, &mut events);
    (end, events.iter().collect())
}

const BOTH: Readiness = Readiness::READABLE.and(Readiness::WRITABLE);

#[test]
fn an_edge_is_delivered_once() {
    let _alone = DESCRIPTORS.lock();
    let (poller, mut ours, mut theirs) = pair();
    assert_eq!(poll(&poller), [(7, Readiness::WRITABLE)]);
    assert_eq!(poll(&poller), []);
    theirs.write_all(b"x").unwrap();
    assert_eq!(poll(&poller), [(7, BOTH)]);
    assert_eq!(poll(&poller), [], "what lies there is no new edge");
    theirs.write_all(b"y").unwrap();
    assert_eq!(poll(&poller), [(7, BOTH)], "what comes is one");
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 2);
    drop(theirs);
    let closed = Readiness::READ_CLOSED.and(Readiness::WRITE_CLOSED);
    assert_eq!(poll(&poller), [(7, BOTH.and(closed))]);
}

#[test]
fn a_muted_descriptor_makes_no_edges_until_it_is_to_again() {
    let _alone = DESCRIPTORS.lock();
    let (poller, ours, mut theirs) = pair();
    assert_eq!(poll(&poller), [(7, Readiness::WRITABLE)]);
    poller.set_fd_muted(ours.as_fd(), 7, true).unwrap();
    theirs.write_all(b"x").unwrap();
    assert_eq!(poll(&poller), []);
    poller.set_fd_muted(ours.as_fd(), 7, false).unwrap();
    assert_eq!(poll(&poller), [(7, BOTH)], "what is ready is an edge");
    assert_eq!(poll(&poller), []);
    theirs.write_all(b"y").unwrap();
    assert_eq!(poll(&poller), [(7, BOTH)]);
    poller.remove_fd(ours.as_fd()).unwrap();
    assert!(poller.set_fd_muted(ours.as_fd(), 7, true).is_err());
}

#[test]
fn of_more_events_than_one_poll_takes_none_is_lost() {
    let _alone = DESCRIPTORS.lock();
    for rings in [false, true] {
        let poller = HostPoller::open().unwrap();
        let count = PollEvents::CAPACITY as u64 + 44;
        let pipes: Vec<_> = (0..count).map(|_| io::pipe().unwrap()).collect();
        for ((_, writer), token) in pipes.iter().zip(0..) {
            poller.add_fd(writer.as_fd(), token).unwrap();
        }
        if rings {
            poller.ring();
        }
        let mut found: Vec<u64> = Vec::new();
        for _ in 0..4 {
            found.extend(poll(&poller).iter().map(|(token, _)| token));
        }
        found.sort_unstable();
        assert_eq!(found, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_ready_when_added_is_an_edge_and_what_is_removed_is_silent() {
    let _alone = DESCRIPTORS.lock();
    let poller = HostPoller::open().unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    poller.add_fd(reader.as_fd(), 1).unwrap();
    let again = poller.add_fd(reader.as_fd(), 2).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(poll(&poller), [(1, Readiness::READABLE)]);
    writer.write_all(b"y").unwrap();
    poller.remove_fd(reader.as_fd()).unwrap();
    assert_eq!(poll(&poller), []);
    let again = poller.remove_fd(reader.as_fd()).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_broken_pipe_is_an_error_and_the_reserved_token_is_refused() {
    let _alone = DESCRIPTORS.lock();
    let poller = HostPoller::open().unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let refused = poller.add_fd(writer.as_fd(), HostPoller::TOKEN_RESERVED);
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    poller.add_fd(writer.as_fd(), 0).unwrap();
    drop(reader);
    let [(0, readiness)] = poll(&poller)[..] else {
        panic!("no event")
    };
    assert!(readiness.has(Readiness::ERROR), "{readiness:?}");
}

#[test]
fn a_wait_ends_by_readiness_and_by_its_deadline() {
    let _alone = DESCRIPTORS.lock();
    for is_coarse in [false, true] {
        let (poller, _ours, mut theirs) = pair();
        if is_coarse {
            poller.make_coarse();
        }
        assert_eq!(wait(&poller, None).0, WaitEnd::Ready);
        assert_eq!(wait(&poller, Some(0)), (WaitEnd::Deadline, vec![]));
        let until_ns = Host::os_now_ns() + 2_000_000;
        assert_eq!(wait(&poller, Some(until_ns)), (WaitEnd::Deadline, vec![]));
        assert!(Host::os_now_ns() >= until_ns, "it came back early");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            theirs.write_all(b"x").unwrap();
            theirs
        });
        let ended = wait(&poller, Some(u64::MAX));
        assert_eq!(ended, (WaitEnd::Ready, vec![(7, BOTH)]));
        drop(writer.join().unwrap());
    }
}

#[test]
fn a_wait_ends_by_a_ring_once_and_not_at_all_on_a_changed_word() {
    let _alone = DESCRIPTORS.lock();
    let poller = HostPoller::open().unwrap();
    poller.ring();
    poller.ring();
    let mut events = PollEvents::new();
    let end = poller.wait(&AtomicU32::new(1), 0, None, &mut events);
    assert_eq!(end, WaitEnd::Changed);
    assert_eq!(wait(&poller, None), (WaitEnd::Rung, vec![]));
    assert_eq!(wait(&poller, Some(0)).0, WaitEnd::Deadline, "it was read");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            poller.ring();
        });
        assert_eq!(wait(&poller, None).0, WaitEnd::Rung);
    });
}

#[test]
fn w18_who_polls_from_elsewhere_takes_the_events_and_leaves_the_ring() {
    let _alone = DESCRIPTORS.lock();
    let (poller, _ours, mut theirs) = pair();
    poller.ring();
    assert_eq!(poll(&poller), [(7, Readiness::WRITABLE)]);
    assert_eq!(poll(&poller), []);
    assert_eq!(wait(&poller, None), (WaitEnd::Rung, vec![]));
    // While the owner waits and another thread polls, each edge reaches one of the two, and the ring reaches
    // the owner.
    let (begin, edges) = (Barrier::new(2), 200);
    let taken = AtomicU32::new(0);
    let taken_by_owner = std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            for _ in 0..edges {
                theirs.write_all(b"x").unwrap();
                taken.fetch_add(poll(&poller).len() as u32, Ordering::Relaxed);
            }
            poller.ring();
        });
        begin.wait();
        let mut count = 0;
        loop {
            let (end, events) = wait(&poller, None);
            count += events.len() as u32;
            match end {
                WaitEnd::Rung => return count,
                WaitEnd::Ready | WaitEnd::Spurious => {}
                WaitEnd::Changed | WaitEnd::Deadline => panic!("{end:?}"),
            }
        }
    });
    let all = taken_by_owner + taken.load(Ordering::Relaxed);
    assert!((1..=edges).contains(&all), "{all} events of {edges} edges");
    assert_eq!(poll(&poller), [], "nothing is left");
}

#[test]
fn a_thread_is_rung_in_a_parker_and_in_a_poller() {
    let _alone = DESCRIPTORS.lock();
    let (parker, poller, word) = (
        HostParker::new(),
        <HostPoller as Poller<Host>>::open().unwrap(),
        AtomicU32::new(0),
    );
    let waits = |ring: &(dyn Fn() + Sync), wait: &dyn Fn()| {
        word.store(0, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                word.store(1, Ordering::Release);
                ring();
            });
            wait();
            assert_eq!(word.load(Ordering::Acquire), 1);
        });
    };
    waits(&|| parker.ring(&word), &|| {
        while parker.park(&word, 0, None) != ParkEnd::Changed {}
    });
    waits(&|| poller.ring(), &|| {
        let end = poller.wait(&word, 0, None, &mut PollEvents::new());
        assert!(matches!(end, WaitEnd::Rung | WaitEnd::Changed), "{end:?}");
    });
}

#[test]
fn each_step_that_the_os_refuses_is_named() {
    let _alone = DESCRIPTORS.lock();
    let open = |steps: &Steps| HostPoller::open_by(steps).unwrap_err();
    let number = |error: PollerError| io::Error::from(error).raw_os_error();
    let no_set = Steps {
        set: || Err(io::Error::from_raw_os_error(libc::EMFILE)),
        ..STEPS
    };
    let error = open(&no_set);
    assert!(matches!(error, PollerError::Set { .. }));
    assert_eq!(number(error), Some(libc::EMFILE));
    let no_bell = Steps {
        bell: || Err(io::Error::from_raw_os_error(libc::EMFILE)),
        ..STEPS
    };
    let error = open(&no_bell);
    assert!(matches!(error, PollerError::Bell { .. }));
    assert!(error.to_string().contains("ulimit -n"), "{error}");
    assert_eq!(number(error), Some(libc::EMFILE));
    let no_join = Steps {
        join: |_, _| Err(io::Error::from_raw_os_error(libc::EMFILE)),
        ..STEPS
    };
    let error = open(&no_join);
    assert!(matches!(error, PollerError::Join { .. }));
    assert_eq!(number(error), Some(libc::EMFILE));
}

/// How many descriptors of the kinds that a poller makes this process has open.
fn pollers_open() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let is_ours = |name: &std::path::PathBuf| {
        let name = name.to_string_lossy().into_owned();
        name.contains("eventpoll") || name.contains("eventfd")
    };
    names.filter(is_ours).count()
}

#[test]
fn nothing_stays_open() {
    let _alone = DESCRIPTORS.lock();
    let before = pollers_open();
    let poller = <HostPoller as Poller<Host>>::open().unwrap();
    assert_eq!(pollers_open(), before + 2);
    let no_join = Steps {
        join: |_, _| Err(io::ErrorKind::OutOfMemory.into()),
        ..STEPS
    };
    assert!(HostPoller::open_by(&no_join).is_err());
    drop(poller);
    assert_eq!(pollers_open(), before);
}

#[test]
fn what_is_closed_is_gone_although_the_poller_is_kept() {
    let _alone = DESCRIPTORS.lock();
    let before = pollers_open();
    let poller = <HostPoller as Poller<Host>>::open().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    poller.add_fd(ours.as_fd(), 7).unwrap();
    theirs.write_all(b"x").unwrap();
    assert_eq!(poll(&poller).len(), 1);
    assert_eq!(pollers_open(), before + 2);

    // Other threads may use the poller at any time, and close it too.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    poller.ring();
                    let _ = poll(&poller);
                }
            });
            scope.spawn(|| poller.close());
        }
    });
    assert_eq!(pollers_open(), before, "nobody is inside");

    let mut events = PollEvents::new();
    events.push(1, Readiness::READABLE);
    poller.poll(&mut events);
    assert!(events.is_empty());
    poller.ring();
    assert!(poller.add_fd(ours.as_fd(), 8).is_err());
    poller.remove_fd(ours.as_fd()).unwrap();
    let (ended, found) = wait(&poller, None);
    assert_eq!((ended, found.len()), (WaitEnd::Spurious, 0));
}

/// The owner waits without a deadline while another thread closes the poller, against the contract. The
/// descriptors stay open until the wait has ended.
#[test]
fn a_wait_keeps_the_descriptors_open() {
    let _alone = DESCRIPTORS.lock();
    let before = pollers_open();
    let (poller, _ours, mut theirs) = pair();
    let _ = poll(&poller);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait(&poller, None));
        // The wait is the second user.
        while poller.users() < 2 {
            std::thread::yield_now();
        }
        poller.close();
        assert_eq!(pollers_open(), before + 2);
        theirs.write_all(b"x").unwrap();
        let (ended, found) = waits.join().unwrap();
        assert_eq!((ended, found), (WaitEnd::Ready, vec![(7, BOTH)]));
    });
    assert_eq!(pollers_open(), before);
}
