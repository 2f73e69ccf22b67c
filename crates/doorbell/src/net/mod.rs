//! TCP for tasks: [`TcpListener`] and [`TcpStream`].
//!
//! A socket is tried at once. It is registered with a lane when it would have to wait for the first
//! time: with the lane of the task that waits, so that what wakes the task is found on its own core,
//! and those of urgent tasks by urgent lanes. A thread that is no lane, inside `block_on`, has a Fair
//! lane look for it.
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

mod io;
mod listener;
mod split;
mod stream;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
mod traits;

pub(crate) use io::{Registered, register};
pub use listener::TcpListener;
pub use split::{OwnedReadHalf, OwnedWriteHalf};
pub use stream::TcpStream;
