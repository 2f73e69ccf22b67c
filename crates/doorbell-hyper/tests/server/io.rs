//! [`DoorbellIo`] as hyper's connection.

use crate::common::bind;
use doorbell::Builder;
use doorbell::net::TcpStream;
use doorbell_hyper::DoorbellIo;
use futures::FutureExt;
use hyper::rt::{Read, ReadBuf, Write};
use std::future::poll_fn;
use std::pin::Pin;

#[test]
fn n2_no_bytes_are_moved_at_once_for_hyper() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let (listener, address) = bind();
        let stream = TcpStream::connect(address).await.unwrap();
        let _theirs = listener.accept().await.unwrap();
        while stream.try_write(&[0; 16_384]).is_ok() {}
        assert!(stream.write(&[0]).now_or_never().is_none(), "it is full");
        assert!(stream.read(&mut [0]).now_or_never().is_none());
        let mut io = DoorbellIo::new(stream);
        let mut none = ReadBuf::new(&mut []);
        let read = poll_fn(|cx| Pin::new(&mut io).poll_read(cx, none.unfilled()));
        assert!(matches!(read.now_or_never(), Some(Ok(()))));
        let write = poll_fn(|cx| Pin::new(&mut io).poll_write(cx, &[]));
        assert!(matches!(write.now_or_never(), Some(Ok(0))));
        let write = poll_fn(|cx| Pin::new(&mut io).poll_write_vectored(cx, &[]));
        assert!(matches!(write.now_or_never(), Some(Ok(0))));
    });
}
