//! hyper on two single-threaded tokio runtimes, which share only the address.

use std::net::TcpListener;
use std::thread;

use tokio::runtime::Builder;

use super::super::super::common::tokio_error;
use super::super::part::Part;
use super::running::Running;
use super::tokio::{compute_here, serve};
use super::{Computation, Server, TWO, WORKERS};
use crate::error::LabError;

#[derive(Debug)]
pub(super) struct TwoTokios;

impl Server for TwoTokios {
    fn name(&self) -> &'static str {
        TWO
    }

    fn flag(&self) -> &'static str {
        "two-tokios"
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Hello, Part::Computing, Part::Idle]
    }

    fn listeners(&self) -> usize {
        WORKERS
    }

    fn start(&self, listeners: Vec<TcpListener>, work: Computation) -> Result<Running, LabError> {
        let mut running = Running::default();
        let mut threads = Vec::new();
        for listener in listeners {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(tokio_error)?;
            let stopped = running.stopped();
            let serve =
                move || runtime.block_on(serve(listener, stopped, move || compute_here(work)));
            let started = thread::Builder::new()
                .name("two-tokios".to_owned())
                .spawn(serve);
            threads.push(started.map_err(|source| LabError::System {
                what: "starting a thread",
                source,
            })?);
        }
        Ok(running.ends_by(|| {
            for thread in threads {
                // If it failed, its clients have noticed.
                let _ = thread.join();
            }
        }))
    }
}
