//! Several operations at once, in every order of their steps: each climb makes a step of its reads, one of its store,
//! and one of its exchange. Each script runs until nothing is under way; then the oracle of `rest.rs` holds.

use super::super::climb::{At, Bit, Climb, Exchanged, Top};
use super::super::shape::Seat;
use super::super::{Deactivated, Duty, Step, Tree, Walk};
use super::rest::{Sleepers, check, digest, restore, save};
use super::{of_two, on_nodes};
use doorbell_machine::Host;
use std::collections::HashSet;

const NONE: u64 = u64::MAX;

/// The sentry's word notes times in such units.
const UNIT_NS: u64 = 1 << 10;

/// One operation of a script.
#[derive(Clone, Copy, Debug)]
enum Op {
    Activate(usize),
    Sleep(usize, u64),
    /// A visitor of its wheel found that its first timer is due then.
    Tell(usize, u64),
    SetAside(usize),
    /// An awake worker fires what is due at that time.
    Walk(usize, u64),
    /// The walk of an awake worker finds nothing below that branch: the climb from there.
    Repair(usize, usize),
}

use Op::{Activate, Repair, SetAside, Sleep, Tell, Walk as Walks};

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    /// The next operation.
    Begin,
    /// Of a climb.
    Read(At),
    Write(At),
    Exchange(At),
    /// Everyone is asleep: when the earliest timer is due.
    Least,
    /// Whether the worker becomes a sentry until then.
    Stand(u64),
    /// Of a walk.
    Find(Option<Seat>, usize),
}

/// A thread: how many operations are done, and the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Thread {
    done: usize,
    next: Next,
    /// Where its walk goes on after the climb that is under way.
    walk: Option<(Option<Seat>, usize)>,
}

impl Thread {
    fn begin(done: usize) -> Self {
        Thread {
            done,
            next: Next::Begin,
            walk: None,
        }
    }
}

/// One state of a script.
type Saved = (Vec<u64>, Sleepers, Vec<Thread>);

struct Scripts<'a> {
    tree: &'a Tree<Host>,
    scripts: &'a [Vec<Op>],
}

