//! What sockets offer beside reading and writing.

use doorbell::net::{
    AsyncFd, TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixSocket,
    UnixStream,
};
use doorbell::{Builder, Runtime};
use futures::FutureExt;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn name(of: &str) -> String {
    format!("\0doorbell-{}-{of}", std::process::id())
}

/// The number of a socket's descriptor, before and after it was given away, and that one is closed once.
fn number<S: AsFd + AsRawFd + IntoRawFd>(socket: S) {
    let number = socket.as_raw_fd();
    assert_eq!(number, socket.as_fd().as_raw_fd());
    assert_eq!(socket.into_raw_fd(), number);
    // SAFETY: given away by the line above.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}

#[test]
fn every_socket_says_its_number_and_gives_it_away() {
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind(any()).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap());
        number(stream.await.unwrap());
        number(listener);
        number(UdpSocket::bind(any()).unwrap());
        number(UnixListener::bind(name("number")).unwrap());
        number(UnixStream::pair().unwrap().0);
        number(UnixDatagram::unbound().unwrap());
        number(TcpSocket::new_v4().unwrap());
        number(UnixSocket::new_stream().unwrap());
        number(AsyncFd::new(std::net::UdpSocket::bind(any()).unwrap()));
        let owned = OwnedFd::from(UdpSocket::bind(any()).unwrap());
        UdpSocket::from_std(owned.into()).unwrap();
    });
}

#[test]
fn a_tcp_socket_takes_options_before_it_connects_or_listens() {
    let runtime = runtime();
    runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.set_reuseport(true).unwrap();
        socket.set_keepalive(true).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_tos_v4(0x10).unwrap();
        socket.set_linger(Some(Duration::from_secs(3))).unwrap();
        assert!(socket.reuseaddr().unwrap() && socket.reuseport().unwrap());
        assert!(socket.keepalive().unwrap() && socket.nodelay().unwrap());
        assert_eq!(socket.tos_v4().unwrap(), 0x10);
        assert_eq!(socket.linger().unwrap(), Some(Duration::from_secs(3)));
        socket.set_zero_linger().unwrap();
        assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO));
        socket.set_recv_buffer_size(20_000).unwrap();
        socket.set_send_buffer_size(20_000).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), 40_000);
        assert_eq!(socket.send_buffer_size().unwrap(), 40_000);
        assert_eq!(socket.device().unwrap(), None);
        assert!(socket.take_error().unwrap().is_none());
        socket.bind(any()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(7).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        assert_eq!(listener.backlog().unwrap().most, 7);
        let ours = TcpSocket::new_v4().unwrap();
        ours.bind(any()).unwrap();
        let from = ours.local_addr().unwrap();
        let ours = ours.connect(address).await.unwrap();
        let (_theirs, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, from);
        ours.set_quickack(false).unwrap();
        assert!(!ours.quickack().unwrap());
        ours.set_tos_v4(0x08).unwrap();
        assert_eq!(ours.tos_v4().unwrap(), 0x08);
        // Of the standard library's, without a connection.
        let made = TcpSocket::new_v6().unwrap();
        made.set_tclass_v6(4).unwrap();
        assert_eq!(made.tclass_v6().unwrap(), 4);
        let std = std::net::TcpStream::from(OwnedFd::from(made));
        drop(TcpSocket::from_std_stream(std).unwrap());
    });
}

#[test]
fn a_unix_socket_becomes_what_it_was_made_for() {
    let runtime = runtime();
    runtime.block_on(async {
        let (stream, datagram) = (name("stream"), name("datagram"));
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&stream).unwrap();
        let listener = socket.listen(4).unwrap();
        let ours = UnixSocket::new_stream().unwrap();
        let ours = ours.connect(&stream).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        ours.write_all(b"x").await.unwrap();
        theirs.read_exact(&mut [0]).await.unwrap();
        let socket = UnixSocket::new_datagram().unwrap();
        socket.bind(&datagram).unwrap();
        let theirs = socket.datagram().unwrap();
        let ours = UnixDatagram::unbound().unwrap();
        ours.send_to(b"y", &datagram).await.unwrap();
        assert_eq!(theirs.recv(&mut [0; 2]).await.unwrap(), 1);
        let wrong = UnixSocket::new_datagram().unwrap().listen(1).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidInput);
        let wrong = UnixSocket::new_stream().unwrap().datagram().unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_connect_gives_up_in_time() {
    let builder = Builder::new().cores(1).start_paused(true);
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(any()).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(address, Duration::from_secs(3));
        listener.set_backlog(0).unwrap();
        let _first = connect().await.unwrap();
        // There is no room for it, and the clock goes on when nothing happens.
        let late = connect().await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_datagram_is_seen_before_it_is_taken() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = (
            UdpSocket::bind(any()).unwrap(),
            UdpSocket::bind(any()).unwrap(),
        );
        let from = ours.local_addr().unwrap();
        let nothing = theirs.try_peek(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(
            poll_fn(|cx| theirs.poll_recv_ready(cx))
                .now_or_never()
                .is_none()
        );
        poll_fn(|cx| ours.poll_send_ready(cx)).await.unwrap();
        ours.send_to(b"abc", theirs.local_addr().unwrap())
            .await
            .unwrap();
        assert_eq!(theirs.peek_sender().await.unwrap(), from);
        poll_fn(|cx| theirs.poll_recv_ready(cx)).await.unwrap();
        assert_eq!(theirs.try_peek_sender().unwrap(), from);
        let sender = poll_fn(|cx| theirs.poll_peek_sender(cx)).await;
        assert_eq!(sender.unwrap(), from);
        let mut buffer = [0; 3];
        assert_eq!(theirs.try_peek(&mut buffer).unwrap(), 3);
        assert_eq!(theirs.try_peek_from(&mut buffer).unwrap(), (3, from));
        let peeked = poll_fn(|cx| theirs.poll_peek(cx, &mut buffer)).await;
        assert_eq!(peeked.unwrap(), 3);
        let peeked = poll_fn(|cx| theirs.poll_peek_from(cx, &mut buffer)).await;
        assert_eq!(peeked.unwrap(), (3, from));
        assert_eq!(theirs.recv_from(&mut buffer).await.unwrap(), (3, from));
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"abc").await.unwrap();
        assert_eq!(ours.try_peek(&mut buffer).unwrap(), 3);
        let (mut half, _) = ours.split();
        let peeked = poll_fn(|cx| half.poll_peek(cx, &mut buffer)).await;
        assert_eq!(peeked.unwrap(), 3);
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 3);
    });
}

