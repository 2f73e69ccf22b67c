//! The loop of the watchdog: look, judge, mark, ask, pause, park. See README.md in this folder.

use super::Watchdog;
use super::pace::{Found, LOOK_NS, Next, OVERDUE_NS, Pace, Read};
use crate::bell::{Announced, LaneState, Look};
use crate::crew::{Crew, FrontRef};
use crate::idle::{Cost, Searchers, Searching, Seen};
use crate::mailbox::Front;
use crate::wheel::Clock;
use doorbell_machine::{Bug, Counter, Machine};
use std::cell::Cell;
use std::sync::Arc;

/// No lane of any crew.
const NO_LANE: usize = usize::MAX;

/// What waits behind the poll of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// A timer that will be late before long.
    Soon,
    /// Something that another lane can do now.
    Now,
}

/// What two looks at a lane say.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It makes progress, or was not looked at for long enough.
    Goes,
    /// Its pulse was the same at two looks.
    Stuck,
}

/// What the watchdog knows of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    /// Its pulse, and since when it is that; `None` while nothing waits behind its poll.
    seen: Option<(u64, u64)>,
    /// Its bit of the stuck set.
    is_stuck: bool,
    /// Its pulse when it was last thought of as a helper.
    pulse_as_helper: u64,
}

impl Note {
    fn judge(&mut self, pulse: u64, now_ns: u64) -> Verdict {
        match self.seen {
            Some((seen, since_ns)) if seen == pulse => {
                if now_ns.saturating_sub(since_ns) >= LOOK_NS {
                    Verdict::Stuck
                } else {
                    Verdict::Goes
                }
            }
            _ => {
                self.seen = Some((pulse, now_ns));
                Verdict::Goes
            }
        }
    }
}

/// A crew as the watchdog sees it.
struct Watched<M: Machine> {
    front: FrontRef<M>,
    /// Which lanes may have work, as of this look.
    seen: Seen,
    notes: Box<[Cell<Note>]>,
    /// Which lanes were counted as searching at its last look, and when that was.
    searchers: Searchers,
    searchers_ns: Cell<u64>,
}

/// The watchdog on its own thread.
pub struct Watch<M: Machine> {
    dog: Arc<Watchdog<M>>,
    clock: Arc<Clock<M>>,
    crews: Box<[Watched<M>]>,
    pace: Pace,
}

impl<M: Machine> std::fmt::Debug for Watch<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("dog", &self.dog)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Watch<M> {
    /// Looks after the crews of these lanes, one lane of each, whose timers go by that clock. In a crew of one lane
    /// nobody can help.
    pub fn new(
        dog: &Arc<Watchdog<M>>,
        clock: &Arc<Clock<M>>,
        lanes: impl IntoIterator<Item = FrontRef<M>>,
    ) -> Self {
        Watch {
            dog: Arc::clone(dog),
            clock: Arc::clone(clock),
            crews: lanes
                .into_iter()
                .filter(|lane| lane.crew().fronts().len() > 1)
                .map(Watched::new)
                .collect(),
            pace: Pace::new(M::MODEL),
        }
    }

    /// Looks after them until it is told to [end](Watchdog::close).
    pub fn run(mut self) {
        while !self.dog.is_closing() {
            let found = self.look(M::now_ns());
            let tally = &self.dog.tally;
            let read = || {
                let cpu_ns = M::thread_cpu_ns();
                tally.cpu_ns.set(cpu_ns);
                Read {
                    now_ns: M::now_ns(),
                    cpu_ns,
                }
            };
            match self.pace.after(found, read) {
                Next::Look(after_ns) => self.dog.pause_until(M::now_ns().saturating_add(after_ns)),
                Next::Park => self.park(),
            }
        }
    }

