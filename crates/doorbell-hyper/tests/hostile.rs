//! Hostile or faulty clients, with plain sockets in another thread or process. Other clients must be served
//! meanwhile, and everything that the hostile ones used must be given back.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;

use plain::site::Site;
use plain::{Client, Has, LONG, alone, request};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Makes requests as an ordinary client does until it is over. Returns how many.
fn ordinary(address: SocketAddr, over: &AtomicBool) -> u64 {
    let mut client = Client::to(address);
    let mut asked = 0;
    while !over.load(SeqCst) {
        assert_eq!(client.ask("/").unwrap().body, b"hello, world");
        asked += 1;
        thread::sleep(Duration::from_millis(1));
    }
    asked
}

/// Runs a hostile client beside an ordinary one, which must be served all the time.
fn beside_an_ordinary_one<R>(address: SocketAddr, hostile: impl FnOnce() -> R) -> R {
    /// Sets a flag when dropped, so that the other thread also ends when the test fails.
    struct SetOnDrop<'a>(&'a AtomicBool);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asks = scope.spawn(|| ordinary(address, &over));
        let sets = SetOnDrop(&over);
        let result = hostile();
        // At least one request after the hostile client has started, even on a busy machine.
        assert_eq!(Client::to(address).ask("/").unwrap().body, b"hello, world");
        drop(sets);
        let asked = asks.join().unwrap();
        assert!(asked > 0);
        result
    })
}

