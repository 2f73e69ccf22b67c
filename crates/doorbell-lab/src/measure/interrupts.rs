//! Interrupts that one CPU sends to another, from `/proc/interrupts`.
//!
//! Two rows count: RES tells a busy CPU to reschedule, and CAL tells it to run a function. Waking an idle
//! CPU counts as CAL. Other architectures label the rows differently but describe them alike, so both are
//! checked.

use anyhow::Result;
const INTERRUPTS: &str = "/proc/interrupts";

/// RES and CAL interrupts since the machine started, summed over its CPUs; `None` if the kernel has neither row.
pub(crate) fn interrupts() -> Result<Option<u64>> {
    Ok(parse(&crate::read(INTERRUPTS)?))
}

/// Sums the two rows in the text of `/proc/interrupts`.
fn parse(text: &str) -> Option<u64> {
    let rows = text.lines().filter_map(count_of_row);
    rows.reduce(|sum, one| sum + one)
}

/// The sum over CPUs, if `row` is one of the two.
fn count_of_row(row: &str) -> Option<u64> {
    let (label, rest) = row.split_once(':')?;
    let described =
        rest.ends_with("Rescheduling interrupts") || rest.ends_with("Function call interrupts");
    if !matches!(label.trim(), "RES" | "CAL") && !described {
        return None;
    }
    let counts = rest.split_whitespace();
    Some(counts.map_while(|field| field.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "           CPU0       CPU1       \n\
        \x20 24:          1          0  PCI-MSIX-0000:00:01.0   0-edge  virtio0-config\n\
        NMI:          0          0   Non-maskable interrupts\n\
        RES:       3877       2892   Rescheduling interrupts\n\
        CAL:      25184      19029   Function call interrupts\n\
        TLB:        100        200   TLB shootdowns\n\
        ERR:          0\n";

    #[test]
    fn both_rows_are_summed_over_the_cpus() {
        let expected = 3_877 + 2_892 + 25_184 + 19_029;
        assert_eq!(parse(X86), Some(expected));
    }

    #[test]
    fn other_architectures_are_known_by_description() {
        let text = "IPI0:   10   20       Rescheduling interrupts\n\
                    IPI1:    3    4       Function call interrupts\n\
                    IPI2:  900  900       CPU stop interrupts\n";
        assert_eq!(parse(text), Some(37));
    }

    #[test]
    fn a_kernel_without_the_rows_has_no_count() {
        assert_eq!(parse("      CPU0\n  0:  7  IO-APIC  timer\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_row_ends_at_its_description() {
        // A description may contain a digit; columns never follow text.
        assert_eq!(count_of_row("RES: 5 6 text 7"), Some(11));
        assert_eq!(count_of_row("no colon here"), None);
    }
}
