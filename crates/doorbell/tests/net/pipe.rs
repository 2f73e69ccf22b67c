//! Pipes in tasks.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::runtime;
use doorbell::net::pipe::{OpenOptions, Receiver, Sender, pipe};
use doorbell::net::{Interest, Ready};
use doorbell::time::{Duration, sleep};
use futures::FutureExt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A FIFO in the file system.
struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Fifo {
        let name = format!("doorbell-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Fifo(path)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_goes_in_comes_out() {
    let runtime = runtime();
    runtime.block_on(async {
        let (sender, receiver) = pipe().unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
        let theirs = sent.clone();
        let writer = doorbell::spawn(async move {
            let (first, rest) = theirs.split_at(1_000);
            let both = [IoSlice::new(first), IoSlice::new(rest)];
            let mut written = sender.write_vectored(&both).await.unwrap();
            written += sender.write(&theirs[written..]).await.unwrap();
            sender.write_all(&theirs[written..]).await.unwrap();
        });
        let mut got = vec![0; sent.len()];
        let (first, rest) = got.split_at_mut(10);
        let mut both = [IoSliceMut::new(first), IoSliceMut::new(rest)];
        let mut read = receiver.read_vectored(&mut both).await.unwrap();
        read += receiver.read(&mut got[read..]).await.unwrap();
        receiver.read_exact(&mut got[read..]).await.unwrap();
        assert!(got == sent);
        writer.await.unwrap();
        assert_eq!(receiver.read(&mut [0]).await.unwrap(), 0, "the end");
    });
}

#[test]
fn a_pipe_waits_and_says_what_it_is_ready_for() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let (sender, receiver) = pipe().unwrap();
        let nothing = receiver.try_read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(receiver.read(&mut [0]).now_or_never().is_none());
        // No bytes need no wait.
        assert_eq!(receiver.read(&mut []).now_or_never().unwrap().unwrap(), 0);
        sender.writable().await.unwrap();
        while sender.try_write(&[0; 4_096]).is_ok() {}
        assert!(sender.ready(Interest::WRITABLE).now_or_never().is_none());
        receiver.readable().await.unwrap();
        let ready = receiver.ready(Interest::READABLE).await.unwrap();
        assert_eq!(ready, Ready::READABLE);
        while receiver.try_read(&mut [0; 16_384]).is_ok() {}
        sender.write_all(b"x").await.unwrap();
        receiver.read_exact(&mut [0]).await.unwrap();
        drop(receiver);
        // A child of another test has the other end too, between its fork and its exec.
        let broken = loop {
            match sender.write_all(b"x").await {
                Ok(()) => sleep(Duration::from_millis(1)).await,
                Err(error) => break error,
            }
        };
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_fifo_is_opened_by_its_path() {
    let runtime = runtime();
    let fifo = Fifo::new("fifo");
    runtime.block_on(async {
        let options = OpenOptions::new();
        let alone = options.open_sender(&fifo.0).unwrap_err();
        assert_eq!(alone.raw_os_error(), Some(libc::ENXIO));
        let receiver = options.open_receiver(&fifo.0).unwrap();
        let sender = options.open_sender(&fifo.0).unwrap();
        sender.write_all(b"one").await.unwrap();
        receiver.read_exact(&mut [0; 3]).await.unwrap();
        drop((sender, receiver));
        // Both ways, a sender needs no receiver, and a receiver sees no end.
        let both = OpenOptions::new().read_write(true).open_sender(&fifo.0);
        both.unwrap().write_all(b"two").await.unwrap();
        let both = OpenOptions::new().read_write(true).open_receiver(&fifo.0);
        let both = both.unwrap();
        assert!(both.read(&mut [0]).now_or_never().is_none());
        let file = std::env::current_exe().unwrap();
        let wrong = OpenOptions::new().open_receiver(&file).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidInput);
        OpenOptions::new()
            .unchecked(true)
            .open_receiver(&file)
            .unwrap();
    });
}

#[test]
fn ends_come_from_elsewhere_and_go_there() {
    let runtime = runtime();
    runtime.block_on(async {
        let (sender, receiver) = pipe().unwrap();
        let mut child = Command::new("cat")
            .stdin(Stdio::from(receiver.into_blocking_fd().unwrap()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = OwnedFd::from(child.stdout.take().unwrap());
        let output = Receiver::from_owned_fd(output).unwrap();
        sender.write_all(b"through a child").await.unwrap();
        drop(sender);
        let mut read = [0; 15];
        output.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"through a child");
        child.wait().unwrap();
        // Each end is what it is.
        let (sender, receiver) = pipe().unwrap();
        let number = sender.as_raw_fd();
        assert_eq!(number, sender.as_fd().as_raw_fd());
        let sender = OwnedFd::from(sender);
        let wrong = Receiver::from_owned_fd(sender.try_clone().unwrap()).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidInput);
        Sender::from_owned_fd(sender).unwrap();
        let wrong = Sender::from_owned_fd(receiver.into_nonblocking_fd().unwrap());
        assert_eq!(wrong.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let wrong = Receiver::from_file(file).unwrap_err();
        assert!(wrong.to_string().contains("AsyncFd"), "{wrong}");
    });
}

#[cfg(all(feature = "futures-io", feature = "tokio-io"))]
#[test]
fn pipes_have_the_traits() {
    use doorbell::io::{futures as f, tokio as t};
    let runtime = runtime();
    runtime.block_on(async {
        let (mut sender, mut receiver) = pipe().unwrap();
        t::AsyncWriteExt::write_u16(&mut sender, 513).await.unwrap();
        f::AsyncWriteExt::write_all(&mut sender, b"ab")
            .await
            .unwrap();
        t::AsyncWriteExt::shutdown(&mut sender).await.unwrap();
        assert_eq!(t::AsyncReadExt::read_u16(&mut receiver).await.unwrap(), 513);
        let mut two = [0; 2];
        f::AsyncReadExt::read_exact(&mut receiver, &mut two)
            .await
            .unwrap();
        assert_eq!(&two, b"ab");
    });
}
