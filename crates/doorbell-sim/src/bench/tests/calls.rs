//! Calls to one worker and to all: what the switches change.

use super::{US, bench, median};
use crate::bench::Bench;
use crate::bench::calls::{Figures, Shape, Who, run};
use doorbell_core::switches::{CallCoalesce, IdleNotify, Switches};

fn of(profile: &str, switches: Switches, who: Who) -> Figures {
    let shape = Shape {
        workers: 24,
        who,
        sleepers: 100,
        span_ns: 200 * US,
    };
    let bench = Bench {
        switches,
        ..bench(profile, 5)
    };
    run(&bench, shape).unwrap()
}

/// A call to a worker that spins costs it no pass with `on`, a pass with `off`, and a ring with `always_ring`.
#[test]
fn what_a_call_costs_a_worker_that_spins() {
    let [off, on, always_ring] =
        [IdleNotify::Off, IdleNotify::On, IdleNotify::AlwaysRing].map(|idle_notify| {
            let switches = Switches {
                idle_notify,
                ..Switches::default()
            };
            of("epyc-2x64", switches, Who::CallLast(1))
        });
    let calls = |it: &Figures| it.took_ns.len() as u64;
    assert!(calls(&on) >= 40, "{}", calls(&on));
    assert!(on.rings == 0 && off.rings == 0);
    assert!(always_ring.rings + 2 >= calls(&always_ring));
    assert!(
        off.passes >= on.passes + calls(&off) / 2,
        "{} {}",
        off.passes,
        on.passes
    );
    assert!(median(&on.took_ns) <= median(&off.took_ns));
}

/// With `on` only the call rings that finds a mailbox empty, and its worker asleep.
#[test]
fn all_workers_that_call_all_ring_seldom() {
    let [on, base] = [CallCoalesce::On, CallCoalesce::Base].map(|call_coalesce| {
        let switches = Switches {
            call_coalesce,
            ..Switches::default()
        };
        of("broadwell-2x22-smt", switches, Who::CallAll)
    });
    let per_call = |it: &Figures| it.rings as f64 / it.took_ns.len() as f64;
    assert!(on.took_ns.len() >= base.took_ns.len() && base.took_ns.len() >= 24);
    assert!(
        per_call(&on) <= 0.2 * per_call(&base),
        "{} {}",
        per_call(&on),
        per_call(&base)
    );
}
