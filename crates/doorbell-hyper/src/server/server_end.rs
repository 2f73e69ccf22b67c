//! [`ServerEnd`].

use super::ConnectionInfo;
use super::connection::Shared;
use std::fmt;
use std::future::pending;

/// Tells a handler that its server ends: see [`ConnectionInfo::server_end`].
///
/// A server that was told to end waits for its requests in flight and for upgraded connections, at most for
/// its drain timeout. A handler with a long answer, or a task with an upgraded connection, should end by
/// itself:
///
/// ```
/// use doorbell_hyper::{RequestBody, ServerEnd};
/// use hyper::Request;
///
/// async fn chat(request: Request<RequestBody>, end: ServerEnd) {
///     let upgraded = hyper::upgrade::on(request);
///     drop(doorbell::spawn(async move {
///         let Ok(connection) = upgraded.await else {
///             return;
///         };
///         // A loop would choose between this and the next message.
///         end.cancelled().await;
///         // Say goodbye.
///         drop(connection);
///     }));
/// }
/// ```
#[derive(Clone)]
pub struct ServerEnd(ConnectionInfo);

impl ServerEnd {
    /// By the connection, whose counter of references other cores do not write.
    pub(super) fn new(connection: ConnectionInfo) -> ServerEnd {
        ServerEnd(connection)
    }

    /// Returns whether the server was told to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.server().is_some_and(Shared::is_stopped)
    }

    /// Waits until the server is told to end.
    pub async fn cancelled(&self) {
        match self.0.server() {
            Some(server) => server.stopped().await,
            None => pending().await,
        }
    }

    /// [`ServerEnd::cancelled`], as a future that borrows nothing.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }
}

impl fmt::Debug for ServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.is_cancelled();
        f.debug_struct("ServerEnd")
            .field("is_cancelled", &is_cancelled)
            .finish()
    }
}
