//! Streams of one connection over HTTP/2: many compute, one at a time probes.

use std::io::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::clients::GRACE;
use crate::measure::Samples;
use crate::peers::{Want, join, sleep_until, thread_on};

type Sender = SendRequest<Empty<Bytes>>;

/// What was computed, also in a second, the latenesses of the probes, and the number of errors.
pub(super) fn probed(
    address: SocketAddr,
    streams: u32,
    period: Duration,
    delay: Duration,
    span: Duration,
) -> Result<(u64, f64, Samples, u64)> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| Want::Waker.ask())
        .enable_all()
        .build()
        .context("building a tokio runtime")?;
    let sender = runtime.block_on(connect(address));
    let sender = sender.context("connecting over HTTP/2")?;
    let (computed, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    for _ in 0..streams {
        runtime.spawn(computes(sender.clone(), Arc::clone(&computed)));
    }
    let probes = thread_on("http-streams", None, move || {
        Want::Waker.ask();
        probe(&runtime, &sender, began + delay, period, span)
    })?;
    let (late, errors) = join(probes)?;
    // ORDER: Relaxed; a statistic.
    let computed = computed.load(Ordering::Relaxed);
    let per_s = computed as f64 / began.elapsed().as_secs_f64();
    Ok((computed, per_s, late, errors))
}

async fn connect(address: SocketAddr) -> Result<Sender, Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn ask(mut sender: Sender, address: &str) -> hyper::Result<()> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = hyper::Uri::try_from(address).unwrap_or_default();
    let answer = sender.send_request(request).await?;
    answer.into_body().collect().await.map(drop)
}

async fn computes(sender: Sender, computed: Arc<AtomicU64>) {
    let address = "http://localhost/compute";
    while ask(sender.clone(), address).await.is_ok() {
        // ORDER: Relaxed; a statistic.
        computed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread sends the probes, since tokio's sleeps end up to a millisecond late.
fn probe(
    runtime: &Runtime,
    sender: &Sender,
    begin: Instant,
    period: Duration,
    span: Duration,
) -> (Samples, u64) {
    let count = (span.as_nanos() / period.as_nanos()) as u32;
    let (answered, answers) = channel();
    for number in 0..count {
        let due = begin + period * number;
        sleep_until(due);
        let (sender, answered) = (sender.clone(), answered.clone());
        runtime.spawn(async move {
            let asked = ask(sender, "http://localhost/healthz").await;
            // Who receives is gone only when the time is over.
            let _ = answered.send(asked.map(|()| due.elapsed()));
        });
    }
    drop(answered);
    let mut late = Samples::default();
    let over = Instant::now() + GRACE;
    let left = || over.saturating_duration_since(Instant::now());
    while let Ok(answer) = answers.recv_timeout(left()) {
        if let Ok(took) = answer {
            late.record(took.as_nanos() as u64);
        }
    }
    let errors = u64::from(count) - late.len() as u64;
    (late, errors)
}