impl Scripts<'_> {
    /// Tries every order; returns how many states there are.
    fn run(&self, sleepers: Sleepers) -> usize {
        let threads = vec![Thread::begin(0); self.scripts.len()];
        let first: Saved = (save(self.tree), sleepers, threads);
        let mut seen = HashSet::from([digest(&first)]);
        let mut open = vec![first];
        while let Some(saved) = open.pop() {
            let mut is_rest = true;
            for (at, thread) in saved.2.iter().enumerate() {
                if thread.next != Next::Begin {
                    is_rest = false;
                }
                if thread.next == Next::Begin && thread.done == self.scripts[at].len() {
                    continue;
                }
                restore(self.tree, &saved.0);
                let mut sleepers = saved.1.clone();
                let mut threads = saved.2.clone();
                threads[at] = self.step(*thread, self.scripts[at][thread.done], &mut sleepers);
                let next = (save(self.tree), sleepers, threads);
                if seen.insert(digest(&next)) {
                    open.push(next);
                }
            }
            if is_rest {
                restore(self.tree, &saved.0);
                check(self.tree, &saved.1);
            }
        }
        seen.len()
    }

    /// One step of a thread.
    fn step(&self, thread: Thread, op: Op, sleepers: &mut Sleepers) -> Thread {
        let tree = self.tree;
        let to = |next| Thread { next, ..thread };
        match thread.next {
            Next::Begin => self.begin(thread, op, sleepers),
            Next::Read(at) => {
                let mut climb = Climb { tree, at };
                climb.read();
                to(Next::Write(climb.at))
            }
            Next::Write(at) => {
                Climb { tree, at }.write();
                to(Next::Exchange(at))
            }
            Next::Exchange(at) => {
                let mut climb = Climb { tree, at };
                match climb.exchange() {
                    Exchanged::Again => to(Next::Read(climb.at)),
                    Exchanged::Ended(top) => self.after_climb(thread, op, top),
                }
            }
            Next::Least => match (op, tree.uncovered_ns(Top::Empty)) {
                (Op::Sleep(..), Some(at_ns)) => to(Next::Stand(at_ns)),
                (_, Some(at_ns)) => {
                    sleepers.told(Duty::WakeBy(at_ns));
                    Self::end(thread)
                }
                (_, None) => Self::end(thread),
            },
            Next::Stand(at_ns) => {
                let worker = worker_of(op);
                if let Deactivated::SleepUntil(until_ns) = tree.stand(worker, at_ns) {
                    sleepers.until_ns[worker] = Some(until_ns);
                }
                Self::end(thread)
            }
            Next::Find(seat, from) => self.find(thread, op, seat, from),
        }
    }

    fn begin(&self, thread: Thread, op: Op, sleepers: &mut Sleepers) -> Thread {
        let to = |next| Thread { next, ..thread };
        match op {
            Op::Activate(worker) => {
                sleepers.wake(worker);
                self.tree.sentry.leave(&self.tree.own[worker], worker);
                to(self.climb(worker, Bit::Set))
            }
            Op::Sleep(worker, next_wake_ns) => {
                self.tree.note(worker, next_wake_ns);
                sleepers.until_ns[worker] = Some(NONE);
                to(self.climb(worker, Bit::Clear))
            }
            Op::Tell(worker, next_wake_ns) => {
                self.tree.note(worker, next_wake_ns);
                to(self.climb(worker, Bit::Keep))
            }
            Op::SetAside(worker) => to(self.climb(worker, Bit::Clear)),
            Op::Repair(_, branch) => {
                let seat = self.tree.branches[branch].parent.expect("no root");
                to(Next::Read(Climb::from_branch(self.tree, branch, seat).at))
            }
            Op::Walk(worker, now_ns) => {
                let walk = self.tree.walk(worker, now_ns);
                to(Next::Find(walk.seat, walk.from))
            }
        }
    }

    fn climb(&self, worker: usize, bit: Bit) -> Next {
        Next::Read(Climb::from_worker(self.tree, worker, bit).at)
    }

    fn after_climb(&self, thread: Thread, op: Op, top: Top) -> Thread {
        let next = match (op, top) {
            // After its walk a worker that was set aside goes back.
            (Op::Activate(worker) | Op::Repair(worker, _), top)
                if Tree::<Host>::climbs_again(top) =>
            {
                self.climb(worker, Bit::Set)
            }
            (Op::Activate(_) | Op::Repair(..), _) | (_, Top::Awake) => return Self::end(thread),
            (_, Top::Empty) => Next::Least,
        };
        Thread { next, ..thread }
    }

    /// The operation is over, or its walk goes on.
    fn end(thread: Thread) -> Thread {
        match thread.walk {
            None => Thread::begin(thread.done + 1),
            Some((seat, from)) => Thread {
                next: Next::Find(seat, from),
                walk: None,
                ..thread
            },
        }
    }

    fn find(&self, thread: Thread, op: Op, seat: Option<Seat>, from: usize) -> Thread {
        let Op::Walk(_, now_ns) = op else {
            unreachable!()
        };
        let tree = self.tree;
        let mut walk = Walk {
            tree,
            now_ns,
            seat,
            from,
        };
        match walk.step() {
            Step::Done => Thread::begin(thread.done + 1),
            // The visit of its wheel: the worker cannot enter it meanwhile, so that is one step.
            Step::Expire(worker) => {
                tree.note(worker, NONE);
                Thread {
                    next: self.climb(worker, Bit::Keep),
                    walk: Some((walk.seat, walk.from)),
                    ..thread
                }
            }
        }
    }
}

fn worker_of(op: Op) -> usize {
    match op {
        Op::Activate(worker)
        | Op::Sleep(worker, _)
        | Op::Tell(worker, _)
        | Op::SetAside(worker)
        | Op::Walk(worker, _)
        | Op::Repair(worker, _) => worker,
    }
}

/// Runs the scripts, one for each thread, on a new tree whose workers `active` are awake.
fn run(tree: &Tree<Host>, active: &[usize], scripts: &[Vec<Op>]) -> usize {
    let mut sleepers = Sleepers::new(tree.seats.len());
    for &worker in active {
        sleepers.wake(worker);
        tree.activate(worker);
    }
    Scripts { tree, scripts }.run(sleepers)
}

