//! Every tree that whole operations can make, and what must hold of each: the oracle, which `steps.rs` uses as well.

use super::super::{Branch, Deactivated, Duty, Step, Tree};
use super::{of_two, on_nodes, tell};
use doorbell_machine::{Host, Ordering};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The number of bits below the sequence of a branch's word.
const STATE_BITS: u32 = 16;

/// What a test knows of the workers that the tree does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sleepers {
    /// By worker: until when it sleeps, `u64::MAX` if no timer of the tree ends its sleep; `None` while it is awake.
    pub(super) until_ns: Vec<Option<u64>>,
    /// A caller was told to wake one by then, and has not done so.
    pub(super) owed_ns: u64,
}

impl Sleepers {
    pub(super) fn new(workers: usize) -> Self {
        Sleepers {
            until_ns: vec![Some(u64::MAX); workers],
            owed_ns: u64::MAX,
        }
    }

    pub(super) fn wake(&mut self, worker: usize) {
        self.until_ns[worker] = None;
        self.owed_ns = u64::MAX;
    }

    pub(super) fn told(&mut self, told: Duty) {
        if let Duty::WakeBy(at_ns) = told {
            self.owed_ns = self.owed_ns.min(at_ns);
        }
    }
}

/// All words of a tree.
fn words(tree: &Tree<Host>) -> impl Iterator<Item = &<Host as doorbell_machine::Machine>::U64> {
    let slots = |of: &'_ Branch<Host>| of.children.len();
    let branches = tree.branches.iter();
    let branches = branches.flat_map(move |of| of.slots[..slots(of)].iter().chain([&*of.word]));
    let own = tree
        .own
        .iter()
        .flat_map(|own| [&own.next_wake_ns, &own.stood]);
    branches.chain(own).chain([&*tree.sentry.word])
}

