//! Signals for tasks. Each test raises signals that no other test of this binary listens for.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::signal::{Signal, SignalKind, UncatchableSignal, ctrl_c, signal};
use doorbell::time::{sleep, timeout};
use doorbell::{Builder, Class};
use rustix::process::{Pid, Signal as Os, kill_process};
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::task::Poll;
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);

/// Sends a signal to this process.
fn raise(signal: Os) {
    kill_process(rustix::process::getpid(), signal).unwrap();
}

async fn hears(signal: &mut Signal) {
    let heard = timeout(LONG, signal.recv()).await;
    heard.expect("it hears nothing").expect("it cannot wait");
}

/// Whether it has heard something by now.
async fn has_heard(signal: &mut Signal) -> bool {
    // A signal reaches its listeners before the call that raises it returns, or soon after: another thread may
    // run the handler.
    sleep(Duration::from_millis(50)).await;
    std::future::poll_fn(|cx| Poll::Ready(signal.poll_recv(cx).is_ready())).await
}

#[doorbell::test(cores = 2)]
async fn each_listener_hears_each_signal_of_its_kind_and_no_other() {
    let one = SignalKind::user_defined1();
    let mut listeners = [signal(one).unwrap(), signal(one).unwrap()];
    let mut other = signal(SignalKind::window_change()).unwrap();
    for _ in 0..3 {
        raise(Os::USR1);
        for listener in &mut listeners {
            hears(listener).await;
        }
    }
    assert!(!has_heard(&mut other).await);
    // One that is dropped takes nothing from another.
    let [mut first, second] = listeners;
    drop(second);
    raise(Os::USR1);
    hears(&mut first).await;
    assert!(!has_heard(&mut first).await, "it heard a signal twice");
}

#[doorbell::test]
async fn signals_that_come_together_count_as_one_and_none_is_lost() {
    let mut listener = signal(SignalKind::user_defined2()).unwrap();
    // Before the first wait, and more than are read at a time.
    for _ in 0..1_000 {
        raise(Os::USR2);
    }
    hears(&mut listener).await;
    // A handler on another thread may have been late.
    while has_heard(&mut listener).await {}
    raise(Os::USR2);
    hears(&mut listener).await;
}

#[test]
fn a_listener_is_awaited_in_one_runtime_after_another_and_in_every_class() {
    let mut listener = signal(SignalKind::hangup()).unwrap();
    for class in [Class::FAIR, Class::rt(10), Class::BATCH] {
        let runtime = Builder::new().cores(1).build().unwrap();
        let mut theirs = signal(SignalKind::hangup()).unwrap();
        let task = runtime.task().class(class).spawn(async move {
            hears(&mut theirs).await;
            theirs
        });
        // Signals come while it waits, and before.
        raise(Os::HUP);
        drop(runtime.block_on(task).unwrap());
        drop(runtime);
    }
    // It was not awaited yet, so it belongs to no runtime that has ended.
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        hears(&mut listener).await;
        // This time it has to wait, and is registered.
        let late = async {
            sleep(Duration::from_millis(20)).await;
            raise(Os::HUP);
        };
        futures::join!(hears(&mut listener), late);
    });
    drop(runtime);
    let runtime = Builder::new().cores(1).build().unwrap();
    let gone = runtime.block_on(timeout(LONG, listener.recv())).unwrap();
    assert_eq!(gone, None, "its runtime has ended");
}

#[doorbell::test]
#[allow(deprecated, reason = "other code may call it")]
async fn sg1_a_listener_whose_handler_was_removed_hears_nothing_more() {
    let mut listener = signal(SignalKind::alarm()).unwrap();
    raise(Os::ALARM);
    hears(&mut listener).await;
    assert!(signal_hook_registry::unregister_signal(libc::SIGALRM));
    for _ in 0..2 {
        assert_eq!(timeout(LONG, listener.recv()).await, Ok(None));
    }
    // One that comes later hears again, although the first one is dropped meanwhile.
    let mut later = signal(SignalKind::alarm()).unwrap();
    drop(listener);
    raise(Os::ALARM);
    hears(&mut later).await;
}

#[test]
fn what_cannot_be_caught_is_refused_with_a_reason() {
    for number in [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGBUS,
    ] {
        let kind = SignalKind::from_raw(number);
        let error = signal(kind).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let inner = error.get_ref().unwrap().downcast_ref();
        assert_eq!(inner, Some(&UncatchableSignal(kind)));
        let said = error.to_string();
        assert!(said.contains(&format!("signal {number} ")), "{said}");
    }
    for number in [-1, 0, 1_000, i32::MAX, i32::MIN] {
        let error = signal(SignalKind::from_raw(number)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{number}");
    }
    assert_eq!(i32::from(SignalKind::terminate()), libc::SIGTERM);
    assert_eq!(SignalKind::from(libc::SIGINT), SignalKind::interrupt());
}

#[test]
fn dropped_listeners_leave_no_descriptor() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // What the first one makes stays.
    drop(signal(SignalKind::child()).unwrap());
    let before = open();
    let listeners: Vec<_> = (0..50)
        .map(|_| signal(SignalKind::child()).unwrap())
        .collect();
    assert!(open() >= before + 50);
    drop(listeners);
    // Other tests of this binary open and close some meanwhile.
    assert!(open() < before + 50);
}

/// Set in a process that this test binary starts.
const CHILD: &str = "DOORBELL_TEST_SIGNAL_CHILD";

#[test]
fn ctrl_c_and_sigterm_reach_a_process_that_waits_for_them() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    for (os, word) in [(Os::INT, "ctrl-c"), (Os::TERM, "terminated")] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("ctrl_c_and_sigterm_reach_a_process_that_waits_for_them")
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut until = |word: &str| {
            let found = lines.find(|line| line.as_ref().unwrap().contains(word));
            assert!(found.is_some(), "no {word:?}");
        };
        until("it waits");
        kill_process(Pid::from_child(&child), os).unwrap();
        until(word);
        assert!(child.wait().unwrap().success());
    }
}

/// Waits for either signal and says which one came.
fn child() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).unwrap();
        let mut pressed = std::pin::pin!(ctrl_c());
        let mut said = false;
        std::future::poll_fn(|cx| {
            let pressed = pressed.as_mut().poll(cx).map(|it| it.map(|()| "ctrl-c"));
            let ended = terminate.poll_recv(cx).map(|it| it.map(|()| "terminated"));
            if !std::mem::replace(&mut said, true) {
                println!("it waits");
            }
            if let Poll::Ready(word) = pressed {
                println!("{}", word.unwrap());
            } else if let Poll::Ready(word) = ended {
                println!("{}", word.unwrap());
            } else {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    });
}
