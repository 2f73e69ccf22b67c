//! A client over HTTP/2 that chooses each frame and each window itself.

#![allow(dead_code, reason = "each test takes what it needs")]

use doorbell::net::TcpStream;
use std::net::SocketAddr;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame from the server.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Two {
    stream: TcpStream,
    /// The stream of the next request.
    next: u32,
    /// What was read and is no whole frame yet.
    read: Vec<u8>,
    some: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl Two {
    /// A connection whose streams begin with a window of so many bytes. Its own window is as large as can be.
    pub(crate) async fn connect(address: SocketAddr, window: u32) -> Two {
        let stream = TcpStream::connect(address).await.unwrap();
        let [a, b, c, d] = window.to_be_bytes();
        let mut first = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        first.extend(frame(SETTINGS, 0, 0, &[0, 4, a, b, c, d]));
        stream.write_all(&first).await.unwrap();
        let two = Two {
            stream,
            next: 1,
            read: Vec::new(),
            some: vec![0; 32 << 10],
        };
        two.gives(0, (1 << 31) - 1 - 65_535).await;
        two
    }

    /// Sends a request for this path. Returns its stream.
    pub(crate) async fn get(&mut self, path: &str) -> u32 {
        let stream = self.next;
        self.next += 2;
        // Fields of the static table, and two whose values are literals.
        let mut head = vec![0x82, 0x86, 0x44, path.len() as u8];
        head.extend(path.as_bytes());
        head.extend(b"\x41\x04here");
        let flags = END_STREAM | END_HEADERS;
        let head = frame(HEADERS, flags, stream, &head);
        self.stream.write_all(&head).await.unwrap();
        stream
    }

    /// Enlarges the window of a stream, or of the connection if `stream` is 0.
    pub(crate) async fn gives(&self, stream: u32, bytes: u32) {
        let update = frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        self.stream.write_all(&update).await.unwrap();
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<Received> {
        loop {
            if let Some((&[high, middle, low, kind, flags, a, b, c, d], rest)) =
                self.read.split_first_chunk()
            {
                let len = u32::from_be_bytes([0, high, middle, low]) as usize;
                if rest.len() >= len {
                    let received = Received {
                        kind,
                        flags,
                        stream: u32::from_be_bytes([a, b, c, d]),
                        payload: rest[..len].to_vec(),
                    };
                    self.read.drain(..9 + len);
                    return Some(received);
                }
            }
            match self.stream.read(&mut self.some).await {
                Ok(count @ 1..) => self.read.extend_from_slice(&self.some[..count]),
                _ => return None,
            }
        }
    }
}
