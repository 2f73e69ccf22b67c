//! Pairs of tasks that exchange messages: each pair has one message, which goes there and back.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::super::hosts::Host;
use super::super::slot::Slot;
use super::super::timers::{gather, tell};
use super::times::Times;
use crate::error::LabError;
use crate::measure::Samples;

/// The length of a message in bytes.
const MESSAGE: usize = 8 * 1024;
/// The most round trips that all clients together keep of a pass; with more, each client keeps an even part.
const KEPT_MAX: usize = 16_384;

/// A message.
type Message = Box<[u8; MESSAGE]>;

/// The two ends of a pair: each has a slot, in which the other one leaves the message.
#[derive(Debug, Default)]
struct Pair {
    client: Slot<Message>,
    server: Slot<Message>,
}

/// The results of a client.
#[derive(Debug)]
struct Client {
    exchanges: u64,
    round_trips: Samples,
    /// Whether every answer had the number that was due.
    is_right: bool,
}

/// The results of all pairs in a pass.
#[derive(Debug, Default)]
pub(super) struct Exchanged {
    pub(super) exchanges: u64,
    pub(super) span: Duration,
    pub(super) round_trips: Samples,
}

/// What one end remembers, as a program with a buffer of its own does.
#[derive(Debug)]
struct Memory(Message);

impl Memory {
    fn new() -> Self {
        Self(Box::new([0; MESSAGE]))
    }

    /// Copies a message in. Returns its number; `None` if its two ends differ.
    fn read(&mut self, message: &Message) -> Option<u64> {
        self.0.copy_from_slice(&message[..]);
        black_box(&mut self.0);
        let [first, .., last] = self.0.as_chunks::<8>().0 else {
            return None;
        };
        (first == last).then(|| u64::from_le_bytes(*first))
    }

    /// Copies the memory out, with this number at both ends.
    fn write(&mut self, number: u64, message: &mut Message) {
        let bytes = number.to_le_bytes();
        self.0[..bytes.len()].copy_from_slice(&bytes);
        self.0[MESSAGE - bytes.len()..].copy_from_slice(&bytes);
        message.copy_from_slice(&self.0[..]);
        black_box(message);
    }
}

impl Pair {
    /// Answers with the next number, until there are no more messages.
    async fn serve(&self) {
        let mut memory = Memory::new();
        while let Some(mut message) = self.server.take().await {
            // The client notices a wrong number.
            let number = memory.read(&message).unwrap_or_default();
            memory.write(number + 1, &mut message);
            self.client.put(message);
        }
    }

    /// Sends the message back each time that it comes, while `goes_on`; first when the pass begins. It is sent at
    /// least once, so a pass has an exchange of each pair however busy the machine is.
    async fn ask(&self, goes_on: &AtomicBool, kept_max: usize) -> Client {
        let mut memory = Memory::new();
        let mut times = Times::at_most(kept_max);
        let (mut exchanges, mut is_right) = (0, true);
        let mut sent: Option<Instant> = None;
        while let Some(mut message) = self.client.take().await {
            let answer = memory.read(&message);
            if let Some(sent) = sent {
                exchanges += 1;
                times.record(sent.elapsed().as_nanos() as u64);
                is_right &= answer == Some(2 * exchanges);
            }
            // ORDER: Relaxed; a flag that publishes nothing and may be seen late.
            if sent.is_some() && !goes_on.load(Ordering::Relaxed) {
                break;
            }
            sent = Some(Instant::now());
            memory.write(2 * exchanges + 1, &mut message);
            self.server.put(message);
        }
        self.server.close();
        Client {
            exchanges,
            round_trips: times.into_samples(),
            is_right,
        }
    }
}

/// Has `count` pairs exchange messages for `span`.
///
/// # Errors
/// [`LabError::TaskLost`] if a client ended without a result, [`LabError::CallLost`] if it got a wrong answer.
pub(super) fn exchange<H: Host>(
    host: &mut H,
    count: usize,
    span: Duration,
) -> Result<Exchanged, LabError> {
    let goes_on = Arc::new(AtomicBool::new(true));
    let pairs: Vec<_> = (0..count).map(|_| Arc::new(Pair::default())).collect();
    let (done, results) = mpsc::channel();
    for pair in &pairs {
        let (server, client) = (Arc::clone(pair), Arc::clone(pair));
        host.spawn(async move { server.serve().await })?;
        let goes_on = Arc::clone(&goes_on);
        let ask = async move { client.ask(&goes_on, KEPT_MAX / count).await };
        host.spawn(tell(done.clone(), ask))?;
    }
    drop(done);
    let began = Instant::now();
    for pair in &pairs {
        pair.client.put(Box::new([0; MESSAGE]));
    }
    std::thread::sleep(span);
    // ORDER: Relaxed; as where it is read.
    goes_on.store(false, Ordering::Relaxed);
    let clients = gather(&results, count)?;
    sum(&clients, began.elapsed())
}

fn sum(clients: &[Client], span: Duration) -> Result<Exchanged, LabError> {
    let mut all = Exchanged {
        span,
        ..Exchanged::default()
    };
    for client in clients {
        if !client.is_right {
            return Err(LabError::CallLost {
                reason: "a message came back with another number than its client expected",
            });
        }
        all.exchanges += client.exchanges;
        all.round_trips.add(&client.round_trips);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::executor::block_on;
    use futures::future::join;

    #[test]
    fn a_pair_goes_on_until_it_is_told() {
        let pair = Pair::default();
        let goes_on = AtomicBool::new(true);
        pair.client.put(Box::new([0; MESSAGE]));
        let client = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                goes_on.store(false, Ordering::Relaxed);
            });
            block_on(join(pair.serve(), pair.ask(&goes_on, 64))).1
        });
        assert!(client.is_right && client.exchanges > 0);
        assert!(!client.round_trips.is_empty() && client.round_trips.len() <= 64);
    }

    #[test]
    fn a_client_that_is_told_at_once_asks_once() {
        let pair = Pair::default();
        pair.client.put(Box::new([0; MESSAGE]));
        let goes_on = AtomicBool::new(false);
        let client = block_on(join(pair.serve(), pair.ask(&goes_on, 64))).1;
        assert_eq!((client.exchanges, client.round_trips.len()), (1, 1));
        assert!(client.is_right);
        assert_eq!(pair.server.take().now_or_never(), Some(None));
    }

    #[test]
    fn a_message_that_is_cut_or_has_another_number_is_noticed() {
        let mut memory = Memory::new();
        let mut message: Message = Box::new([0; MESSAGE]);
        memory.write(9, &mut message);
        assert_eq!(memory.read(&message), Some(9));
        message[MESSAGE - 1] = 1;
        assert_eq!(memory.read(&message), None);

        let wrong = Client {
            exchanges: 1,
            round_trips: Samples::default(),
            is_right: false,
        };
        let error = sum(&[wrong], Duration::ZERO).expect_err("one is wrong");
        assert!(error.to_string().contains("another number"), "{error}");
    }
}
