//! TCP sockets beyond the exchange of bytes: options and failures.

use crate::shuffled::Builder;
use doorbell::net::{TcpListener, TcpStream, lookup_host};
use doorbell::{Runtime, current_core};
use rustix::net::{AddressFamily, SocketType, getsockname, socket};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

/// Both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ours = doorbell::spawn(TcpStream::connect(address));
    let (theirs, _) = listener.accept().await.unwrap();
    (ours.await.unwrap().unwrap(), theirs)
}

/// An address that refuses connections. No other program can listen there: the address is taken while the
/// socket exists.
struct Nobodys {
    address: SocketAddr,
    _socket: OwnedFd,
}

fn nobodys() -> Nobodys {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    Nobodys {
        address,
        _socket: socket,
    }
}

async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[test]
fn each_core_accepts_its_own_connections() {
    const CLIENTS: usize = 64;
    let runtime = runtime();
    runtime.block_on(async {
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = TcpListener::bind_per_core(any).unwrap();
        let address = listeners[0].1.local_addr().unwrap();
        assert_ne!(address.port(), 0);
        let cores: Vec<_> = listeners.iter().map(|(core, _)| core.index()).collect();
        assert_eq!(cores, [0, 1]);
        for (core, listener) in listeners {
            assert_eq!(listener.local_addr().unwrap(), address);
            doorbell::task().on(core).spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let here = current_core().unwrap().index() as u8;
                    stream.write_all(&[here]).await.unwrap();
                }
            });
        }
        let mut of_core = [0; 2];
        for _ in 0..CLIENTS {
            let mut core = [0];
            let stream = TcpStream::connect(address).await.unwrap();
            stream.read_exact(&mut core).await.unwrap();
            of_core[usize::from(core[0])] += 1;
        }
        assert_eq!(of_core[0] + of_core[1], CLIENTS);
        // The OS distributes them by port.
        assert!(of_core[0] > 0 && of_core[1] > 0, "{of_core:?}");
    });
}

#[test]
fn an_address_that_is_in_use_is_an_error() {
    let runtime = runtime();
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    let in_use = |result: io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    };
    in_use(TcpListener::bind(address).map(drop));
    runtime.block_on(async {
        in_use(TcpListener::bind_per_core(address).map(drop));
        in_use(TcpListener::bind_name(address).await.map(drop));
    });
    let any = "127.0.0.1:0".parse().unwrap();
    let shared = runtime.block_on(async { TcpListener::bind_per_core(any).unwrap() });
    in_use(TcpListener::bind(shared[0].1.local_addr().unwrap()).map(drop));
    let outside = TcpListener::bind_per_core(any).unwrap_err();
    assert!(outside.to_string().contains("inside block_on"), "{outside}");
}

#[test]
fn names_are_looked_up_beside_the_workers() {
    let runtime = Builder::new().cores(1).build().unwrap();
    let lookups = || runtime.metrics().blocking().started;
    let refused = |result: io::Result<TcpStream>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    };
    runtime.block_on(async {
        let nobodys = nobodys();
        let address = nobodys.address;
        refused(TcpStream::connect(address).await);
        refused(TcpStream::connect(address.to_string()).await);
        refused(TcpStream::connect(("127.0.0.1", address.port())).await);
        refused(TcpStream::connect((address.ip(), address.port())).await);
        refused(TcpStream::connect(&[address][..]).await);
        assert_eq!(lookups(), 0, "addresses are no names");
        let listener = TcpListener::bind_name("localhost:0").await.unwrap();
        assert_eq!(lookups(), 1);
        let address = listener.local_addr().unwrap();
        assert!(address.ip().is_loopback());
        let stream = TcpStream::connect(("localhost", address.port()))
            .await
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let mut found = lookup_host(format!("localhost:{}", address.port()))
            .await
            .unwrap();
        assert!(found.any(|it| it == address));
    });
}

#[test]
fn a_name_that_does_not_exist_is_an_error() {
    let runtime = runtime();
    // Longer than a label may be, so no name server is asked.
    let name = format!("{}.invalid", "x".repeat(70));
    runtime.block_on(async {
        assert!(TcpStream::connect((name.as_str(), 80)).await.is_err());
        assert!(lookup_host((name.clone(), 80)).await.is_err());
        assert!(TcpListener::bind_name(format!("{name}:80")).await.is_err());
        let no_port = lookup_host("localhost").await.unwrap_err();
        assert_eq!(no_port.kind(), io::ErrorKind::InvalidInput);
        let none: Vec<SocketAddr> = Vec::new();
        let none = TcpStream::connect(none).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        assert!(none.to_string().contains("no address"), "{none}");
    });
}

#[test]
fn each_address_is_tried() {
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let (first, second) = (nobodys(), nobodys());
        let stream = TcpStream::connect([first.address, second.address, there]).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), there);
        let refused = TcpStream::connect([first.address, second.address]).await;
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn of_several_tasks_that_accept_each_is_woken() {
    const TASKS: usize = 8;
    let runtime = runtime();
    runtime.block_on(async {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let servers: Vec<_> = (0..TASKS)
            .map(|_| {
                let listener = Arc::clone(&listener);
                doorbell::spawn(async move { listener.accept().await.unwrap().1 })
            })
            .collect();
        // All are waiting, or will try at once.
        doorbell::time::sleep(Duration::from_millis(10)).await;
        let mut clients = Vec::new();
        for _ in 0..TASKS {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let mut from: Vec<_> = clients.iter().map(|it| it.local_addr().unwrap()).collect();
        let mut accepted = Vec::new();
        for server in servers {
            accepted.push(server.await.unwrap());
        }
        accepted.sort();
        from.sort();
        assert_eq!(accepted, from);
    });
}

#[test]
fn one_task_of_two_that_reads_takes_nothing_from_the_other() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = pair().await;
        let ours = Arc::new(ours);
        let read_one = |stream: &Arc<TcpStream>| {
            let stream = Arc::clone(stream);
            doorbell::spawn(async move { stream.read_exact(&mut [0]).await })
        };
        let (first, second) = (read_one(&ours), read_one(&ours));
        doorbell::time::sleep(Duration::from_millis(10)).await;
        theirs.write_all(b"ab").await.unwrap();
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    });
}

