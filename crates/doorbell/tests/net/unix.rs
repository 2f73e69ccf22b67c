//! Unix sockets in tasks.

use crate::runtime;
use doorbell::Builder;
use doorbell::net::{UnixDatagram, UnixListener, UnixStream};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(30);

/// A path that does not exist before and after.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("doorbell-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        Place(path)
    }
}

impl AsRef<std::path::Path> for Place {
    fn as_ref(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_is_sent_comes_back() {
    let runtime = runtime();
    runtime.block_on(async {
        let place = Place::new("echo");
        let listener = UnixListener::bind(&place).unwrap();
        let path = listener.local_addr().unwrap();
        assert_eq!(path.as_pathname(), Some(&*place.0));
        doorbell::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut reads, mut writes) = stream.into_split();
            let mut buffer = [0; 1_000];
            loop {
                match reads.read(&mut buffer).await.unwrap() {
                    0 => break,
                    read => writes.write_all(&buffer[..read]).await.unwrap(),
                }
            }
        });
        let stream = UnixStream::connect(&place).await.unwrap();
        let cred = stream.peer_cred().unwrap();
        assert_eq!(cred.pid, Some(std::process::id().cast_signed()));
        assert_eq!(cred.uid, rustix::process::getuid().as_raw());
        assert_eq!(cred.gid, rustix::process::getgid().as_raw());
        let sent = vec![7; 300_000];
        let (mut reads, mut writes) = stream.into_split();
        let mut got = vec![0; sent.len()];
        let write = async {
            writes.write_all(&sent).await.unwrap();
            writes.shutdown().unwrap();
        };
        let read = async { reads.read_exact(&mut got).await.unwrap() };
        futures::join!(write, read);
        assert!(got == sent);
        assert_eq!(reads.read(&mut [0]).await.unwrap(), 0);
        let stream = reads.reunite(writes).unwrap();
        assert!(stream.take_error().unwrap().is_none());
    });
}

#[test]
fn what_is_not_there_is_an_error() {
    let runtime = runtime();
    runtime.block_on(async {
        let place = Place::new("errors");
        let missing = UnixStream::connect(&place).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&place).unwrap();
        let taken = UnixListener::bind(&place).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let refused = UnixStream::connect(&place).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
        let closed = ours.write(b"x").await.unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn who_connects_waits_for_a_listener_that_has_too_many() {
    const CLIENTS: usize = 6;
    let runtime = runtime();
    runtime.block_on(async {
        let place = Place::new("full");
        let listener = UnixListener::bind(&place).unwrap();
        // At most one connection waits to be accepted.
        rustix::net::listen(&listener, 0).unwrap();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| doorbell::spawn(UnixStream::connect(place.0.clone())))
            .collect();
        doorbell::time::sleep(Duration::from_millis(10)).await;
        let waiting = clients.iter().filter(|client| !client.is_finished());
        assert!(waiting.count() >= CLIENTS - 2);
        for _ in 0..CLIENTS {
            listener.accept().await.unwrap();
        }
        for client in clients {
            client.await.unwrap().unwrap();
        }
    });
}

#[test]
fn of_several_tasks_that_accept_each_is_woken() {
    const TASKS: usize = 4;
    let runtime = runtime();
    runtime.block_on(async {
        let place = Place::new("several");
        let listener = Arc::new(UnixListener::bind(&place).unwrap());
        let servers: Vec<_> = (0..TASKS)
            .map(|_| {
                let listener = Arc::clone(&listener);
                doorbell::spawn(async move { listener.accept().await.map(drop) })
            })
            .collect();
        doorbell::time::sleep(Duration::from_millis(10)).await;
        for _ in 0..TASKS {
            UnixStream::connect(&place).await.unwrap();
        }
        for server in servers {
            server.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_stream_goes_to_the_standard_library_and_back() {
    let runtime = runtime();
    let (ours, theirs) = UnixStream::pair().unwrap();
    runtime.block_on(async {
        let mut buffer = [0];
        let mut read = pin!(ours.read(&mut buffer));
        assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_pending())).await);
    });
    let ours = UnixStream::try_from(ours.into_std()).unwrap();
    runtime.block_on(async {
        theirs.write_all(b"abc").await.unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(ours.peek(&mut [0; 3]).await.unwrap() > 0);
        ours.read_exact(&mut [0; 3]).await.unwrap();
        assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
    });
}

/// Sends bytes together with a descriptor.
fn send_with_descriptor(stream: &UnixStream, bytes: &[u8]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [stream.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let bytes = [IoSlice::new(bytes)];
    let sent = sendmsg(stream, &bytes, &mut control, SendFlags::empty());
    assert_eq!(sent.unwrap(), bytes[0].len());
}

#[test]
fn what_lies_behind_bytes_that_came_with_a_descriptor_is_read_too() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut buffer = [0; 64];
        {
            // From here on a worker waits for it.
            let mut read = pin!(ours.read(&mut buffer));
            assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_pending())).await);
        }
        send_with_descriptor(&theirs, b"a");
        theirs.try_write(b"bcd").unwrap();
        // Until the worker has heard of both.
        doorbell::time::sleep(Duration::from_millis(20)).await;
        let mut got = Vec::new();
        while got.len() < 4 {
            let read = doorbell::time::timeout(LONG, ours.read(&mut buffer)).await;
            let read = read.expect("the bytes are there").unwrap();
            assert!((1..4).contains(&read), "one ends behind the descriptor");
            got.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(got, b"abcd");
    });
}

