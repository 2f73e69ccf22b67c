//! What a runtime's counters must say once nothing is left to do.

use doorbell::{Handle, metrics::Metrics, metrics::raw::WorkerCounts};

/// The work that a runtime was given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Closures posted to its workers that ran or may have run.
    pub(super) closures: u64,
    /// Those of them that certainly ran.
    pub(super) closures_min: u64,
    /// Operations. Each has a limited number of tasks and timers.
    pub(super) operations: u64,
}

/// The most tasks, wakes and timers of one operation.
const NODES_PER_OPERATION: u64 = 200;

/// The counts once they no longer change, or after the last look.
pub(super) fn when_idle(handle: &Handle) -> Metrics {
    let mut before = handle.metrics();
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        let now = handle.metrics();
        if now == before {
            break;
        }
        before = now;
    }
    before
}

/// The sums that do not add up.
pub(super) fn findings(counts: &[WorkerCounts], asked: Asked) -> Vec<String> {
    let mut findings = Vec::new();
    for (core, c) in counts.iter().enumerate() {
        let mut at_most = |what: &str, less: u64, more: u64| {
            if less > more {
                findings.push(format!("core {core}: {what}: {less} > {more} in {c:?}"));
            }
        };
        let ended = c.unparks_rung + c.unparks_last_test + c.unparks_deadline + c.unparks_ready;
        at_most("ended parks, parks", ended, c.parks);
        at_most("parks, ended parks and the present one", c.parks, ended + 1);
        // A worker that is rung between its announcement and its last look does not park at all.
        let spared = c.rings_awake + c.rings_helped;
        let needed = c.rings.saturating_sub(spared);
        at_most(
            "rings, parks + parks_avoided",
            needed,
            c.parks + c.parks_avoided,
        );
        at_most("rings_awake, rings", c.rings_awake, c.rings);
        at_most(
            "rings_helped, 2 (parks + parks_avoided)",
            c.rings_helped,
            2 * (c.parks + c.parks_avoided),
        );
        at_most("unparks_rung, rings", c.unparks_rung, c.rings);
        at_most("takes, delivered", c.takes, c.delivered);
        at_most("thefts, searches", c.thefts, c.searches);
    }
    let sum = |of: fn(&WorkerCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let (delivered, polls) = (sum(|c| c.delivered), sum(|c| c.polls));
    let most = asked.closures + polls + NODES_PER_OPERATION * asked.operations;
    if !(asked.closures_min..=most).contains(&delivered) {
        findings.push(format!(
            "{delivered} were delivered, which is not within {}..={most} ({asked:?}, {polls} polls)",
            asked.closures_min
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Asked, findings};
    use doorbell::metrics::raw::WorkerCounts;

    #[test]
    fn what_does_not_add_up_is_found() {
        let asked = Asked::default();
        let found = |change: fn(&mut WorkerCounts)| {
            let mut counts = WorkerCounts::default();
            change(&mut counts);
            findings(&[counts], asked).len()
        };
        assert_eq!(found(|_| ()), 0);
        assert_eq!(found(|c| c.parks = 1), 0, "it is parked");
        assert_eq!(found(|c| c.parks = 2), 1);
        assert_eq!(found(|c| c.unparks_deadline = 1), 1);
        assert_eq!(found(|c| c.rings = 1), 1);
        assert_eq!(found(|c| (c.rings, c.parks_avoided) = (1, 1)), 0);
        assert_eq!(found(|c| c.delivered = 1), 1);
        assert_eq!(found(|c| (c.delivered, c.polls) = (1, 1)), 0);
        let lost = Asked {
            closures: 2,
            closures_min: 2,
            operations: 1,
        };
        let counts = WorkerCounts::default();
        assert_eq!(findings(&[counts], lost).len(), 1);
    }
}
