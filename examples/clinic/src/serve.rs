//! The server, from its first connection to its last.

use crate::routes::{class_of, router};
use doorbell::net::TcpListener;
use doorbell_hyper::{ServeError, Served, Server};

/// Serves until it is told to stop, and then until requests in flight are answered, for 30 s at most.
///
/// # Errors
/// If the listener has failed.
pub(crate) async fn serve(
    listener: TcpListener,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<Served, ServeError> {
    Server::new(listener)
        .shutdown_on(stopped)
        .classes(|request| class_of(request.uri().path()))
        .serve_tower(router())
        .await
}
