//! The routes, and the class of each route's requests.

use crate::ClinicError;
use crate::compute::{calibrate, compute};
use crate::counts::{Counts, text};
use crate::itself::Itself;
use crate::log::log;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use doorbell::{Class, Handle};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a computing route computes.
const WORK: Duration = Duration::from_millis(5);

/// The class of requests for this path. Requests for `/healthz` and `/metrics` are urgent, so their handlers
/// preempt what computes.
pub(crate) fn class_of(path: &str) -> Class {
    match path {
        "/healthz" | "/metrics" => Class::rt(50),
        "/batch" => Class::BATCH,
        _ => Class::FAIR,
    }
}

/// What the handlers share.
#[derive(Debug)]
struct App {
    counts: Counts,
    itself: Itself,
}

/// The app, which listens at this address.
pub(crate) fn router(address: SocketAddr, is_logged: bool) -> Result<Router, ClinicError> {
    calibrate();
    let app = Arc::new(App {
        counts: Counts::default(),
        itself: Itself::at(address)?,
    });
    let router = Router::new()
        .route("/", get(async || "hello from the clinic\n"))
        .route("/compute", get(work))
        .route("/batch", get(work))
        .route("/healthz", get(async || "ok\n"))
        .route("/self", get(itself))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(Arc::clone(&app), count))
        .with_state(app);
    Ok(if is_logged {
        router.layer(from_fn(log))
    } else {
        router
    })
}

/// Computes in place: the worker stays inside this poll until it is done.
async fn work() -> String {
    format!("computed {:016x}\n", compute(WORK))
}

async fn itself(State(app): State<Arc<App>>) -> Result<String, (StatusCode, String)> {
    app.itself.ask().await
}

async fn metrics(State(app): State<Arc<App>>) -> String {
    text(&Handle::current().metrics(), &app.counts)
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    app.counts.add(request.uri().path());
    next.run(request).await
}
