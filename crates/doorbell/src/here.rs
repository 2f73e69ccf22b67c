//! Which machine the calling thread belongs to.

/// Evaluates an expression with a name for the machine of the calling thread.
#[cfg(not(feature = "sim"))]
macro_rules! on_its_machine {
    ($machine:ident => $ask:expr) => {{
        type $machine = doorbell_machine::Host;
        $ask
    }};
}

/// The simulated machine. In tests of this crate each of its mutants can be chosen, so that the oracle is tested.
#[cfg(all(feature = "sim", not(test)))]
pub(crate) type Simulated = doorbell_machine::Sim;
#[cfg(all(feature = "sim", test))]
pub(crate) type Simulated = doorbell_machine::Sim<{ doorbell_machine::sim::CHOSEN }>;

/// Evaluates an expression with a name for the machine of the calling thread: inside a simulation the simulated one.
#[cfg(feature = "sim")]
macro_rules! on_its_machine {
    ($machine:ident => $ask:expr) => {{
        if doorbell_machine::sim::is_inside() {
            type $machine = crate::here::Simulated;
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
