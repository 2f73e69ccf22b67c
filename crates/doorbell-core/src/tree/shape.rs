//! The shape of a tree: which workers and which branches are the children of which branch. It follows the distance
//! of the workers' CPUs, and is made once.

use doorbell_machine::Cpu;
use std::ops::Range;

/// A place in a branch: the branch, and which of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    pub(super) branch: usize,
    pub(super) child: usize,
}

/// The children of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// Workers, by number.
    Workers(Box<[usize]>),
    /// Branches of the level below, by number.
    Branches(Box<[usize]>),
}

impl Children {
    pub(super) fn len(&self) -> usize {
        match self {
            Children::Workers(of) | Children::Branches(of) => of.len(),
        }
    }
}

/// One branch of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BranchShape {
    pub(super) parent: Option<Seat>,
    pub(super) children: Children,
}

/// The branches, level by level from the workers up; the last one is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) branches: Vec<BranchShape>,
    /// By branch: which part of `order` its workers are.
    pub(super) places: Vec<Range<usize>>,
    /// By worker: its place in its branch.
    pub(super) seats: Vec<Seat>,
    /// The workers in the order of their branches.
    pub(super) order: Vec<usize>,
}

/// How far two neighbours are from each other: whether they are of one node, and of one last-level cache.
type Distance = (usize, usize);

impl Shape {
    /// The shape for one worker on each of these CPUs, with up to `fanout` children for each branch.
    pub(super) fn new(cpus: &[Cpu], fanout: usize) -> Shape {
        let mut order: Vec<usize> = (0..cpus.len()).collect();
        order.sort_by_key(|&worker| (cpus[worker].node, cpus[worker].llc, worker));
        let distance = |&worker: &usize| (cpus[worker].node, cpus[worker].llc);
        let mut distances: Vec<Distance> = order.iter().map(distance).collect();
        let mut shape = Shape {
            branches: Vec::new(),
            places: Vec::new(),
            seats: vec![
                Seat {
                    branch: 0,
                    child: 0
                };
                cpus.len()
            ],
            order,
        };
        // Workers of several nodes never share a branch; of several caches only where each fits into it whole.
        let groups = pack(&distances, |of| of.0, |of| of.1, fanout);
        shape.add_workers(&groups);
        distances = groups.iter().map(|group| distances[group.start]).collect();
        let mut level = 0..groups.len();
        // Of branches the same with nodes, and above that without regard to distance.
        let mut run: fn(&Distance) -> usize = |of| of.0;
        while level.len() > 1 {
            let groups = pack(&distances, |_| 0, run, fanout);
            shape.add_branches(level.start, &groups);
            distances = groups.iter().map(|group| distances[group.start]).collect();
            level = level.end..level.end + groups.len();
            run = |_| 0;
        }
        shape
    }

    /// Adds the lowest level.
    fn add_workers(&mut self, groups: &[Range<usize>]) {
        for group in groups {
            let branch = self.branches.len();
            let of: Box<[usize]> = self.order[group.clone()].into();
            for (child, &worker) in of.iter().enumerate() {
                self.seats[worker] = Seat { branch, child };
            }
            self.add(Children::Workers(of), group.clone());
        }
    }

    /// Adds a level above the one that begins with the branch `below`.
    fn add_branches(&mut self, below: usize, groups: &[Range<usize>]) {
        for group in groups {
            let branch = self.branches.len();
            let of: Box<[usize]> = group.clone().map(|at| below + at).collect();
            for (child, &number) in of.iter().enumerate() {
                self.branches[number].parent = Some(Seat { branch, child });
            }
            let first = self.places[below + group.start].start;
            let end = self.places[below + group.end - 1].end;
            self.add(Children::Branches(of), first..end);
        }
    }

    fn add(&mut self, children: Children, places: Range<usize>) {
        let parent = None;
        self.branches.push(BranchShape { parent, children });
        self.places.push(places);
    }
}

/// Splits neighbours into groups of at most `most`. A group lies within one `outer`, and holds several whole runs of
/// equal `run`, or a part of one. The parts of one run are of about equal size.
fn pack(
    distances: &[Distance],
    outer: impl Fn(&Distance) -> usize,
    run: impl Fn(&Distance) -> usize,
    most: usize,
) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    let is_same = |a: &Distance, b: &Distance| outer(a) == outer(b) && run(a) == run(b);
    for same in distances.chunk_by(is_same) {
        let (from, to) = (at, at + same.len());
        at = to;
        let open = groups.last_mut();
        let open = open.filter(|open| outer(&distances[open.start]) == outer(&same[0]));
        match open {
            Some(open) if to - open.start <= most => open.end = to,
            _ => {
                let parts = same.len().div_ceil(most);
                let part = |i: usize| from + same.len() * i / parts;
                groups.extend((0..parts).map(|i| part(i)..part(i + 1)));
            }
        }
    }
    groups
}
