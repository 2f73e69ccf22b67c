//! An echo on a kept connection, while each new connection computes: how many answers are late, on doorbell and on tokio.
//!
//! `cargo bench -p doorbell-lab --bench beside`. Two workers that are not bound; the runtimes take turns. The listener is
//! accepted from in `block_on`, as `main` does, or in a task.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "it is not run under valgrind")]
#![allow(
    unused_mut,
    reason = "a stream of tokio must be mutable, one of doorbell not"
)]

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

type Failed = Box<dyn Error + Send + Sync>;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(6);
/// What a connection that sends `c` computes for; any other byte is only echoed.
const COMPUTES: Duration = Duration::from_millis(50);
const BETWEEN_COMPUTATIONS: Duration = Duration::from_millis(60);
const BETWEEN_ECHOES: Duration = Duration::from_millis(3);
const LATE: Duration = Duration::from_millis(10);
const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn answer(byte: [u8; 1]) {
    let began = Instant::now();
    while byte == *b"c" && began.elapsed() < COMPUTES {}
}

/// The server, in the words of a runtime.
macro_rules! serves {
    ($told:expr, $spawn:path, $bind:expr) => {
        async move {
            let listener = $bind?;
            $told.send(listener.local_addr()?)?;
            while let Ok((mut stream, _)) = listener.accept().await {
                drop($spawn(async move {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte).await {
                        answer(byte);
                        if stream.write_all(&byte).await.is_err() {
                            return;
                        }
                    }
                }));
            }
            Ok::<(), Failed>(())
        }
    };
}

fn serve_on_doorbell(in_task: bool, told: Sender<SocketAddr>) -> Result<(), Failed> {
    use doorbell::net::TcpListener;
    let runtime = doorbell::Builder::new().cores(2).build()?;
    let served = serves!(told, doorbell::spawn, TcpListener::bind(ANY_PORT));
    if in_task {
        runtime.block_on(runtime.spawn(served))?
    } else {
        runtime.block_on(served)
    }
}

fn serve_on_tokio(in_task: bool, told: Sender<SocketAddr>) -> Result<(), Failed> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let served = serves!(told, tokio::spawn, TcpListener::bind(ANY_PORT).await);
    if in_task {
        runtime.block_on(runtime.spawn(served))?
    } else {
        runtime.block_on(served)
    }
}

/// How long the answer to one byte takes.
fn ask(stream: &mut TcpStream, byte: [u8; 1]) -> io::Result<Duration> {
    let began = Instant::now();
    stream.write_all(&byte)?;
    stream.read_exact(&mut [0])?;
    Ok(began.elapsed())
}

/// How long the echoes of one round took, sorted.
fn round(server: SocketAddr) -> Result<Vec<Duration>, Failed> {
    let mut kept = TcpStream::connect(server)?;
    kept.set_nodelay(true)?;
    let end = Instant::now() + ROUND;
    let echoes = thread::spawn(move || {
        let mut took = Vec::new();
        while Instant::now() < end {
            took.push(ask(&mut kept, *b"e")?);
            thread::sleep(BETWEEN_ECHOES);
        }
        took.sort_unstable();
        io::Result::Ok(took)
    });
    while Instant::now() < end {
        ask(&mut TcpStream::connect(server)?, *b"c")?;
        thread::sleep(BETWEEN_COMPUTATIONS);
    }
    Ok(echoes.join().map_err(|_| "the client has panicked")??)
}

fn main() -> Result<(), Failed> {
    let mut servers = Vec::new();
    for in_task in [false, true] {
        for is_doorbell in [true, false] {
            let (told, tells) = channel();
            let serve = if is_doorbell {
                serve_on_doorbell
            } else {
                serve_on_tokio
            };
            thread::spawn(move || serve(in_task, told));
            servers.push((is_doorbell, in_task, tells.recv()?));
        }
    }
    println!("accepts in   runtime    round   echoes   over 10 ms   median us   max ms");
    for number in 1..=ROUNDS {
        for &(is_doorbell, in_task, server) in &servers {
            let took = round(server)?;
            let late = took.iter().filter(|it| **it > LATE).count();
            let last = took.last().ok_or("there was no echo")?;
            println!(
                "{:10}   {:8} {number:7} {:8} {late:12} {:11.0} {:8.1}",
                if in_task { "a task" } else { "block_on" },
                if is_doorbell { "doorbell" } else { "tokio" },
                took.len(),
                took[took.len() / 2].as_secs_f64() * 1e6,
                last.as_secs_f64() * 1e3,
            );
        }
    }
    Ok(())
}
