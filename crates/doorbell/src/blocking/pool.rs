//! The pool: a queue of closures and the threads that run them.

use super::ages::Ages;
use super::apart::Apart;
use super::count::{Count, Counts, Submit};
use super::retry::try_later;
use super::starter::Starter;
use crate::ClassKind;
use crate::ambient;
use crate::handle::Handle;
use async_lock::OnceCell;
use async_task::Runnable;
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use doorbell_core::scheduler::telemetry::StallReporter;
use doorbell_core::wheel::{Clock, Hold};
use doorbell_machine::{Counter, Machine, Ordering, ThreadError, ThreadHandle, ThreadSpec, Word};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a pool.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPlan {
    pub(crate) threads_max: usize,
    pub(crate) keep_alive: Duration,
    /// The stack size of each thread, in bytes; `None` for the machine's default.
    pub(crate) stack_size: Option<usize>,
    /// The CPUs that the threads may use. Empty if no worker is bound: then the threads keep the CPUs of
    /// their starter.
    pub(crate) cpus: Vec<usize>,
}

impl Default for BlockingPlan {
    fn default() -> Self {
        BlockingPlan {
            threads_max: 512,
            keep_alive: Duration::from_secs(10),
            stack_size: None,
            cpus: Vec::new(),
        }
    }
}

/// The threads for [`spawn_blocking`](crate::spawn_blocking()) and their queue, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// Number of closures that no thread has begun.
    pub queued: usize,
    /// How long the oldest of these has waited; `None` if none waits. If more than 1,024 wait, it has waited at
    /// least this long. If it grows while all threads are busy, closures may wait for each other.
    pub oldest_queued: Option<Duration>,
    /// Number of threads that exist or are being started.
    pub threads: usize,
    /// Number of these threads that run no closure.
    pub idle: usize,
    /// Number of threads that were started so far.
    pub started: u64,
}

/// A pool without its machine.
pub(crate) trait Blocking {
    /// Hands a closure to a thread, which runs it inside the runtime of `handle`. If the pool is closed, the
    /// closure is dropped.
    ///
    /// # Errors
    /// If there is no thread and none could be started. All closures in the queue have then been dropped,
    /// except those that a thread started by another caller has taken meanwhile.
    fn submit(&self, handle: &Handle, job: Runnable) -> Result<(), ThreadError>;

    /// The counts now.
    fn metrics(&self) -> BlockingMetrics;
}

/// Sent by a thread that is about to end: a channel with its handle, which is empty if the thread was not
/// started.
type Ended<M> = Receiver<<M as Machine>::Thread>;

pub(crate) struct Pool<M: Machine> {
    count: Count<M>,
    /// Number of threads that were counted and have not been joined. Each sends to `ended` once.
    unjoined: M::U64,
    plan: BlockingPlan,
    name: String,
    /// Number of thread names given so far.
    named: M::Counter,
    pub(super) started: M::Counter,
    ages: Ages<M>,
    /// 1 while a task starts threads that were refused.
    pub(super) retrying: M::U32,
    queue: (Sender<Job<M>>, Receiver<Job<M>>),
    clock: Arc<Clock<M>>,
    /// Disconnected when the pool is closed, which wakes all idle threads.
    stop: Receiver<Infallible>,
    ended: (Sender<Ended<M>>, Receiver<Ended<M>>),
    /// The threads that run one closure each, where those of the pool cannot be.
    pub(super) apart: Apart<M>,
    /// Starts threads for Batch workers; set before the Batch workers are started.
    starter: OnceCell<Starter<M>>,
    /// Who reports closures that wait for long; set, if at all, before the first closure.
    stalls: OnceCell<Arc<StallReporter<M>>>,
}

/// Keeps a pool open. The owner closes the pool by [`Pool::close`].
#[derive(Debug)]
pub(crate) struct Open {
    _stop: Sender<Infallible>,
}

impl<M: Machine> std::fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("count", &self.count.get())
            .finish_non_exhaustive()
    }
}

/// A closure in the queue, or under way.
struct Job<M: Machine> {
    runnable: Runnable,
    /// Holds a paused clock until the closure has ended and has woken the task that awaits it.
    _hold: Option<Hold<M>>,
}

/// What an idle thread does next.
enum Next<M: Machine> {
    Job(Job<M>),
    Look,
    Stop,
}

impl<M: Machine> Pool<M> {
    pub(crate) fn new(plan: BlockingPlan, name: &str, clock: &Arc<Clock<M>>) -> (Arc<Self>, Open) {
        let (keeps_open, stop) = bounded(0);
        let pool = Pool {
            count: Count::new(),
            unjoined: M::U64::new(0),
            plan,
            name: format!("{name}-blk"),
            named: M::Counter::default(),
            started: M::Counter::default(),
            ages: Ages::new(),
            retrying: M::U32::new(0),
            queue: unbounded(),
            clock: Arc::clone(clock),
            stop,
            ended: unbounded(),
            apart: Apart::default(),
            starter: OnceCell::new(),
            stalls: OnceCell::new(),
        };
        (Arc::new(pool), Open { _stop: keeps_open })
    }

