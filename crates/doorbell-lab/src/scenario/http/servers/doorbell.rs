//! hyper on doorbell.

use std::any::Any;
use std::net::TcpListener;

use doorbell::{Builder, Class};
use doorbell_hyper::Server as HyperServer;
use hyper::service::service_fn;

use super::super::super::steps::compute;
use super::super::part::Part;
use super::{Server, WORKERS, service};
use crate::error::LabError;

/// It computes in the handler, in class Fair, and is asked how it is in class Rt.
#[derive(Debug)]
pub(super) struct Doorbell;

/// The same with all in class Fair.
#[derive(Debug)]
pub(super) struct AllFair;

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
            let listener = doorbell::net::TcpListener::from_std(listener).map_err(listens)?;
            let server = HyperServer::new(listener).classes(|request| match request.uri().path() {
                "/compute" => Class::FAIR,
                _ => Class::rt(60),
            });
            let service = move || {
                service_fn(move |request| {
                    service::answer(request, move || async move {
                        compute(steps);
                    })
                })
            };
            drop(runtime.spawn(server.serve(service)));
        }
        Ok(Box::new(runtime))
    }
}

impl Server for AllFair {
    fn name(&self) -> &'static str {
        "doorbell, one class"
    }

    fn flag(&self) -> &'static str {
        "doorbell-one-class"
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Hello, Part::Computing, Part::Idle]
    }

    fn start(&self, listeners: Vec<TcpListener>, steps: u64) -> Result<Box<dyn Any>, LabError> {
        let runtime = Builder::new().cores(WORKERS).build()?;
        for listener in listeners {
            let listener = doorbell::net::TcpListener::from_std(listener).map_err(listens)?;
            let server = HyperServer::new(listener);
            let service = move || {
                service_fn(move |request| {
                    service::answer(request, move || async move {
                        compute(steps);
                    })
                })
            };
            drop(runtime.spawn(server.serve(service)));
        }
        Ok(Box::new(runtime))
    }
}

fn listens(source: std::io::Error) -> LabError {
    LabError::System {
        what: "taking over a listener",
        source,
    }
}
