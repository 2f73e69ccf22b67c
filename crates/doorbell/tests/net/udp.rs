//! UDP in tasks.

use crate::runtime;
use doorbell::net::UdpSocket;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn what_is_sent_to_an_address_arrives() {
    let runtime = runtime();
    runtime.block_on(async {
        let (client, server) = (socket(), socket());
        let to = server.local_addr().unwrap();
        let echo = doorbell::spawn(async move {
            let mut buffer = [0; 100];
            for _ in 0..3 {
                let (peeked, who) = server.peek_from(&mut buffer).await.unwrap();
                let (read, from) = server.recv_from(&mut buffer).await.unwrap();
                assert_eq!((peeked, who), (read, from));
                server.send_to(&buffer[..read], from).await.unwrap();
            }
        });
        let mut buffer = [0; 100];
        client.send_to(b"by address", to).await.unwrap();
        assert_eq!(client.recv_from(&mut buffer).await.unwrap(), (10, to));
        let name = ("localhost", to.port());
        client.connect(name).await.unwrap();
        assert_eq!(client.peer_addr().unwrap(), to);
        client.send(b"connected").await.unwrap();
        assert_eq!(client.peek(&mut buffer).await.unwrap(), 9);
        assert_eq!(client.recv(&mut buffer).await.unwrap(), 9);
        assert_eq!(&buffer[..9], b"connected");
        poll_fn(|cx| client.poll_send(cx, b"polled")).await.unwrap();
        let read = poll_fn(|cx| client.poll_recv(cx, &mut buffer)).await;
        assert_eq!(read.unwrap(), 6);
        echo.await.unwrap();
    });
}

#[test]
fn polls_and_tries_are_of_one_datagram() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = (socket(), socket());
        let to = theirs.local_addr().unwrap();
        let from = ours.local_addr().unwrap();
        let mut buffer = [0; 4];
        let nothing = theirs.try_recv_from(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        ours.writable().await.unwrap();
        ours.try_send_to(b"123456", to).unwrap();
        theirs.readable().await.unwrap();
        let cut = theirs.try_recv_from(&mut buffer).unwrap();
        assert_eq!(cut, (4, from), "what does not fit is lost");
        assert!(theirs.try_recv(&mut buffer).is_err());
        poll_fn(|cx| ours.poll_send_to(cx, b"ab", to))
            .await
            .unwrap();
        let read = poll_fn(|cx| theirs.poll_recv_from(cx, &mut buffer)).await;
        assert_eq!(read.unwrap(), (2, from));
    });
}

#[test]
fn of_several_tasks_that_receive_each_is_woken() {
    const TASKS: u8 = 8;
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = (socket(), Arc::new(socket()));
        let to = theirs.local_addr().unwrap();
        let receivers: Vec<_> = (0..TASKS)
            .map(|_| {
                let theirs = Arc::clone(&theirs);
                doorbell::spawn(async move {
                    let mut byte = [0];
                    theirs.recv_from(&mut byte).await.unwrap();
                    byte[0]
                })
            })
            .collect();
        // All are waiting, or will try at once.
        doorbell::time::sleep(Duration::from_millis(10)).await;
        for byte in 0..TASKS {
            ours.send_to(&[byte], to).await.unwrap();
        }
        let mut got = Vec::new();
        for receiver in receivers {
            got.push(receiver.await.unwrap());
        }
        got.sort_unstable();
        assert_eq!(got, (0..TASKS).collect::<Vec<_>>());
    });
}

#[test]
fn that_nobody_receives_is_learnt() {
    let runtime = runtime();
    runtime.block_on(async {
        let ours = socket();
        let nobodys = socket().local_addr().unwrap();
        ours.connect(nobodys).await.unwrap();
        ours.send(b"x").await.unwrap();
        let refused = ours.recv(&mut [0]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(ours.take_error().unwrap().is_none(), "said once");
        let taken = UdpSocket::bind(ours.local_addr().unwrap()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let none: [std::net::SocketAddr; 0] = [];
        let none = ours.send_to(b"x", none).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn options_are_as_they_were_set_and_it_goes_to_the_standard_library() {
    let runtime = runtime();
    let ours = socket();
    assert!(!ours.broadcast().unwrap());
    ours.set_broadcast(true).unwrap();
    assert!(ours.broadcast().unwrap());
    ours.set_ttl(9).unwrap();
    assert_eq!(ours.ttl().unwrap(), 9);
    runtime.block_on(async {
        let mut buffer = [0];
        let mut recv = pin!(ours.recv(&mut buffer));
        assert!(poll_fn(|cx| Poll::Ready(recv.as_mut().poll(cx).is_pending())).await);
    });
    let ours = UdpSocket::try_from(ours.into_std()).unwrap();
    let to = ours.local_addr().unwrap();
    runtime.block_on(async {
        socket().send_to(b"x", to).await.unwrap();
        assert_eq!(ours.recv(&mut [0]).await.unwrap(), 1);
    });
}
