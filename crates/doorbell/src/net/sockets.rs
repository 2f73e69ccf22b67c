//! The methods that sockets have in common, whatever they are for.

/// What each socket has that holds a socket of the standard library: `$socket` holds `$inner`, in a field `io`, and
/// has addresses of type `$address`.
macro_rules! socket_methods {
    ($socket:ident($inner:ty), $address:ty) => {
        impl $socket {
            /// Takes over a socket of the standard library, and makes it non-blocking.
            ///
            /// # Errors
            /// If the OS refuses to make it non-blocking.
            pub fn from_std(socket: $inner) -> std::io::Result<$socket> {
                crate::here::refuse_os()?;
                socket.set_nonblocking(true)?;
                Ok($socket::of(socket))
            }

            pub(super) fn of(socket: $inner) -> $socket {
                let io = super::io::Io::new(socket);
                $socket { io }
            }

            /// Turns this into a socket of the standard library, which stays non-blocking. It is registered
            /// with no runtime any more; `from_std` can move it to another one.
            #[must_use]
            pub fn into_std(self) -> $inner {
                self.io.into_inner()
            }

            /// Takes the pending error of the socket (`SO_ERROR`), if there is one.
            ///
            /// # Errors
            /// The OS's error for this query.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.io.get().take_error()
            }

            /// The local address.
            ///
            /// # Errors
            /// The OS's error.
            pub fn local_addr(&self) -> std::io::Result<$address> {
                self.io.get().local_addr()
            }
        }

        impl TryFrom<$inner> for $socket {
            type Error = std::io::Error;

            /// As `from_std`.
            fn try_from(socket: $inner) -> std::io::Result<$socket> {
                $socket::from_std(socket)
            }
        }

        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.io.get().as_fd()
            }
        }
    };
}

/// As `socket_methods`, of a socket that may be connected.
macro_rules! connected_methods {
    ($socket:ident($inner:ty), $address:ty) => {
        super::sockets::socket_methods!($socket($inner), $address);

        impl $socket {
            /// The address of the other end.
            ///
            /// # Errors
            /// The OS's error, also if the socket is not connected.
            pub fn peer_addr(&self) -> std::io::Result<$address> {
                self.io.get().peer_addr()
            }
        }
    };
}

pub(super) use {connected_methods, socket_methods};
