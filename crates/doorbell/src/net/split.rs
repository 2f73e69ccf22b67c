//! The two directions of a connection, to be had by different tasks.

use super::bytes::{ByteStream, Bytes};
use super::io::Io;
use super::methods::{read_methods, write_methods};
use super::{Direction, TcpStream, UnixStream};
use doorbell_machine::host::net;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll};

macro_rules! split {
    ($($stream:ty),*) => {$(
        impl $stream {
            /// One half to read and one to write, for two tasks. The connection is closed when both are
            /// gone; before, when the one that writes goes, the other end learns that no more comes.
            #[must_use]
            pub fn into_split(self) -> (OwnedReadHalf<$stream>, OwnedWriteHalf<$stream>) {
                let stream = Arc::new(self);
                let writes = OwnedWriteHalf {
                    stream: Arc::clone(&stream),
                    closes: true,
                };
                (OwnedReadHalf(stream), writes)
            }

            /// One half to read and one to write, for two parts of one task: nothing is closed when they
            /// go.
            #[must_use]
            pub fn split(&mut self) -> (ReadHalf<'_, $stream>, WriteHalf<'_, $stream>) {
                (ReadHalf(self), WriteHalf(self))
            }
        }
    )*};
}

split!(TcpStream, UnixStream);

/// The half of a connection that reads.
#[derive(Debug)]
pub struct OwnedReadHalf<S: ByteStream = TcpStream>(Arc<S>);

/// The half of a connection that writes. Dropped, it says to the other end that no more comes.
#[derive(Debug)]
pub struct OwnedWriteHalf<S: ByteStream = TcpStream> {
    stream: Arc<S>,
    /// Whether it says so.
    closes: bool,
}

/// The half of a connection that reads, borrowed.
#[derive(Debug)]
pub struct ReadHalf<'a, S: ByteStream = TcpStream>(&'a S);

/// The half of a connection that writes, borrowed.
#[derive(Debug)]
pub struct WriteHalf<'a, S: ByteStream = TcpStream>(&'a S);

/// Two halves that are not of one connection: here they are.
#[derive(Debug, thiserror::Error)]
#[error("the halves are of different connections")]
pub struct ReuniteError<S: ByteStream = TcpStream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: ByteStream> OwnedReadHalf<S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    read_methods!([mut]);

    /// The connection that this and the other half are of.
    ///
    /// # Errors
    /// [`ReuniteError`] has both, if they are not of one.
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

    /// Says to the other end that no more comes.
    ///
    /// # Errors
    /// What the OS said.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.io().close()
    }

    /// Goes, and says nothing to the other end.
    pub fn forget(mut self) {
        self.closes = false;
    }

    /// The connection that this and the other half are of.
    ///
    /// # Errors
    /// [`ReuniteError`] has both, if they are not of one.
    ///
    /// # Panics
    /// Never, as above.
    pub fn reunite(self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        other.reunite(self)
    }
}

impl<S: ByteStream> ReadHalf<'_, S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    read_methods!([mut]);
}

impl<S: ByteStream> WriteHalf<'_, S> {
    pub(super) fn io(&self) -> &Io<S::Inner> {
        self.0.io()
    }

    write_methods!([mut]);

    /// Says to the other end that no more comes.
    ///
    /// # Errors
    /// What the OS said.
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
            // It fails only if the connection has ended.
            let _ = self.io().shutdown(Shutdown::Write);
        }
    }
}
