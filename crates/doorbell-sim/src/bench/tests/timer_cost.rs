//! Timers armed and dropped on one worker beside busy ones.

use super::bench_with;
use crate::bench::timer_cost::{Case, Figures, LOOP, Shape, run};
use doorbell_core::switches::TimerPull;

const WORKERS: usize = 16;

fn cost(timer_pull: TimerPull, case: Case) -> Figures {
    let shape = Shape {
        workers: WORKERS,
        case,
    };
    run(&bench_with(timer_pull, 1), shape).unwrap()
}

fn mean_ns(figures: &Figures) -> u64 {
    figures.took_ns.iter().sum::<u64>() / figures.timers
}

#[test]
fn a_loop_costs_as_much_with_on_as_with_off_and_at_most_three_quarters_of_base() {
    let [off, on, base] = TimerPull::ALL.map(|pull| cost(pull, Case::Loop));
    assert_eq!((off.mails, on.mails), (0, 0));
    assert_eq!(base.rings, 0, "a worker that is busy needs none");
    // Each timer is mailed, and each drop of one that was taken in.
    assert!((base.timers..=2 * base.timers).contains(&base.mails));
    assert_eq!(base.timers % LOOP, 0);
    let [off, on, base] = [off, on, base].map(|it| mean_ns(&it));
    assert!(50 * on <= 51 * off, "{on} ns with on, {off} with off");
    assert!(4 * on <= 3 * base, "{on} ns with on, {base} with base");
    assert!((10..=1_000).contains(&on) && base <= 2_000, "{on}, {base}");
}

#[test]
fn with_base_a_busy_worker_arms_its_timers_itself() {
    for (case, mails) in [(Case::ArmWhileBusy, 0), (Case::ArmBeforeIdle, 1)] {
        let it = cost(TimerPull::Base, case);
        assert_eq!(it.mails, mails * it.timers, "{case:?}");
        assert_eq!(cost(TimerPull::On, case).mails, 0, "{case:?}");
    }
}
