//! The parts of the scenario, and the acts that combine them.

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// 64 connections request greetings as fast as they can.
    Hello,
    /// 32 connections request computations, and a probe checks the server's health.
    Computing,
    /// Other connections request `/healthz` as fast as they can, beside connections that compute and beside
    /// plain threads.
    Flood,
    /// Many idle connections.
    Idle,
}

/// How the health probe connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Way {
    /// With a new connection for each request.
    New,
    /// With a connection that is kept open.
    Kept,
}

/// A part with one way to connect: a group of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) part: Part,
    pub(super) way: Way,
    /// Its name in the table.
    pub(super) name: &'static str,
}

/// All acts, in the order of the tables.
pub(super) const ACTS: [Act; 5] = [
    Act {
        part: Part::Hello,
        way: Way::Kept,
        name: "hello, 64 connections",
    },
    Act {
        part: Part::Computing,
        way: Way::New,
        name: "computing, probe on new connections",
    },
    Act {
        part: Part::Computing,
        way: Way::Kept,
        name: "computing, probe on kept ones",
    },
    Act {
        part: Part::Flood,
        way: Way::Kept,
        name: "a flood of /healthz",
    },
    Act {
        part: Part::Idle,
        way: Way::Kept,
        name: "idle connections",
    },
];
