//! Lanes whose tasks wait for descriptors.

use super::super::descriptors::POLLS_PER_LOOK;
use super::by_hand;
use super::threads::Running;
use crate::bell::LaneState;
use crate::crew::Crew;
use crate::io::{Direction, Registration, Station as _};
use crate::lane::{IdlePolicy, Lane, LaneConfig, LaneShared, Pass};
use crate::switches::{SwitchWord, Switches};
use crate::task::{About, Join, Kind};
use crate::testing::{call, launch_about, spawn};
use crate::wait::block_on;
use crate::wheel::Clock;
use doorbell_machine::{Host, ParkIn, Seat as _};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::task::{Context, Poll};
use std::time::Duration;

type Front = crate::crew::FrontRef<Host>;

/// A socket that is registered with a lane. The registration goes first.
struct Socket {
    registration: Registration<Host, Front>,
    stream: UnixStream,
}

impl Socket {
    /// And the other end.
    fn pair(front: &Front) -> (Socket, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        // SAFETY: the fields are dropped in their order.
        let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
        let registration = Registration::new(front.clone(), fd).unwrap();
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
pub(super) fn read_on(front: &Front) -> (Join<io::Result<u8>>, UnixStream) {
    let (socket, theirs) = Socket::pair(front);
    (spawn(front, async move { socket.byte().await }), theirs)
}

fn until_in_poller(lane: &LaneShared<Host>) {
    let front = lane.front();
    while lane.state() != LaneState::Parked || Front::seat(front).chosen() != ParkIn::Poller {
        std::thread::yield_now();
    }
}

/// As [`read_on`]: the task has been polled, waits for the byte, and the lane has parked since. A lane that was
/// told of the task, and whose thread does not run yet, looks parked too.
fn read_and_park(lane: &LaneShared<Host>) -> (Join<io::Result<u8>>, UnixStream) {
    let (socket, theirs) = Socket::pair(lane.front());
    let waits = Arc::new(AtomicBool::new(false));
    let is_polled = Arc::clone(&waits);
    let reads = poll_fn(move |cx| {
        let byte = socket.poll_byte(cx);
        is_polled.store(true, Release);
        byte
    });
    let join = spawn(lane.front(), reads);
    while !waits.load(Acquire) {
        std::thread::yield_now();
    }
    until_in_poller(lane);
    (join, theirs)
}

#[test]
fn a_parked_lane_is_woken_by_readiness() {
    let lane = Running::start(0, Switches::default());
    let (join, mut theirs) = read_and_park(&lane.shared);
    let rings = lane.shared.counts().rings;
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(join, 0).unwrap().unwrap(), 7);
    let counts = lane.shared.counts();
    // That it can be written to is an event too.
    assert!((1..=2).contains(&counts.unparks_ready), "{counts:?}");
    assert_eq!(counts.rings, rings, "{counts:?}");
    let _ = lane.end();
}

#[test]
fn a_bell_reaches_a_lane_that_is_parked_in_the_poller() {
    let lane = Running::start(0, Switches::default());
    let (join, mut theirs) = read_and_park(&lane.shared);
    let before = lane.shared.counts();
    for round in 0..20 {
        until_in_poller(&lane.shared);
        assert!(matches!(call(lane.shared.front(), || round), Ok(it) if it == round));
    }
    let made = lane.shared.counts().since(&before);
    // That it can be written to is an event too, during which the lane is not rung.
    assert!(made.unparks_ready <= 1, "{made:?}");
    assert!((19..=20).contains(&made.rings), "{made:?}");
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(join, 0).unwrap().unwrap(), 7);
    let _ = lane.end();
}

#[test]
fn a_lane_that_parks_on_its_word_gets_a_descriptor_from_another_thread() {
    let lane = Running::start(0, Switches::default());
    lane.until_parked();
    let (socket, mut theirs) = Socket::pair(lane.shared.front());
    until_in_poller(&lane.shared);
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(socket.byte(), 0).unwrap(), 7);
    drop(socket);
    let _ = lane.end();
}