    /// Looks at all lanes at that time.
    pub(super) fn look(&self, now_ns: u64) -> Found {
        self.dog.tally.looks.add_owned(1);
        let has_timers = !self.clock.is_frozen();
        let found = self
            .crews
            .iter()
            .map(|crew| crew.look(&self.dog, now_ns, has_timers));
        found.max().unwrap_or(Found::Nothing)
    }

    /// Sleeps until it is armed, or until a timer is late.
    pub(super) fn park(&mut self) {
        let now_ns = M::now_ns();
        let parking = self.pace.park(now_ns, self.next_timer_ns());
        if self.dog.announce(parking.looks_ns) == Announced::Yes
            && !self.stays_awake(parking.looks_ns)
        {
            let ended = self.dog.sleep(parking);
            self.pace.woken(parking, ended);
            self.crews.iter().for_each(Watched::forget);
        }
        self.dog.end_park();
    }

    /// The last look, behind the announcement: whether there is something that its publisher did not ring for.
    fn stays_awake(&self, looks_ns: u64) -> bool {
        if M::BUG.is(Bug::WatchdogParkBlind) {
            return false;
        }
        let is_early = self.next_timer_ns().saturating_add(super::EARLY_NS) < looks_ns;
        is_early || self.crews.iter().any(Watched::has_work_behind)
    }

    /// When the next timer is due that another lane could fire; `u64::MAX` if there is none.
    fn next_timer_ns(&self) -> u64 {
        if self.clock.is_frozen() {
            return u64::MAX;
        }
        let fronts = self.crews.iter().flat_map(|crew| crew.crew().fronts());
        fronts.map(Front::next_global_ns).min().unwrap_or(u64::MAX)
    }
}

/// Whether what waits at the lane waits for the end of a poll or a call, or for the lane to get its CPU.
fn is_due<M: Machine>(front: &Front<M>) -> bool {
    match front.state() {
        LaneState::Running => true,
        LaneState::Watching => front.is_serving(),
        LaneState::Parked => is_told(front),
    }
}

/// Whether the lane sleeps, and was told to wake up.
fn is_told<M: Machine>(front: &Front<M>) -> bool {
    matches!(
        front.bell().look(),
        Look::Notified | Look::NotifiedFromBelow
    )
}

impl<M: Machine> Watched<M> {
    fn new(front: FrontRef<M>) -> Self {
        let lanes = front.crew().fronts().len();
        Watched {
            front,
            seen: Seen::new(lanes),
            notes: (0..lanes).map(|_| Cell::default()).collect(),
            searchers: Searchers::new(lanes),
            searchers_ns: Cell::new(0),
        }
    }

    fn crew(&self) -> &Crew<M> {
        self.front.crew()
    }

    /// Two looks that a sleep parts say nothing of what was between them.
    fn forget(&self) {
        self.searchers.forget();
        (0..self.notes.len()).for_each(|lane| self.change(lane, |note| note.seen = None));
    }

    fn change<R>(&self, lane: usize, change: impl FnOnce(&mut Note) -> R) -> R {
        let mut note = self.notes[lane].get();
        let result = change(&mut note);
        self.notes[lane].set(note);
        result
    }

    fn look(&self, dog: &Watchdog<M>, now_ns: u64, has_timers: bool) -> Found {
        self.crew().work().look(&self.seen);
        self.revoke(dog, now_ns);
        let fronts = self.crew().fronts().iter();
        let found = fronts.map(|front| self.look_at(dog, front, now_ns, has_timers));
        found.max().unwrap_or(Found::Nothing)
    }

    /// What waits behind the poll of a lane.
    fn behind(&self, front: &Front<M>, now_ns: u64, has_timers: bool) -> Behind {
        if self.seen.holds(front.lane()) && front.has_work() {
            return Behind::Now;
        }
        let due_ns = front.next_global_ns();
        if !has_timers || due_ns > now_ns.saturating_add(2 * LOOK_NS) {
            Behind::Nothing
        } else if due_ns.saturating_add(OVERDUE_NS) <= now_ns {
            Behind::Now
        } else {
            Behind::Soon
        }
    }

