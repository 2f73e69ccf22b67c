//! Sockets for tasks: TCP, UDP, Unix sockets, and [`AsyncFd`] for any other descriptor.
//!
//! An operation first tries its syscall. Only when the syscall would block for the first time, the socket is
//! registered, with the class of the task that waits. So an Rt worker polls the descriptors of Rt tasks. Of the
//! workers of a class, whichever sleeps in their poller, or looks first, wakes the task. For a thread inside
//! `block_on`, class Fair waits for the descriptor.
//!
//! Waiting needs a runtime. On a thread without one, an operation returns an error if it would have to wait. If
//! the socket has waited anywhere before, every operation that may wait returns that error there, also if it
//! would not have to wait. `try_read`, `try_write` and the like work on any thread.
//!
//! A socket that has waited in one runtime may be used in another while the first one lives: the workers of
//! the first one still poll its descriptor. When the first one has ended, waiting for the socket returns an
//! error that says so ([`RuntimeEnded`]). `into_std` and `from_std` make a socket that can be registered again.
//!
//! Any number of tasks may wait for one socket in `accept`, `read`, `recv_from` and the like. Each of them is
//! woken, the one that has waited longest first. `readable` and `writable` end for all tasks that wait when the
//! socket becomes ready, also if one of them is quicker and takes all there is. The `poll_…` forms, and the
//! traits of other crates, keep one waker for each direction: that of the task that polled last. A future that is
//! dropped leaves nothing behind.
//!
//! Each operation takes one from the poll budget, `readable` too (see [`coop`](crate::coop)): a loop of them within
//! one poll becomes pending after 128, although the socket is ready, and goes on after the other tasks.
//!
//! What tokio names otherwise, or doorbell leaves out, is in `docs/tokio-api.md`, with the reasons.
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
mod datagrams;
mod fds;
mod intervals;
mod io;
mod methods;
mod options;
pub mod pipe;
mod ready;
mod registrations;
mod sockets;
mod split;
mod tcp_listener;
mod tcp_socket;
mod tcp_stream;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod traits;
mod udp;
mod unix_datagram;
mod unix_listener;
mod unix_socket;
mod unix_stream;

pub use addresses::{Addresses, NoAddress, ToSocketAddrs, lookup_host};
pub use async_fd::{AsyncFd, AsyncFdReadyGuard, AsyncFdRegisterError, TryIoError};
pub use bytes::ByteStream;
pub use doorbell_core::io::{Direction, Interest, RuntimeEnded};
pub use ready::Ready;
pub use registrations::AlreadyRegistered;
pub(crate) use registrations::{Registered, register};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use tcp_listener::{Backlog, TcpListener};
pub use tcp_socket::TcpSocket;
pub use tcp_stream::TcpStream;
pub use udp::UdpSocket;
pub use unix_datagram::UnixDatagram;
pub use unix_listener::UnixListener;
pub use unix_socket::UnixSocket;
pub use unix_stream::{PeerCred, UnixStream};
