//! Threads, and the CPUs on which they may run.

use super::os;
use crate::{ThreadError, ThreadHandle, ThreadSpec};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, mpsc};

/// A started Linux thread.
#[derive(Debug)]
pub struct HostThread(std::thread::JoinHandle<()>);

impl ThreadHandle for HostThread {
    fn join(self) -> Result<(), ThreadError> {
        self.0.join().map_err(|payload| {
            // The payload's drop may panic, which must not end the joining thread.
            std::mem::forget(payload);
            ThreadError::Panicked
        })
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn is_current(&self) -> bool {
        self.0.thread().id() == std::thread::current().id()
    }
}

/// As many CPUs as a set of the C library holds.
const CPUS_MAX: usize = 1_024;

/// A set of CPUs, as the kernel takes it: a bit each.
type CpuSet = [usize; CPUS_MAX / WORD];
const WORD: usize = usize::BITS as usize;

/// The CPUs of the calling thread's affinity mask, in ascending order.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let mut set = CpuSet::default();
    // SAFETY: the kernel writes at most a whole set there.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<CpuSet>(), set.as_mut_ptr().cast()) };
    match os::done(got) {
        Ok(()) => (0..CPUS_MAX)
            .filter(|cpu| set[cpu / WORD] >> (cpu % WORD) & 1 != 0)
            .collect(),
        // There are more CPUs than a set holds, or the kernel lacks the call: take as many as std counts.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Starts a thread that is bound before its body runs. Returns an error if it cannot be bound.
pub(super) fn spawn(
    spec: ThreadSpec,
    body: Box<dyn FnOnce() + Send + 'static>,
) -> Result<HostThread, ThreadError> {
    let (bound_tx, bound_rx) = mpsc::channel();
    let ThreadSpec {
        name,
        cpu,
        stack_size,
    } = spec;
    let mut builder = std::thread::Builder::new().name(name.clone());
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(bytes);
    }
    let thread = builder
        .spawn(move || {
            let bound = cpu.map_or(Ok(()), |cpu| bind(&[cpu]));
            let ok = bound.is_ok();
            // The receiver below waits for this if the thread is to be bound.
            let _ = bound_tx.send(bound);
            if ok {
                lower_timer_slack();
                body();
            }
        })
        .map_err(|source| ThreadError::Spawn {
            name: name.clone(),
            source,
        })?;
    let Some(cpu) = cpu else {
        // Do not wait for the new thread to run: other threads may be waiting for the caller.
        return Ok(HostThread(thread));
    };
    match bound_rx.recv() {
        Ok(Err(source)) => {
            let _ = thread.join();
            Err(ThreadError::Bind { name, cpu, source })
        }
        _ => Ok(HostThread(thread)),
    }
}

/// Binds the calling thread.
pub(super) fn bind_thread(cpus: &[usize]) -> Result<(), ThreadError> {
    bind(cpus).map_err(|source| ThreadError::Bind {
        name: std::thread::current()
            .name()
            .unwrap_or("unnamed")
            .to_owned(),
        cpu: cpus.first().copied().unwrap_or(0),
        source,
    })
}

fn bind(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::default();
    for &cpu in cpus {
        let Some(word) = set.get_mut(cpu / WORD) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        *word |= 1 << (cpu % WORD);
    }
    // SAFETY: the kernel reads a whole set there.
    os::done(unsafe { libc::sched_setaffinity(0, size_of::<CpuSet>(), set.as_ptr().cast()) })
}

/// How often this process and those before it have forked since one of them asked first.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    // ORDER: Relaxed; the child has one thread.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// See [`Machine::process`](crate::Machine::process). A child that was made without the C library's fork(3) is not
/// noticed.
#[inline]
pub(super) fn process() -> u32 {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        // It fails only without memory; then no fork is noticed.
        // SAFETY: the handler may run in the child of a process with many threads: it only adds to an atomic.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    // ORDER: Relaxed; it changes only in a child, before any thread of the child reads it.
    FORKS.load(Ordering::Relaxed)
}

/// Makes the thread's sleeps end on time; by default Linux may delay them by up to 50 µs.
fn lower_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and changes only the calling thread's
    // timer slack.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}