    /// Starts the thread that starts others for Batch workers. Called before there are Batch workers. The
    /// thread ends when the pool is closed. `None` if it has been started before.
    pub(crate) fn prepare_for_batch(&self) -> Result<Option<M::Thread>, ThreadError> {
        if !M::OS_THREADS || self.starter.is_initialized() {
            return Ok(None);
        }
        let name = format!("{}-start", self.name);
        let (starter, thread) = Starter::start(name, self.stop.clone())?;
        // Callers exclude each other.
        let _ = self.starter.set_blocking(starter);
        Ok(Some(thread))
    }

    /// Has this reporter look at the queue. Called once, before there are closures.
    pub(crate) fn tell_of_queued(&self, stalls: &Arc<StallReporter<M>>) {
        let _ = self.stalls.set_blocking(Arc::clone(stalls));
    }

    /// How long the oldest queued closure has waited; `None` if none waits.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        let is_queued = self.count.get().queued > 0;
        is_queued.then(|| self.ages.oldest_ns(M::now_ns()))
    }

    /// Starts a thread, under another policy than that of Batch workers.
    fn spawn(
        &self,
        spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<M::Thread, ThreadError> {
        let of_batch = || ambient::with_worker(|worker| worker.map(ambient::Frame::kind));
        match self.starter.get() {
            Some(starter) if of_batch() == Some(ClassKind::Batch) => starter.spawn(spec, body),
            _ => M::spawn(spec, body),
        }
    }

    /// Closes the pool: drops the closures that no thread has begun. Each thread ends after the closure that
    /// it runs.
    pub(crate) fn close(&self, open: Open) {
        self.count.close();
        drop(open);
        self.drop_queued();
    }

    /// Waits until all threads of a closed pool have ended.
    pub(crate) fn join(&self) {
        self.apart.join();
        // A thread of the pool that receives a message sends one itself later. So the last message is never
        // received by such a thread, and this loop does not wait in vain.
        while self.has_threads() {
            match self.ended.1.recv() {
                Ok(ended) => self.reap(&ended),
                Err(_) => return,
            }
        }
    }

    /// Whether it takes no closure any more.
    pub(super) fn is_closed(&self) -> bool {
        self.count.get().closed
    }

    /// The name of the next thread.
    pub(super) fn next_name(&self) -> String {
        let number = self.named.add_shared(1);
        format!("{}{number}", self.name)
    }

    /// Holds a paused clock, for a closure.
    pub(super) fn hold(&self) -> Option<Hold<M>> {
        self.clock.hold()
    }

    fn has_threads(&self) -> bool {
        // ORDER: Acquire in both, in this order; pairs with the changes of the count and the Release of
        // `reap`. A thread is counted in `unjoined` before it is started, so before it leaves the count.
        self.count.get().threads > 0 || self.unjoined.load(Ordering::Acquire) > 0
    }

    fn drop_queued(&self) {
        while let Ok(job) = self.queue.1.try_recv() {
            self.ages.note_left();
            self.count.dropped();
            drop(job);
        }
    }

    /// Whether a queued closure waits for a thread that may be started.
    pub(super) fn lacks_thread(&self) -> bool {
        self.count.lacks_thread(self.plan.threads_max)
    }

    /// Starts the threads that queued closures wait for, until the OS refuses one.
    pub(super) fn start_lacking(self: &Arc<Self>, handle: &Handle) {
        while self.count.claim_thread(self.plan.threads_max) {
            if self.start_thread(handle).is_err() {
                return;
            }
        }
    }

    /// Queues a closure that was counted, and then starts the thread that it needs.
    fn hand_over(
        &self,
        runnable: Runnable,
        start: impl FnOnce() -> Result<(), ThreadError>,
    ) -> Result<(), ThreadError> {
        // Queued before the thread is started: if that fails, the caller that sees that no thread is left
        // drops all that waits. The send cannot fail, because the pool holds a receiver.
        self.ages.note_sent(M::now_ns());
        let _ = self.queue.0.send(Job {
            runnable,
            _hold: self.hold(),
        });
        let started = start();
        let stranded = started.is_err() && self.count.get().threads == 0;
        if stranded || self.count.is_closed_after_send() {
            self.drop_queued();
        }
        if stranded { started } else { Ok(()) }
    }

    /// Lets the calling thread, which began on the CPUs of its starter, use all CPUs of the mask. The starter may be a
    /// worker, bound to the CPU of its core.
    pub(crate) fn leave_core(&self) {
        if !self.plan.cpus.is_empty() {
            // If the OS refuses, because the mask has become smaller, the thread stays there.
            let _ = M::bind_thread(&self.plan.cpus);
        }
    }

    /// Starts the thread that was counted. If that fails, the thread leaves the count.
    fn start_thread(self: &Arc<Self>, handle: &Handle) -> Result<(), ThreadError> {
        let spec = ThreadSpec {
            name: self.next_name(),
            cpu: None,
            stack_size: self.plan.stack_size,
        };
        let (thread_tx, thread_rx) = bounded(1);
        // ORDER: Relaxed; the thread's change of the count, when it leaves, publishes it.
        self.unjoined.fetch_add(1, Ordering::Relaxed);
        let mut leaving = Leaving {
            pool: Arc::clone(self),
            counted: true,
            thread: Some(thread_rx),
        };
        let handle = handle.clone();
        let body = move || {
            leaving.pool.leave_core();
            let entered = ambient::enter_blocking(handle.clone());
            let work = &mut || leaving.pool.work(&handle);
            handle.inner().around_blocking(work);
            leaving.counted = false;
            drop((entered, handle));
            drop(leaving);
        };
        let thread = self.spawn(spec, Box::new(body))?;
        self.started.add_shared(1);
        // There is room, and the receiver lives until it has been passed on.
        let _ = thread_tx.try_send(thread);
        Ok(())
    }

    /// What a thread does until it ends.
    fn work(self: &Arc<Self>, handle: &Handle) {
        loop {
            match self.next() {
                Next::Job(job) => {
                    self.ages.note_left();
                    if self.count.take() {
                        // The job catches the closure's panic.
                        job.runnable.run();
                    } else {
                        drop(job);
                    }
                    self.count.rest();
                    self.start_lacking(handle);
                }
                Next::Look => {
                    if self.count.try_leave() {
                        return;
                    }
                }
                Next::Stop => {
                    self.drop_queued();
                    self.count.leave();
                    return;
                }
            }
        }
    }

    fn next(&self) -> Next<M> {
        select! {
            recv(self.queue.1) -> job => job.map_or(Next::Stop, Next::Job),
            recv(self.stop) -> _ => Next::Stop,
            default(self.plan.keep_alive) => Next::Look,
        }
    }

    fn reap(&self, ended: &Ended<M>) {
        // The starter of the thread sends the handle right after the start, or drops the sender if the start
        // failed.
        if let Ok(thread) = ended.recv() {
            let _ = thread.join();
        }
        // ORDER: Release pairs with the Acquire of `has_threads`.
        self.unjoined.fetch_sub(1, Ordering::Release);
    }
}

