//! The routes, and the class of each route's requests.

use crate::compute::{calibrate, compute};
use crate::counts::{Counts, text};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use doorbell::{Class, Handle};
use std::sync::Arc;
use std::time::Duration;

/// How long a computing route computes.
const WORK: Duration = Duration::from_millis(5);

/// The class of requests for this path. Requests for `/healthz` and `/metrics` are urgent, so they are
/// answered while all cores compute.
pub(crate) fn class_of(path: &str) -> Class {
    match path {
        "/healthz" | "/metrics" => Class::rt(50),
        "/batch" => Class::BATCH,
        _ => Class::FAIR,
    }
}

/// The app.
pub(crate) fn router() -> Router {
    calibrate();
    let counts = Arc::new(Counts::default());
    Router::new()
        .route("/", get(async || "hello from the clinic\n"))
        .route("/compute", get(work))
        .route("/batch", get(work))
        .route("/healthz", get(async || "ok\n"))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(Arc::clone(&counts), count))
        .with_state(counts)
}

/// Computes in place: the worker stays inside this poll until it is done.
async fn work() -> String {
    format!("computed {:016x}\n", compute(WORK))
}

async fn metrics(State(counts): State<Arc<Counts>>) -> String {
    text(&Handle::current().metrics(), &counts)
}

async fn count(State(counts): State<Arc<Counts>>, request: Request, next: Next) -> Response {
    counts.add(request.uri().path());
    next.run(request).await
}
