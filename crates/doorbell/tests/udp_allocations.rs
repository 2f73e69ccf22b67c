//! A warm socket sends datagrams without allocating.
//!
//! A test binary of its own: it counts the allocations of all threads, so its only test runs alone.

#![allow(clippy::disallowed_types, reason = "tests play the outside world")]

mod counting;

use doorbell::Builder;
use doorbell::net::UdpSocket;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

const TIMES: usize = 300;

/// The allocations of one round of sends, and the bytes sent.
async fn round(socket: &UdpSocket, to: SocketAddr) -> (u64, usize) {
    let SocketAddr::V4(v4) = to else {
        unreachable!("bound to an address of version 4")
    };
    let v4: SocketAddrV4 = v4;
    let pair: (IpAddr, u16) = (to.ip(), to.port());
    let before = counting::allocations();
    let mut sent = 0;
    for _ in 0..TIMES {
        sent += socket.send_to(b"datagram", to).await.unwrap();
        sent += socket.send_to(b"datagram", &to).await.unwrap();
        sent += socket.send_to(b"datagram", v4).await.unwrap();
        sent += socket.send_to(b"datagram", pair).await.unwrap();
        sent += socket.send_to(b"datagram", "127.0.0.1:9").await.unwrap();
        sent += socket.send_to(b"datagram", ("127.0.0.1", 9)).await.unwrap();
    }
    (counting::allocations() - before, sent)
}

#[test]
fn a_datagram_to_an_address_allocates_nothing() {
    let runtime = Builder::new().cores(1).build().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The datagrams are never read: those that do not fit are lost.
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = sink.local_addr().unwrap();
    let before = counting::allocations();
    let task = runtime.spawn(async move {
        // The first round creates what is created once.
        let warm = round(&socket, to).await;
        (warm, round(&socket, to).await)
    });
    let (warm, (allocated, sent)) = runtime.block_on(task).unwrap();
    assert_eq!(warm.1, sent);
    assert_eq!(sent, 6 * TIMES * b"datagram".len());
    assert_eq!(allocated, 0);
    // Checks the counter itself: a task was spawned.
    assert!(counting::allocations() > before);
}
