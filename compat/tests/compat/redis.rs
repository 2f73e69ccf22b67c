//! redis: a multiplexed connection and the `ConnectionManager`, with a small server of this test.

use redis::AsyncCommands;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

async fn number<R: AsyncBufReadExt + Unpin>(from: &mut R, mark: char) -> io::Result<usize> {
    let mut line = String::new();
    if from.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let digits = line.trim_end().strip_prefix(mark).expect("as RESP says");
    Ok(digits.parse().expect("a number"))
}

/// One command: its words.
async fn command<R: AsyncBufReadExt + Unpin>(from: &mut R) -> io::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..number(from, '*').await? {
        let mut word = vec![0; number(from, '$').await? + 2];
        from.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

/// Answers until the client goes, or asks it to close.
async fn answer(mut stream: TcpStream, store: Store) -> io::Result<()> {
    let (from, mut to) = stream.split();
    let mut from = BufReader::new(from);
    loop {
        let words = command(&mut from).await?;
        let name = words[0].to_ascii_uppercase();
        let reply = match (&name[..], &words[1..]) {
            (b"SET", [key, value]) => {
                store.lock().unwrap().insert(key.clone(), value.clone());
                b"+OK\r\n".to_vec()
            }
            (b"GET", [key]) => match store.lock().unwrap().get(key) {
                Some(value) => {
                    let head = format!("${}\r\n", value.len()).into_bytes();
                    [&head[..], value, b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
            (b"PING", []) => b"+PONG\r\n".to_vec(),
            (b"QUIT", _) => return Ok(()),
            _ => b"+OK\r\n".to_vec(),
        };
        to.write_all(&reply).await?;
    }
}

async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(doorbell::spawn(async move {
        let store = Store::default();
        while let Ok((stream, _)) = listener.accept().await {
            drop(doorbell::spawn(answer(stream, Arc::clone(&store))));
        }
    }));
    address
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn tasks_share_a_multiplexed_connection() {
    let client = redis::Client::open(format!("redis://{}", serve().await)).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let tasks: Vec<_> = (0..32_u32)
        .map(|number| {
            let mut connection = connection.clone();
            doorbell::spawn(async move {
                let key = format!("key {number}");
                let () = connection.set(&key, number).await?;
                connection.get::<_, u32>(&key).await
            })
        })
        .collect();
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(task.await.unwrap().unwrap(), number);
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_connection_manager_connects_again() {
    let client = redis::Client::open(format!("redis://{}", serve().await)).unwrap();
    let config = ConnectionManagerConfig::new().set_connection_timeout(super::LONG);
    let mut manager = ConnectionManager::new_with_config(client, config)
        .await
        .unwrap();
    let () = manager.set("key", 7).await.unwrap();
    // The server closes.
    let quit: redis::RedisResult<()> = redis::cmd("QUIT").query_async(&mut manager).await;
    assert!(quit.is_err());
    for _ in 0..1_000 {
        if let Ok(7) = manager.get::<_, u32>("key").await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not connect again");
}