/// The content of a tree.
pub(super) fn save(tree: &Tree<Host>) -> Vec<u64> {
    // ORDER: Relaxed; one thread.
    words(tree)
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// The tree as it was saved.
pub(super) fn restore(tree: &Tree<Host>, saved: &[u64]) {
    for (word, &saved) in words(tree).zip(saved) {
        // ORDER: Relaxed; one thread.
        word.store(saved, Ordering::Relaxed);
    }
}

/// Stands for a state in the set of those that were seen: a state takes hundreds of bytes, and there are millions. The
/// second half goes on from all that the hasher knows of the state.
pub(super) fn digest(state: &impl Hash) -> (u64, u64) {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    let first = hasher.finish();
    hasher.write_u8(1);
    (first, hasher.finish())
}

/// Forgets how often the words were exchanged.
fn without_sequences(tree: &Tree<Host>) {
    for branch in &tree.branches {
        // ORDER: Relaxed; one thread.
        let word = branch.word.load(Ordering::Relaxed);
        branch
            .word
            .store(word % (1 << STATE_BITS), Ordering::Relaxed);
    }
}

/// What must hold whenever no operation is under way.
pub(super) fn check(tree: &Tree<Host>, sleepers: &Sleepers) {
    assert_eq!(tree.check_at_rest(|_| true), Ok(()));
    if let Some((sentry, noted_ns)) = tree.sentry.named() {
        let until_ns = sleepers.until_ns[sentry];
        assert_eq!(until_ns, Some(noted_ns), "the sentry {sentry} is awake");
    }
    let workers = 0..tree.seats.len();
    if workers.clone().any(|worker| tree.is_active(worker)) {
        return;
    }
    let earliest_ns = workers.map(|worker| tree.next_wake_ns(worker)).min();
    let earliest_ns = earliest_ns.unwrap_or(u64::MAX);
    if earliest_ns == u64::MAX {
        return;
    }
    let until_ns = sleepers.until_ns.iter().flatten();
    let in_time = until_ns
        .filter(|&&until_ns| until_ns <= earliest_ns)
        .count();
    assert!(
        in_time > 0 || sleepers.owed_ns <= earliest_ns,
        "a timer is forgotten: {sleepers:?}"
    );
}

/// A tree, what is known of its workers, and what a test tries with it.
struct Enumeration {
    tree: Tree<Host>,
    next_wakes: Vec<u64>,
    /// Whether workers are set aside too.
    aside: bool,
}

/// The content of a tree and its workers.
type Saved = (Vec<u64>, Sleepers);

impl Enumeration {
    /// Tries every operation on every tree that can be reached; returns how many there are.
    fn run(&self) -> usize {
        let first = (save(&self.tree), Sleepers::new(self.tree.seats.len()));
        let mut seen = HashSet::from([digest(&first)]);
        let mut open = vec![first];
        while let Some(saved) = open.pop() {
            for worker in 0..self.tree.seats.len() {
                self.each_operation(&saved, worker, &mut |next| {
                    if seen.insert(digest(&next)) {
                        open.push(next);
                    }
                });
            }
        }
        seen.len()
    }

    /// Every operation of one worker.
    fn each_operation(&self, saved: &Saved, worker: usize, found: &mut dyn FnMut(Saved)) {
        let mut attempt = |operation: &dyn Fn(&mut Sleepers)| {
            restore(&self.tree, &saved.0);
            let mut sleepers = saved.1.clone();
            operation(&mut sleepers);
            check(&self.tree, &sleepers);
            without_sequences(&self.tree);
            found((save(&self.tree), sleepers));
        };
        restore(&self.tree, &saved.0);
        let (is_awake, is_active) = (
            saved.1.until_ns[worker].is_none(),
            self.tree.is_active(worker),
        );
        assert!(is_awake || !is_active, "active in its sleep");
        if !is_active {
            attempt(&|sleepers| {
                sleepers.wake(worker);
                self.tree.activate(worker);
            });
        }
        if !is_awake {
            return;
        }
        for &next_wake_ns in &self.next_wakes {
            attempt(&|sleepers| self.sleep(sleepers, worker, next_wake_ns));
            if is_active && next_wake_ns != u64::MAX {
                attempt(&|_| self.walk(worker, next_wake_ns));
            }
            if !is_active {
                attempt(&|sleepers| sleepers.told(tell(&self.tree, worker, next_wake_ns)));
            }
            if is_active && self.aside {
                attempt(&|sleepers| {
                    assert_eq!(tell(&self.tree, worker, next_wake_ns), Duty::Nothing);
                    sleepers.told(self.tree.set_aside(worker));
                });
            }
        }
    }

    fn sleep(&self, sleepers: &mut Sleepers, worker: usize, next_wake_ns: u64) {
        self.tree.note(worker, next_wake_ns);
        sleepers.until_ns[worker] = Some(match self.tree.deactivate(worker) {
            Deactivated::Nothing => u64::MAX,
            Deactivated::SleepUntil(at_ns) => at_ns,
        });
    }

    fn walk(&self, worker: usize, now_ns: u64) {
        let mut walk = self.tree.walk(worker, now_ns);
        while let Step::Expire(other) = walk.step() {
            assert!(!self.tree.is_active(other) && self.tree.next_wake_ns(other) <= now_ns);
            self.tree.note(other, u64::MAX);
            assert_eq!(self.tree.report(other), Duty::Nothing);
        }
        assert!(self.tree.next_ns(worker) > now_ns, "something due was left");
    }
}

#[test]
fn every_order_of_operations_on_one_branch() {
    let trees = Enumeration {
        tree: Tree::new(&on_nodes(&[0; 3])),
        next_wakes: vec![1 << 10, 2 << 10, u64::MAX],
        aside: true,
    };
    let count = trees.run();
    assert!(count > 1_000, "{count}");
}

#[test]
fn every_order_of_operations_on_two_levels() {
    let trees = Enumeration {
        tree: Tree::with_fanout(&on_nodes(&[0, 0, 1]), 2),
        next_wakes: vec![1 << 10, 2 << 10, u64::MAX],
        aside: true,
    };
    let count = trees.run();
    assert!(count > 1_000, "{count}");
}

#[test]
fn every_order_of_operations_on_three_levels() {
    let trees = Enumeration {
        tree: of_two(5),
        next_wakes: vec![1 << 10, u64::MAX],
        aside: false,
    };
    let count = trees.run();
    assert!(count > 1_000, "{count}");
}
