//! The twins of kernel paths give the order and the sign of what the patches measured.

use super::{US, bench};
use crate::bench::kernel::ipistorm::{self, Kernel};
use crate::bench::kernel::shootdown;

/// The mean of a call, and the interrupts of 100.
fn storm(kernel: Kernel, masked_ns: u64) -> (u64, u64) {
    let shape = ipistorm::Shape {
        kernel,
        masked_ns,
        calls: 400,
    };
    let it = ipistorm::run(&bench("epyc-2x64", 3), shape).unwrap();
    let mean_ns = it.took_ns.iter().sum::<u64>() / 400;
    (mean_ns, it.interrupts / 4)
}

/// The patch: 1.00, with its revert 0.81, with a flag of its own 0.20.
#[test]
fn a_pass_after_each_call_is_dearer_than_an_interrupt_and_a_flag_of_its_own_is_cheapest() {
    let [base, revert, notify] =
        [Kernel::Base, Kernel::Revert, Kernel::Notify].map(|kernel| storm(kernel, 4 * US));
    let so = format!("ns, interrupts of 100: {base:?}, {revert:?}, {notify:?}");
    assert!(
        notify.0 * 2 < base.0 && notify.0 < revert.0 && revert.0 < base.0,
        "{so}"
    );
    assert_eq!((revert.1, notify.1), (100, 0));
    // Every second one comes while interrupts are masked.
    assert!((40..=60).contains(&base.1), "{so}");
    let (short_ns, _) = storm(Kernel::Base, 0);
    assert!(
        short_ns < revert.0,
        "without the masked section it is cheap"
    );
}

/// The patch: 88.7 % fewer interrupts, and 18.6 % more done.
#[test]
fn a_queue_that_is_not_empty_needs_no_interrupt() {
    let [base, patched] = [false, true].map(|is_patched| {
        let shape = shootdown::Shape {
            cpus: 88,
            is_patched,
            work_ns: 20 * US,
            span_ns: 500 * US,
        };
        shootdown::run(&bench("broadwell-2x22-smt", 3), shape).unwrap()
    });
    let per_call = |it: &shootdown::Figures| it.interrupts as f64 / it.calls as f64;
    assert!(
        per_call(&patched) < 0.2 * per_call(&base),
        "{base:?}, {patched:?}"
    );
    assert!(patched.calls > base.calls, "{base:?}, {patched:?}");
}