/// Two branches, of workers 0 and 1 and of worker 2, and a root.
fn two_branches() -> Tree<Host> {
    Tree::with_fanout(&on_nodes(&[0, 0, 1]), 2)
}

#[test]
fn sleepers_and_wakers_of_two_branches() {
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS), Activate(0), Sleep(0, 3 * UNIT_NS)],
        vec![Activate(1), Sleep(1, 7 * UNIT_NS)],
        vec![Sleep(2, 9 * UNIT_NS), Activate(2), Sleep(2, 4 * UNIT_NS)],
    ];
    let states = run(&two_branches(), &[0, 2], &scripts);
    assert!(states > 10_000, "{states}");
}

#[test]
fn sleepers_and_wakers_of_one_branch() {
    let tree = Tree::new(&on_nodes(&[0; 3]));
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS), Activate(0), Sleep(0, 3 * UNIT_NS)],
        vec![
            Activate(1),
            Sleep(1, 7 * UNIT_NS),
            Activate(1),
            Sleep(1, 2 * UNIT_NS),
        ],
        vec![Sleep(2, 9 * UNIT_NS), Activate(2), Sleep(2, NONE)],
    ];
    let states = run(&tree, &[0, 2], &scripts);
    assert!(states > 10_000, "{states}");
}

#[test]
fn a_new_timer_of_a_stuck_worker_against_the_last_to_sleep() {
    let scripts = [
        vec![Tell(0, 3 * UNIT_NS), Activate(0), Sleep(0, 4 * UNIT_NS)],
        vec![Sleep(1, 7 * UNIT_NS), Activate(1)],
        vec![SetAside(0)],
    ];
    let states = run(&two_branches(), &[0, 1], &scripts);
    assert!(states > 10_000, "{states}");
}

#[test]
fn a_walker_beside_sleepers_and_wakers() {
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS), Activate(0), Sleep(0, 3 * UNIT_NS)],
        vec![Sleep(1, 4 * UNIT_NS), Activate(1)],
        vec![Walks(2, 5 * UNIT_NS), Sleep(2, 4 * UNIT_NS)],
    ];
    let states = run(&two_branches(), &[0, 1, 2], &scripts);
    assert!(states > 10_000, "{states}");
}

#[test]
fn a_walker_that_is_set_aside() {
    let scripts = [
        vec![Walks(0, 5 * UNIT_NS), Activate(0), Sleep(0, 6 * UNIT_NS)],
        vec![SetAside(0)],
        vec![Sleep(2, 4 * UNIT_NS), Activate(2)],
    ];
    let states = run(&two_branches(), &[0, 2], &scripts);
    assert!(states > 1_000, "{states}");
}

/// Its branch and the one above were never used: in the kernel's tree a level is added then.
#[test]
fn t3_a_worker_begins_beside_a_walk() {
    let scripts = [
        vec![Walks(0, 5 * UNIT_NS), Sleep(0, 6 * UNIT_NS)],
        vec![Sleep(1, 4 * UNIT_NS)],
        vec![Activate(4), Sleep(4, 3 * UNIT_NS)],
    ];
    let states = run(&of_two(5), &[0, 1], &scripts);
    assert!(states > 1_000, "{states}");
}

/// A worker comes on and goes off again, and leaves a timer.
#[test]
fn t3_a_worker_comes_and_goes_off_beside_a_walk() {
    let scripts = [
        vec![Walks(0, 5 * UNIT_NS), Sleep(0, 6 * UNIT_NS)],
        vec![Sleep(1, 4 * UNIT_NS)],
        vec![Activate(3), Tell(3, 3 * UNIT_NS), SetAside(3)],
    ];
    let states = run(&of_two(5), &[0, 1], &scripts);
    assert!(states > 1_000, "{states}");
}

/// Meanwhile a visitor finds a timer in its branch, and the last other worker falls asleep: that one may see an old slot,
/// if the first worker was stopped after its store. Then nobody but the first worker knows that none wakes in time.
#[test]
fn a_worker_that_is_set_aside_while_it_activates_climbs_again() {
    let scripts = [
        vec![Activate(0)],
        vec![SetAside(0)],
        vec![Tell(1, 3 * UNIT_NS), Sleep(2, 9 * UNIT_NS)],
    ];
    let states = run(&two_branches(), &[2], &scripts);
    assert!(states > 1_000, "{states}");
}

