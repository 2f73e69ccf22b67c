//! Ten thousand connections of another process that make one request and then are idle.
//!
//! A test binary of its own: it measures the resources of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;

use plain::site::Site;
use plain::{Client, Has};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;

/// The number of connections.
const WANTED: u64 = 10_000;

/// Descriptors that a process needs beyond them.
const SPARE: u64 = 200;

/// Set in the process with the connections: the address of the server.
const SERVER: &str = "DOORBELL_TEST_IDLE_SERVER";

/// The prefix of its output lines.
const SAYS: &str = "idle:";

/// Raises the limit of descriptors as far as needed, or as far as the OS allows. Returns the number of
/// connections that fit.
fn allow_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let needed = WANTED + SPARE;
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if !enough(limit.current) {
        let maximum = limit.maximum.map(|it| it.max(needed));
        let raised = |maximum| Rlimit {
            current: Some(maximum),
            maximum: Some(maximum),
        };
        let raise = maximum.map_or(needed, |it| it.min(needed.max(limit.maximum.unwrap_or(it))));
        // Only a privileged process may exceed the maximum.
        if setrlimit(Resource::Nofile, raised(raise)).is_err() {
            let most = limit.maximum.unwrap_or(needed);
            setrlimit(Resource::Nofile, raised(most)).unwrap();
        }
    }
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(WANTED, |now| now.saturating_sub(SPARE).min(WANTED))
}

/// In the other process: opens the connections, prints how many, makes a request on some of them when told
/// to, and closes all at the end of its input.
fn have_connections(address: SocketAddr) {
    let count = allow_descriptors();
    let open = |_| {
        let mut client = Client::to(address);
        assert_eq!(client.ask("/").unwrap().body, b"hello, world");
        client
    };
    let mut clients: Vec<Client> = (0..count).map(open).collect();
    println!("\n{SAYS}{count}");
    let mut input = std::io::stdin();
    if input.read(&mut [0]).unwrap() == 1 {
        for client in clients.iter_mut().step_by(100) {
            assert_eq!(client.ask("/again").unwrap().body, b"/again");
        }
        println!("\n{SAYS}{}", count.div_ceil(100));
        let _ = input.read(&mut [0]);
    }
    // Some are closed in an orderly way, and some are reset.
    for (at, client) in clients.into_iter().enumerate() {
        if at % 2 == 0 {
            client.reset();
        }
    }
}

struct Other {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(address: SocketAddr) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "ten_thousand_idle_connections_cost_what_is_given_back",
                "--nocapture",
            ])
            .env(SERVER, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Other { child, says }
    }

    /// The next number that it prints.
    fn number(&mut self) -> u64 {
        loop {
            let mut line = String::new();
            let read = self.says.read_line(&mut line).unwrap();
            assert!(read > 0, "it has ended: {:?}", self.child.wait());
            if let Some(number) = line.strip_prefix(SAYS) {
                return number.trim().parse().unwrap();
            }
        }
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        std::io::copy(&mut self.says, &mut std::io::sink()).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// The process's own memory, in KiB.
fn memory_kib() -> u64 {
    // Gives freed memory back to the OS first, as far as possible.
    // SAFETY: the call only walks the allocator's own lists.
    unsafe { libc::malloc_trim(0) };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

/// One wave. Returns the memory before, during and after it.
fn wave(site: &Site, before: &Has, count: u64) -> [u64; 3] {
    let memory_before = memory_kib();
    let asked_before = site.seen.requests.load(SeqCst);
    let mut other = Other::start(site.address);
    let open = other.number();
    assert_eq!(open, count, "the other process may have another number");
    let during = Has::now();
    assert_eq!(
        during.sockets as u64,
        before.sockets as u64 + count,
        "{during:?}"
    );
    // They cost one descriptor each and nothing else; the other process has two pipes.
    let the_rest = Has {
        sockets: before.sockets,
        others: during.others - 2,
        ..during
    };
    assert_eq!(the_rest, *before);
    let memory_during = memory_kib();
    // New connections are served, and so are the idle ones.
    for _ in 0..100 {
        assert_eq!(Client::to(site.address).ask("/new").unwrap().body, b"/new");
    }
    other.tell();
    let again = other.number();
    other.end();
    Has::wait_for(|now| now == before, "after the other process");
    let asked = site.seen.requests.load(SeqCst) - asked_before;
    assert_eq!(asked, count + 100 + again);
    [memory_before, memory_during, memory_kib()]
}

#[test]
fn ten_thousand_idle_connections_cost_what_is_given_back() {
    if let Ok(address) = std::env::var(SERVER) {
        return have_connections(address.parse().unwrap());
    }
    let count = allow_descriptors();
    assert!(count > 100, "there are descriptors for {count} connections");
    let fresh = Has::now();
    let site = Site::start(|server| server.keep_alive_timeout(None));
    // Until a worker has waited for a descriptor. For that it opens two more, which are kept until the runtime ends: a poller,
    // and an eventfd that rings who sleeps there.
    assert_eq!(
        Client::to(site.address).ask("/warm").unwrap().body,
        b"/warm"
    );
    let workers = site.runtime.cores();
    let before = Has {
        sockets: fresh.sockets + 1,
        polls: fresh.polls + 1,
        events: fresh.events + 1,
        others: fresh.others,
        threads: fresh.threads + workers,
    };
    Has::wait_for(|now| *now == before, "with a server");

    let first = wave(&site, &before, count);
    let second = wave(&site, &before, count);
    println!(
        "{count} idle connections of {WANTED}; KiB before, during, after: {first:?}, {second:?}"
    );
    let cost_kib = first[1].saturating_sub(first[0]);
    // A buffer of hyper has 8 KiB, and would have 16 if a request were read in two parts.
    let each = cost_kib * 1_024 / count;
    assert!(
        (8_000..=12_000).contains(&each),
        "{each} bytes each: {first:?}"
    );
    for [before_kib, _, after_kib] in [first, second] {
        let left_kib = after_kib.saturating_sub(before_kib);
        assert!(left_kib <= cost_kib / 2 + 2_048, "{first:?}, {second:?}");
    }
    // The second wave reuses the memory that the first one left.
    let more_kib = second[2].saturating_sub(first[2]);
    assert!(more_kib <= cost_kib / 4 + 2_048, "{first:?}, {second:?}");
    let served = site.end();
    assert!(served.accepted > 2 * (count + 100), "{served:?}");
    assert_eq!((served.refused, served.cut), (0, 0), "{served:?}");
    Has::wait_for(|now| *now == fresh, "after the server");
}
