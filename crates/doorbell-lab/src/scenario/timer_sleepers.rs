//! `doorbell lab timer-sleepers`: which sleeping workers wake for their timers.
//!
//! Two workers arm timers; then one sleeps, and the other stays awake in short polls. A wake-up of the sleeper for a
//! timer is one that the awake worker could have spared it.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::frame::{Contestant, Plan, Stage, Work};
use crate::peers::{Doorbell, Host as _, Job, Role, Timers, Tokio, Workers, let_others_run};
use crate::tools::{Crew, Lateness, Meeting, Random, run_all, spin};
use anyhow::Result;

const TIMERS: usize = 1_000;
const SPAN_MS: u32 = 1_000;
/// doorbell looks for long polls that long at first.
const SETTLES: Duration = Duration::from_millis(10_200);
/// Time for all timers to be armed.
const BEGINS_IN: Duration = Duration::from_millis(20);
/// How long after the last deadline the awake worker goes on.
const TAIL: Duration = Duration::from_millis(2);
/// A poll of the worker that is awake.
const POLL: Duration = Duration::from_micros(2);
/// So many timers are armed in one poll.
const ARMED_AT_ONCE: usize = 20;
const SEED: u64 = 0x0D00_4BE3;
/// A period that does not end.
const NEVER: Duration = Duration::from_hours(1);
/// Timers without tasks, or a task for each timer.
const ALONE: &str = "timers alone";
const TASKS: &str = "a task each";

pub(super) const PLAN: Plan = Plan {
    scenario: "timer-sleepers",
    work: |_| Work::of(SPAN_MS, 100, 0),
    contestants: |stage| Ok(contestants(stage, SETTLES)),
    compared: "wakeups_per_op",
    ..Plan::NEW
};

fn contestants(stage: &Stage, settles: Duration) -> Vec<Contestant> {
    let workers = Workers::on(stage.cpus());
    let mut all = Vec::new();
    for form in [ALONE, TASKS] {
        let settings = [
            ("doorbell, off", "timer_pull=off"),
            ("doorbell, on", "timer_pull=on"),
            ("doorbell, base", "timer_pull=base"),
        ];
        let used = if form == ALONE { 3 } else { 2 };
        for (name, pull) in settings.into_iter().take(used) {
            let workers = workers.clone();
            let start = move || {
                let mut peer = Doorbell::switched(&workers, pull)?;
                meet(&mut peer)?;
                std::thread::sleep(settles);
                Ok(peer)
            };
            let one = Contestant::of(form, start, run::<Doorbell>(form)).named(name);
            all.push(one.baseline_if(pull == "timer_pull=off"));
        }
        let workers = workers.clone();
        let start = move || {
            let mut peer = Tokio::start(&workers)?;
            meet(&mut peer).map(|()| peer)
        };
        all.push(Contestant::of(form, start, run::<Tokio>(form)));
    }
    all
}

/// Both workers run something.
fn meet<P: Timers>(peer: &mut P) -> Result<()> {
    both(peer, |_, meeting| async move { meeting.arrive().await }).map(drop)
}

/// Runs a job on each worker.
fn both<P: Timers, F: Future<Output: Send + 'static> + Send + 'static>(
    peer: &mut P,
    job: impl Fn(usize, Arc<Meeting>) -> F,
) -> Result<Vec<F::Output>> {
    let meeting = Arc::new(Meeting::of(2));
    let job = |core| (Role::from(core), job(core, Arc::clone(&meeting)));
    run_all(peer, [0, 1].map(job))
}

fn run<P: Timers>(form: &'static str) -> impl Fn(&mut P, u32) -> Result<crate::frame::Outcome> {
    move |peer, span_ms| {
        let due = deadlines(Duration::from_millis(span_ms.into()));
        let fired = match form {
            ALONE => run_alone(peer, &due),
            _ => run_tasks(peer, &due),
        };
        let mut all = Lateness::default();
        for (due, now) in fired? {
            all.note(due, now);
        }
        Ok(all.into_outcome())
    }
}

fn deadlines(span: Duration) -> Vec<Instant> {
    let (mut random, begin) = (Random::seeded(SEED), Instant::now() + BEGINS_IN);
    let due = |_| begin + span.mul_f64(random.part());
    (0..TIMERS).map(due).collect()
}

fn end_of(due: &[Instant]) -> Instant {
    let last = due.iter().max().copied();
    last.unwrap_or_else(Instant::now) + TAIL
}

/// When a timer was due, and when it fired.
type Fired = (Instant, Instant);

/// The waker of a timer without a task: notes when it fires.
struct Note {
    due: Instant,
    fired: Sender<Fired>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        // The receiver is gone only if the waiting thread has panicked or given up.
        let _ = self.fired.send((self.due, Instant::now()));
    }
}

/// Half of the timers are armed on each worker; no task waits for them.
fn run_alone<P: Timers>(peer: &mut P, due: &[Instant]) -> Result<Vec<Fired>> {
    let (mut notes, end) = (Crew::new(), end_of(due));
    let fired: Vec<_> = due.iter().map(|due| (*due, notes.teller())).collect();
    let kept = both(peer, |core, meeting| {
        let own: Vec<_> = fired.iter().skip(core).step_by(2).cloned().collect();
        async move {
            meeting.arrive().await;
            let mut armed = Vec::new();
            for some in own.chunks(ARMED_AT_ONCE) {
                // A long poll would make doorbell's other worker look after this one.
                let_others_run().await;
                let arm = async { some.iter().map(arm::<P>).collect::<Vec<_>>() };
                armed.extend(P::unbudgeted(arm).await);
            }
            if core == 0 {
                stay_awake(end).await;
            }
            armed
        }
    })?;
    let all = notes.gather();
    drop(kept);
    all
}

/// Arms a timer whose waker notes when it fires.
fn arm<P: Timers>((due, fired): &(Instant, Sender<Fired>)) -> Job {
    let (due, fired) = (*due, fired.clone());
    let mut ticks = P::ticks(due, NEVER, Duration::ZERO);
    let mut job: Job = Box::pin(async move { P::tick(&mut ticks).await });
    let waker = Waker::from(Arc::new(Note { due, fired }));
    let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
    if polled.is_ready() {
        // It was due already.
        waker.wake();
    }
    job
}

/// Each timer has a task.
fn run_tasks<P: Timers>(peer: &mut P, due: &[Instant]) -> Result<Vec<Fired>> {
    let mut crew = Crew::new();
    for (index, &due) in due.iter().enumerate() {
        let sleep = crew.member(async move {
            let mut ticks = P::ticks(due, NEVER, Duration::ZERO);
            P::tick(&mut ticks).await;
            (due, Instant::now())
        });
        peer.spawn_as(Role::from(index % 2), sleep)?;
    }
    // This thread gathers the results after the end, so that it is not woken for each.
    run_all(peer, [(Role::from(0), stay_awake(end_of(due)))])?;
    crew.gather()
}

async fn stay_awake(end: Instant) {
    while Instant::now() < end {
        spin(POLL);
        let_others_run().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, outcome, stage, try_each};
    use crate::scenario::Options;

    #[test]
    fn every_timer_fires_once_and_none_is_early() {
        let Some(stage) = stage(&Options::default()) else {
            return;
        };
        try_each(contestants(&stage, Duration::ZERO), |one, run| {
            let outcome = outcome(one, run, 50);
            assert_eq!(outcome.operations, TIMERS as u64, "{one:?}");
            assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{one:?}");
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["wake-ups/timer", "x off", "CPU %", "p50 us", "p99 us"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
