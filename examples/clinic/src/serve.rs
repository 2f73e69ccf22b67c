//! The servers, from the first connection to the last.

use crate::ClinicError;
use crate::listen::Listeners;
use crate::routes::{class_of, router};
use crate::stop::Signals;
use axum::Router;
use doorbell::JoinSet;
use doorbell::sync::CancellationToken;
use doorbell_hyper::{Listener, ServeError, Served, Server};

/// Serves until it is told to stop, and then until requests in flight are answered, for 30 s at most.
///
/// # Errors
/// If a listener has failed. The others end in order then.
pub(crate) async fn serve(
    listeners: Listeners,
    signals: Signals,
    is_logged: bool,
) -> Result<(), ClinicError> {
    let end = CancellationToken::new();
    let router = router(listeners.address, is_logged)?;
    let watch = doorbell::spawn(signals.watch(end.clone()));
    let _removed = listeners.unix_file;
    let mut servers = JoinSet::new();
    servers.spawn(one(listeners.http, router.clone(), end.clone()));
    if let Some(tls) = listeners.tls {
        servers.spawn(one(tls, router.clone(), end.clone()));
    }
    if let Some(unix) = listeners.unix {
        servers.spawn(one(unix, router, end));
    }
    let served = servers.join_all().await;
    watch.abort();
    for served in served {
        served?;
    }
    Ok(())
}

async fn one(
    listener: impl Listener,
    router: Router,
    end: CancellationToken,
) -> Result<Served, ServeError> {
    let served = Server::new(listener)
        .connection_info(true)
        .shutdown_on(end.clone().cancelled_owned())
        .classes(|request| class_of(request.uri().path()))
        .serve_tower(router)
        .await;
    // The others should not go on alone.
    end.cancel();
    served
}
