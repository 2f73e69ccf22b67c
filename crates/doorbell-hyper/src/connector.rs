//! [`DoorbellConnector`].

use crate::DoorbellIo;
use doorbell::net::{TcpStream, lookup_host};
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Connects by TCP to the host of a URI, for the pooled client of `hyper-util`.
///
/// Another thread looks up names ([`lookup_host`]), so the worker does not block. The addresses of a name are
/// tried in turn.
///
/// ```
/// use doorbell_hyper::{DoorbellConnector, DoorbellExecutor, DoorbellTimer};
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper_util::client::legacy::Client;
///
/// let client: Client<_, Empty<Bytes>> = Client::builder(DoorbellExecutor)
///     .timer(DoorbellTimer)
///     .pool_timer(DoorbellTimer)
///     .build(DoorbellConnector::new());
/// # drop(client);
/// ```
#[derive(Clone, Debug)]
pub struct DoorbellConnector {
    any_scheme: bool,
}

impl Default for DoorbellConnector {
    fn default() -> Self {
        DoorbellConnector::new()
    }
}

impl DoorbellConnector {
    /// A connector for `http` URIs only.
    pub fn new() -> Self {
        DoorbellConnector { any_scheme: false }
    }

    /// Accepts URIs of other schemes too. A wrapper needs this, for example a connector for TLS. If the URI
    /// has no port the connector uses 443 for `https` and 80 for every other scheme.
    #[must_use]
    pub fn any_scheme(mut self) -> Self {
        self.any_scheme = true;
        self
    }

    /// The host and port of a URI.
    fn target(&self, uri: &Uri) -> Result<(String, u16), ConnectError> {
        let scheme = uri.scheme_str();
        if !self.any_scheme && scheme != Some("http") {
            let scheme = scheme.unwrap_or_default().to_owned();
            return Err(ConnectError::Scheme { scheme });
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or(ConnectError::NoHost)?;
        // An IPv6 address is in brackets.
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let port = if scheme == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(port);
        Ok((bare.unwrap_or(host).to_owned(), port))
    }
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The scheme of the URI is not `http`.
    #[error(
        "no connection for a URI of scheme `{scheme}`; only `http` is spoken without TLS: wrap DoorbellConnector::any_scheme() in a connector for TLS"
    )]
    Scheme {
        /// The scheme of the URI; empty if it has none.
        scheme: String,
    },
    /// The URI has no host.
    #[error("a URI without a host leads nowhere; write it out, as in http://host:port/path")]
    NoHost,
    /// The host's name was not found, or could not be looked up.
    #[error("the addresses of `{host}` were not found: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// The error of the OS, or of a runtime that is missing or about to end.
        source: io::Error,
    },
    /// The host was found, but none of its addresses accepted a connection.
    #[error("no connection to {address}: {source}")]
    Refused {
        /// The address tried last.
        address: SocketAddr,
        /// The error of the OS, or that there is no runtime to wait in.
        source: io::Error,
    },
}

/// The future of a connection: see [`DoorbellConnector`].
#[must_use = "nothing is connected before it is awaited"]
pub struct Connecting(Pin<Box<dyn Future<Output = Result<DoorbellIo, ConnectError>> + Send>>);

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}

impl Future for Connecting {
    type Output = Result<DoorbellIo, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl tower_service::Service<Uri> for DoorbellConnector {
    type Response = DoorbellIo;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let target = self.target(&uri);
        Connecting(Box::pin(async move {
            let (host, port) = target?;
            connect(look_up(host, port).await?).await
        }))
    }
}

/// Looks up the addresses of a host: at least one.
async fn look_up(host: String, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    match lookup_host((host.as_str(), port)).await {
        Ok(addresses) if addresses.len() > 0 => Ok(addresses.collect()),
        Ok(_) => Err(io::ErrorKind::NotFound.into()),
        Err(source) => Err(source),
    }
    .map_err(|source| ConnectError::Lookup { host, source })
}

/// Connects to the first address that accepts.
async fn connect(addresses: Vec<SocketAddr>) -> Result<DoorbellIo, ConnectError> {
    let mut refused = ConnectError::NoHost;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A failure only makes requests slower.
                let _ = stream.set_nodelay(true);
                return Ok(DoorbellIo::new(stream));
            }
            Err(source) => refused = ConnectError::Refused { address, source },
        }
    }
    Err(refused)
}

impl<T: AsRef<TcpStream>> Connection for DoorbellIo<T> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