/// The same with a worker that is set aside in its walk, while that repairs a slot.
#[test]
fn a_worker_that_is_set_aside_while_its_walk_repairs_a_slot_goes_back() {
    let tree = Tree::with_fanout(&on_nodes(&[0, 0, 1, 2]), 4);
    let scripts = [
        vec![Repair(2, 0)],
        vec![SetAside(2)],
        vec![Tell(1, 3 * UNIT_NS), Sleep(3, 9 * UNIT_NS)],
    ];
    let states = run(&tree, &[2, 3], &scripts);
    assert!(states > 1_000, "{states}");
}

#[test]
fn sleepers_and_wakers_on_three_levels() {
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS), Activate(0), Sleep(0, 3 * UNIT_NS)],
        vec![Activate(2), Sleep(2, 7 * UNIT_NS)],
        vec![Sleep(4, 9 * UNIT_NS), Activate(4), Sleep(4, 4 * UNIT_NS)],
    ];
    let states = run(&of_two(5), &[0, 4], &scripts);
    assert!(states > 10_000, "{states}");
}

#[test]
fn four_threads_of_two_branches() {
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS)],
        vec![Activate(1)],
        vec![Activate(2)],
        vec![Sleep(3, 6 * UNIT_NS), Activate(3)],
    ];
    let states = run(&of_two(4), &[0, 3], &scripts);
    assert!(states > 10_000, "{states}");
}

/// A climb of worker 0 that was stopped goes on when worker 1 is awake for the second time, and is stopped again: it
/// has shown their branch as active to the next one, but not to the root. So worker 1 stops its own climb there, and
/// worker 3, on whose sleep the others rely, wakes and sleeps again while the root counts as inactive.
#[test]
fn a_sentry_wakes_unseen_beside_a_climb_that_is_stopped() {
    let tree = of_two(8);
    let mut sleepers = Sleepers::new(8);
    tree.activate(3);
    tree.note(3, 4 * UNIT_NS);
    assert_eq!(tree.deactivate(3), Deactivated::SleepUntil(4 * UNIT_NS));
    sleepers.until_ns[3] = Some(4 * UNIT_NS);
    sleepers.wake(0);
    tree.activate(0);
    let scripts = [
        vec![Sleep(0, 5 * UNIT_NS)],
        vec![
            Activate(1),
            Sleep(1, 6 * UNIT_NS),
            Activate(1),
            Sleep(1, 6 * UNIT_NS),
        ],
        vec![Activate(3), Sleep(3, 4 * UNIT_NS)],
    ];
    let (tree, scripts) = (&tree, &scripts);
    let states = Scripts { tree, scripts }.run(sleepers);
    assert!(states > 10_000, "{states}");
}

/// A script that the worker can run: of `length` operations, chosen by the numbers that `random` returns.
fn script(
    worker: usize,
    mut is_awake: bool,
    length: usize,
    random: &mut impl FnMut(u64) -> u64,
) -> Vec<Op> {
    let next_wake =
        |random: &mut dyn FnMut(u64) -> u64| [3 * UNIT_NS, 5 * UNIT_NS, NONE][random(3) as usize];
    let mut next = || {
        let op = match (is_awake, random(4)) {
            (false, _) => Activate(worker),
            (true, 0) => Tell(worker, next_wake(random)),
            (true, 1) => Walks(worker, 4 * UNIT_NS),
            (true, _) => Sleep(worker, next_wake(random)),
        };
        is_awake = !matches!(op, Op::Sleep(..));
        op
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn random_scripts_of_two_workers_and_a_watchdog() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut states = 0;
    for round in 0..6 {
        let (tree, workers) = match round % 3 {
            0 => (two_branches(), [0, 1]),
            1 => (two_branches(), [1, 2]),
            _ => (of_two(5), [1, 3]),
        };
        let awake: Vec<usize> = workers.into_iter().filter(|_| random(3) > 0).collect();
        let scripts = workers.map(|worker| script(worker, awake.contains(&worker), 2, &mut random));
        let mut scripts = scripts.to_vec();
        scripts.push(vec![SetAside(workers[0])]);
        states += run(&tree, &awake, &scripts);
    }
    assert!(states > 100_000, "{states}");
}