/// Whether the server has cut the connection.
fn is_cut(client: &Client) -> bool {
    let stream = client.stream();
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    match peeked {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[test]
fn a_slow_loris_is_cut_while_others_are_served() {
    const LORISES: usize = 50;
    const EACH: Duration = Duration::from_millis(50);
    let _alone = alone();
    let before = Has::now();
    let site = Site::start(|server| server.header_timeout(Some(Duration::from_millis(500))));
    let sent = beside_an_ordinary_one(site.address, || {
        let mut lorises: Vec<_> = (0..LORISES)
            .map(|_| (Client::to(site.address), 0))
            .collect();
        let mut sent = Vec::new();
        let start = Instant::now();
        // A head that never ends.
        let head = b"GET / HTTP/1.1\r\nx: "
            .iter()
            .chain(std::iter::repeat(&b'y'));
        for byte in head {
            assert!(start.elapsed() < LONG, "{} are not cut", lorises.len());
            lorises.retain_mut(|(client, count)| {
                let cut = is_cut(client) || client.write(&[*byte]).is_err();
                if cut {
                    sent.push(*count);
                }
                *count += 1;
                !cut
            });
            if lorises.is_empty() {
                break;
            }
            thread::sleep(EACH);
        }
        sent
    });
    assert_eq!(sent.len(), LORISES);
    // Not at the first byte, and not much later than allowed, even on a busy machine.
    let wide = 2..=(LONG.as_millis() / EACH.as_millis());
    assert!(sent.iter().all(|it| wide.contains(it)), "{sent:?}");
    let served = site.end();
    // The ordinary client, and its last request.
    assert_eq!(served.accepted, LORISES as u64 + 2);
    Has::wait_for(|now| now.is_but_threads(&before), "after the lorises");
}

#[test]
fn a_slow_client_is_served_where_it_may_be_slow() {
    let _alone = alone();
    let site = Site::start(|server| server.header_timeout(None));
    let mut client = Client::to(site.address);
    for byte in request("/slowly").bytes() {
        client.write(&[byte]).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.answer().unwrap().body, b"/slowly");
    drop(client);
    assert_eq!(site.end().accepted, 1);
}

#[test]
fn who_never_reads_is_cut_in_the_end_and_holds_nobody_up() {
    const SILENT: u64 = 20;
    let _alone = alone();
    let before = Has::now();
    let site = Site::start(|server| server.drain_timeout(Duration::from_millis(200)));
    let silent: Vec<Client> = (0..SILENT).map(|_| Client::to(site.address)).collect();
    beside_an_ordinary_one(site.address, || {
        for client in &silent {
            let mut stream = client.stream();
            stream.write_all(request("/big").as_bytes()).unwrap();
        }
        // Until each answer has begun, and then for a while.
        for client in &silent {
            assert!(client.stream().peek(&mut [0]).unwrap() > 0);
        }
        thread::sleep(Duration::from_millis(100));
    });
    let served = site.end();
    assert_eq!(served.accepted, SILENT + 2);
    assert_eq!(served.cut, SILENT, "{served:?}");
    // The server has closed them, although the clients still have their ends.
    let held = silent.len();
    Has::wait_for(
        |now| now.sockets == before.sockets + held,
        "with the clients",
    );
    drop(silent);
    Has::wait_for(|now| now.is_but_threads(&before), "after the clients");
}

#[test]
fn resets_in_the_midst_of_bodies_leave_nothing() {
    const TIMES: u64 = 50;
    let _alone = alone();
    let before = Has::now();
    let site = Site::start(|server| server);
    beside_an_ordinary_one(site.address, || {
        for _ in 0..TIMES {
            let mut client = Client::to(site.address);
            let head = "POST /length HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n";
            client.write(head.as_bytes()).unwrap();
            client.write(&[1; 1_000]).unwrap();
            client.reset();
            let mut client = Client::to(site.address);
            client.get("/big").unwrap();
            client.stream().read_exact(&mut [0; 1_000]).unwrap();
            client.reset();
        }
        // The handlers that waited for more have noticed, except those that had not begun.
        let start = Instant::now();
        while site.seen.broken.load(SeqCst) == 0 {
            assert!(start.elapsed() < LONG, "{:?}", site.seen);
            thread::sleep(Duration::from_millis(2));
        }
    });
    let broken = site.seen.broken.load(SeqCst);
    assert!((1..=TIMES).contains(&broken), "{broken} of {TIMES}");
    let served = site.end();
    assert_eq!(served.accepted, 2 * TIMES + 2);
    assert_eq!(served.cut, 0, "{served:?}");
    Has::wait_for(|now| now.is_but_threads(&before), "after the resets");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    const REQUESTS: usize = 1_000;
    let _alone = alone();
    let site = Site::start(|server| server);
    let all: String = (0..REQUESTS)
        .map(|at| request(&format!("/n{at}")))
        .collect();
    let mut client = Client::to(site.address);
    let mut writer = client.stream().try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            // In pieces with arbitrary boundaries.
            for piece in all.as_bytes().chunks(777) {
                writer.write_all(piece).unwrap();
            }
        });
        for at in 0..REQUESTS {
            let answer = client.answer();
            let answer = answer.unwrap_or_else(|lost| panic!("{at}: {lost:?}"));
            assert_eq!(answer.body, format!("/n{at}").as_bytes());
        }
    });
    assert_eq!(site.seen.requests.load(SeqCst), REQUESTS as u64);
    drop((client, writer));
    assert_eq!(site.end().accepted, 1);
}

#[test]
fn a_storm_of_connections_is_served_to_the_last() {
    const BURSTS: usize = 20;
    const BURST: usize = 100;
    let _alone = alone();
    let before = Has::now();
    let site = Site::start(|server| server);
    for _ in 0..BURSTS {
        // All at once. Of every five, one is reset at once and one after its request.
        let mut clients: Vec<Client> = (0..BURST).map(|_| Client::to(site.address)).collect();
        for client in clients.drain(..BURST / 5) {
            client.reset();
        }
        for client in &mut clients {
            client.get("/storm").unwrap();
        }
        for client in clients.drain(..BURST / 5) {
            client.reset();
        }
        for mut client in clients {
            assert_eq!(client.answer().unwrap().body, b"/storm");
        }
    }
    let (all, answered) = ((BURSTS * BURST) as u64, (BURSTS * BURST * 3 / 5) as u64);
    let asked = site.seen.requests.load(SeqCst);
    assert!((answered..=all).contains(&asked), "{asked} of {all}");
    let served = site.end();
    // A connection that is reset in the backlog may never be accepted.
    assert!((answered..=all).contains(&served.accepted), "{served:?}");
    assert_eq!((served.refused, served.cut), (0, 0), "{served:?}");
    Has::wait_for(|now| now.is_but_threads(&before), "after the storm");
}
