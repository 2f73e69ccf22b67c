//! The OS refuses descriptors that urgent workers need to look after others. In a process of its own, whose
//! limit it changes.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class, SpawnError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;

#[test]
fn a_rescue_that_the_os_refuses_is_an_error_and_may_be_opened_later() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.open_class(Class::rt(1)).unwrap();
    let limit = getrlimit(Resource::Nofile);
    // In turn, the ward's set, its eventfd and a copy of the set are refused.
    for more in 0..3 {
        let next = File::open("/dev/null").unwrap();
        let next = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&next)).unwrap();
        let few = Rlimit {
            current: Some(next + more),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, few).unwrap();
        let opened = runtime.open_rescue();
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(
            matches!(opened, Err(SpawnError::NoRescue { .. })),
            "{more}: {opened:?}"
        );
    }
    runtime.open_rescue().unwrap();
}
