//! What the process used, from `getrusage`.

use std::mem::MaybeUninit;

use crate::error::{LabError, last_system_error};

/// How often a thread of this process, alive or ended, has left a CPU: of its own will or not.
///
/// # Errors
/// [`LabError::System`] if the kernel refuses.
pub fn context_switches() -> Result<u64, LabError> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for writing one `rusage`, which is all that the call does.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return Err(last_system_error("getrusage"));
    }
    // SAFETY: the call succeeded, so it has filled the structure in.
    let usage = unsafe { usage.assume_init() };
    Ok((usage.ru_nvcsw + usage.ru_nivcsw) as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_blocking_thread_is_counted_while_it_lives() {
        let before = context_switches().expect("getrusage works");
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
        // Every sleep is a switch of the callee, which is still alive here.
        let after = context_switches().expect("getrusage works");
        assert!(after - before >= 50, "{before} to {after}");
        drop(request);
        callee.join().expect("the callee ends");
    }
}
