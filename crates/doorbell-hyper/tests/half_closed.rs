//! Clients that close their sending direction after their requests.
//!
//! A test binary of its own: it counts the resources of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;

use plain::site::{BIG, Site};
use plain::{Client, Has, request};
use std::io::Read as _;
use std::net::Shutdown;

#[test]
fn who_has_nothing_more_to_say_still_gets_the_answer() {
    const PIPELINED: usize = 100;
    let before = Has::now();
    let site = Site::start(|server| server.half_close(true));
    for (path, length) in [("/", 12), ("/late", 11), ("/big", BIG), ("/chunks", 20_000)] {
        let mut client = Client::to(site.address);
        client.get(path).unwrap();
        client.stream().shutdown(Shutdown::Write).unwrap();
        let answer = client
            .answer()
            .unwrap_or_else(|lost| panic!("{path}: {lost:?}"));
        assert_eq!(answer.body.len(), length, "{path}");
        client.assert_closed();
    }
    // Several requests in a row: the last ones must be answered too.
    let mut client = Client::to(site.address);
    let all: String = (0..PIPELINED)
        .map(|at| request(&format!("/n{at}")))
        .collect();
    client.write(all.as_bytes()).unwrap();
    client.stream().shutdown(Shutdown::Write).unwrap();
    for at in 0..PIPELINED {
        let answer = client.answer();
        let answer = answer.unwrap_or_else(|lost| panic!("{at}: {lost:?}"));
        assert_eq!(answer.body, format!("/n{at}").as_bytes());
    }
    client.assert_closed();
    drop(client);
    // No request at all, and half a request.
    for begun in [
        "",
        "GET / HT",
        "POST /length HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc",
    ] {
        let mut client = Client::to(site.address);
        client.write(begun.as_bytes()).unwrap();
        client.stream().shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // The server may answer that, and then closes.
        let _ = client.stream().read_to_end(&mut rest);
    }
    assert_eq!(site.end().accepted, 8);
    Has::wait_for(|now| *now == before, "after all of them");
}
