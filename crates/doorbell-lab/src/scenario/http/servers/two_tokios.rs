//! hyper on two of tokio's runtimes of one thread, which share nothing but the address.

use std::any::Any;
use std::net::TcpListener;
use std::thread;

use tokio::runtime::Builder;

use super::super::super::common::tokio_error;
use super::super::part::Part;
use super::tokio::{accept, compute_here};
use super::{Server, TWO, WORKERS};
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

    fn start(&self, listeners: Vec<TcpListener>, steps: u64) -> Result<Box<dyn Any>, LabError> {
        for listener in listeners {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(tokio_error)?;
            let serve = move || runtime.block_on(accept(listener, move || compute_here(steps)));
            let started = thread::Builder::new()
                .name("two-tokios".to_owned())
                .spawn(serve);
            started.map_err(|source| LabError::System {
                what: "starting a thread",
                source,
            })?;
        }
        // The threads end with the process.
        Ok(Box::new(()))
    }
}
