//! A server whose process has run out of descriptors. In a process of its own, since the limit is the
//! process's.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "no protocol of doorbell, but a client from outside"
)]

mod common;

use common::hello;
use doorbell::Builder;
use doorbell::net::TcpListener;
use doorbell::sync::CancellationToken;
use doorbell::time::{Duration, sleep};
use doorbell_hyper::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Held by each test, since the limit is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Until this is dropped, no descriptor can be opened.
struct NoMore(Rlimit);

impl NoMore {
    fn begin() -> NoMore {
        let before = getrlimit(Resource::Nofile);
        // `dup` returns the lowest free descriptor, so the next one is the limit.
        let next = rustix::io::dup(std::io::stdin()).unwrap().as_raw_fd();
        let current = Some(u64::try_from(next).unwrap());
        setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
        NoMore(before)
    }
}

impl Drop for NoMore {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

#[test]
fn it_pauses_without_descriptors_and_serves_when_there_are_some() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // These wait in the backlog.
    let clients: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap())
        .collect();
    let runtime = Builder::new().cores(1).build().unwrap();
    // The runtime has the descriptors that a sleep needs.
    runtime
        .block_on(runtime.spawn(sleep(Duration::from_millis(5))))
        .unwrap();
    let end = CancellationToken::new();
    let start = Instant::now();
    let none = NoMore::begin();
    let server = Server::new(TcpListener::from_std(listener).unwrap())
        .shutdown_on(end.clone().cancelled_owned());
    let server = runtime.spawn(server.serve(hello));
    std::thread::sleep(Duration::from_millis(700));
    drop(none);
    for mut client in clients {
        client.write_all(common::REQUEST).unwrap();
        let mut some = [0; 15];
        client.read_exact(&mut some).unwrap();
        assert_eq!(&some, b"HTTP/1.1 200 OK");
    }
    let seconds = start.elapsed().as_secs();
    end.cancel();
    let served = runtime.block_on(server).unwrap().unwrap();
    assert_eq!(served.accepted, 3);
    // The server tries after 0, 10, 30, 70 and 150 ms, and then every 100 ms.
    let refused = served.refused;
    assert!(
        (3..=15 + 10 * seconds).contains(&refused),
        "{refused} in {seconds} s"
    );
}

/// The server is ended during its pause before the next try, and must not try again.
#[test]
fn d13_a_server_that_is_ended_while_it_pauses_accepts_nothing_more() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // This waits in the backlog.
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let runtime = Builder::new().cores(1).build().unwrap();
    // The runtime has the descriptors that a sleep needs.
    runtime
        .block_on(runtime.spawn(sleep(Duration::from_millis(5))))
        .unwrap();
    let end = CancellationToken::new();
    let none = NoMore::begin();
    let server = Server::new(TcpListener::from_std(listener).unwrap())
        .shutdown_on(end.clone().cancelled_owned());
    let server = runtime.spawn(server.serve(hello));
    // Refused after 0, 10, 30, 70 and 150 ms, and then every 100 ms.
    std::thread::sleep(Duration::from_millis(400));
    end.cancel();
    let served = runtime.block_on(server).unwrap().unwrap();
    drop(none);
    assert_eq!(served.accepted, 0);
    assert!((1..=15).contains(&served.refused), "{}", served.refused);
    // It was never accepted: the listener is gone.
    client
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let read = client.read(&mut [0]);
    let is_closed = match &read {
        Ok(bytes) => *bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(is_closed, "{read:?}");
}

#[test]
fn an_idle_connection_gives_its_descriptor_to_a_client_that_waits() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = Builder::new().cores(1).build().unwrap();
    let end = CancellationToken::new();
    let server = Server::new(TcpListener::from_std(listener).unwrap())
        .shutdown_on(end.clone().cancelled_owned());
    let server = runtime.spawn(server.serve(hello));
    let ask = |client: &mut TcpStream| {
        client.write_all(common::REQUEST).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(common::Hello::TEXT.as_bytes()) {
            let mut some = [0; 512];
            let count = client.read(&mut some).unwrap();
            assert!(count > 0, "it closed");
            answer.extend_from_slice(&some[..count]);
        }
    };
    let [mut first, mut second] = [(); 2].map(|()| {
        let client = TcpStream::connect(address).unwrap();
        let time = Some(Duration::from_secs(20));
        client.set_read_timeout(time).unwrap();
        client
    });
    ask(&mut first);
    std::thread::sleep(Duration::from_millis(20));
    ask(&mut second);
    let mut next = {
        let client = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let client = client.unwrap();
        let _none = NoMore::begin();
        rustix::net::connect(&client, &address).unwrap();
        let mut client = TcpStream::from(client);
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        ask(&mut client);
        client
    };
    // The second one, which is younger, is still there.
    ask(&mut second);
    ask(&mut next);
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "it is closed");
    end.cancel();
    let served = runtime.block_on(server).unwrap().unwrap();
    assert!(served.refused > 0 && served.cut == 0, "{served:?}");
}
