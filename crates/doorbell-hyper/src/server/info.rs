//! [`ConnectionInfo`].

use doorbell::net::TcpStream;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a server knows of a connection: who is at its other end. Each request has one in its extensions, and
/// [`Server::serve_with`](crate::Server::serve_with) passes it to the function that makes services.
///
/// ```
/// use doorbell_hyper::{ConnectionInfo, RequestBody};
/// use hyper::Request;
/// use std::net::SocketAddr;
///
/// fn peer(request: &Request<RequestBody>) -> Option<SocketAddr> {
///     request.extensions().get::<ConnectionInfo>()?.peer_addr()
/// }
/// ```
///
/// In axum, `Extension<ConnectionInfo>` extracts it. With the feature `axum`, `ConnectInfo<SocketAddr>` works
/// too.
#[derive(Clone, Debug)]
pub struct ConnectionInfo(Arc<Info>);

#[derive(Debug)]
struct Info {
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
}

impl ConnectionInfo {
    pub(super) fn of_tcp(stream: &TcpStream, peer: SocketAddr) -> ConnectionInfo {
        ConnectionInfo(Arc::new(Info {
            peer: Some(peer),
            local: stream.local_addr().ok(),
        }))
    }

    /// The address of the other end. Behind a proxy that is the proxy's.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The address that the client connected to. Unlike the listener's address it is never unspecified
    /// (`0.0.0.0`, `::`).
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local
    }
}
