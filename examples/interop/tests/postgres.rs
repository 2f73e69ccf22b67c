//! `tokio-postgres` over doorbell's connections, with a server that knows only what a simple query needs.

use doorbell::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// The server's only parameter and column.
const COLUMN: &str = "answer";

/// A message of the server: its kind, its length (including the four bytes of the length), and its body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &len.to_be_bytes()[..], body].concat()
}

/// A result with one row and one text column.
fn row(text: &str) -> Vec<u8> {
    // The column: its name, no table, type 25 (text) of variable length, in text format.
    let table = [0, 0, 0, 0, 0, 0];
    let kind = [0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
    let columns = [&[0, 1], COLUMN.as_bytes(), &[0], &table, &kind].concat();
    let len = u32::try_from(text.len()).unwrap().to_be_bytes();
    let values = [&[0, 1], &len[..], text.as_bytes()].concat();
    [
        message(b'T', &columns),
        message(b'D', &values),
        message(b'C', b"SELECT 1\0"),
    ]
    .concat()
}

/// The server's answer to an unknown query.
fn error() -> Vec<u8> {
    message(b'E', b"SERROR\0C42601\0Mno such query\0\0")
}

/// Serves a connection until the client ends it or requests the end of the server.
async fn session(stream: TcpStream) -> io::Result<()> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let mut start = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut start).await?;
    assert_eq!(start[..4], 196_608_u32.to_be_bytes(), "version 3.0");
    let ready = message(b'Z', b"I");
    let authenticated = message(b'R', &[0; 4]);
    let key = message(b'K', &[0; 8]);
    stream
        .write_all(&[authenticated, key, ready.clone()].concat())
        .await?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).await?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; len];
        stream.read_exact(&mut body).await?;
        let answer = match (head[0], &body[..]) {
            (b'X', _) | (_, b"go away\0") => return Ok(()),
            (b'Q', b"select\0") => row("42"),
            (b'Q', _) => error(),
            (other, _) => panic!("a message of kind {other}"),
        };
        stream.write_all(&[answer, ready.clone()].concat()).await?;
    }
}

/// A server for one connection. Returns its address and its result.
fn serve() -> (SocketAddr, doorbell::JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = doorbell::spawn(async move { session(listener.accept().await?.0).await });
    (address, server)
}

type Connected = (
    Client,
    doorbell::JoinHandle<Result<(), tokio_postgres::Error>>,
);

async fn connect(address: SocketAddr) -> Connected {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut config = Config::new();
    let config = config.user("doorbell");
    let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
    (client, doorbell::spawn(connection))
}

#[doorbell::test(cores = 2)]
async fn a_query_is_answered() {
    let (address, server) = serve();
    let (client, connection) = connect(address).await;
    for _ in 0..3 {
        let answer = client.simple_query("select").await.unwrap();
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(COLUMN),
            _ => None,
        });
        assert_eq!(rows.collect::<Vec<_>>(), ["42"]);
    }
    let unknown = client.simple_query("what?").await.unwrap_err();
    assert_eq!(unknown.as_db_error().unwrap().message(), "no such query");
    assert!(client.simple_query("select").await.is_ok());
    drop(client);
    connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}

#[doorbell::test(cores = 2)]
async fn a_server_that_goes_away_is_an_error() {
    let (address, server) = serve();
    let (client, connection) = connect(address).await;
    assert!(client.simple_query("go away").await.is_err());
    server.await.unwrap().unwrap();
    // The task has ended, with or without an error.
    let _ = connection.await.unwrap();
    assert!(client.is_closed());
}
