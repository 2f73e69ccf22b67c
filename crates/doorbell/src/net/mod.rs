//! Sockets for tasks: TCP, UDP, those of Unix, and [`AsyncFd`] for any other descriptor.
//!
//! A socket is tried at once. It is registered with a worker when it would have to wait for the first
//! time: with the worker of the task that waits, so that what wakes the task is found on its own core,
//! and those of urgent tasks by urgent workers. A thread that is no worker, inside `block_on`, has a Fair
//! worker look for it.
//!
//! A socket that waited in one runtime may be used in another as long as the first one lives, whose
//! workers go on looking for it. When that has ended, who waits for the socket gets an error that says
//! so; `into_std` and `from_std` make it new.
//!
//! Any number of tasks may wait for one socket in `accept`, `read`, `recv_from` and the like, and each
//! is woken. The `poll_…` forms, and the traits of other crates above them, have one place for each
//! direction, for who polled last. A future that is dropped leaves nothing behind.
//!
//! ```
//! use doorbell::net::{TcpListener, TcpStream};
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let server = doorbell::spawn(async move {
//!     let (stream, _) = listener.accept().await?;
//!     stream.write_all(b"hello").await
//! });
//! let stream = TcpStream::connect(address).await?;
//! let mut hello = [0; 5];
//! stream.read_exact(&mut hello).await?;
//! assert_eq!(&hello, b"hello");
//! server.await.unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```

mod addresses;
mod async_fd;
mod bytes;
mod intervals;
mod io;
mod methods;
mod split;
mod tcp_listener;
mod tcp_stream;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod traits;
mod udp;
mod unix_datagram;
mod unix_listener;
mod unix_stream;

pub use addresses::{Addresses, NoAddress, ToSocketAddrs, lookup_host};
pub use async_fd::AsyncFd;
pub use bytes::ByteStream;
pub use doorbell_core::io::Direction;
pub use io::AlreadyRegistered;
pub(crate) use io::{Registered, register};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
pub use udp::UdpSocket;
pub use unix_datagram::UnixDatagram;
pub use unix_listener::UnixListener;
pub use unix_stream::{PeerCred, UnixStream};