#[test]
fn multicast_has_a_loop_and_a_ttl() {
    let runtime = runtime();
    runtime.block_on(async {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.set_multicast_loop_v4(false).unwrap();
        socket.set_multicast_ttl_v4(7).unwrap();
        socket.set_tos_v4(0x10).unwrap();
        assert!(!socket.multicast_loop_v4().unwrap());
        assert_eq!(socket.multicast_ttl_v4().unwrap(), 7);
        assert_eq!(socket.tos_v4().unwrap(), 0x10);
        if let Ok(socket) = UdpSocket::bind("[::]:0") {
            socket.set_multicast_loop_v6(false).unwrap();
            assert!(!socket.multicast_loop_v6().unwrap());
        }
    });
}

#[cfg(feature = "tokio-io")]
#[test]
fn buffers_that_grow_take_what_arrives() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = (
            UdpSocket::bind(any()).unwrap(),
            UdpSocket::bind(any()).unwrap(),
        );
        let (from, to) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        let mut all = Vec::with_capacity(16);
        for part in [b"1", b"2", b"3", b"4"] {
            ours.send_to(part, to).await.unwrap();
        }
        assert_eq!(theirs.recv_buf(&mut all).await.unwrap(), 1);
        assert_eq!(theirs.try_recv_buf(&mut all).unwrap(), 1);
        assert_eq!(theirs.recv_buf_from(&mut all).await.unwrap(), (1, from));
        assert_eq!(theirs.try_recv_buf_from(&mut all).unwrap(), (1, from));
        assert_eq!(all, b"1234");
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let named = UnixDatagram::bind(name("buffers")).unwrap();
        let to_named = named.local_addr().unwrap();
        named.connect_addr(&to_named).unwrap();
        for part in [b"5", b"6", b"7"] {
            ours.send(part).await.unwrap();
        }
        named.send(b"8").await.unwrap();
        assert_eq!(theirs.recv_buf(&mut all).await.unwrap(), 1);
        assert_eq!(theirs.try_recv_buf(&mut all).unwrap(), 1);
        let (_, nameless) = theirs.recv_buf_from(&mut all).await.unwrap();
        assert!(nameless.is_unnamed());
        let (_, sender) = named.try_recv_buf_from(&mut all).unwrap();
        assert_eq!(format!("{sender:?}"), format!("{to_named:?}"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"9").await.unwrap();
        assert_eq!(theirs.try_read_buf(&mut all).unwrap(), 1);
        assert_eq!(all, b"123456789");
    });
}

#[cfg(all(feature = "futures-io", feature = "tokio-io"))]
#[test]
fn references_to_streams_have_the_traits() {
    use doorbell::io::{futures as f, tokio as t};
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind(any()).unwrap();
        let address = listener.local_addr().unwrap();
        let ours = TcpStream::connect(address).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        t::AsyncWriteExt::write_u16(&mut &ours, 513).await.unwrap();
        let mut two = [0; 2];
        f::AsyncReadExt::read_exact(&mut &theirs, &mut two)
            .await
            .unwrap();
        assert_eq!(two, [2, 1]);
        let (ours, theirs) = UnixStream::pair().unwrap();
        f::AsyncWriteExt::write_all(&mut &ours, &two).await.unwrap();
        assert_eq!(t::AsyncReadExt::read_u16(&mut &theirs).await.unwrap(), 513);
    });
}
