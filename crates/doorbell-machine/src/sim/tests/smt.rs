//! Tests of SMT siblings, which slow each other down.

use super::{Diary, run, spawn};
use crate::sim::{self, Config, MachineSpec, Policy, Sim, work};
use crate::{Line, Machine, Ordering, Spun, ThreadHandle, Word};
use std::sync::Arc;

type Place = <Sim as Machine>::Line<<Sim as Machine>::U32>;

/// How long the threads of the tests work if nothing slows them.
const WORK_NS: u64 = 1_000_000;
/// The machine's `smt_busy_percent`.
const PERCENT: u64 = 150;
/// The most by which times may be off, because of exits from idle and context switches.
const SLACK_NS: u64 = 50_000;

/// Four cores with two hardware threads each: CPUs 2 and 3 are siblings, and so are 4 and 5. The first thread
/// has CPU 0.
fn machine() -> Config {
    Config {
        machine: MachineSpec {
            cores_per_llc: 4,
            smt: 2,
            smt_busy_percent: PERCENT,
            jitter_percent: 0,
            ..MachineSpec::default()
        },
        ..Config::default()
    }
}

/// A thread that works for `ns`, and notes when it begins and ends.
fn worker(diary: &Diary, cpu: usize, ns: u64, names: [&'static str; 2]) -> sim::SimThread {
    let diary = diary.clone();
    spawn(cpu, move || {
        diary.note(names[0]);
        work(ns);
        diary.note(names[1]);
    })
}

fn took(diary: &Diary, names: [&str; 2]) -> u64 {
    diary.when(names[1]) - diary.when(names[0])
}

const A: [&str; 2] = ["a begins", "a ends"];
const B: [&str; 2] = ["b begins", "b ends"];

/// How long two threads take, given their CPUs and the work of each.
fn two(a: (usize, u64), b: (usize, u64)) -> [u64; 2] {
    let diary = Diary::default();
    let notes = diary.clone();
    run(machine(), move || {
        let threads = [worker(&notes, a.0, a.1, A), worker(&notes, b.0, b.1, B)];
        for thread in threads {
            thread.join().unwrap();
        }
    });
    [took(&diary, A), took(&diary, B)]
}

#[track_caller]
fn assert_about(ns: u64, wanted_ns: u64) {
    assert!(ns.abs_diff(wanted_ns) <= SLACK_NS, "{ns}, not {wanted_ns}");
}

#[test]
fn busy_siblings_take_longer_than_two_cores() {
    assert_eq!(two((2, WORK_NS), (4, WORK_NS)), [WORK_NS, WORK_NS]);
    for ns in two((2, WORK_NS), (3, WORK_NS)) {
        assert_about(ns, WORK_NS * PERCENT / 100);
    }
}

#[test]
fn an_idle_sibling_costs_nothing_and_one_that_ends_costs_no_longer() {
    // The sibling has ended before the other one begins.
    assert_eq!(two((3, 10), (2, WORK_NS))[1], WORK_NS);
    // The sibling has a third of the work. While it works, the other one takes half as long again.
    let short = WORK_NS / 3;
    let [short_ns, long_ns] = two((3, short), (2, WORK_NS));
    assert_about(short_ns, short * PERCENT / 100);
    assert_about(long_ns, WORK_NS + short * (PERCENT - 100) / 100);
}

#[test]
fn steps_of_all_kinds_are_slower_beside_a_busy_sibling() {
    let loads = |sibling: Option<usize>| {
        let diary = Diary::default();
        let notes = diary.clone();
        run(machine(), move || {
            let other = sibling.map(|cpu| worker(&notes, cpu, WORK_NS, B));
            let theirs = notes.clone();
            let thread = spawn(2, move || {
                let word = <Sim as Machine>::U32::new(0);
                work(100_000);
                theirs.note(A[0]);
                for _ in 0..1_000 {
                    word.fetch_add(1, Ordering::Relaxed);
                    Sim::<0>::relax(1);
                }
                theirs.note(A[1]);
            });
            thread.join().unwrap();
            other.map_or(Ok(()), ThreadHandle::join).unwrap();
        });
        took(&diary, A)
    };
    let alone = loads(None);
    assert_eq!(loads(Some(4)), alone);
    let beside = loads(Some(3));
    assert!(
        (alone * 140 / 100..=alone * PERCENT / 100).contains(&beside),
        "{beside} {alone}"
    );
}

#[test]
fn a_sibling_that_spins_a_line_costs_nothing_until_it_sees_it_taken() {
    let diary = Diary::default();
    let notes = diary.clone();
    run(machine(), move || {
        let line = Arc::new(Place::new(|| <Sim as Machine>::U32::new(0)));
        let (spun, theirs) = (Arc::clone(&line), notes.clone());
        let spinner = spawn(3, move || {
            let is_set = |it: &<Sim as Machine>::U32| it.load(Ordering::Acquire) == 1;
            let seen = Sim::<0>::spin(&spun, u64::MAX, is_set);
            assert_eq!(seen, Spun::Changed);
            theirs.note("seen");
            work(WORK_NS);
        });
        work(100_000);
        worker(&notes, 2, WORK_NS, A).join().unwrap();
        // The next thread is halfway when the spinner begins to work.
        let next = worker(&notes, 2, WORK_NS, B);
        sim::sleep(WORK_NS / 2);
        line.store(1, Ordering::Release);
        next.join().unwrap();
        spinner.join().unwrap();
    });
    assert_eq!(took(&diary, A), WORK_NS);
    let alone_ns = diary.when("seen") - diary.when(B[0]);
    let rest_ns = (WORK_NS - alone_ns) * PERCENT / 100;
    assert_about(took(&diary, B), alone_ns + rest_ns);
}

#[test]
fn what_was_interrupted_beside_a_busy_sibling_goes_on_at_full_speed_alone() {
    let diary = Diary::default();
    let notes = diary.clone();
    run(machine(), move || {
        let fifo = spawn(2, || {
            sim::set_policy(Policy::Fifo { priority: 1 });
            sim::sleep(200_000);
            work(WORK_NS);
        });
        let long = worker(&notes, 2, WORK_NS, A);
        // The sibling begins before the interruption and ends during it.
        let beside = worker(&notes, 3, 600_000, B);
        for thread in [long, beside, fifo] {
            thread.join().unwrap();
        }
    });
    // The sibling's 600 us of work take 900 us beside these two threads, which lose a third of that time.
    let sum_ns = 2 * WORK_NS + 600_000 * (PERCENT - 100) / 100;
    let all_ns = took(&diary, A);
    assert!(all_ns.abs_diff(sum_ns) <= 2 * SLACK_NS, "{all_ns} {sum_ns}");
}

#[test]
fn a_slow_cpu_beside_a_busy_sibling_is_slow_twice_until_the_faults_end() {
    let mut config = machine();
    config.faults.slow_cpus = vec![(2, 200)];
    let diary = Diary::default();
    let notes = diary.clone();
    run(config, move || {
        let beside = worker(&notes, 3, 20 * WORK_NS, B);
        sim::sleep(100_000);
        worker(&notes, 2, WORK_NS, A).join().unwrap();
        sim::end_faults();
        worker(&notes, 2, WORK_NS, ["c begins", "c ends"])
            .join()
            .unwrap();
        beside.join().unwrap();
    });
    assert_about(took(&diary, A), 2 * WORK_NS * PERCENT / 100);
    assert_about(
        took(&diary, ["c begins", "c ends"]),
        WORK_NS * PERCENT / 100,
    );
}
