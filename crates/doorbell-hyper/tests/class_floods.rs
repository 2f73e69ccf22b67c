//! Floods of requests of one class, beside which another one is to be served.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod common;
mod plain;
mod routes;

use common::bind;
use doorbell::{Builder, Class, ClassKind, Policy, Runtime};
use doorbell_hyper::Server;
use plain::{Client, LONG, alone, request};
use routes::{BRIEF, Routes, compute};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Read as _;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Set also where the test fails, so that other threads end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Asks for that until it is over; how long each answer took.
fn asks(address: SocketAddr, path: &str, body: &str, over: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::to(address);
    let mut times = Vec::new();
    while !over.load(SeqCst) {
        let start = Instant::now();
        assert_eq!(client.ask(path).unwrap().body, body.as_bytes());
        times.push(start.elapsed());
    }
    times
}

#[test]
fn an_urgent_route_is_answered_while_all_lanes_of_fair_compute() {
    const FLOOD: usize = 16;
    const BEATS: usize = 100;
    let _alone = alone();
    // Bound: no lane is on a CPU of its own while those of class Fair compute.
    let builder = Builder::new().core_list(cpus().into_iter().take(2));
    let routes = Routes::on(builder, |server| server);
    let over = AtomicBool::new(false);
    let (urgent, computing) = thread::scope(|scope| {
        let flood: Vec<_> = (0..FLOOD)
            .map(|_| scope.spawn(|| asks(routes.address, "/fair/computes", "computed", &over)))
            .collect();
        let ends = SetOnDrop(&over);
        // Until all of them have begun.
        let start = Instant::now();
        while routes.seen.handlers.lock().unwrap().len() < 2 * FLOOD {
            assert!(start.elapsed() < LONG);
            thread::sleep(Duration::from_millis(1));
        }
        let mut client = Client::to(routes.address);
        let urgent: Vec<_> = (0..BEATS)
            .map(|_| {
                let start = Instant::now();
                assert_eq!(client.ask("/rt/known").unwrap().body, b"hello, world");
                let took = start.elapsed();
                // The flood goes on meanwhile.
                thread::sleep(Duration::from_millis(2));
                took
            })
            .collect();
        drop(ends);
        let computing = flood.into_iter().flat_map(|it| it.join().unwrap());
        (urgent, computing.collect::<Vec<_>>())
    });
    assert!(computing.len() >= 2 * FLOOD, "{}", computing.len());
    let (urgent, computing) = (median(urgent), median(computing));
    println!("urgent {urgent:?}, computing {computing:?}");
    // They wait for each other, FLOOD of them on two lanes at most; it waits for none.
    assert!(computing >= 2 * routes::WORK, "{computing:?} is no flood");
    assert!(urgent < computing / 2, "{urgent:?}, {computing:?}");
    routes.end();
}

/// Whether the urgent lanes go before all other threads here; else the OS shares the CPU, and says why.
fn goes_first(runtime: &Runtime) -> bool {
    let policies = runtime.policies();
    let urgent = policies.iter().find(|lane| lane.class() == ClassKind::Rt);
    let urgent = urgent.expect("the connections are urgent");
    let is_first = matches!(urgent.got(), Some(Policy::Fifo { .. }));
    if !is_first {
        println!("nothing is tested: {urgent}");
    }
    is_first
}

/// Pipelines cheap requests on those CPUs until it is over; how many were answered.
fn pipelines(address: SocketAddr, cpus: &[usize], over: &AtomicBool) -> u64 {
    const AT_ONCE: usize = 100;
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).unwrap();
    let mut client = Client::to(address);
    // All answers are as long as the first one.
    client.get("/rt/brief").unwrap();
    let mut head = [0; 512];
    let mut length = 0;
    while !head[..length].ends_with(b"computed") {
        length += client.stream().read(&mut head[length..]).unwrap();
    }
    let requests = request("/rt/brief").repeat(AT_ONCE);
    let mut answers = vec![0; length * AT_ONCE];
    let mut answered = 1;
    // The server never waits for the client: it has more to do while that reads.
    for _ in 0..3 {
        client.write(requests.as_bytes()).unwrap();
    }
    while !over.load(SeqCst) {
        client.write(requests.as_bytes()).unwrap();
        client.stream().read_exact(&mut answers).unwrap();
        assert!(answers.ends_with(b"computed"));
        answered += AT_ONCE as u64;
    }
    answered
}

