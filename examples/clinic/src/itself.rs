//! The app as its own client: reqwest, a crate that calls tokio, in a handler (`doorbell-tokio`).

use axum::http::StatusCode;
use std::net::SocketAddr;

/// Asks the app for `/healthz`.
#[derive(Debug)]
pub(crate) struct Itself {
    client: reqwest::Client,
    url: String,
}

impl Itself {
    /// # Errors
    /// If reqwest finds no way to work.
    pub(crate) fn at(address: SocketAddr) -> reqwest::Result<Itself> {
        Ok(Itself {
            // It is never behind a proxy.
            client: reqwest::Client::builder().no_proxy().build()?,
            url: format!("http://{address}/healthz"),
        })
    }

    /// What it answers.
    pub(crate) async fn ask(&self) -> Result<String, (StatusCode, String)> {
        let answer = async { self.client.get(&self.url).send().await?.text().await };
        match answer.await {
            Ok(health) => Ok(format!("/healthz says {health}")),
            Err(error) => Err((StatusCode::BAD_GATEWAY, format!("no answer: {error}\n"))),
        }
    }
}
