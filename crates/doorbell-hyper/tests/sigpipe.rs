//! A client that has gone ends its connection, and not the process in which `SIGPIPE` has its default effect.
//!
//! Each path runs in a child process, whose `SIGPIPE` Rust does not ignore.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod common;

use common::{REQUEST, bind};
use doorbell::Builder;
use doorbell::net::TcpStream;
use doorbell::time::sleep;
use doorbell_hyper::{DoorbellIo, Server};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::rt::Write;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::process::Command;
use std::time::Duration;

/// In child processes: the path to take.
const PATH: &str = "DOORBELL_TEST_SIGPIPE_PATH";

/// Together more than what is copied into one buffer.
const HALF: [u8; 1_024] = [1; 1_024];

async fn by_doorbell_io() {
    let (listener, address) = bind();
    let mut ours = DoorbellIo::new(TcpStream::connect(address).await.unwrap());
    drop(listener.accept().await.unwrap());
    let slices = [IoSlice::new(&HALF), IoSlice::new(&HALF)];
    loop {
        match poll_fn(|cx| Pin::new(&mut ours).poll_write_vectored(cx, &slices)).await {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => drop(other.unwrap()),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Clients send several requests and go; each answer comes after that.
async fn by_answers() {
    let (listener, address) = bind();
    let answer = |_| async {
        sleep(Duration::from_millis(10)).await;
        Ok::<_, Infallible>(hyper::Response::new(Full::<Bytes>::from(vec![1; 100_000])))
    };
    let serve = Server::new(listener).serve(move || service_fn(answer));
    let server = doorbell::spawn(serve);
    for _ in 0..4 {
        let client = TcpStream::connect(address).await.unwrap();
        client.write_all(&REQUEST.repeat(8)).await.unwrap();
        // So the OS answers what comes with a reset.
        client.set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        let client = TcpStream::connect(address).await.unwrap();
        client.write_all(&REQUEST.repeat(8)).await.unwrap();
        drop(client);
    }
    let ends = doorbell::time::timeout(Duration::from_millis(300), server).await;
    assert!(ends.is_err(), "the server goes on");
}

#[test]
fn n1_an_answer_to_a_client_that_has_gone_raises_no_signal() {
    if let Ok(path) = std::env::var(PATH) {
        // SAFETY: the default effect, and no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let runtime = Builder::new().cores(1).build().unwrap();
        match &*path {
            "answers" => runtime.block_on(by_answers()),
            _ => runtime.block_on(by_doorbell_io()),
        }
        return;
    }
    for path in ["answers", "DoorbellIo"] {
        let test = "n1_an_answer_to_a_client_that_has_gone_raises_no_signal";
        let output = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--test-threads=1"])
            .env(PATH, path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{path}: {} {said}", output.status);
    }
}