#[test]
fn options_are_as_they_were_set() {
    let runtime = runtime();
    let (ours, _theirs) = runtime.block_on(pair());
    let secs = Duration::from_secs;
    for time in [None, Some(secs(0)), Some(secs(3))] {
        ours.set_linger(time).unwrap();
        assert_eq!(ours.linger().unwrap(), time);
    }
    ours.set_linger(None).unwrap();
    for after in [None, Some(secs(7)), None] {
        ours.set_keepalive(after).unwrap();
        assert_eq!(ours.keepalive().unwrap(), after);
    }
    assert!(ours.set_keepalive(Some(Duration::from_millis(1))).is_err());
    ours.set_ttl(17).unwrap();
    assert_eq!(ours.ttl().unwrap(), 17);
    assert!(ours.take_error().unwrap().is_none());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_ttl(18).unwrap();
    assert_eq!(listener.ttl().unwrap(), 18);
}

#[test]
fn halves_become_the_connection_again() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = pair().await;
        let address = ours.local_addr().unwrap();
        let (reads, writes) = ours.into_split();
        let (other_reads, other_writes) = theirs.into_split();
        let wrong = reads.reunite(other_writes).unwrap_err();
        assert!(wrong.to_string().contains("different connections"));
        let ours = wrong.0.reunite(writes).unwrap();
        let theirs = wrong.1.reunite(other_reads).unwrap();
        assert_eq!(ours.local_addr().unwrap(), address);
        // Nothing was closed.
        ours.write_all(b"still").await.unwrap();
        theirs.read_exact(&mut [0; 5]).await.unwrap();
        let (mut reads, writes) = theirs.into_split();
        writes.forget();
        assert!(is_pending(pin!(ours.read(&mut [0]))).await, "not closed");
        drop(ours);
        assert_eq!(reads.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn borrowed_halves_are_used_side_by_side() {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut ours, theirs) = pair().await;
        {
            let (mut reads, mut writes) = ours.split();
            let mut byte = [0];
            let reading = async { reads.read_exact(&mut byte).await.unwrap() };
            let talking = async {
                writes.write_all(b"q").await.unwrap();
                theirs.read_exact(&mut [0]).await.unwrap();
                theirs.write_all(b"a").await.unwrap();
            };
            futures::join!(reading, talking);
            assert_eq!(&byte, b"a");
        }
        assert!(is_pending(pin!(theirs.read(&mut [0]))).await, "not closed");
        ours.split().1.shutdown().unwrap();
        assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_try_does_not_wait_and_readiness_says_when() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = pair().await;
        let nothing = ours.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(is_pending(pin!(ours.readable())).await);
        theirs.write_all(b"abcd").await.unwrap();
        ours.readable().await.unwrap();
        assert!(ours.try_read(&mut [0; 4]).unwrap() > 0);
        ours.writable().await.unwrap();
        let mut sent = 0;
        loop {
            let full = loop {
                match ours.try_write(&[0; 10_000]) {
                    Ok(written) => sent += written,
                    Err(error) => break error,
                }
            };
            assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
            // The OS may free space a moment later, by moving bytes to the other end.
            if is_pending(pin!(ours.writable())).await {
                break;
            }
        }
        assert!(sent > 10_000, "{sent}");
        let drain = async {
            let mut buffer = vec![0; 100_000];
            let mut left = sent;
            while left > 0 {
                left -= theirs.read(&mut buffer).await.unwrap();
            }
        };
        futures::join!(drain, async { ours.writable().await.unwrap() });
        assert!(ours.try_write(b"more").unwrap() > 0);
    });
}

#[test]
fn what_the_other_end_does_is_learnt() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = pair().await;
        let reader = doorbell::spawn(async move { ours.read_exact(&mut [0; 4]).await });
        theirs.write_all(b"ab").await.unwrap();
        drop(theirs);
        let end = reader.await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);

        let (ours, theirs) = pair().await;
        theirs.set_linger(Some(Duration::ZERO)).unwrap();
        let waits = async { ours.read(&mut [0]).await.unwrap_err() };
        let (error, ()) = futures::join!(waits, async { drop(theirs) });
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let error = ours.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn an_accept_that_is_dropped_takes_no_connection() {
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        {
            let mut dropped = pin!(listener.accept());
            assert!(is_pending(dropped.as_mut()).await);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
    });
}

#[test]
fn a_socket_goes_from_one_runtime_to_another() {
    let (first, second) = (runtime(), runtime());
    let listener = first.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(is_pending(pin!(listener.accept())).await);
        listener
    });
    let address = listener.local_addr().unwrap();
    let connect = || async { TcpStream::connect(address).await.map(drop) };
    // The first one still waits for it.
    let (accepted, connected) =
        second.block_on(async { futures::join!(listener.accept(), connect()) });
    assert!(accepted.is_ok() && connected.is_ok());
    drop(first);
    let error = second.block_on(listener.accept()).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert!(error.get_ref().unwrap().is::<doorbell::net::RuntimeEnded>());
    let listener = TcpListener::try_from(listener.into_std()).unwrap();
    let (accepted, connected) =
        second.block_on(async { futures::join!(listener.accept(), connect()) });
    assert!(accepted.is_ok() && connected.is_ok());
}
