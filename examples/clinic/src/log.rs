//! A line on standard error for each request.

use axum::Extension;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use doorbell_hyper::ConnectionInfo;
use std::io::{self, Write as _};

/// Answers the request, and then prints who asked for what.
pub(crate) async fn log(
    Extension(info): Extension<ConnectionInfo>,
    request: Request,
    next: Next,
) -> Response {
    let asked = format!(
        "{} {} {}",
        client(&info),
        request.method(),
        request.uri().path()
    );
    let answer = next.run(request).await;
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{asked} {}", answer.status().as_u16());
    answer
}

fn client(info: &ConnectionInfo) -> String {
    let client = match (info.peer_addr(), info.peer_cred()) {
        (Some(address), _) => address.to_string(),
        (None, Some(cred)) => format!("user {}", cred.uid),
        (None, None) => "somebody".to_owned(),
    };
    match info.tls() {
        Some(_) => client + " (TLS)",
        None => client,
    }
}