    fn look_at(&self, dog: &Watchdog<M>, front: &Front<M>, now_ns: u64, has_timers: bool) -> Found {
        let (lane, stuck) = (front.lane(), self.crew().stuck());
        let behind = self.behind(front, now_ns, has_timers);
        if behind == Behind::Nothing || !is_due(front) {
            self.change(lane, |note| note.seen = None);
            self.clear(lane);
            return Found::Nothing;
        }
        if self.change(lane, |note| note.judge(front.pulse(), now_ns)) == Verdict::Goes {
            self.clear(lane);
            return Found::Behind;
        }
        if !self.change(lane, |note| std::mem::replace(&mut note.is_stuck, true)) {
            dog.tally.stuck.add_owned(1);
            stuck.mark(lane);
        }
        if behind == Behind::Soon {
            return Found::Behind;
        }
        stuck.ask(lane);
        if self.tell_helper(lane) {
            dog.tally.asks.add_owned(1);
            Found::Asked
        } else {
            dog.tally.unheard.add_owned(1);
            Found::Alone
        }
    }

    fn clear(&self, lane: usize) {
        if self.change(lane, |note| std::mem::take(&mut note.is_stuck)) {
            self.crew().stuck().clear(lane);
        }
    }

    /// Asks one lane for a pass, in which it looks at the stuck set. Whether there is one.
    fn tell_helper(&self, stuck: usize) -> bool {
        let crew = self.crew();
        if let Some(lane) = idle_lane(crew, stuck) {
            crew.fronts()[lane].request_pass();
            return true;
        }
        let goes = crew.others(stuck).find(|other| {
            let pulse = other.pulse();
            let moved = self.change(other.lane(), |note| {
                let before = std::mem::replace(&mut note.pulse_as_helper, pulse);
                before != pulse && !note.is_stuck
            });
            moved && other.state() == LaneState::Running
        });
        if let Some(other) = goes {
            other.request_pass();
            return true;
        }
        // A lane that searches finds it, and one that was told before looks at the set as soon as it runs.
        let wakes_up = |other: &Front<M>| other.state() == LaneState::Parked && is_told(other);
        crew.idle().anyone_searches() || crew.others(stuck).any(wakes_up)
    }

    /// Ends the searches of lanes that were counted as searching at the last look too: they seem to get no CPU, and
    /// those who rely on them have woken nobody.
    fn revoke(&self, dog: &Watchdog<M>, now_ns: u64) {
        if now_ns.saturating_sub(self.searchers_ns.get()) < LOOK_NS {
            return;
        }
        self.searchers_ns.set(now_ns);
        let crew = self.front.crew();
        if crew.idle().lapse_since(&self.searchers, NO_LANE) == Searching::Others {
            return;
        }
        dog.tally.revoked.add_owned(1);
        // Behind the count: either they see that nobody searches, or this sees their work.
        M::fence_announce();
        crew.work().look(&self.seen);
        let mut fronts = crew.fronts().iter();
        if fronts.any(|front| self.seen.holds(front.lane()) && front.has_work())
            && let Some(lane) = idle_lane(crew, self.front.lane())
        {
            crew.fronts()[lane].request_pass();
        }
    }

    /// Whether a lane that may be inside a poll has tasks that others can take.
    fn has_work_behind(&self) -> bool {
        let crew = self.crew();
        crew.work().look(&self.seen);
        let mut fronts = crew.fronts().iter();
        fronts.any(|front| self.seen.holds(front.lane()) && front.has_work() && is_due(front))
    }
}

/// An idle lane that was not told before: the nearest in the set's order, one whose CPU no higher class has if there is one.
fn idle_lane<M: Machine>(crew: &Crew<M>, near: usize) -> Option<usize> {
    crew.idle().find(near, |lane| {
        if is_told(&crew.fronts()[lane]) {
            Cost::Never
        } else {
            crew.cost(lane)
        }
    })
}
