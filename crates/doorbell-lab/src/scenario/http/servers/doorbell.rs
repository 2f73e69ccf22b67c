//! hyper on doorbell.

use std::net::TcpListener;

use doorbell::{Builder, Class};
use doorbell_hyper::Server as HyperServer;
use hyper::Request;
use hyper::service::service_fn;

use super::super::part::Part;
use super::running::{DRAIN, Running};
use super::{Computation, HEADER_TIMEOUT, OURS, Server, WORKERS, service};
use crate::error::LabError;

/// The classes in which requests are answered. Computations run in the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// `/healthz` in class Rt and all others in Fair, as the documentation of `Server::classes` suggests.
    Classes,
    /// Also `/` in class Rt.
    UrgentHello,
    /// All in class Fair.
    OneClass,
}

impl Doorbell {
    /// The class of a request.
    fn class_of<B>(self, request: &Request<B>) -> Class {
        match (request.uri().path(), self) {
            ("/healthz", _) | ("/", Self::UrgentHello) => Class::rt(50),
            _ => Class::FAIR,
        }
    }
}

impl Server for Doorbell {
    fn name(&self) -> &'static str {
        match self {
            Self::Classes => OURS,
            Self::UrgentHello => "doorbell, / in class Rt",
            Self::OneClass => "doorbell, one class",
        }
    }

    fn flag(&self) -> &'static str {
        match self {
            Self::Classes => "doorbell",
            Self::UrgentHello => "doorbell-urgent-hello",
            Self::OneClass => "doorbell-one-class",
        }
    }

    fn parts(&self) -> &'static [Part] {
        match self {
            Self::Classes | Self::OneClass => {
                &[Part::Hello, Part::Computing, Part::Flood, Part::Idle]
            }
            // In all other parts it is the same as `Classes`.
            Self::UrgentHello => &[Part::Hello],
        }
    }

    fn start(&self, listeners: Vec<TcpListener>, work: Computation) -> Result<Running, LabError> {
        let runtime = Builder::new().cores(WORKERS).build()?;
        let classes = *self;
        let mut running = Running::default();
        let mut tasks = Vec::new();
        for listener in listeners {
            let listener = doorbell::net::TcpListener::from_std(listener).map_err(listens)?;
            let stopped = running.stopped();
            let server = HyperServer::new(listener)
                .header_timeout(Some(HEADER_TIMEOUT))
                .drain_timeout(DRAIN)
                .shutdown_on(async {
                    // The channel is closed to request the end; no message is sent.
                    let _ = stopped.await;
                });
            let service = move || {
                service_fn(move |request| {
                    service::answer(request, move || work.run_in_slices(doorbell::yield_now))
                })
            };
            tasks.push(match classes {
                Self::OneClass => runtime.spawn(server.serve(service)),
                Self::Classes | Self::UrgentHello => {
                    let server = server.classes(move |request| classes.class_of(request));
                    runtime.spawn(server.serve(service))
                }
            });
        }
        Ok(running.ends_by(move || {
            for task in tasks {
                // If it failed, its clients have noticed.
                let _ = runtime.block_on(task);
            }
        }))
    }
}

fn listens(source: std::io::Error) -> LabError {
    LabError::System {
        what: "taking over a listener",
        source,
    }
}
