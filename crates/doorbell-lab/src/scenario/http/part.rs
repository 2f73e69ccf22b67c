//! The parts of the scenario, and who takes part in which.

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// 64 connections ask for a greeting, as fast as they can.
    Hello,
    /// 32 connections have the server compute, and somebody looks whether it is healthy.
    Computing,
    /// Others ask whether it is healthy, as fast as they can: beside connections that compute, and beside plain threads.
    Flood,
    /// Many connections ask nothing.
    Idle,
}

/// How the probe connects that looks whether the server is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Anew each time.
    New,
    /// Once.
    Kept,
}

/// What is run, each one as a group of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) part: Part,
    pub(super) way: Way,
    /// As the table names it.
    pub(super) name: &'static str,
}

/// All of them, in the order of the tables.
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
