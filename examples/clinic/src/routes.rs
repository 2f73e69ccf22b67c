//! The routes, and the class that each one's requests run in.

use crate::compute::{calibrate, compute};
use crate::counts::{Counts, text};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use doorbell::{Class, Handle};
use futures_channel::oneshot;
use std::sync::Arc;
use std::time::Duration;

/// How long the routes compute that compute.
const WORK: Duration = Duration::from_millis(5);

/// Above all requests that are not urgent, and above the connections that they come by.
const URGENT: Class = Class::rt(50);

/// The class that requests for this path run in.
pub(crate) fn class_of(path: &str) -> Class {
    match path {
        "/healthz" | "/metrics" => URGENT,
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
        .layer(from_fn_with_state(Arc::clone(&counts), in_class))
        .with_state(counts)
}

/// As people write it: the lane is inside this poll for as long as it takes.
async fn work() -> String {
    format!("computed {:016x}\n", compute(WORK))
}

async fn metrics(State(counts): State<Arc<Counts>>) -> String {
    text(&Handle::current().metrics(), &counts)
}

/// Counts the request, and runs what is behind in a task of the route's class. It is not awaited by its handle: whoever awaits
/// one of a lower class by that has it run on lanes of his own.
async fn in_class(State(counts): State<Arc<Counts>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    counts.add(path);
    let class = class_of(path);
    let (answer, answered) = oneshot::channel();
    let handler = doorbell::task().class(class).spawn(async move {
        // Nobody hears it where the client is gone.
        let _ = answer.send(next.run(request).await);
    });
    let handler = AbortOnDrop(handler);
    let response = answered.await;
    drop(handler);
    // It panicked.
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// A request whose client is gone is not worked on.
struct AbortOnDrop(doorbell::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
