//! tokio's files, processes and signals.

use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn files_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let task = doorbell::spawn(async move {
        let mut file = tokio::fs::File::create(&path).await?;
        file.write_all(b"one\ntwo\n").await?;
        file.flush().await?;
        let mut lines = BufReader::new(tokio::fs::File::open(&path).await?).lines();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().await? {
            all.push(line);
        }
        Ok::<_, std::io::Error>(all)
    });
    assert_eq!(task.await.unwrap().unwrap(), ["one", "two"]);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn processes_are_started_spoken_to_and_awaited() {
    let mut cat = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    let wrote = doorbell::spawn(async move { to.write_all(b"hello").await });
    let mut back = String::new();
    from.read_to_string(&mut back).await.unwrap();
    wrote.await.unwrap().unwrap();
    assert_eq!(back, "hello");
    assert!(cat.wait().await.unwrap().success());

    let mut sleeps = Command::new("sleep").arg("60").spawn().unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(20), sleeps.wait()).await;
    assert!(waited.is_err());
    sleeps.kill().await.unwrap();
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_signal_is_heard() {
    let mut signals = signal(SignalKind::user_defined2()).unwrap();
    let me = std::process::id().to_string();
    let kill = Command::new("kill").args(["-USR2", &me]).status();
    let heard = doorbell::spawn(async move { signals.recv().await });
    assert!(kill.await.unwrap().success());
    assert_eq!(heard.await.unwrap(), Some(()));
}
