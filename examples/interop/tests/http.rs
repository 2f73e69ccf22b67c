//! `reqwest`, which opens its own sockets on tokio's reactor, in tasks of doorbell.

use async_compat::CompatExt;
use doorbell::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;

/// Answers each request of a connection with its path.
async fn answer(stream: TcpStream) -> io::Result<()> {
    let mut seen = Vec::new();
    loop {
        let mut buffer = [0; 1_000];
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&buffer[..read]);
        while let Some(end) = seen.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).into_owned();
            seen.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default();
            let len = path.len();
            let page = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n{path}");
            stream.write_all(page.as_bytes()).await?;
        }
    }
}

fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    doorbell::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(doorbell::spawn(answer(stream)));
        }
    });
    address
}

async fn get(client: reqwest::Client, url: String) -> reqwest::Result<String> {
    let page = async {
        client
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .text()
            .await
    };
    page.compat().await
}

#[doorbell::test(cores = 2)]
async fn pages_are_fetched_side_by_side() {
    let address = serve();
    // Created inside `compat()`, which provides tokio's reactor: the client starts a task when it connects.
    let client = async { reqwest::Client::new() }.compat().await;
    let gets: Vec<_> = (0..8)
        .map(|number| {
            let url = format!("http://{address}/{number}");
            doorbell::spawn(get(client.clone(), url))
        })
        .collect();
    for (number, got) in gets.into_iter().enumerate() {
        assert_eq!(got.await.unwrap().unwrap(), format!("/{number}"));
    }
}

#[doorbell::test(cores = 2)]
async fn a_refused_connection_is_an_error() {
    let nobodys = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap()
    };
    let client = async { reqwest::Client::new() }.compat().await;
    let error = get(client, format!("http://{nobodys}/")).await.unwrap_err();
    assert!(error.is_connect(), "{error}");
}
