//! The consumers of posts, each on one CPU, and how to post to them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::mpsc;
use std::thread::JoinHandle;

use super::super::common::tokio_error;
use super::counts::Counts;
use crate::error::LabError;
use crate::measure::{Pin, spawn_pinned};

const THREAD: &str = "flood-consumer";
/// The only core of the runtimes.
const CORE: usize = 0;

/// The consumer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// A producer's way to post.
pub(super) trait Poster: Send + 'static {
    /// Posts one piece of work without waiting.
    fn post(&mut self) -> Result<(), Gone>;
}

/// A consumer of posts.
pub(super) trait Target: Sized + fmt::Debug + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What is posted.
    const WHAT: &'static str;
    /// A producer's way to post.
    type Poster: Poster;

    /// Starts it on a CPU.
    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError>;

    /// The way of a producer to post.
    fn poster(&self, producer: usize) -> Self::Poster;

    /// Ends it, after all producers have ended.
    fn stop(self) -> Result<(), LabError>;
}

/// What a producer has of a runtime.
#[derive(Debug)]
pub(super) struct Way<H> {
    to: H,
    counts: &'static Counts,
    producer: usize,
}

/// A way to give work to a core of doorbell without waiting.
pub(super) trait Form: fmt::Debug + Send + 'static {
    /// What is posted.
    const WHAT: &'static str;

    /// Posts one piece of work.
    fn post(way: &Way<doorbell::Handle>) -> Result<(), Gone>;
}

/// A closure without a result, in a parcel that its worker gives back for reuse.
#[derive(Debug)]
pub(super) struct Posts;

impl Form for Posts {
    const WHAT: &'static str = "post_on";

    #[inline]
    fn post(way: &Way<doorbell::Handle>) -> Result<(), Gone> {
        let (counts, producer) = (way.counts, way.producer);
        let posted = way.to.post_on(CORE, move || counts.one_done(producer));
        posted.map_err(|_| Gone)
    }
}

/// A call whose result is not awaited.
#[derive(Debug)]
pub(super) struct Calls;

impl Form for Calls {
    const WHAT: &'static str = "call_on, detached";

    #[inline]
    fn post(way: &Way<doorbell::Handle>) -> Result<(), Gone> {
        let (counts, producer) = (way.counts, way.producer);
        let call = way.to.call_on(CORE, move || counts.one_done(producer));
        call.detach();
        Ok(())
    }
}

/// A task pinned to the core.
#[derive(Debug)]
pub(super) struct Tasks;

impl Form for Tasks {
    const WHAT: &'static str = "task().on(core).spawn";

    #[inline]
    fn post(way: &Way<doorbell::Handle>) -> Result<(), Gone> {
        let (counts, producer) = (way.counts, way.producer);
        let task = way.to.task().on(CORE);
        drop(task.spawn(async move { counts.one_done(producer) }));
        Ok(())
    }
}

/// A worker of doorbell.
#[derive(Debug)]
pub(super) struct Doorbell<F> {
    runtime: doorbell::Runtime,
    counts: &'static Counts,
    form: PhantomData<F>,
}

/// A producer of [`Doorbell`].
#[derive(Debug)]
pub(super) struct DoorbellPoster<F> {
    way: Way<doorbell::Handle>,
    form: PhantomData<F>,
}

impl<F: Form> Poster for DoorbellPoster<F> {
    #[inline]
    fn post(&mut self) -> Result<(), Gone> {
        F::post(&self.way)
    }
}

impl<F: Form> Target for Doorbell<F> {
    const NAME: &'static str = "doorbell";
    const WHAT: &'static str = F::WHAT;
    type Poster = DoorbellPoster<F>;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let builder = doorbell::Builder::new().core_list([cpu]).name("lab");
        Ok(Self {
            runtime: builder.build()?,
            counts,
            form: PhantomData,
        })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        DoorbellPoster {
            way: Way {
                to: self.runtime.handle().clone(),
                counts: self.counts,
                producer,
            },
            form: PhantomData,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        drop(self);
        Ok(())
    }
}

/// A tokio runtime with one worker, bound to the CPU.
fn one_worker(cpu: usize) -> Result<tokio::runtime::Runtime, LabError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // The process may use the CPU, so pinning works. The former mask is not restored.
        .on_thread_start(move || std::mem::forget(Pin::to(cpu)))
        .enable_all()
        .build()
        .map_err(tokio_error)
}

/// tokio's tasks, on its only worker.
#[derive(Debug)]
pub(super) struct TokioTasks {
    runtime: tokio::runtime::Runtime,
    counts: &'static Counts,
}

