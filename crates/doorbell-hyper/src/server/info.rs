//! [`ConnectionInfo`].

#[cfg(feature = "tls")]
use crate::TlsInfo;
#[cfg(feature = "tls")]
use async_lock::OnceCell;
use doorbell::net::PeerCred;
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
    cred: Option<PeerCred>,
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
