//! Answers that are complete, and that their clients have not taken yet.

use crate::common::{Client2, REQUEST, Site, client_2, request, within};
use doorbell::net::TcpStream;
use doorbell::time::{Duration, Instant, sleep};
use doorbell::{JoinHandle, spawn};
use doorbell_hyper::{RequestBody, Server};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;

const SHORT: Duration = Duration::from_millis(150);

/// Longer than a server waits for a client that it has asked to leave, and for the look before.
const LONG: Duration = Duration::from_secs(8);
/// How long a server waits at its end for answers.
const DRAINS: Duration = Duration::from_secs(12);

/// The length of an answer: more than the sockets buffer.
const LEN: usize = 64 << 20;

/// How much of it a client reads at first, with the head.
const LITTLE: usize = 512;

impl Site {
    /// A server whose every answer is long, and in memory.
    fn owing(with: impl FnOnce(Server) -> Server) -> Site {
        let bytes = Bytes::from(vec![b'x'; LEN]);
        let long = move || {
            let bytes = bytes.clone();
            service_fn(move |_: Request<RequestBody>| {
                let body = Full::new(bytes.clone());
                async { Ok::<_, Infallible>(Response::new(body)) }
            })
        };
        Site::of(with, |server| spawn(server.serve(long)))
    }

    /// A client that has read a little of its answer.
    async fn one(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        stream.read_exact(&mut [0; LITTLE]).await.unwrap();
        stream
    }

    /// Like [`Site::one`], over HTTP/2.
    async fn client_of_two(&self) -> Two {
        let (client, connection) = client_2(self.address).await;
        let answer = client.clone().send_request(request("/")).await.unwrap();
        Two {
            body: answer.into_body(),
            _client: client,
            _connection: connection,
        }
    }
}

struct Two {
    body: Incoming,
    _client: Client2,
    _connection: JoinHandle<hyper::Result<()>>,
}

impl Two {
    async fn rest(self) -> hyper::Result<usize> {
        Ok(self.body.collect().await?.to_bytes().len())
    }
}

/// How many bytes come until the connection ends, or there are as many as wanted.
async fn rest(stream: &TcpStream, wanted: usize) -> usize {
    let mut some = vec![0; 1 << 20];
    let mut got = 0;
    while got < wanted
        && let Ok(count @ 1..) = stream.read(&mut some).await
    {
        got += count;
    }
    got
}

#[doorbell::test]
async fn a_client_that_pauses_in_an_answer_is_not_idle() {
    let site = Site::owing(|server| server.keep_alive_timeout(Some(SHORT)));
    let (one, two) = (site.one().await, site.client_of_two().await);
    sleep(SHORT).await;
    assert!(within(rest(&one, LEN - LITTLE)).await >= LEN - LITTLE);
    assert_eq!(within(two.rest()).await.unwrap(), LEN);
    let served = site.end().await;
    assert_eq!((served.cut, served.timed_out), (0, 0));
}

#[doorbell::test]
async fn at_the_end_of_a_server_an_answer_in_memory_is_in_flight() {
    // One reads on within the time, and one does not.
    let site = Site::owing(|server| server.drain_timeout(DRAINS));
    let (one, stuck) = (site.one().await, site.one().await);
    let (two, stuck_two) = (site.client_of_two().await, site.client_of_two().await);
    let start = Instant::now();
    site.end.cancel();
    sleep(LONG).await;
    assert!(within(rest(&one, LEN - LITTLE)).await >= LEN - LITTLE);
    assert_eq!(within(two.rest()).await.unwrap(), LEN);
    let served = site.end().await;
    assert!(start.elapsed() >= DRAINS, "{:?}", start.elapsed());
    assert_eq!((served.accepted, served.drained, served.cut), (4, 2, 2));
    assert!(within(rest(&stuck, LEN)).await < LEN - LITTLE);
    assert!(within(stuck_two.rest()).await.is_err());
}

#[doorbell::test]
async fn a_client_that_takes_nothing_is_dropped_and_counted() {
    let site = Site::owing(|server| server.write_timeout(Some(SHORT)));
    let (one, two) = (site.one().await, site.client_of_two().await);
    // Both servers' ends go away without a byte read.
    sleep(SHORT * 20).await;
    assert!(within(rest(&one, LEN)).await < LEN - LITTLE);
    assert!(within(two.rest()).await.is_err());
    let served = site.end().await;
    assert_eq!((served.timed_out, served.cut), (2, 0));
}

#[doorbell::test]
async fn a_client_that_has_taken_a_long_answer_owes_nothing_more() {
    let limit = SHORT * 10;
    let site = Site::owing(|server| server.write_timeout(Some(limit)));
    let stream = site.one().await;
    // The sockets are full by then.
    sleep(SHORT).await;
    // What it has read before has the head, which is shorter.
    assert!(rest(&stream, LEN - LITTLE).await >= LEN - LITTLE);
    sleep(2 * limit).await;
    let served = site.end().await;
    assert_eq!((served.timed_out, served.cut), (0, 0));
}

#[doorbell::test]
async fn a_client_that_takes_little_at_a_time_is_not_dropped() {
    let site = Site::owing(|server| server.write_timeout(Some(SHORT * 20)));
    let one = site.one().await;
    let mut some = vec![0; 1 << 16];
    // All that it reads was in the OS's buffers from the beginning: the server cannot write meanwhile.
    let start = Instant::now();
    while start.elapsed() < LONG {
        within(one.read_exact(&mut some)).await.unwrap();
        sleep(SHORT).await;
    }
    drop(one);
    assert_eq!(site.end().await.timed_out, 0);
}

#[doorbell::test]
async fn a_client_that_takes_less_than_the_minimum_rate_is_dropped() {
    let site = Site::owing(|server| {
        let server = server.write_timeout(None);
        server.minimum_rate((4 << 20).try_into().ok())
    });
    let (one, quick, two) = (
        site.one().await,
        site.one().await,
        site.client_of_two().await,
    );
    assert!(within(rest(&quick, LEN - LITTLE)).await >= LEN - LITTLE);
    // About 400 kB a second. What the OS holds already comes in any case.
    let start = Instant::now();
    let mut some = vec![0; 1 << 16];
    while start.elapsed() < LONG {
        within(one.read_exact(&mut some)).await.unwrap();
        sleep(SHORT).await;
    }
    assert!(within(rest(&one, LEN)).await < LEN / 2);
    assert!(within(two.rest()).await.is_err());
    assert_eq!(site.end().await.timed_out, 2);
}