impl Poster for Way<tokio::runtime::Handle> {
    #[inline]
    fn post(&mut self) -> Result<(), Gone> {
        let (counts, producer) = (self.counts, self.producer);
        drop(self.to.spawn(async move { counts.one_done(producer) }));
        Ok(())
    }
}

impl Target for TokioTasks {
    const NAME: &'static str = "tokio";
    const WHAT: &'static str = "spawn";
    type Poster = Way<tokio::runtime::Handle>;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let runtime = one_worker(cpu)?;
        Ok(Self { runtime, counts })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        Way {
            to: self.runtime.handle().clone(),
            counts: self.counts,
            producer,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        drop(self);
        Ok(())
    }
}

/// The sender of an unbounded channel. A message is its producer's number.
pub(super) trait Sends: Clone + fmt::Debug + Send + 'static {
    /// Sends one.
    fn send_one(&self, producer: usize) -> Result<(), Gone>;
}

impl Sends for tokio::sync::mpsc::UnboundedSender<usize> {
    #[inline]
    fn send_one(&self, producer: usize) -> Result<(), Gone> {
        self.send(producer).map_err(|_| Gone)
    }
}

impl Sends for mpsc::Sender<usize> {
    #[inline]
    fn send_one(&self, producer: usize) -> Result<(), Gone> {
        self.send(producer).map_err(|_| Gone)
    }
}

impl Sends for crossbeam_channel::Sender<usize> {
    #[inline]
    fn send_one(&self, producer: usize) -> Result<(), Gone> {
        self.send(producer).map_err(|_| Gone)
    }
}

/// A producer's end of a channel.
#[derive(Debug)]
pub(super) struct Sending<S> {
    to: S,
    producer: usize,
}

impl<S: Sends> Poster for Sending<S> {
    #[inline]
    fn post(&mut self) -> Result<(), Gone> {
        self.to.send_one(self.producer)
    }
}

/// tokio's channel, emptied by a task.
#[derive(Debug)]
pub(super) struct TokioChannel {
    runtime: tokio::runtime::Runtime,
    sender: tokio::sync::mpsc::UnboundedSender<usize>,
}

impl Target for TokioChannel {
    const NAME: &'static str = "tokio";
    const WHAT: &'static str = "mpsc to a task";
    type Poster = Sending<tokio::sync::mpsc::UnboundedSender<usize>>;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let runtime = one_worker(cpu)?;
        let (sender, mut posts) = tokio::sync::mpsc::unbounded_channel();
        drop(runtime.spawn(async move {
            while let Some(producer) = posts.recv().await {
                counts.one_done(producer);
            }
        }));
        Ok(Self { runtime, sender })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        Sending {
            to: self.sender.clone(),
            producer,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        drop(self.runtime);
        Ok(())
    }
}

/// A channel that a thread can empty.
pub(super) trait Channel: Sends {
    /// Its name.
    const NAME: &'static str;
    /// What is posted.
    const WHAT: &'static str;

    /// Opens it. The receiver's iteration ends when there is no sender left.
    fn open() -> (Self, impl IntoIterator<Item = usize> + Send + 'static);
}

impl Channel for mpsc::Sender<usize> {
    const NAME: &'static str = "std";
    const WHAT: &'static str = "mpsc to a thread";

    fn open() -> (Self, impl IntoIterator<Item = usize> + Send + 'static) {
        mpsc::channel()
    }
}

impl Channel for crossbeam_channel::Sender<usize> {
    const NAME: &'static str = "crossbeam";
    const WHAT: &'static str = "unbounded to a thread";

    fn open() -> (Self, impl IntoIterator<Item = usize> + Send + 'static) {
        crossbeam_channel::unbounded()
    }
}

/// A channel that a thread empties.
#[derive(Debug)]
pub(super) struct Emptied<S> {
    sender: S,
    thread: JoinHandle<()>,
}

impl<S: Channel> Target for Emptied<S> {
    const NAME: &'static str = S::NAME;
    const WHAT: &'static str = S::WHAT;
    type Poster = Sending<S>;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let (sender, posts) = S::open();
        let thread = spawn_pinned(THREAD, cpu, move || {
            for producer in posts {
                counts.one_done(producer);
            }
        })?;
        Ok(Self { sender, thread })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        Sending {
            to: self.sender.clone(),
            producer,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        // The thread ends when there is no sender left.
        drop(self.sender);
        let joined = self.thread.join();
        joined.map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}