#[test]
fn a_watching_lane_gets_a_descriptor_from_another_thread() {
    // For as long as nothing is posted.
    let lane = Running::start(1 << 60, Switches::default());
    while lane.shared.state() != LaneState::Watching {
        std::thread::yield_now();
    }
    let (socket, mut theirs) = Socket::pair(lane.shared.front());
    theirs.write_all(&[7]).unwrap();
    assert_eq!(block_on::<Host, _>(socket.byte(), 0).unwrap(), 7);
    drop(socket);
    let counts = lane.end();
    assert_eq!((counts.parks, counts.rings), (0, 0), "{counts:?}");
}

#[test]
fn a_lane_that_runs_looks_at_its_descriptors() {
    let lane = by_hand(0, Switches::default());
    lane.local.enter(|| {
        let done = Arc::new(AtomicBool::new(false));
        let (socket, mut theirs) = Socket::pair(lane.shared.front());
        let theirs_done = Arc::clone(&done);
        let read = spawn(lane.shared.front(), async move {
            assert_eq!(socket.byte().await.unwrap(), 7);
            theirs_done.store(true, Relaxed);
        });
        let ours = Arc::clone(&done);
        let busy = spawn(
            lane.shared.front(),
            poll_fn(move |cx| {
                if ours.load(Relaxed) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }),
        );
        theirs.write_all(&[7]).unwrap();
        let mut passes = 0;
        while !done.load(Relaxed) {
            assert!(matches!(lane.pass(), Pass::Work(_)));
            lane.run_ready(super::super::POLLS_PER_PASS);
            passes += 1;
        }
        let polls = lane.shared.counts().polls;
        assert!((POLLS_PER_LOOK..=3 * POLLS_PER_LOOK).contains(&polls));
        assert!((2..=3).contains(&passes), "{passes}");
        drop((read, busy));
        lane.local.close();
    });
}

