//! [`DoorbellConnector`].

use crate::DoorbellIo;
use crate::dial::Dial;
use doorbell::net::{TcpStream, lookup_host};
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Connects by TCP to the host of a URI, for the pooled client of `hyper-util`.
///
/// Another thread looks up names ([`lookup_host`]), so the worker does not block. The addresses of a name are
/// tried in turn, those of IPv4 and of IPv6 beside each other.
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
    dial: Dial,
}

impl Default for DoorbellConnector {
    fn default() -> Self {
        DoorbellConnector::new()
    }
}

impl DoorbellConnector {
    /// A connector for `http` URIs only.
    pub fn new() -> Self {
        DoorbellConnector {
            any_scheme: false,
            dial: Dial::default(),
        }
    }

    /// Accepts URIs of other schemes too. A wrapper needs this, for example a connector for TLS. If the URI
    /// has no port the connector uses 443 for `https` and 80 for every other scheme.
    #[must_use]
    pub fn any_scheme(mut self) -> Self {
        self.any_scheme = true;
        self
    }

    /// Sets how long connecting may take, after the lookup of the name. If a name has several addresses of one
    /// kind (IPv4 or IPv6), each gets an equal share of the time. If it has addresses of both kinds, the second
    /// kind begins later, and connecting may take as much longer: at most
    /// [`happy_eyeballs_timeout`](DoorbellConnector::happy_eyeballs_timeout). Default: `None`, the limit of the OS.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.dial.timeout = timeout;
        self
    }

    /// Sets how long the addresses of the first one's kind (IPv4 or IPv6) are tried alone. Then those of the
    /// other kind are tried too, and the first connection counts (RFC 8305, "happy eyeballs"). With `None` all
    /// are tried in turn. Default: 300 ms.
    #[must_use]
    pub fn happy_eyeballs_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.dial.head_start = timeout;
        self
    }

    /// Sets the address of this end. Only addresses of its kind (IPv4 or IPv6) are tried then. Default:
    /// `None`, the OS chooses.
    #[must_use]
    pub fn local_address(mut self, address: Option<IpAddr>) -> Self {
        self.dial.local_v4 = None;
        self.dial.local_v6 = None;
        match address {
            Some(IpAddr::V4(address)) => self.dial.local_v4 = Some(address),
            Some(IpAddr::V6(address)) => self.dial.local_v6 = Some(address),
            None => {}
        }
        self
    }

    /// Sets the address of this end for each kind.
    #[must_use]
    pub fn local_addresses(mut self, v4: Ipv4Addr, v6: Ipv6Addr) -> Self {
        self.dial.local_v4 = Some(v4);
        self.dial.local_v6 = Some(v6);
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
    /// The host's name was not found, could not be looked up, or has no address of the kind of
    /// [`DoorbellConnector::local_address`].
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
        let dial = self.dial.clone();
        Connecting(Box::pin(async move {
            let (host, port) = target?;
            let addresses = dial.usable(look_up(&host, port).await?);
            if addresses.is_empty() {
                let source = io::ErrorKind::AddrNotAvailable.into();
                return Err(ConnectError::Lookup { host, source });
            }
            let stream = dial.connect(&addresses).await;
            let refused = |(address, source)| ConnectError::Refused { address, source };
            stream.map(DoorbellIo::new).map_err(refused)
        }))
    }
}

/// Looks up the addresses of a host: at least one.
async fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    match lookup_host((host, port)).await {
        Ok(addresses) if addresses.len() > 0 => Ok(addresses.collect()),
        Ok(_) => Err(io::ErrorKind::NotFound.into()),
        Err(source) => Err(source),
    }
    .map_err(|source| ConnectError::Lookup {
        host: host.to_owned(),
        source,
    })
}

/// The addresses of a connection of [`DoorbellConnector`]. The extensions of each answer that came by it have
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpInfo {
    remote_addr: SocketAddr,
    local_addr: SocketAddr,
}

impl HttpInfo {
    /// The address of the server.
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote_addr
    }

    /// The address of this end.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl<T: AsRef<TcpStream>> Connection for DoorbellIo<T> {
    fn connected(&self) -> Connected {
        let stream = self.get().as_ref();
        let addresses = stream.peer_addr().ok().zip(stream.local_addr().ok());
        match addresses {
            Some((remote_addr, local_addr)) => Connected::new().extra(HttpInfo {
                remote_addr,
                local_addr,
            }),
            None => Connected::new(),
        }
    }
}
