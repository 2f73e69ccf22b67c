//! Two workers have timers; then one of them goes to sleep.

use std::hint;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use super::super::contestant::Stage;
use super::super::timers::{
    Host, Job, Lateness, Meeting, Random, Ticks as _, Timers, WORKERS, gather, let_others_run, tell,
};
use super::super::trial::{Outcome, Trial};
use super::TIMERS;
use crate::error::LabError;

/// From the begin of a pass to the first moment at which a timer can be due.
const BEGINS_IN: Duration = Duration::from_millis(20);
/// For how long the awake worker goes on after the last one.
const TAIL: Duration = Duration::from_millis(2);
/// How long each of its polls computes.
const POLL: Duration = Duration::from_micros(2);
/// How many timers are armed in one poll.
const ARMED_AT_ONCE: usize = 20;
/// Makes the deadlines the same in every run and for every contestant.
const SEED: u64 = 0x0D00_4BE3;
/// A timer is the first tick of an interval, which ends before the second one.
const NEVER: Duration = Duration::from_hours(1);

/// Who waits for the timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// No task: their wakers note how late they are.
    Alone,
    /// Each has a task of its own.
    Tasks,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Alone => "timers alone",
            Form::Tasks => "a task each",
        }
    }
}

/// One runtime.
#[derive(Debug)]
pub(super) struct Sleepers<T: Timers> {
    stage: Stage,
    timers: T,
    name: &'static str,
    form: Form,
    settles: Duration,
    is_baseline: bool,
    host: Option<T::Host>,
}

impl<T: Timers> Sleepers<T> {
    pub(super) fn new(stage: Stage, timers: T, form: Form, settles: Duration) -> Self {
        Self {
            stage,
            timers,
            name: T::NAME,
            form,
            settles,
            is_baseline: false,
            host: None,
        }
    }

    /// Gives it that name.
    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Makes it the baseline of its form.
    pub(super) fn baseline(self) -> Self {
        Self {
            is_baseline: true,
            ..self
        }
    }

    /// Runs jobs for the two workers, and waits until each has ended.
    fn both<R: Send + 'static>(
        &self,
        host: &T::Host,
        job: impl Fn(usize, Arc<Meeting>) -> Pin<Box<dyn Future<Output = R> + Send>>,
    ) -> Result<Vec<R>, LabError> {
        let meeting = Arc::new(Meeting::of(WORKERS as u32));
        let (done, results) = mpsc::channel();
        for core in 0..WORKERS {
            let job = job(core, Arc::clone(&meeting));
            let job: Job = Box::pin(tell(done.clone(), job));
            self.timers.run(host, core, vec![job])?;
        }
        gather(&results, WORKERS)
    }

    /// No task waits for the timers.
    fn run_alone(&self, host: &T::Host, due: &[Instant]) -> Result<Vec<Fired>, LabError> {
        let (fired, notes) = mpsc::channel();
        let end = end_of(due);
        let kept = self.both(host, |core, meeting| {
            let (timers, fired) = (self.timers.clone(), fired.clone());
            let own: Vec<_> = due.iter().skip(core).step_by(WORKERS).copied().collect();
            Box::pin(async move {
                meeting.arrive().await;
                let mut armed = Vec::new();
                for some in own.chunks(ARMED_AT_ONCE) {
                    // A long poll would make doorbell's scheduler watchful.
                    let_others_run().await;
                    armed.extend(T::unbudgeted(async { arm(&timers, some, &fired) }).await);
                }
                if core == 0 {
                    stay_awake(end).await;
                }
                armed
            })
        })?;
        let fired = gather(&notes, due.len());
        drop(kept);
        fired
    }

    /// Each timer has a task.
    fn run_tasks(&self, host: &T::Host, due: &[Instant]) -> Result<Vec<Fired>, LabError> {
        let (done, results) = mpsc::channel();
        for (index, &due) in due.iter().enumerate() {
            let timers = self.timers.clone();
            let sleep = async move {
                timers.ticks(due, NEVER).tick().await;
                Fired {
                    due,
                    now: Instant::now(),
                }
            };
            let job: Job = Box::pin(tell(done.clone(), sleep));
            self.timers.run(host, index % WORKERS, vec![job])?;
        }
        let (ended, end) = mpsc::channel();
        let awake: Job = Box::pin(tell(ended, stay_awake(end_of(due))));
        self.timers.run(host, 0, vec![awake])?;
        // This thread gathers the results after the end, so that it is not woken for each.
        let _ = gather(&end, 1)?;
        gather(&results, due.len())
    }
}

impl<T: Timers> Trial for Sleepers<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        self.form.name()
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn group(&self) -> &'static str {
        self.form.name()
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let host = T::Host::start(self.stage.placement)?;
        self.timers.prepare(&host);
        self.both(&host, |_, meeting| {
            Box::pin(async move { meeting.arrive().await })
        })?;
        std::thread::sleep(self.settles);
        self.host = Some(host);
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_ref().ok_or(LabError::NotSetUp)?;
        let due = deadlines(
            Instant::now() + BEGINS_IN,
            Duration::from_millis(amount.into()),
        );
        let fired = match self.form {
            Form::Alone => self.run_alone(host, &due),
            Form::Tasks => self.run_tasks(host, &due),
        }?;
        let mut all = Lateness::default();
        for Fired { due, now } in fired {
            all.note(due, now);
        }
        Ok(all.into_outcome())
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

/// A timer that has fired.
#[derive(Debug, Clone, Copy)]
struct Fired {
    due: Instant,
    now: Instant,
}

/// Notes when the timer fires that wakes it.
struct Note {
    due: Instant,
    fired: Sender<Fired>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let now = Instant::now();
        // The receiver is gone only if the waiting thread has panicked or given up.
        let _ = self.fired.send(Fired { due: self.due, now });
    }
}

/// Arms a timer for each deadline, on the worker that calls this. They are pending until the result is dropped.
fn arm<T: Timers>(timers: &T, due: &[Instant], fired: &Sender<Fired>) -> Vec<Job> {
    let arm_one = |&due: &Instant| {
        let mut ticks = timers.ticks(due, NEVER);
        let mut job: Job = Box::pin(async move { ticks.tick().await });
        let fired = fired.clone();
        let waker = Waker::from(Arc::new(Note { due, fired }));
        let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            // It was due already.
            waker.wake();
        }
        job
    };
    due.iter().map(arm_one).collect()
}

/// Computes in short polls until then.
async fn stay_awake(end: Instant) {
    while Instant::now() < end {
        let since = Instant::now();
        while since.elapsed() < POLL {
            hint::spin_loop();
        }
        let_others_run().await;
    }
}

/// When the timers of a pass are due.
fn deadlines(begin: Instant, span: Duration) -> Vec<Instant> {
    let mut random = Random::seeded(SEED);
    let due = |_| begin + span.mul_f64(random.part());
    (0..TIMERS).map(due).collect()
}

fn end_of(due: &[Instant]) -> Instant {
    let last = due.iter().max().copied();
    last.unwrap_or_else(Instant::now) + TAIL
}
