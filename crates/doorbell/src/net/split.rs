//! The two directions of a connection, to be had by different tasks.

use super::TcpStream;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;

impl TcpStream {
    /// One half to read and one to write. The connection is closed when both are gone.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf(stream))
    }
}

/// The half of a connection that reads.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The half of a connection that writes. Dropped, it says to the other end that no more comes.
#[derive(Debug)]
pub struct OwnedWriteHalf(Arc<TcpStream>);

impl OwnedReadHalf {
    /// As [`TcpStream::read`].
    ///
    /// # Errors
    /// As for [`TcpStream::read`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).await
    }
}

impl OwnedWriteHalf {
    /// As [`TcpStream::write_all`].
    ///
    /// # Errors
    /// As for [`TcpStream::write_all`].
    pub async fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.0.write_all(buffer).await
    }
}

impl AsRef<TcpStream> for OwnedReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsRef<TcpStream> for OwnedWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        // It fails only if the connection has ended.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}
