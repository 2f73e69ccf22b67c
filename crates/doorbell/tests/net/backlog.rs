//! How many connections wait at a listener.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::Builder;
use doorbell::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use futures::FutureExt;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(30);

/// What the OS allows, at most 400.
fn allowed() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    limit.trim().parse::<usize>().unwrap().min(400)
}

/// Makes as many connections, none of which is accepted, and none of which waits for that.
fn fill(address: SocketAddr) -> Vec<StdStream> {
    let connect = |_| StdStream::connect_timeout(&address, LONG).unwrap();
    let start = Instant::now();
    let streams = (0..allowed()).map(connect).collect();
    // The OS repeats a connection that found no room after a second.
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    streams
}

#[test]
fn n3_as_many_connections_wait_as_the_os_allows() {
    let runtime = Builder::new().cores(2).build().unwrap();
    runtime.block_on(async {
        let alone = TcpListener::bind("127.0.0.1:0").unwrap();
        let named = TcpListener::bind_name(("localhost", 0)).await.unwrap();
        let mut shared = TcpListener::bind_per_core("127.0.0.1:0".parse().unwrap()).unwrap();
        // Only one of them remains, which so gets all connections.
        shared.truncate(1);
        for listener in [alone, named, shared.remove(0).1] {
            let streams = fill(listener.local_addr().unwrap());
            let backlog = listener.backlog().unwrap();
            assert_eq!(backlog.waiting as usize, streams.len());
            assert!(backlog.most as usize >= streams.len(), "{backlog:?}");
            assert_eq!(backlog.dropped, 0);
        }
    });
}

#[test]
fn n3_the_backlog_is_set_and_its_overflow_is_counted() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_backlog(2).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listener.backlog().unwrap().most, 2);
        // One more than may wait, then one that finds no room.
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(TcpStream::connect(address).await.unwrap());
        }
        let mut refused = std::pin::pin!(TcpStream::connect(address));
        assert!(refused.as_mut().now_or_never().is_none());
        let start = Instant::now();
        while listener.backlog().unwrap().dropped == 0 {
            assert!(start.elapsed() < LONG, "{:?}", listener.backlog());
            doorbell::time::sleep(Duration::from_millis(1)).await;
        }
        // Once there is room, it is connected.
        listener.accept().await.unwrap();
        let connected = doorbell::time::timeout(LONG, refused).await;
        connected.expect("no endless wait").unwrap();
    });
}

#[test]
fn n3_the_backlog_of_a_unix_listener_is_set() {
    let path = std::env::temp_dir().join(format!("doorbell-backlog-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_backlog(0).unwrap();
        let _first = UnixStream::connect(&path).await.unwrap();
        assert!(UnixStream::connect(&path).now_or_never().is_none());
        listener.set_backlog(1).unwrap();
        let _second = UnixStream::connect(&path).await.unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}
