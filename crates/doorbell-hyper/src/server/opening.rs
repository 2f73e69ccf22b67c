//! [`Opening`]: the first bytes of a connection, which tell its HTTP version.

use hyper::rt::ReadBufCursor;

/// The first bytes of every HTTP/2 client, and of no other.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// What the bytes so far tell.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The version needs more bytes.
    TooLittle,
    Version(Version),
}

/// How many of the first bytes hyper has.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Some,
    All,
}

/// The first bytes of a connection, until hyper has them. They are read, not only peeked at: if a part of the
/// preface stayed in the socket, a close by the client would go unnoticed.
#[derive(Debug, Default)]
pub(super) struct Opening {
    bytes: [u8; PREFACE.len()],
    read: usize,
    /// How many of the bytes hyper has.
    given: usize,
}

impl Opening {
    /// The room for the next bytes.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.read..]
    }

    /// Notes that `count` bytes were read into the room.
    pub(super) fn add(&mut self, count: usize) -> Heard {
        self.read += count;
        let said = &self.bytes[..self.read];
        if said == PREFACE {
            return Heard::Version(Version::Http2);
        }
        if PREFACE.starts_with(said) {
            return Heard::TooLittle;
        }
        Heard::Version(Version::Http1)
    }

    /// Gives hyper as many bytes as its buffer has room for.
    pub(super) fn give(&mut self, buffer: &mut ReadBufCursor<'_>) -> Given {
        let left = &self.bytes[self.given..self.read];
        let now = &left[..left.len().min(buffer.remaining())];
        buffer.put_slice(now);
        self.given += now.len();
        if self.given == self.read {
            Given::All
        } else {
            Given::Some
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::ReadBuf;

    const HTTP1: Heard = Heard::Version(Version::Http1);
    const HTTP2: Heard = Heard::Version(Version::Http2);

    fn add(opening: &mut Opening, bytes: &[u8]) -> Heard {
        opening.room()[..bytes.len()].copy_from_slice(bytes);
        opening.add(bytes.len())
    }

    #[test]
    fn only_the_whole_preface_is_http_2() {
        let mut opening = Opening::default();
        for byte in &PREFACE[..23] {
            assert_eq!(add(&mut opening, &[*byte]), Heard::TooLittle);
        }
        assert_eq!(add(&mut opening, b"\n"), HTTP2);
        for bytes in [&b"GET"[..], b"POST", b"PRINT", b"\r\n", b"PRI * HTTP/1.1"] {
            assert_eq!(add(&mut Opening::default(), bytes), HTTP1, "{bytes:?}");
        }
        let mut opening = Opening::default();
        assert_eq!(add(&mut opening, b"P"), Heard::TooLittle);
        assert_eq!(add(&mut opening, b"UT / HTTP/1.1"), HTTP1);
    }

    #[test]
    fn what_was_read_is_given_once() {
        let mut opening = Opening::default();
        assert_eq!(add(&mut opening, b"GET /"), HTTP1);
        let mut memory = [0; 8];
        let mut buffer = ReadBuf::new(&mut memory[..2]);
        assert_eq!(opening.give(&mut buffer.unfilled()), Given::Some);
        assert_eq!(buffer.filled(), b"GE");
        let mut buffer = ReadBuf::new(&mut memory);
        assert_eq!(opening.give(&mut buffer.unfilled()), Given::All);
        assert_eq!(buffer.filled(), b"T /");
    }
}
