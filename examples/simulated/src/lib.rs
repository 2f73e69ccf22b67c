//! A small service in one process, to be run on simulated cores: a limiter, a pool of connections to a slow store, a
//! cache, and accounts between which requests move money. Four faults that are common in async programs can be planted in
//! it; the tests find each by seeds.

mod costs;
mod parts;
mod pool;

pub use costs::{CostsError, page};
pub use parts::many_parts;

use doorbell::sim;
use doorbell::time::{Duration, sleep, timeout};
use pool::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use tokio::sync::{Mutex, Semaphore};

/// A fault that is planted in the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// None: the service is right.
    Nothing,
    /// The count of served requests is read, and written back after an `.await`.
    LostUpdate,
    /// Some reports lock the journal and then the accounts, all others the other way round.
    TwoOrders,
    /// A task that waits for a connection looks whether one is free, awaits, and then registers its waker.
    LateWaker,
    /// A transfer that takes too long is dropped between its two halves.
    HalfDone,
}

/// Money in all accounts.
const MONEY: i64 = 1_000;

/// Number of accounts.
const ACCOUNTS: u64 = 10;

/// How long a transfer may take.
const WITHIN: Duration = Duration::from_micros(90);

/// The service. Clones are the same service.
#[derive(Clone, Debug)]
pub struct Service(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    planted: Planted,
    limiter: Semaphore,
    pool: Pool,
    cache: StdMutex<BTreeMap<u64, u64>>,
    accounts: Mutex<BTreeMap<u64, i64>>,
    journal: Mutex<Vec<(u64, u64)>>,
    served: StdMutex<u64>,
}

/// Waits for a random time below this.
async fn pause(most: Duration) {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
    sleep(Duration::from_nanos(sim::random() % most_ns)).await;
}

impl Service {
    /// A service with four connections, and a limit of 32 requests at a time.
    pub fn new(planted: Planted) -> Self {
        Service(Arc::new(Inner {
            planted,
            limiter: Semaphore::new(32),
            pool: Pool::new(4, planted == Planted::LateWaker),
            cache: StdMutex::default(),
            accounts: Mutex::new((0..ACCOUNTS).map(|id| (id, MONEY / 10)).collect()),
            journal: Mutex::default(),
            served: StdMutex::default(),
        }))
    }

    /// Answers a request.
    pub async fn request(&self, number: u64) -> u64 {
        let _permit = self.0.limiter.acquire().await;
        let value = self.look_up(number % 50).await;
        let (from, to) = (number % ACCOUNTS, sim::random() % ACCOUNTS);
        self.transfer(from, to).await;
        self.count().await;
        value
    }

    /// A value of the cache, or of the store.
    async fn look_up(&self, key: u64) -> u64 {
        if let Some(value) = self.0.cache.lock().expect("no panic").get(&key) {
            return *value;
        }
        let value = self.0.pool.with_connection(|| self.ask_store(key)).await;
        self.0.cache.lock().expect("no panic").insert(key, value);
        value
    }

    /// Asks the store, which is slow.
    async fn ask_store(&self, key: u64) -> u64 {
        pause(Duration::from_micros(100)).await;
        sim::work(Duration::from_micros(5));
        key * key
    }

    /// Moves one unit from account to account, unless that takes too long.
    async fn transfer(&self, from: u64, to: u64) {
        if self.0.planted == Planted::HalfDone {
            let halves = async {
                *self.0.accounts.lock().await.entry(from).or_default() -= 1;
                self.ask_store(from).await;
                *self.0.accounts.lock().await.entry(to).or_default() += 1;
            };
            let _ = timeout(WITHIN, halves).await;
            return;
        }
        // All that waits comes first; the change itself is one poll.
        let both = async {
            self.ask_store(from).await;
            let accounts = self.0.accounts.lock().await;
            (accounts, self.0.journal.lock().await)
        };
        if let Ok((mut accounts, mut journal)) = timeout(WITHIN, both).await {
            *accounts.entry(from).or_default() -= 1;
            *accounts.entry(to).or_default() += 1;
            journal.push((from, to));
        }
    }

    async fn count(&self) {
        if self.0.planted == Planted::LostUpdate {
            let seen = *self.0.served.lock().expect("no panic");
            doorbell::yield_now().await;
            *self.0.served.lock().expect("no panic") = seen + 1;
            return;
        }
        *self.0.served.lock().expect("no panic") += 1;
    }

    /// The money in all accounts, and the number of transfers.
    pub async fn report(&self, number: u64) -> (i64, usize) {
        if self.0.planted == Planted::TwoOrders && number.is_multiple_of(20) {
            let journal = self.0.journal.lock().await;
            doorbell::yield_now().await;
            let accounts = self.0.accounts.lock().await;
            return (accounts.values().sum(), journal.len());
        }
        let accounts = self.0.accounts.lock().await;
        doorbell::yield_now().await;
        let journal = self.0.journal.lock().await;
        (accounts.values().sum(), journal.len())
    }

    /// How many requests were answered.
    ///
    /// # Panics
    /// If a request has panicked.
    pub fn served(&self) -> u64 {
        *self.0.served.lock().expect("no panic")
    }
}

/// Sends this many requests to a service, asks it for reports meanwhile, and checks what it did.
///
/// # Panics
/// If a request panics.
pub async fn day(planted: Planted, requests: u64) {
    let service = Service::new(planted);
    let tasks: Vec<_> = (0..requests)
        .map(|number| {
            let service = service.clone();
            doorbell::spawn(async move {
                pause(Duration::from_micros(2 * requests)).await;
                let value = service.request(number).await;
                sim::check(value == (number % 50).pow(2), "a wrong answer");
                if number.is_multiple_of(10) {
                    let _ = service.report(number).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it does not panic");
    }
    sim::check(service.served() == requests, "a request was not counted");
    sim::check(service.report(1).await.0 == MONEY, "money came or went");
}
