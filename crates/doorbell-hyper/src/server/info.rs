//! [`ConnectionInfo`].

use super::connection::Shared;
use super::server_end::ServerEnd;
#[cfg(feature = "tls")]
use crate::TlsInfo;
use async_lock::OnceCell;
use doorbell::net::PeerCred;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a server knows of a connection: who is at its other end, and whether the server ends.
/// [`Server::serve_with`](crate::Server::serve_with) passes it to the function that makes services. With
/// [`Server::connection_info`](crate::Server::connection_info) each request has it in its extensions:
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
    cred: Option<PeerCred>,
    /// Set when a server begins to serve the connection.
    server: OnceCell<Arc<Shared>>,
    /// Set at the end of the handshake.
    #[cfg(feature = "tls")]
    tls: OnceCell<Box<TlsInfo>>,
}

impl ConnectionInfo {
    /// For a [`Listener`](crate::Listener) of one's own, and for tests: the addresses of the other end and of
    /// this one, if they are known.
    pub fn new(peer: Option<SocketAddr>, local: Option<SocketAddr>) -> ConnectionInfo {
        ConnectionInfo::of(peer, local, None)
    }

    pub(super) fn of_unix(cred: Option<PeerCred>) -> ConnectionInfo {
        ConnectionInfo::of(None, None, cred)
    }

    fn of(
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
        cred: Option<PeerCred>,
    ) -> ConnectionInfo {
        ConnectionInfo(Arc::new(Info {
            peer,
            local,
            cred,
            server: OnceCell::new(),
            #[cfg(feature = "tls")]
            tls: OnceCell::new(),
        }))
    }

    /// The address of the other end, over TCP. Behind a proxy that is the proxy's.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The address that the client connected to, over TCP. Unlike the listener's address it is never unspecified
    /// (`0.0.0.0`, `::`).
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local
    }

    /// The process and user that connected, over a Unix socket.
    pub fn peer_cred(&self) -> Option<PeerCred> {
        self.0.cred
    }

    /// Tells of the end of the server. Made by hand ([`ConnectionInfo::new`]) and given to no server, it tells nothing.
    pub fn server_end(&self) -> ServerEnd {
        ServerEnd::new(self.clone())
    }

    pub(super) fn server(&self) -> Option<&Shared> {
        self.0.server.get().map(|server| &**server)
    }

    /// A server begins to serve the connection.
    pub(super) fn set_server(&self, server: Arc<Shared>) {
        // A listener of one's own may give one info to several connections of its server.
        let _ = self.0.server.set_blocking(server);
    }

    /// What the TLS handshake told; `None` without TLS. A service is made before the handshake, so the function
    /// that makes services finds `None` too.
    #[cfg(feature = "tls")]
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.0.tls.get().map(|tls| &**tls)
    }

    /// Notes the end of the handshake.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&self, tls: TlsInfo) {
        // There is one handshake.
        let _ = self.0.tls.set_blocking(Box::new(tls));
    }
}
