//! [`TcpStream`].

use super::io::Io;
use doorbell_core::io::Direction;
use doorbell_machine::host::net;
use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::{self as std_net, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A connection. Reading and writing go by `&`, so that a task each may do so at a time; of several
/// that wait in one direction the last one is woken.
#[derive(Debug)]
pub struct TcpStream {
    io: Io<std_net::TcpStream>,
}

impl TcpStream {
    /// Connects to that address. Look names up in [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::of(net::begin_to_connect(address)?);
        let stands = |stream: &std_net::TcpStream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                other => other.map(drop),
            }
        };
        poll_fn(|cx| {
            stream
                .io
                .poll_io(cx, Direction::Write, |stream, _| stands(stream))
        })
        .await?;
        Ok(stream)
    }

    /// Of a stream of the standard library, which is connected.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(stream: std_net::TcpStream) -> io::Result<TcpStream> {
        stream.set_nonblocking(true)?;
        Ok(TcpStream::of(stream))
    }

    pub(super) fn of(stream: std_net::TcpStream) -> TcpStream {
        TcpStream {
            io: Io::new(stream),
        }
    }

    /// As the standard library has it; it still does not block.
    #[must_use]
    pub fn into_std(self) -> std_net::TcpStream {
        self.io.into_inner()
    }

    /// Reads what there is, at most so much; 0 at the end. `buffer` need not be written to before.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let asked = buffer.len();
        self.io.poll_bytes(cx, Direction::Read, asked, |stream| {
            net::read(stream, buffer)
        })
    }

    /// Reads what there is, at most so much; 0 at the end.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let asked = buffer.len();
        self.io
            .poll_bytes(cx, Direction::Read, asked, |mut stream| {
                io::Read::read(&mut stream, buffer)
            })
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub fn poll_write(&self, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let asked = buffer.len();
        self.io
            .poll_bytes(cx, Direction::Write, asked, |mut stream| {
                stream.write(buffer)
            })
    }

    /// The same of several buffers, one behind the other.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The OS takes some of very many buffers: fewer bytes do not say that there is no room.
        self.io.poll_io(cx, Direction::Write, |mut stream, _| {
            stream.write_vectored(buffers)
        })
    }

    /// Reads what there is and leaves it there.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| {
            self.io
                .poll_io(cx, Direction::Read, |stream, _| stream.peek(buffer))
        })
        .await
    }

    /// Reads what there is, at most so much; 0 at the end.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Reads until the buffer is full.
    ///
    /// # Errors
    /// What the OS said; [`io::ErrorKind::UnexpectedEof`] at the end.
    pub async fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read(buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[read..];
        }
        Ok(())
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_write(cx, buffer)).await
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn write_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let written = self.write(buffer).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer = &buffer[written..];
        }
        Ok(())
    }

    /// Closes one direction, or both.
    ///
    /// # Errors
    /// What the OS said.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
    }

    /// Whether small writes go out at once.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.get().set_nodelay(nodelay)
    }

    /// As [`TcpStream::set_nodelay`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.get().nodelay()
    }

    /// Its own address.
    ///
    /// # Errors
    /// What the OS said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// That of the other end.
    ///
    /// # Errors
    /// What the OS said.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().peer_addr()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}
