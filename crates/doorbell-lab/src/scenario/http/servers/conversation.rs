//! The part of HTTP/1.1 that the raw server needs: requests without a body, answered in order.

use super::{COMPUTED, HEALTHY, HELLO};

/// A request with a longer head is refused.
const HEAD_MAX: usize = 8_192;
/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Hello,
    Compute,
    Healthz,
    Unknown,
}

/// What to do after the bytes read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    /// Read more bytes.
    Read,
    /// Compute, answer that, and continue without new bytes.
    Compute,
    /// Close the connection after the answers so far.
    Close,
}

/// The bytes of one connection that were read and not answered.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    rest: Vec<u8>,
    /// Whether the client wants no further answer.
    ends: bool,
}

impl Conversation {
    /// Takes new bytes, and appends answers to `answers`.
    pub(super) fn take(&mut self, bytes: &[u8], answers: &mut Vec<u8>) -> Step {
        // Mostly nothing is left over, and the new bytes are parsed in place.
        let mut kept = std::mem::take(&mut self.rest);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let mut used = 0;
        let step = loop {
            if self.ends {
                break Step::Close;
            }
            let left = &input[used..];
            let Some(head) = head(left) else {
                break if left.len() > HEAD_MAX {
                    Step::Close
                } else {
                    Step::Read
                };
            };
            used += head.len() + END.len();
            let Some(route) = route(head) else {
                answers.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
                break Step::Close;
            };
            self.ends = closes(head);
            if route == Route::Compute {
                break Step::Compute;
            }
            answer(route, answers);
        };
        self.rest = input[used..].to_vec();
        step
    }
}

/// Appends the answer of a route.
pub(super) fn answer(route: Route, answers: &mut Vec<u8>) {
    let (status, body) = match route {
        Route::Hello => ("200 OK", HELLO),
        Route::Compute => ("200 OK", COMPUTED),
        Route::Healthz => ("200 OK", HEALTHY),
        Route::Unknown => ("404 Not Found", ""),
    };
    for part in ["HTTP/1.1 ", status, "\r\ncontent-type: text/plain\r\n"] {
        answers.extend_from_slice(part.as_bytes());
    }
    // The length of a body has at most two digits.
    let length = [
        b'0' + (body.len() / 10) as u8,
        b'0' + (body.len() % 10) as u8,
    ];
    answers.extend_from_slice(b"content-length: ");
    answers.extend_from_slice(&length[usize::from(length[0] == b'0')..]);
    answers.extend_from_slice(END);
    answers.extend_from_slice(body.as_bytes());
}

/// The first head without its end; `None` if it is not complete.
fn head(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.windows(END.len()).position(|four| four == END)?;
    Some(&bytes[..length])
}

/// The route of a head; `None` if this server does not understand it.
fn route(head: &[u8]) -> Option<Route> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = line.strip_prefix(b"GET ")?.strip_suffix(b" HTTP/1.1")?;
    Some(match target {
        b"/" => Route::Hello,
        b"/compute" => Route::Compute,
        b"/healthz" => Route::Healthz,
        _ => Route::Unknown,
    })
}

/// Whether the client wants the connection closed after the answer.
fn closes(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii();
        let name = b"connection:";
        line.len() > name.len()
            && line[..name.len()].eq_ignore_ascii_case(name)
            && line[name.len()..]
                .trim_ascii()
                .eq_ignore_ascii_case(b"close")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(conversation: &mut Conversation, bytes: &str) -> (Step, String) {
        let mut answers = Vec::new();
        let step = conversation.take(bytes.as_bytes(), &mut answers);
        (step, String::from_utf8(answers).expect("it is text"))
    }

    #[test]
    fn a_request_in_pieces_is_answered_when_it_is_whole() {
        let mut conversation = Conversation::default();
        assert_eq!(
            said(&mut conversation, "GET / HT"),
            (Step::Read, String::new())
        );
        assert_eq!(
            said(&mut conversation, "TP/1.1\r\n\r"),
            (Step::Read, String::new())
        );
        let (step, text) = said(&mut conversation, "\nGET");
        assert_eq!(step, Step::Read);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.ends_with("content-length: 12\r\n\r\nhello, world"),
            "{text}"
        );
        let (_, text) = said(&mut conversation, " /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.ends_with("content-length: 2\r\n\r\nok"), "{text}");
    }

    #[test]
    fn what_follows_a_computation_waits_for_it() {
        let mut conversation = Conversation::default();
        let two = "GET /compute HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\nconnection: Close\r\n\r\n";
        assert_eq!(said(&mut conversation, two), (Step::Compute, String::new()));
        let (step, text) = said(&mut conversation, "");
        assert_eq!(step, Step::Close);
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        assert!(text.ends_with("content-length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let (step, text) = said(&mut Conversation::default(), "PUT / HTTP/1.1\r\n\r\n");
        assert!(step == Step::Close && text.contains(" 400 "), "{text}");
        let long = "x".repeat(HEAD_MAX + 1);
        assert_eq!(
            said(&mut Conversation::default(), &long),
            (Step::Close, String::new())
        );
    }
}
