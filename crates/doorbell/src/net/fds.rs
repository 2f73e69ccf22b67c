//! The numbers of descriptors, for code that wants them.

use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};

macro_rules! descriptors {
    ($($socket:ty),*) => {$(
        impl AsRawFd for $socket {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        impl IntoRawFd for $socket {
            /// The caller closes the descriptor. It stays non-blocking, and is registered with no runtime any
            /// more.
            fn into_raw_fd(self) -> RawFd {
                self.into_std().into_raw_fd()
            }
        }

        impl From<$socket> for OwnedFd {
            /// The descriptor stays non-blocking, and is registered with no runtime any more.
            fn from(socket: $socket) -> OwnedFd {
                socket.into_std().into()
            }
        }
    )*};
}

descriptors!(
    TcpListener,
    TcpStream,
    UdpSocket,
    UnixDatagram,
    UnixListener,
    UnixStream
);
