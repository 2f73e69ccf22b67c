//! [`serve`].

use crate::DoorbellIo;
use doorbell::net::{TcpListener, TcpStream};
use doorbell::time::sleep;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::io;
use std::time::Duration;

/// How long nobody is accepted after a refusal of the OS.
const REFUSED: Duration = Duration::from_millis(10);

/// Serves each connection by HTTP/1 in a task of its own, with a service of its own, for ever.
///
/// # Errors
/// Without a runtime to wait in, or where that has ended. Where the OS refuses a connection, as for too many descriptors, the
/// next one is waited for a little later.
pub async fn serve<S, B>(listener: TcpListener, service: impl Fn() -> S) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if let Err(error) = doorbell::Handle::try_current() {
        return Err(io::Error::other(error));
    }
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The runtime, or the lane that looked for this listener, has ended.
            Err(error) if error.kind() == io::ErrorKind::Other => return Err(error),
            Err(_) => {
                sleep(REFUSED).await;
                continue;
            }
        };
        // It makes the answer slower at most.
        let _ = stream.set_nodelay(true);
        drop(doorbell::spawn(serve_one(stream, service())));
    }
}

async fn serve_one<S, B>(stream: TcpStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let io = DoorbellIo::new(stream);
    // A client that goes away in the midst of a request is no concern of the server's.
    let _ = http1::Builder::new().serve_connection(io, service).await;
}