/// What came of a flood of cheap urgent requests: how many were answered, and how many times a task of class Fair ran.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    answered: u64,
    ran: u64,
}

impl Came {
    fn and(self, other: Came) -> Came {
        Came {
            answered: self.answered + other.answered,
            ran: self.ran + other.ran,
        }
    }
}

/// Floods one core for a while; `None` where that is not to be had.
fn flood(share: f64) -> Option<Came> {
    const CLIENTS: usize = 4;
    const TIME: Duration = Duration::from_millis(300);
    let budget = |server: Server| {
        let urgent = server.connection_class(Class::rt(50));
        urgent.connection_budget(share, Duration::from_millis(2))
    };
    let cpus = cpus();
    let [cpu, others @ ..] = cpus.as_slice() else {
        unreachable!("it runs")
    };
    if others.is_empty() {
        println!("nothing is tested: the clients need a CPU beside that of the server");
        return None;
    }
    let routes = Routes::on(Builder::new().core_list([*cpu]), budget);
    assert_eq!(
        Client::to(routes.address).ask("/rt/known").unwrap().status,
        200
    );
    if !goes_first(&routes.runtime) {
        routes.end();
        return None;
    }
    let ran = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&ran);
    let fair = routes.runtime.spawn(async move {
        loop {
            compute(BRIEF);
            theirs.fetch_add(1, SeqCst);
            doorbell::yield_now().await;
        }
    });
    let over = AtomicBool::new(false);
    let came = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| pipelines(routes.address, others, &over)))
            .collect();
        let ends = SetOnDrop(&over);
        thread::sleep(TIME / 4);
        let before = ran.load(SeqCst);
        thread::sleep(TIME);
        let ran = ran.load(SeqCst) - before;
        drop(ends);
        let answered = clients.into_iter().map(|it| it.join().unwrap()).sum();
        Came { answered, ran }
    });
    fair.abort();
    routes.end();
    Some(came)
}

#[test]
fn a_flood_of_cheap_urgent_requests_leaves_fair_its_part() {
    const ROUNDS: usize = 4;
    let _alone = alone();
    let (mut little, mut all) = (Came::default(), Came::default());
    for _ in 0..ROUNDS {
        let Some(came) = flood(0.2) else { return };
        little = little.and(came);
        all = all.and(flood(1.0).expect("as before"));
    }
    println!("a fifth {little:?}, all of it {all:?}");
    for came in [little, all] {
        assert!(came.answered > 1_000 && came.ran > 100, "{came:?}");
    }
    // A poll of such a client takes longer than a period of the budget, and is made up for.
    assert!(little.ran > 3 * all.ran, "{little:?}, {all:?}");
    // Without it being made up for they were answered nearly as often.
    assert!(2 * little.answered < all.answered, "{little:?}, {all:?}");
}

#[test]
fn a_budget_that_is_none_is_refused_with_what_to_choose() {
    let server = || Server::new(bind().0);
    let period = Duration::from_millis(2);
    for share in [0.0, -0.5, 1.5, f64::INFINITY, f64::NAN] {
        let budget = AssertUnwindSafe(|| drop(server().connection_budget(share, period)));
        let refused = catch_unwind(budget);
        let said = refused.expect_err("it is refused");
        let said = said.downcast_ref::<String>().unwrap();
        for part in [&share.to_string(), "choose more than 0 and at most 1"] {
            assert!(said.contains(part), "{share}: {said}");
        }
    }
    for share in [f64::MIN_POSITIVE, 0.5, 1.0] {
        drop(server().connection_budget(share, period));
    }
}
