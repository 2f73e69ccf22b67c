//! hyper on doorbell.

use std::any::Any;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use doorbell::Builder;
use doorbell_hyper::DoorbellIo;

use super::super::super::steps::compute;
use super::super::part::Part;
use super::{Server, WORKERS, service};
use crate::error::LabError;

/// How long nobody is accepted after a refusal of the OS.
const REFUSED: Duration = Duration::from_millis(10);

/// It computes in the handler.
#[derive(Debug)]
pub(super) struct Doorbell;

impl Server for Doorbell {
    fn name(&self) -> &'static str {
        "doorbell"
    }

    fn flag(&self) -> &'static str {
        "doorbell"
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Hello, Part::Computing, Part::Idle]
    }

    fn start(&self, listeners: Vec<TcpListener>, steps: u64) -> Result<Box<dyn Any>, LabError> {
        let runtime = Builder::new().cores(WORKERS).build()?;
        for listener in listeners {
            drop(runtime.spawn(accept(listener, steps)));
        }
        Ok(Box::new(runtime))
    }
}

/// Serves every connection in a task of its own. It ends only if the listener is of no use.
async fn accept(listener: TcpListener, steps: u64) -> io::Result<()> {
    let listener = doorbell::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            doorbell::time::sleep(REFUSED).await;
            continue;
        };
        // It makes the answer slower at most.
        let _ = stream.set_nodelay(true);
        let compute = move || async move {
            compute(steps);
        };
        drop(doorbell::spawn(service::serve(
            DoorbellIo::new(stream),
            compute,
        )));
    }
}
