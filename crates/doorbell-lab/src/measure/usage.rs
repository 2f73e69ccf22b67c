//! The resource use of this process, from `getrusage`.

use std::io::Error;
use std::mem::MaybeUninit;

use anyhow::{Context as _, Result};

/// What all threads of this process, running or ended, have used: their CPU time in seconds, how often one left a CPU to
/// wait, each of which ends with a wake-up, and how often one had to leave it to another thread.
pub(crate) fn usage() -> Result<[f64; 3]> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for writing one `rusage`, and the call writes nothing else.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return Err(Error::last_os_error()).context("getrusage");
    }
    // SAFETY: the call succeeded, so it has filled the structure.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok([cpu_s, usage.ru_nvcsw as f64, usage.ru_nivcsw as f64])
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_blocking_thread_is_counted_while_it_lives() {
        let [_, before, _] = usage().expect("getrusage works");
        let (request, requests) = mpsc::sync_channel::<()>(0);
        let (reply, replies) = mpsc::sync_channel::<()>(0);
        let callee = thread::spawn(move || {
            while requests.recv().is_ok() {
                thread::sleep(std::time::Duration::from_micros(10));
                reply.send(()).expect("the caller waits");
            }
        });
        for _ in 0..50 {
            request.send(()).expect("the callee waits");
            replies.recv().expect("the callee answers");
        }
        // Every sleep is a switch of the callee, which still runs here.
        let [_, after, _] = usage().expect("getrusage works");
        assert!(after - before >= 50.0, "{before} {after}");
        drop(request);
        callee.join().expect("the callee ends");
    }
}