/// Dropped when a thread is about to end, or was not started: takes it off the count and reports its end.
struct Leaving<M: Machine> {
    pool: Arc<Pool<M>>,
    /// Whether the thread is still in the count.
    counted: bool,
    thread: Option<Ended<M>>,
}

impl<M: Machine> Drop for Leaving<M> {
    fn drop(&mut self) {
        if self.counted {
            self.pool.count.leave();
        }
        // First join the threads that ended before, so that few are ever left.
        while let Ok(ended) = self.pool.ended.1.try_recv() {
            self.pool.reap(&ended);
        }
        if let Some(thread) = self.thread.take() {
            // The pool holds a receiver.
            let _ = self.pool.ended.0.send(thread);
        }
    }
}

impl<M: Machine> Blocking for Arc<Pool<M>> {
    fn submit(&self, handle: &Handle, job: Runnable) -> Result<(), ThreadError> {
        if !M::OS_THREADS {
            return self.run_apart(handle, job);
        }
        let counted = self.count.submit(self.plan.threads_max);
        if let Some(stalls) = self.stalls.get() {
            stalls.note_queued();
        }
        match counted {
            Submit::Closed => Ok(()),
            Submit::Queued => self.hand_over(job, || Ok(())),
            Submit::StartThread => {
                let handed = self.hand_over(job, || self.start_thread(handle));
                if handed.is_ok() && self.lacks_thread() {
                    try_later(self, handle);
                }
                handed
            }
        }
    }

