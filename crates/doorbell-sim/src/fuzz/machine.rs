//! The machine of a run that uses some cores.

use doorbell_machine::sim::{CPUS_MAX, MachineSpec};

/// Where no profile is asked for: caches of eight cores, four of them in a socket.
fn usual() -> MachineSpec {
    MachineSpec {
        sockets: 2,
        llc_groups_per_socket: 4,
        cores_per_llc: 8,
        ..MachineSpec::default()
    }
}

/// The smallest machine with so many CPUs that is made of the parts of another one: as few of its
/// sockets, last-level caches and cores as will do, and more sockets if it has too few.
///
/// `cores` is from 1 to [`CPUS_MAX`], and so the machine can be simulated if the other one can.
pub fn machine_for(cores: usize, profile: Option<&MachineSpec>) -> MachineSpec {
    let mut spec = profile.cloned().unwrap_or_else(usual);
    spec.sockets = cores.div_ceil(spec.cpus_per_socket());
    if spec.sockets == 1 {
        spec.llc_groups_per_socket = cores.div_ceil(spec.cpus_per_llc());
        if spec.llc_groups_per_socket == 1 {
            spec.cores_per_llc = cores.div_ceil(spec.smt);
        }
    }
    // The last socket may be too much: then all have fewer cores, rather than some.
    while spec.cpus() > CPUS_MAX {
        spec.sockets += 1;
        let of_one_core = spec.sockets * spec.llc_groups_per_socket * spec.smt;
        if of_one_core > CPUS_MAX {
            // Its parts do not add up to so few.
            spec.sockets = 1;
            spec.llc_groups_per_socket = 1;
            spec.cores_per_llc = cores;
            spec.smt = 1;
        } else {
            spec.cores_per_llc = cores.div_ceil(of_one_core);
        }
    }
    spec
}
