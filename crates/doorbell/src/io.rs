//! The read and write traits of other crates, re-exported with their helpers. All streams of
//! [`net`](crate::net), references to them and their halves implement them, so a library that asks for these traits accepts
//! doorbell's streams.
//!
//! * `tokio`, with the feature `tokio-io`: from `tokio::io`.
//! * `futures`, with the feature `futures-io`: from `futures::io`.
//!
#![cfg_attr(
    feature = "tokio-io",
    doc = r#"
```
use doorbell::io::tokio::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use doorbell::net::UnixStream;

# doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
let (mut ours, theirs) = UnixStream::pair()?;
ours.write_u8(b'a').await?;
AsyncWriteExt::write_all(&mut ours, b"b\nc").await?;
drop(ours);
let mut lines = BufReader::new(theirs).lines();
assert_eq!(lines.next_line().await?.as_deref(), Some("ab"));
assert_eq!(lines.next_line().await?.as_deref(), Some("c"));
assert_eq!(lines.next_line().await?, None);
# Ok::<(), std::io::Error>(())
# }).unwrap();
```
"#
)]

/// The traits of `tokio::io`, and its helpers for types that implement them.
#[cfg(feature = "tokio-io")]
pub mod tokio {
    pub use ::tokio::io::{
        AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
        BufReader, BufStream, BufWriter, DuplexStream, ReadBuf, copy, copy_bidirectional, copy_buf,
        duplex, split,
    };
}

/// The traits of `futures::io`, and its helpers for types that implement them.
#[cfg(feature = "futures-io")]
pub mod futures {
    pub use futures_util::io::{
        AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
        BufReader, BufWriter, copy, copy_buf,
    };
}
