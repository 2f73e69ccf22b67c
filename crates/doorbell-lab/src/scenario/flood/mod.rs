//! `doorbell lab flood`: many posts to one core, from many threads, without waiting.

mod rings;
mod targets;

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crossbeam_utils::CachePadded;

use crate::error::{TASK_LOST, check_count};
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Pin, allowed_cpus};
use crate::peers::Team;
use crate::tools::{Crew, counted_noun};
use targets::{Post, Target};

/// The numbers of producers.
const PRODUCERS: [usize; 4] = [1, 2, 8, PRODUCERS_MAX];
const PRODUCERS_MAX: usize = 32;
const POSTS: [u32; 2] = [1_500_000, 200_000];
/// A producer is never more posts ahead, and checks that after so many.
const AHEAD_MAX: u64 = 10_000;
const LOOK_EVERY: u64 = 1_000;

pub(super) const PLAN: Plan = Plan {
    scenario: "flood",
    work: |options| {
        let amount = options.full_or_quick(POSTS);
        Work::of(amount, 20_000, POSTS[1]).at_most(Duration::from_mins(2))
    },
    contestants,
    compared: "mops_per_s",
    ..Plan::NEW
};

fn group(producers: usize) -> String {
    counted_noun(producers, "producer")
}

fn contestants(stage: &Stage) -> Result<Vec<Contestant>> {
    let cpus = Cpus {
        own: stage.placement.caller_cpu,
        consumer: stage.placement.callee_cpu,
        producers: others(&allowed_cpus()?, stage.placement.callee_cpu),
    };
    let of = |producers| targets::ALL.map(|target| flood(target, producers, cpus.clone()));
    Ok(PRODUCERS.into_iter().flat_map(of).collect())
}

/// The CPUs of the thread that orders, of the consumer and of the producers.
#[derive(Debug, Clone)]
struct Cpus {
    own: usize,
    consumer: usize,
    producers: Vec<usize>,
}

/// The producers keep off the consumer's CPU.
fn others(allowed: &[usize], consumer_cpu: usize) -> Vec<usize> {
    let others = allowed.iter().filter(|cpu| **cpu != consumer_cpu);
    others.copied().collect()
}

/// How many posts of each producer are done.
#[derive(Debug, Default)]
struct Counts {
    done: [CachePadded<AtomicU64>; PRODUCERS_MAX],
}

impl Counts {
    #[inline]
    fn one_done(&self, producer: usize) {
        let count = &self.done[producer];
        // ORDER: Relaxed load, since only the consumer writes. The Release store pairs with the Acquire of
        // `done`, as a producer may reuse what this post used.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn done(&self, producer: usize) -> u64 {
        // ORDER: Acquire pairs with the Release of `one_done`.
        self.done[producer].load(Ordering::Acquire)
    }

    fn done_by_all(&self) -> u64 {
        (0..PRODUCERS_MAX).map(|producer| self.done(producer)).sum()
    }

    /// Waits until a producer is at most so far ahead, without a system call.
    fn wait(&self, producer: usize, posted: u64, ahead_max: u64) {
        while posted - self.done(producer) > ahead_max {
            hint::spin_loop();
        }
    }
}

/// The consumer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gone;

/// How many posts a producer makes, and whom it tells when they are done.
type Order = (u64, Sender<Result<(), Gone>>);

/// A consumer and the threads that post to it.
struct Flood {
    consumer: targets::Consumer,
    counts: &'static Counts,
    threads: Team<Order>,
}

fn flood((name, what, target): Target, producers: usize, cpus: Cpus) -> Contestant {
    let (group, own) = (group(producers), cpus.own);
    let start = move || Flood::start(target, producers, &cpus);
    let run = move |flood: &mut Flood, posts: u32| {
        // On the producers' side: no CPU has to be interrupted for a wake between this thread and them.
        let _here = Pin::to(own)?;
        flood.post(posts.into())
    };
    let variant = format!("{what}, {group}");
    let one = Contestant::new(name, variant, start, run, Flood::end).in_group(group);
    one.baseline_if(name == rings::NAME)
}

impl Flood {
    fn start(target: targets::Start, producers: usize, cpus: &Cpus) -> Result<Self> {
        let counts: &'static Counts = Box::leak(Box::default());
        let consumer = target(cpus.consumer, producers, counts)?;
        let mut threads = Team::new("flood-producer");
        for producer in 0..producers {
            let mut post = (consumer.poster)(producer);
            let cpu = cpus.producers[producer % cpus.producers.len()];
            threads.add(Some(cpu), move || {
                move |(count, done): Order| {
                    let result = post_all(&mut *post, counts, producer, count);
                    // The receiver is gone only if the waiting thread has panicked.
                    let _ = done.send(result);
                }
            })?;
        }
        Ok(Self {
            consumer,
            counts,
            threads,
        })
    }

    fn post(&self, posts: u64) -> Result<Outcome> {
        let before = self.counts.done_by_all();
        let mut crew = Crew::new();
        let begin = Instant::now();
        let producers = self.threads.len();
        for producer in 0..producers {
            let share = share(posts, producers, producer);
            self.threads.order(producer, (share, crew.teller()))?;
        }
        let told = crew.gather()?.into_iter().collect::<Result<(), Gone>>();
        told.ok().context(TASK_LOST)?;
        let span = begin.elapsed();
        check_count("posts", posts, self.counts.done_by_all() - before)?;
        let mops_per_s = posts as f64 / span.as_secs_f64() / 1e6;
        Ok(Outcome::of(posts, [("mops_per_s", mops_per_s)]))
    }

    fn end(self) -> Result<()> {
        let result = self.threads.end();
        drop(self.consumer.poster);
        (self.consumer.stop)().and(result)
    }
}

/// The part of a producer.
fn share(amount: u64, producers: usize, producer: usize) -> u64 {
    let (all, one) = (producers as u64, producer as u64);
    amount / all + u64::from(one < amount % all)
}

fn post_all(post: &mut Post, counts: &Counts, producer: usize, count: u64) -> Result<(), Gone> {
    // All earlier ones are done.
    let mut posted = counts.done(producer);
    let end = posted + count;
    while posted < end {
        counts.wait(producer, posted, AHEAD_MAX - LOOK_EVERY);
        let stretch = LOOK_EVERY.min(end - posted);
        post(stretch)?;
        posted += stretch;
    }
    counts.wait(producer, end, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{self, assert_plan, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn every_post_is_done_once() {
        try_each(
            testing::contestants(&PLAN, &Options::default()),
            |one, run| {
                for posts in [5, 40_001] {
                    let outcome = outcome(one, run, posts);
                    assert_eq!(outcome.operations, u64::from(posts), "{one:?}");
                    assert!(outcome.figures["mops_per_s"] > 0.0, "{one:?}");
                }
            },
        );
    }

    #[test]
    fn shares_add_up() {
        for producers in PRODUCERS {
            let shares = (0..producers).map(|one| share(100, producers, one));
            assert_eq!(shares.sum::<u64>(), 100, "{producers}");
        }
        assert_eq!((share(3, 8, 2), share(3, 8, 3)), (1, 0));
    }

    #[test]
    fn producers_keep_off_the_consumers_cpu() {
        assert_eq!(others(&[0, 1], 1), [0]);
        assert_eq!(others(&[2, 4, 6], 4), [2, 6]);
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["M ops/s", "x limit", "RES+CAL/1M", "syscalls/1M", "ctx/1k"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
