//! hyper on tokio's runtime of several threads.

use std::any::Any;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::runtime::Builder;

use super::super::super::common::tokio_error;
use super::super::super::steps::compute;
use super::super::part::Part;
use super::{BASELINE, Server, WORKERS, service};
use crate::error::LabError;

/// How long nobody is accepted after a refusal of the OS.
const REFUSED: Duration = Duration::from_millis(10);

/// Where it computes: in the handler, or else in `spawn_blocking`.
#[derive(Debug)]
pub(super) struct Tokio {
    pub(super) blocking: bool,
}

impl Server for Tokio {
    fn name(&self) -> &'static str {
        if self.blocking {
            "tokio, spawn_blocking"
        } else {
            BASELINE
        }
    }

    fn flag(&self) -> &'static str {
        if self.blocking {
            "tokio-blocking"
        } else {
            "tokio"
        }
    }

    fn parts(&self) -> &'static [Part] {
        if self.blocking {
            &[Part::Computing]
        } else {
            &[Part::Hello, Part::Computing, Part::Idle]
        }
    }

    fn start(&self, listeners: Vec<TcpListener>, steps: u64) -> Result<Box<dyn Any>, LabError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .map_err(tokio_error)?;
        for listener in listeners {
            if self.blocking {
                runtime.spawn(accept(listener, move || compute_aside(steps)));
            } else {
                runtime.spawn(accept(listener, move || compute_here(steps)));
            }
        }
        Ok(Box::new(runtime))
    }
}

/// In the handler.
pub(super) async fn compute_here(steps: u64) {
    compute(steps);
}

async fn compute_aside(steps: u64) {
    // It fails only if the work panics or the runtime ends; then nobody waits for the answer.
    let _ = tokio::task::spawn_blocking(move || compute(steps)).await;
}

/// Serves every connection in a task of its own. It ends only if the listener is of no use.
pub(super) async fn accept<C, W>(listener: TcpListener, compute: C) -> io::Result<()>
where
    C: Fn() -> W + Clone + Send + Sync + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(REFUSED).await;
            continue;
        };
        // It makes the answer slower at most.
        let _ = stream.set_nodelay(true);
        tokio::spawn(service::serve(TokioIo::new(stream), compute.clone()));
    }
}
