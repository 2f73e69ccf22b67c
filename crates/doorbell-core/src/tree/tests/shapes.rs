//! Shapes: one root, each worker and each branch in one place, and neighbours together.

use super::super::FANOUT_MAX;
use super::super::shape::{Children, Seat, Shape};
use doorbell_machine::Cpu;
use std::collections::BTreeSet;

/// CPUs of so many nodes, caches per node, and CPUs per cache.
fn machine(nodes: usize, caches: usize, cpus: usize) -> Vec<Cpu> {
    let all = 0..nodes * caches * cpus;
    let cpu = |number: usize| Cpu {
        llc: number / cpus,
        node: number / cpus / caches,
        ..Cpu::flat(number)
    };
    all.map(cpu).collect()
}

/// How many levels the shape has.
fn levels(shape: &Shape) -> usize {
    let mut seat = Some(shape.seats[0]);
    std::iter::from_fn(|| {
        seat = shape.branches[seat?.branch].parent;
        Some(())
    })
    .count()
}

/// Checks what every shape must keep.
fn check(cpus: &[Cpu], fanout: usize) -> Shape {
    let shape = Shape::new(cpus, fanout);
    let roots = shape.branches.iter().filter(|of| of.parent.is_none());
    assert_eq!(roots.count(), 1, "{} workers: two roots", cpus.len());
    assert!(shape.branches.last().unwrap().parent.is_none());
    let mut workers = BTreeSet::new();
    for (branch, of) in shape.branches.iter().enumerate() {
        assert!((1..=fanout).contains(&of.children.len()));
        let places = shape.places[branch].clone();
        match &of.children {
            Children::Workers(of) => {
                assert_eq!(shape.order[places], **of);
                for (child, &worker) in of.iter().enumerate() {
                    assert_eq!(shape.seats[worker], Seat { branch, child });
                    assert!(workers.insert(worker), "in two places");
                }
                let nodes: BTreeSet<_> = of.iter().map(|&worker| cpus[worker].node).collect();
                assert_eq!(nodes.len(), 1, "a branch of two nodes");
            }
            Children::Branches(of) => {
                for (child, &below) in of.iter().enumerate() {
                    assert_eq!(shape.branches[below].parent, Some(Seat { branch, child }));
                }
                let mut below = of.iter().map(|&number| shape.places[number].clone());
                let first = below.next().unwrap();
                let end = below.fold(first.end, |end, next| {
                    assert_eq!(next.start, end);
                    next.end
                });
                assert_eq!(places, first.start..end);
            }
        }
    }
    assert_eq!(workers.len(), cpus.len());
    shape
}

#[test]
fn every_shape_has_one_root_and_each_worker_once() {
    for fanout in 2..=FANOUT_MAX {
        for cpus in 1..70 {
            check(&machine(1, 1, cpus), fanout);
            check(&machine(1, cpus, 1), fanout);
            check(&machine(cpus, 1, 1), fanout);
        }
        for (nodes, caches, cpus) in [(2, 8, 8), (2, 3, 5), (4, 1, 12), (3, 5, 9), (8, 16, 8)] {
            check(&machine(nodes, caches, cpus), fanout);
        }
    }
}

#[test]
fn four_levels_are_enough_for_a_thousand_workers() {
    for (nodes, caches, cpus) in [
        (1, 1, 1024),
        (2, 64, 8),
        (16, 8, 8),
        (8, 16, 8),
        (4, 51, 5),
        (2, 102, 5),
        (1, 113, 9),
    ] {
        let shape = check(&machine(nodes, caches, cpus), FANOUT_MAX);
        assert!(levels(&shape) <= 4, "{nodes} × {caches} × {cpus}");
    }
}

#[test]
fn a_branch_is_a_cache_or_several_whole_ones() {
    let caches = |cpus: &[Cpu]| {
        let shape = check(cpus, FANOUT_MAX);
        let of = |of: &super::super::shape::BranchShape| match &of.children {
            Children::Workers(of) => Some(of.iter().map(|&worker| cpus[worker].llc).collect()),
            Children::Branches(_) => None,
        };
        shape
            .branches
            .iter()
            .filter_map(of)
            .collect::<Vec<Vec<usize>>>()
    };
    assert_eq!(caches(&machine(1, 2, 4)), [[0, 0, 0, 0, 1, 1, 1, 1]]);
    assert_eq!(caches(&machine(1, 2, 6)), [[0; 6], [1; 6]]);
    assert_eq!(caches(&machine(1, 3, 5)), [[0; 5], [1; 5], [2; 5]]);
    assert_eq!(caches(&machine(1, 1, 12)), [[0; 6], [0; 6]]);
    assert_eq!(caches(&machine(2, 1, 3)), [[0; 3], [1; 3]]);
}

#[test]
fn numbers_may_be_in_any_order() {
    let mut cpus = machine(2, 2, 8);
    cpus.reverse();
    cpus.swap(3, 20);
    check(&cpus, FANOUT_MAX);
}
