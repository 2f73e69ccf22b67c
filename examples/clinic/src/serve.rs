//! The server, from its first connection to its last.

use crate::routes::router;
use doorbell::net::TcpListener;
use futures_util::future::{Either, select};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;

/// Serves until it is told to stop.
///
/// # Errors
/// If the listener is of no use any more.
pub(crate) async fn serve(
    listener: TcpListener,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = router();
    let service = move || TowerToHyperService::new(router.clone());
    let serving = pin!(doorbell_hyper::serve(listener, service));
    match select(serving, pin!(stopped)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => Ok(()),
    }
}
