//! The service for hyper, for every runtime on which hyper runs.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use super::{COMPUTED, HEALTHY, HELLO};

/// Answers requests of one connection, with HTTP/1 only, until the client closes it. `compute` does the
/// work of `/compute`.
pub(super) async fn serve_bare<C, W>(io: C, compute: impl Fn() -> W)
where
    C: Read + Write + Unpin,
    W: Future<Output = ()>,
{
    let compute = &compute;
    let service = service_fn(move |request| answer(request, compute));
    // A client that disconnects in the middle of a request is no error of the server.
    let _ = http1::Builder::new().serve_connection(io, service).await;
}

/// The answer to one request.
pub(super) async fn answer<B, W>(
    request: Request<B>,
    compute: impl Fn() -> W,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    W: Future<Output = ()>,
{
    Ok(match request.uri().path() {
        "/" => text(HELLO),
        "/healthz" => text(HEALTHY),
        "/compute" => {
            compute().await;
            text(COMPUTED)
        }
        _ => {
            let mut response = text("");
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

fn text(body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
