//! [`TlsListener`].

use super::{ConnectionInfo, Listener, Transport};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// Accepts TLS connections of another listener, by rustls.
///
/// The handshake is the first thing that the connection's task does. So it counts for
/// [`connection_limit`](crate::Server::connection_limit), a slow one holds up nothing else, and it is part of
/// the time that [`header_timeout`](crate::Server::header_timeout) allows, 30 s by default.
///
/// ```no_run
/// use doorbell::net::TcpListener;
/// use doorbell_hyper::rustls::ServerConfig;
/// use doorbell_hyper::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
/// use doorbell_hyper::{Server, TlsListener};
///
/// # async fn serve(router: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = CertificateDer::pem_file_iter("chain.pem")?.collect::<Result<_, _>>()?;
/// let key = PrivateKeyDer::from_pem_file("key.pem")?;
/// let config = ServerConfig::builder()
///     .with_no_client_auth()
///     .with_single_cert(certificates, key)?;
/// let listener = TlsListener::new(TcpListener::bind("0.0.0.0:443")?, config);
/// # #[cfg(feature = "tower")]
/// Server::new(listener).serve_tower(router).await?;
/// # Ok(())
/// # }
/// ```
pub struct TlsListener<L> {
    listener: L,
    acceptor: TlsAcceptor,
}

impl<L: fmt::Debug> fmt::Debug for TlsListener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsListener")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl<L> TlsListener<L> {
    /// Wraps a listener. If `config` names no protocols for ALPN, the client may choose between HTTP/2 and
    /// HTTP/1.1.
    pub fn new(listener: L, config: impl Into<Arc<ServerConfig>>) -> TlsListener<L> {
        let mut config = config.into();
        if config.alpn_protocols.is_empty() {
            let both = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec);
            Arc::make_mut(&mut config).alpn_protocols = both.into();
        }
        TlsListener {
            listener,
            acceptor: config.into(),
        }
    }
}

impl<L: Listener> Listener for TlsListener<L> {
    type Io = TlsIo<L::Io>;

    async fn accept(&mut self) -> io::Result<(Self::Io, ConnectionInfo)> {
        let (io, info) = self.listener.accept().await?;
        let handshake = self.acceptor.accept(Below { io, written: 0 });
        let state = State::Handshake(handshake, info.clone());
        Ok((TlsIo(Box::new(state)), info))
    }

    fn has_waiting(&self) -> io::Result<bool> {
        self.listener.has_waiting()
    }
}

/// What a TLS handshake told: see [`ConnectionInfo::tls`].
#[derive(Clone, Debug)]
pub struct TlsInfo {
    server_name: Option<String>,
    alpn: Option<Vec<u8>>,
    version: Option<ProtocolVersion>,
    certificates: Vec<CertificateDer<'static>>,
}

impl TlsInfo {
    fn of(session: &ServerConnection) -> TlsInfo {
        let certificates = session.peer_certificates().unwrap_or_default();
        TlsInfo {
            server_name: session.server_name().map(str::to_owned),
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            version: session.protocol_version(),
            certificates: certificates.to_vec(),
        }
    }

    /// The name of the server that the client asked for (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The protocol that was chosen by ALPN: `h2`, `http/1.1`.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    /// The version of TLS.
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// The client's certificates, its own first, if the server's configuration asks for them.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}

/// A connection of a [`TlsListener`].
// Boxed: rustls needs about 2 KiB for a connection, and hyper moves it about.
pub struct TlsIo<T>(Box<State<T>>);

enum State<T> {
    Handshake(Accept<Below<T>>, ConnectionInfo),
    Open(TlsStream<Below<T>>),
    /// The handshake has failed.
    Failed,
}

impl<T> fmt::Debug for TlsIo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIo").finish_non_exhaustive()
    }
}

impl<T: Transport> TlsIo<T> {
    /// The stream, once the handshake is over.
    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Pin<&mut TlsStream<Below<T>>>>> {
        if let State::Handshake(handshake, info) = &mut *self.0 {
            *self.0 = match ready!(Pin::new(handshake).poll(cx)) {
                Ok(stream) => {
                    info.set_tls(TlsInfo::of(stream.get_ref().1));
                    State::Open(stream)
                }
                Err(error) => {
                    *self.0 = State::Failed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match &mut *self.0 {
            State::Open(stream) => Ok(Pin::new(stream)),
            State::Handshake(..) | State::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl<T: Transport> Transport for TlsIo<T> {
    /// What was encrypted counts: rustls keeps some of what it was given.
    fn acknowledged(&self, written: u64) -> u64 {
        match &*self.0 {
            State::Open(stream) => {
                let below = stream.get_ref().0;
                below.io.acknowledged(below.written)
            }
            State::Handshake(..) | State::Failed => written,
        }
    }
}

impl<T: Transport> Read for TlsIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = ready!(self.poll_open(cx))?;
        let read = ready!(stream.as_mut().poll_fill_buf(cx))?;
        let count = read.len().min(buffer.remaining());
        buffer.put_slice(&read[..count]);
        stream.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> Write for TlsIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write_vectored(cx, buffers)
    }
}

/// The connection below TLS, with the traits that tokio-rustls expects.
struct Below<T> {
    io: T,
    /// Number of encrypted bytes that it has taken; it wraps.
    written: u64,
}

impl<T: Transport> AsyncRead for Below<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // rustls gives initialized memory.
        let mut room = ReadBuf::new(buffer.initialize_unfilled());
        ready!(Pin::new(&mut self.io).poll_read(cx, room.unfilled()))?;
        let count = room.filled().len();
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Below<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write(cx, buffer))?;
        self.written = self.written.wrapping_add(count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, buffers))?;
        self.written = self.written.wrapping_add(count as u64);
        Poll::Ready(Ok(count))
    }
}
