//! The tree by one thread: shapes, single operations, and two enumerations.

mod operations;
mod races;
mod rest;
mod shapes;
mod steps;

use super::{Deactivated, Duty, Step, Tree};
use doorbell_machine::{Cpu, Host};

/// Of a tree that one thread uses; also for the tests of the workers.
impl Tree<Host> {
    /// All its words.
    pub(crate) fn all_words(&self) -> Vec<u64> {
        rest::save(self)
    }
}

/// One worker on each of these nodes.
fn on_nodes(nodes: &[usize]) -> Vec<Cpu> {
    let cpu = |(worker, &node): (usize, &usize)| Cpu {
        node,
        llc: node,
        ..Cpu::flat(worker)
    };
    nodes.iter().enumerate().map(cpu).collect()
}

/// So many workers without distances, in branches of two.
fn of_two(workers: usize) -> Tree<Host> {
    Tree::with_fanout(&on_nodes(&vec![0; workers]), 2)
}

/// These workers wake, in this order.
fn wake(tree: &Tree<Host>, workers: &[usize]) {
    for &worker in workers {
        tree.activate(worker);
    }
}

/// The worker falls asleep with a timer.
fn sleep(tree: &Tree<Host>, worker: usize, next_wake_ns: u64) -> Deactivated {
    tree.note(worker, next_wake_ns);
    tree.deactivate(worker)
}

/// A visitor found that the first timer of a worker is due then.
fn tell(tree: &Tree<Host>, worker: usize, next_wake_ns: u64) -> Duty {
    tree.note(worker, next_wake_ns);
    tree.report(worker)
}

/// Walks for what is due at `now_ns`; returns the workers that were expired, of which each has nothing more.
fn walk(tree: &Tree<Host>, worker: usize, now_ns: u64) -> Vec<usize> {
    let mut expired = Vec::new();
    let mut walk = tree.walk(worker, now_ns);
    while let Step::Expire(worker) = walk.step() {
        expired.push(worker);
        tree.note(worker, u64::MAX);
        assert_eq!(tree.report(worker), Duty::Nothing);
    }
    expired
}
