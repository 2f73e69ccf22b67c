//! One request and its answer, for measuring clients and for those that only hold connections.

use std::io::{self, Error, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer that takes longer counts as none.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Far more than any answer of these servers.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Connects. Reads and writes time out.
///
/// # Errors
/// If the server does not accept the connection.
pub(in super::super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// Requests a path and waits for the complete answer, which must be a success.
///
/// # Errors
/// If the server closes the connection, takes too long, or answers with an error.
pub(in super::super) fn get(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = [0; ANSWER_BYTES_MAX];
    let mut filled = 0;
    loop {
        let count = stream.read(&mut bytes[filled..])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        let text = str::from_utf8(&bytes[..filled]).map_err(Error::other)?;
        if is_whole(text)? {
            return Ok(());
        }
    }
}

/// Whether `text` is a complete answer.
///
/// # Errors
/// If the answer is not a success.
fn is_whole(text: &str) -> io::Result<bool> {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ok(false);
    };
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(Error::other(
            head.lines().next().unwrap_or_default().to_owned(),
        ));
    }
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.trim().parse().ok());
    let length: usize = length.ok_or_else(|| Error::other("an answer without a length"))?;
    Ok(body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        for end in 0..text.len() {
            assert!(!is_whole(&text[..end]).expect("it may still come"), "{end}");
        }
        assert!(is_whole(text).expect("it is right"));
        assert!(is_whole("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(is_whole("HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
