//! The two halves of a connection, for different tasks.

use super::bytes::ByteStream;
use super::io::Io;
use super::methods::{peek_methods, read_methods, write_methods};
use super::{Direction, Interest, Ready, TcpStream, UnixStream};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll};

macro_rules! split {
    ($($stream:ty),*) => {$(
        impl $stream {
            /// Splits the stream into a half that reads and a half that writes, for two tasks. Dropping the
            /// write half tells the other end that no more bytes come. The connection is closed when both
            /// halves are dropped.
            #[must_use]
            pub fn into_split(self) -> (OwnedReadHalf<$stream>, OwnedWriteHalf<$stream>) {
                let stream = Arc::new(self);
                let writes = OwnedWriteHalf {
                    stream: Arc::clone(&stream),
                    closes: true,
                };
                (OwnedReadHalf(stream), writes)
            }

            /// Borrows the stream as a half that reads and a half that writes, for two parts of one task.
            /// Dropping the halves closes nothing.
            #[must_use]
            pub fn split(&mut self) -> (ReadHalf<'_, $stream>, WriteHalf<'_, $stream>) {
                (ReadHalf(self), WriteHalf(self))
            }
        }
    )*};
}

split!(TcpStream, UnixStream);

/// The half of a connection that reads. See [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf<S: ByteStream = TcpStream>(Arc<S>);

/// The half of a connection that writes. Dropping it tells the other end that no more bytes come. See
/// [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedWriteHalf<S: ByteStream = TcpStream> {
    stream: Arc<S>,
    /// Whether the drop shuts down writing.
    closes: bool,
}

/// The borrowed half of a connection that reads. See [`TcpStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a, S: ByteStream = TcpStream>(&'a S);

/// The borrowed half of a connection that writes. See [`TcpStream::split`].
#[derive(Debug)]
pub struct WriteHalf<'a, S: ByteStream = TcpStream>(&'a S);

/// The halves belong to different connections. The error returns them.
#[derive(Debug, thiserror::Error)]
#[error("the halves are of different connections")]
pub struct ReuniteError<S: ByteStream = TcpStream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: ByteStream> OwnedReadHalf<S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    read_methods!([mut]);
    peek_methods!([mut]);

    /// As [`TcpStream::ready`].
    ///
    /// # Errors
    /// As there.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io().ready(interest).await
    }

    /// Joins both halves to the connection again.
    ///
    /// # Errors
    /// [`ReuniteError`], with both halves, if they belong to different connections.
    ///
    /// # Panics
    /// Never: a connection has two halves.
    pub fn reunite(self, other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        let stream = Arc::try_unwrap(self.0);
        Ok(stream.expect("the other half went above"))
    }
}

impl<S: ByteStream> OwnedWriteHalf<S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.stream.io()
    }

    write_methods!([mut]);

    /// As [`TcpStream::ready`].
    ///
    /// # Errors
    /// As there.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io().ready(interest).await
    }

    /// Tells the other end that no more bytes come.
    ///
    /// # Errors
    /// The OS's error.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.io().close()
    }

    /// Drops the half without telling the other end that no more bytes come.
    pub fn forget(mut self) {
        self.closes = false;
    }

    /// As [`OwnedReadHalf::reunite`].
    ///
    /// # Errors
    /// [`ReuniteError`], with both halves, if they belong to different connections.
    ///
    /// # Panics
    /// Never: a connection has two halves.
    pub fn reunite(self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        other.reunite(self)
    }
}

impl<S: ByteStream> ReadHalf<'_, S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    read_methods!([mut]);
    peek_methods!([mut]);

    /// As [`TcpStream::ready`].
    ///
    /// # Errors
    /// As there.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io().ready(interest).await
    }
}

impl<S: ByteStream> WriteHalf<'_, S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    write_methods!([mut]);

    /// As [`TcpStream::ready`].
    ///
    /// # Errors
    /// As there.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io().ready(interest).await
    }

    /// Tells the other end that no more bytes come.
    ///
    /// # Errors
    /// The OS's error.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.io().close()
    }
}

impl<S: ByteStream> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.0
    }
}

impl<S: ByteStream> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: ByteStream> AsRef<S> for ReadHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S: ByteStream> AsRef<S> for WriteHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S: ByteStream> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if self.closes {
            // An error means that the connection has ended.
            let _ = self.io().shutdown(Shutdown::Write);
        }
    }
}
