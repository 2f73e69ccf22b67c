//! [`Frames`]: where in a frame of HTTP/2 the bytes of a client have come to.

/// The length of a frame's own head.
const FRAME_HEAD: usize = 9;

/// The type of a frame that begins a request's head.
const HEADERS: u8 = 1;
/// The type of a frame that continues it.
const CONTINUATION: u8 = 9;
/// Set in the last frame of a request's head.
const END_HEADERS: u8 = 4;

/// Follows the frames of a client, to see whether a request's head has begun and is not complete. h2 waits
/// for the rest of it for ever, and tells nobody.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The head of the frame that is being received, as far as it is known.
    head: [u8; FRAME_HEAD],
    head_len: usize,
    /// How many bytes of the frame's payload are missing.
    missing: usize,
    /// Whether the last frame was one of a request's head, and not its last one.
    continues: bool,
    /// Number of heads that were seen; it wraps.
    heads: u32,
}

impl Frames {
    /// Follows more bytes. Returns the number of the head that has begun and is not complete; 0 if there is
    /// none. A frame whose own head is not complete counts too.
    pub(super) fn see(&mut self, mut bytes: &[u8]) -> u32 {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let now = self.missing.min(bytes.len());
                self.missing -= now;
                bytes = &bytes[now..];
                continue;
            }
            if self.head_len == FRAME_HEAD {
                self.head_len = 0;
            }
            if self.head_len == 0 && !self.continues {
                // 0 is for none.
                self.heads = self.heads.wrapping_add(1).max(1);
            }
            self.head[self.head_len] = bytes[0];
            self.head_len += 1;
            bytes = &bytes[1..];
            if self.head_len == FRAME_HEAD {
                self.begin_payload();
            }
        }
        if self.is_open() { self.heads } else { 0 }
    }

    fn begin_payload(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.missing = u32::from_be_bytes([0, high, middle, low]) as usize;
        let is_head = matches!(kind, HEADERS | CONTINUATION);
        self.continues = is_head && flags & END_HEADERS == 0;
    }

    fn is_open(&self) -> bool {
        let is_between = self.head_len == 0 || (self.head_len == FRAME_HEAD && self.missing == 0);
        let kind_known = self.head_len == FRAME_HEAD;
        let in_head = kind_known && matches!(self.head[3], HEADERS | CONTINUATION);
        self.continues || (!is_between && (!kind_known || in_head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1];
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn a_head_is_open_until_its_last_byte() {
        let whole = frame(HEADERS, END_HEADERS, b"fields");
        let mut frames = Frames::default();
        for byte in &whole[..whole.len() - 1] {
            assert_eq!(frames.see(&[*byte]), 1);
        }
        assert_eq!(frames.see(&whole[whole.len() - 1..]), 0);
        // The next one has another number, also where one read ends the first and begins the second.
        let mut two = whole.clone();
        two.extend_from_slice(&whole[..12]);
        assert_eq!(frames.see(&two), 3);
        assert_eq!(frames.see(&whole[12..]), 0);
    }

    #[test]
    fn a_head_in_several_frames_is_one() {
        let mut frames = Frames::default();
        assert_eq!(frames.see(&frame(HEADERS, 0, b"some")), 1);
        assert_eq!(frames.see(&frame(CONTINUATION, 0, b"")), 1);
        assert_eq!(frames.see(&frame(CONTINUATION, END_HEADERS, b"more")), 0);
    }

    #[test]
    fn half_of_another_frame_is_no_open_head() {
        let data = frame(0, 0, b"payload");
        let mut frames = Frames::default();
        assert_eq!(frames.see(&data[..12]), 0);
        assert_eq!(frames.see(&data[12..]), 0);
        assert_eq!(frames.see(&data[..5]), 2, "its kind is not known");
        assert_eq!(frames.see(&data[5..]), 0);
        assert_eq!(frames.see(&frame(4, 0, b"")), 0);
    }
}
