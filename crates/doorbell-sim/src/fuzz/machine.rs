//! The simulated machine for a given number of cores.

use doorbell_machine::sim::{CPUS_MAX, MachineSpec};

/// The machine where no profile is given: last-level caches of eight cores, four caches in a socket.
fn usual() -> MachineSpec {
    MachineSpec {
        sockets: 2,
        llc_groups_per_socket: 4,
        cores_per_llc: 8,
        ..MachineSpec::default()
    }
}

/// The smallest machine with at least `cores` CPUs, built from the parts of `profile`: as few of its
/// sockets, last-level caches and cores as suffice, and more sockets if it has too few.
///
/// `cores` is from 1 to [`CPUS_MAX`]. The result can be simulated if `profile` can.
pub fn machine_for(cores: usize, profile: Option<&MachineSpec>) -> MachineSpec {
    let mut spec = profile.cloned().unwrap_or_else(usual);
    spec.sockets = cores.div_ceil(spec.cpus_per_socket());
    if spec.sockets == 1 {
        spec.llc_groups_per_socket = cores.div_ceil(spec.cpus_per_llc());
        if spec.llc_groups_per_socket == 1 {
            spec.cores_per_llc = cores.div_ceil(spec.smt);
        }
    }
    // A full last socket may exceed the limit: then every last-level cache gets fewer cores.
    while spec.cpus() > CPUS_MAX {
        spec.sockets += 1;
        let of_one_core = spec.sockets * spec.llc_groups_per_socket * spec.smt;
        if of_one_core > CPUS_MAX {
            // Its sockets and caches alone exceed the limit: use one socket and one cache.
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