    fn metrics(&self) -> BlockingMetrics {
        let now = self.count.get();
        let oldest_queued = self.oldest_ns().map(Duration::from_nanos);
        let Counts {
            queued,
            idle,
            threads,
            ..
        } = now;
        BlockingMetrics {
            oldest_queued,
            queued: queued as usize,
            threads: threads as usize,
            idle: idle as usize,
            started: self.started.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocking, BlockingMetrics, BlockingPlan, Job, Leaving, Pool};
    use crate::blocking::count::Submit;
    use crossbeam_channel::bounded;
    use doorbell_machine::{Host, Machine, Ordering, ThreadError, ThreadHandle, ThreadSpec};
    use std::sync::Arc;

    fn job(output: u32) -> (async_task::Runnable, async_task::FallibleTask<u32>) {
        let (job, task) = async_task::spawn(async move { output }, drop);
        (job, task.fallible())
    }

    /// A counted thread that the test plays. It has no handle.
    fn thread(pool: &Arc<Pool<Host>>) -> Leaving<Host> {
        // ORDER: Relaxed; the same thread leaves the count.
        pool.unjoined.fetch_add(1, Ordering::Relaxed);
        let (_, thread) = bounded(1);
        Leaving {
            pool: Arc::clone(pool),
            counted: true,
            thread: Some(thread),
        }
    }

    /// The runtime shuts down while a thread has received a closure and has not counted itself yet.
    #[test]
    fn d5_closed_between_the_wake_of_a_thread_and_its_count() {
        let (pool, open) = Pool::<Host>::new(BlockingPlan::default(), "test", &Arc::default());
        // This test is the thread.
        assert_eq!(pool.count.submit(1), Submit::StartThread);
        let leaving = thread(&pool);
        let (received, task) = job(1);
        assert_eq!(pool.count.submit(1), Submit::Queued);
        let (queued, queued_task) = job(2);
        let queued = Job {
            runnable: queued,
            _hold: None,
        };
        pool.queue.0.send(queued).unwrap();

        // The closer drops what is queued and waits for the thread.
        let closer = Arc::clone(&pool);
        let spec = ThreadSpec {
            name: "closer".to_owned(),
            cpu: None,
            stack_size: None,
        };
        let (closed_tx, closed_rx) = bounded(1);
        let closer = Host::spawn(
            spec,
            Box::new(move || {
                closer.close(open);
                closed_tx.send(()).unwrap();
                closer.join();
            }),
        );
        closed_rx.recv().unwrap();
        assert!(queued_task.is_finished(), "dropped, not run");
        assert!(!pool.count.take(), "too late to begin it");
        drop(received);
        pool.count.rest();
        drop(leaving);
        closer.unwrap().join().unwrap();
        assert!(task.is_finished());
        assert_eq!(pool.metrics(), BlockingMetrics::default());
    }

    /// The pool is closed while a caller has counted a closure and has not sent it yet.
    #[test]
    fn d5_closed_between_the_count_of_a_closure_and_its_send() {
        let (pool, open) = Pool::<Host>::new(BlockingPlan::default(), "test", &Arc::default());
        assert_eq!(pool.count.submit(1), Submit::StartThread);
        let leaving = thread(&pool);
        let (late, task) = job(1);
        pool.close(open);
        // The thread is gone before the closure comes.
        drop(leaving);
        pool.hand_over(late, || Ok(())).unwrap();
        assert!(task.is_finished(), "dropped by who sent it");
        pool.join();
        assert_eq!(pool.metrics(), BlockingMetrics::default());
    }

    /// The OS refuses the first thread while another closure relies on it.
    #[test]
    fn what_waits_for_a_thread_that_was_not_started_is_dropped() {
        let refuse = || {
            Err(ThreadError::Spawn {
                name: "test-blk0".to_owned(),
                source: std::io::ErrorKind::WouldBlock.into(),
            })
        };
        let (pool, open) = Pool::<Host>::new(BlockingPlan::default(), "test", &Arc::default());
        let ((first, first_task), (second, second_task)) = (job(1), job(2));
        assert_eq!(pool.count.submit(1), Submit::StartThread);
        let leaving = thread(&pool);
        assert_eq!(pool.count.submit(1), Submit::Queued);
        pool.hand_over(second, || Ok(())).unwrap();
        let refused = pool.hand_over(first, || {
            drop(leaving);
            refuse()
        });
        assert!(refused.unwrap_err().to_string().contains("ulimit -u"));
        assert!(first_task.is_finished() && second_task.is_finished());
        assert_eq!(pool.metrics(), BlockingMetrics::default());

        // While there is another thread, the closure waits for that.
        assert_eq!(pool.count.submit(2), Submit::StartThread);
        let other = thread(&pool);
        let (third, third_task) = job(3);
        assert_eq!(pool.count.submit(2), Submit::StartThread);
        let leaving = thread(&pool);
        let handed = pool.hand_over(third, || {
            drop(leaving);
            refuse()
        });
        handed.unwrap();
        assert!(!third_task.is_finished());
        pool.close(open);
        pool.count.dropped();
        drop(other);
        pool.join();
        assert!(third_task.is_finished());
        assert_eq!(pool.metrics(), BlockingMetrics::default());
    }
}
