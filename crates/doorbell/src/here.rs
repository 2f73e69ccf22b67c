//! Which machine the calling thread belongs to.

/// Evaluates an expression with a name for the machine of the calling thread.
#[cfg(not(feature = "sim"))]
macro_rules! on_its_machine {
    ($machine:ident => $ask:expr) => {{
        type $machine = doorbell_machine::Host;
        $ask
    }};
}

/// Evaluates an expression with a name for the machine of the calling thread: inside a simulation the simulated one.
#[cfg(feature = "sim")]
macro_rules! on_its_machine {
    ($machine:ident => $ask:expr) => {{
        if doorbell_machine::sim::is_inside() {
            type $machine = doorbell_machine::Sim;
            $ask
        } else {
            type $machine = doorbell_machine::Host;
            $ask
        }
    }};
}

pub(crate) use on_its_machine;

/// Refuses what would go past the simulated machine to the OS.
#[cfg(feature = "sim")]
pub(crate) use doorbell_machine::sim::refuse_os;

/// Refuses nothing: there is no simulation.
#[cfg(not(feature = "sim"))]
#[inline(always)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "with the feature `sim` it can be an error"
)]
pub(crate) fn refuse_os() -> std::io::Result<()> {
    Ok(())
}