#[test]
fn what_another_lane_finds_reaches_the_tasks_of_one_that_is_stuck() {
    let switches = Arc::new(SwitchWord::new(Switches::default()));
    let clock = Arc::new(Clock::default());
    let fronts = Crew::new(2, &switches, |_, _| 0);
    let config = LaneConfig {
        idle: IdlePolicy::Park,
    };
    let lanes: Vec<_> = fronts
        .into_iter()
        .map(|front| Arc::new(LaneShared::<Host>::with(config, front, Arc::clone(&clock))))
        .collect();
    let threads: Vec<_> = lanes
        .iter()
        .map(|lane| {
            let lane = Arc::clone(lane);
            std::thread::spawn(move || Lane::new(lane).run())
        })
        .collect();
    let (read, mut theirs) = read_and_park(&lanes[0]);
    let done = Arc::new(AtomicBool::new(false));
    let (inside, ours) = (Arc::new(AtomicBool::new(false)), Arc::clone(&done));
    let begun = Arc::clone(&inside);
    // Until the other task has run, it ends not.
    let stuck = launch_about(
        lanes[0].front(),
        Kind::Pinned,
        About::default(),
        async move {
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
    for lane in &lanes {
        lane.close();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    // It may have found before that the socket can be written to.
    let found = lanes[1].counts().ready_for_stuck;
    assert!((1..=2).contains(&found), "{found}");
}

#[test]
fn a_lane_without_descriptors_has_no_poller() {
    let lane = Running::start(0, Switches::default());
    for round in 0..20 {
        lane.until_parked();
        assert!(matches!(call(lane.shared.front(), || round), Ok(it) if it == round));
    }
    assert!(Front::seat(lane.shared.front()).poller().is_none());
    let counts = lane.end();
    assert!(counts.rings <= 21, "{counts:?}");
    assert_eq!(counts.unparks_ready, 0);
}

#[test]
fn who_waits_when_the_lane_ends_learns_it() {
    let lane = Running::start(0, Switches::default());
    let front = lane.shared.front().clone();
    let (socket, _theirs) = Socket::pair(&front);
    let waits = std::thread::spawn(move || block_on::<Host, _>(socket.byte(), 0));
    until_in_poller(&lane.shared);
    let _ = lane.end();
    assert_eq!(
        waits.join().unwrap().unwrap_err().kind(),
        io::ErrorKind::Other
    );
    let (stream, _theirs) = UnixStream::pair().unwrap();
    // SAFETY: nothing is registered.
    let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    let refused = Registration::<Host, Front>::new(front.clone(), fd);
    assert!(refused.is_err());
    assert!(!front.driver().has_sources());
}

#[test]
fn what_went_is_freed_while_the_lane_runs() {
    let lane = Running::start(0, Switches::default());
    let front = lane.shared.front();
    let (kept, _theirs) = Socket::pair(front);
    for _ in 0..1_000 {
        drop(Socket::pair(front));
    }
    assert!(matches!(call(front, || ()), Ok(())));
    assert_eq!(front.driver().stranded(), 0);
    drop(kept);
    assert!(!front.driver().has_sources());
    let counts = lane.end();
    assert!(counts.rings <= 10, "told each 256 of them: {counts:?}");
}

#[test]
fn under_a_flood_a_lane_that_goes_first_is_not_woken_for_each_descriptor() {
    const SOCKETS: usize = 16;
    let shared = super::shared(0, Switches::default());
    let theirs = Arc::clone(&shared);
    let thread = std::thread::spawn(move || Lane::new(theirs).with_spacing(150_000).run());
    let done = Arc::new(AtomicBool::new(false));
    let mut streams = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..SOCKETS {
        let (socket, stream) = Socket::pair(shared.front());
        streams.push(stream);
        readers.push(spawn(shared.front(), async move {
            let mut bytes = 0_u64;
            while socket.byte().await.unwrap() != 0 {
                bytes += 1;
            }
            bytes
        }));
    }
    // Each socket in its turn, so that every byte is an event.
    let ends = Arc::clone(&done);
    let flood = std::thread::spawn(move || {
        let mut sent = 0_u64;
        while !ends.load(Relaxed) {
            for stream in &mut streams {
                stream.write_all(&[1]).unwrap();
                sent += 1;
            }
        }
        (streams, sent)
    });
    // On its word, although it has descriptors.
    let sleeps_through = || {
        let front = shared.front();
        let is_asleep = shared.state() == LaneState::Parked;
        is_asleep && Front::seat(front).chosen() == ParkIn::Word && front.driver().has_sources()
    };
    let began = std::time::Instant::now();
    let mut slept = false;
    while !slept || shared.counts().looks_put_off < 10 {
        slept |= sleeps_through();
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "it puts nothing off"
        );
        std::thread::yield_now();
    }
    done.store(true, Relaxed);
    let (mut streams, sent) = flood.join().unwrap();
    // Also when the flood is over everybody is served.
    std::thread::sleep(Duration::from_millis(30));
    for stream in &mut streams {
        stream.write_all(&[0]).unwrap();
    }
    let mut read = 0;
    for reader in readers {
        read += block_on::<Host, _>(reader, 0).unwrap();
    }
    assert_eq!(read, sent, "nothing is lost");
    shared.close();
    thread.join().unwrap();
}

#[test]
fn in_a_flood_an_ordinary_lane_takes_of_the_others_and_one_that_goes_first_does_not() {
    const EVENTS: usize = 1_000_000_000;
    for goes_first in [false, true] {
        let switches = Arc::new(SwitchWord::new(Switches::default()));
        let config = LaneConfig {
            idle: IdlePolicy::Park,
        };
        let clock = Arc::new(Clock::default());
        let lanes: Vec<_> = Crew::new(2, &switches, |_, _| 0)
            .into_iter()
            .map(|front| Arc::new(LaneShared::<Host>::with(config, front, Arc::clone(&clock))))
            .collect();
        let lane = Lane::new(Arc::clone(&lanes[0]));
        let lane = if goes_first {
            lane.before_others().with_spacing(0)
        } else {
            lane
        };
        let (_socket, mut theirs) = Socket::pair(lanes[1].front());
        theirs.write_all(&[1]).unwrap();
        let _ = lane.looks_further();
        assert_eq!(lanes[0].counts().ready_for_others, 0, "there is no flood");
        lane.note_ready(EVENTS);
        std::thread::sleep(Duration::from_millis(5));
        lane.note_ready(EVENTS);
        let _ = lane.looks_further();
        let taken = lanes[0].counts().ready_for_others;
        assert_eq!(taken, u64::from(!goes_first));
    }
}