#[test]
fn datagrams_keep_their_bounds_and_wait_for_room() {
    const COUNT: u32 = 2_000;
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let sender = doorbell::spawn(async move {
            for number in 0..COUNT {
                ours.send(&number.to_ne_bytes()).await.unwrap();
            }
        });
        // It must wait before everything is sent.
        doorbell::time::sleep(Duration::from_millis(10)).await;
        assert!(!sender.is_finished());
        for number in 0..COUNT {
            let mut buffer = [0; 8];
            assert_eq!(theirs.recv(&mut buffer).await.unwrap(), 4);
            assert_eq!(buffer[..4], number.to_ne_bytes());
        }
        sender.await.unwrap();
        let nothing = theirs.try_recv(&mut [0; 4]).unwrap_err();
        // The sender is gone, which a datagram socket does not report.
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    });
}

#[test]
fn datagrams_go_to_paths() {
    const COUNT: u32 = 600;
    let runtime = runtime();
    runtime.block_on(async {
        let (place, mine) = (Place::new("datagrams"), Place::new("sender"));
        let server = UnixDatagram::bind(&place).unwrap();
        let client = UnixDatagram::bind(&mine).unwrap();
        let (path, from) = (place.0.clone(), mine.0.clone());
        let sender = doorbell::spawn(async move {
            for _ in 0..COUNT {
                client.send_to(b"datagram", &path).await.unwrap();
            }
            client
        });
        let mut buffer = [0; 16];
        for _ in 0..COUNT {
            let (read, who) = server.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..read], b"datagram");
            assert_eq!(who.as_pathname(), Some(&*from));
        }
        let client = sender.await.unwrap();
        client.connect(&place).unwrap();
        client.writable().await.unwrap();
        client.try_send(b"more").unwrap();
        server.readable().await.unwrap();
        assert_eq!(server.try_recv_from(&mut buffer).unwrap().0, 4);
        let nobody = UnixDatagram::unbound().unwrap();
        let missing = nobody.send_to(b"x", "/nobody/is/here").await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn who_sends_and_always_finds_room_lets_the_others_of_its_core_run() {
    // Only keeps a bug from hanging the test.
    const MOST: usize = 100_000;
    let runtime = Builder::new().cores(1).build().unwrap();
    let sender = runtime.spawn(async {
        let place = Place::new("room");
        let receiver = UnixDatagram::bind(&place).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let other = doorbell::spawn(async {});
        for _ in 0..MOST {
            if other.is_finished() {
                return true;
            }
            socket.send_to(b"x", &place).await.unwrap();
            assert_eq!(receiver.try_recv(&mut [0]).unwrap(), 1);
        }
        false
    });
    assert!(runtime.block_on(sender).unwrap(), "the other never ran");
}

/// An abstract name that no other test uses.
fn abstract_name(name: &str) -> String {
    format!("\0doorbell-{}-{name}", std::process::id())
}

#[test]
fn n7_abstract_names_work_wherever_paths_do() {
    let runtime = runtime();
    runtime.block_on(async {
        let name = abstract_name("stream");
        let listener = UnixListener::bind(&name).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.as_abstract_name(), Some(&name.as_bytes()[1..]));
        let by_name = UnixStream::connect(&name).await.unwrap();
        let by_address = UnixStream::connect_addr(&address).await.unwrap();
        for ours in [by_name, by_address] {
            let (theirs, _) = listener.accept().await.unwrap();
            ours.write_all(b"x").await.unwrap();
            theirs.read_exact(&mut [0]).await.unwrap();
        }
        let (one, two) = (abstract_name("one"), abstract_name("two"));
        let ours = UnixDatagram::bind(&one).unwrap();
        let theirs = UnixDatagram::bind(&two).unwrap();
        let to = theirs.local_addr().unwrap();
        ours.send_to(b"1", &two).await.unwrap();
        ours.send_to_addr(b"2", &to).await.unwrap();
        ours.try_send_to(b"3", &two).unwrap();
        ours.try_send_to_addr(b"4", &to).unwrap();
        for _ in 0..4 {
            let (_, from) = theirs.recv_from(&mut [0; 4]).await.unwrap();
            assert_eq!(from.as_abstract_name(), Some(&one.as_bytes()[1..]));
        }
        ours.connect(&two).unwrap();
        ours.send(b"5").await.unwrap();
        ours.connect_addr(&to).unwrap();
        ours.send(b"6").await.unwrap();
        assert_eq!(theirs.recv(&mut [0; 4]).await.unwrap(), 1);
        // Addresses of files do as well.
        let place = Place::new("addr");
        let at = std::os::unix::net::SocketAddr::from_pathname(&place).unwrap();
        let listener = UnixListener::bind_addr(&at).unwrap();
        let _stream = UnixStream::connect_addr(&at).await.unwrap();
        listener.accept().await.unwrap();
        let error = UnixStream::connect("a\0b").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn n8_a_datagram_to_a_full_receiver_goes_when_there_is_room() {
    use doorbell::time::Instant;
    const ROUNDS: usize = 50;
    // The clock goes on only when nothing happens: sleeps show.
    let builder = Builder::new().cores(1).start_paused(true);
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let name = abstract_name("full");
        let theirs = UnixDatagram::bind(&name).unwrap();
        let ours = UnixDatagram::unbound().unwrap();
        let mut room = 0;
        while ours.try_send_to(b"x", &name).is_ok() {
            room += 1;
        }
        let all = room * (ROUNDS + 1);
        let reader = doorbell::spawn(async move {
            for _ in 0..all {
                theirs.recv(&mut [0; 4]).await.unwrap();
            }
            theirs
        });
        let start = Instant::now();
        for _ in 0..room * ROUNDS {
            ours.send_to(b"x", &name).await.unwrap();
        }
        let slept = start.elapsed();
        let theirs = reader.await.unwrap();
        assert!(slept < Duration::from_millis(10), "slept {slept:?}");
        // If only others fill the queue, it looks at intervals.
        let others = UnixDatagram::unbound().unwrap();
        while others.try_send_to(b"x", &name).is_ok() {}
        let send = doorbell::spawn(async move { ours.send_to(b"y", &name).await });
        doorbell::time::sleep(Duration::from_millis(100)).await;
        theirs.recv(&mut [0; 4]).await.unwrap();
        let sent = doorbell::time::timeout(LONG, send).await;
        sent.expect("no endless wait").unwrap().unwrap();
    });
}
