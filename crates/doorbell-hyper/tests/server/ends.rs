//! How a server ends, and what ends without it.

use crate::common::{
    Client2, Hello, REQUEST, answer, ask, ask_2, bind, client_2, closes, hello, within,
};
use doorbell::net::{TcpListener, TcpStream};
use doorbell::sync::CancellationToken;
use doorbell::time::{Duration, Instant, sleep};
use doorbell::{Builder, Class, current_class};
use doorbell_hyper::{
    ConnectionInfo, DoorbellIo, Listener, RequestBody, ServeError, Served, Server,
};
use futures::{StreamExt as _, poll, stream};
use http_body_util::{Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, Version};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Greets at once, or behind `/slow` when told to; panics behind `/panic`, and when it is called behind
/// `/panic-at-once`.
#[derive(Clone, Default)]
struct Gate {
    /// Cancelled when a slow request has come.
    reached: CancellationToken,
    opens: CancellationToken,
    /// Each service and each request has a clone.
    inside: Arc<()>,
}

impl Gate {
    fn new() -> Gate {
        Gate::default()
    }

    /// How many clones there are beyond `others`.
    fn inside(&self, others: usize) -> usize {
        Arc::strong_count(&self.inside).saturating_sub(others)
    }
}

type Answer = Result<Response<Full<Bytes>>, Infallible>;

impl Service<Request<RequestBody>> for Gate {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let (gate, inside) = (self.clone(), Arc::clone(&self.inside));
        assert_ne!(request.uri().path(), "/panic-at-once");
        Box::pin(async move {
            match request.uri().path() {
                "/slow" => {
                    gate.reached.cancel();
                    gate.opens.cancelled().await;
                }
                "/panic" => panic!("a handler that panics"),
                _ => {}
            }
            drop(inside);
            Ok(Response::new(Full::from(Hello::TEXT)))
        })
    }
}

const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n";

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Waits until the address refuses connections. Returns how many it did not refuse: the server may have
/// accepted each of them.
async fn is_refused(address: SocketAddr) -> u64 {
    within(async {
        let mut connected = 0;
        while TcpStream::connect(address).await.is_ok() {
            connected += 1;
            sleep(Duration::from_millis(1)).await;
        }
        connected
    })
    .await
}

/// Asserts that the server drained all that it accepted: `asked`, and some of those that were not refused.
fn all_drained(served: Served, asked: u64, not_refused: u64) {
    let all = served.accepted;
    assert!((asked..=asked + not_refused).contains(&all), "{served:?}");
    assert_eq!(counts(served), [all, 0, all, 0]);
}

/// A server of that gate, which the token ends.
fn server(
    gate: &Gate,
) -> (
    Server,
    impl Fn() -> Gate + Send + 'static,
    SocketAddr,
    CancellationToken,
) {
    let (listener, address) = bind();
    let end = CancellationToken::new();
    let server = Server::new(listener).shutdown_on(end.clone().cancelled_owned());
    let gate = gate.clone();
    (server, move || gate.clone(), address, end)
}

fn counts(served: Served) -> [u64; 4] {
    [served.accepted, served.refused, served.drained, served.cut]
}

// One worker, so that the connection with the slow request learns of the end before the idle one is closed.
#[doorbell::test(cores = 1)]
async fn requests_in_flight_are_answered_and_idle_connections_closed() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = doorbell::spawn(server.serve(service));
    // Accepted in this order: once the last one is answered, all are accepted.
    let (idle, silent, slow) = (
        connect(address).await,
        connect(address).await,
        connect(address).await,
    );
    ask(&idle).await;
    ask(&slow).await;
    slow.write_all(SLOW).await.unwrap();
    within(gate.reached.cancelled()).await;
    end.cancel();
    within(closes(&idle)).await;
    within(closes(&silent)).await;
    let not_refused = is_refused(address).await;
    assert!(!server.is_finished());
    gate.opens.cancel();
    let last = within(answer(&slow)).await;
    assert!(last.contains("connection: close"), "{last}");
    within(closes(&slow)).await;
    all_drained(within(server).await.unwrap().unwrap(), 3, not_refused);
}

// One worker: hyper's client drops a request whose answer, with the notice that the connection ends, arrives
// on another thread before the client's task has looked at the connection once more.
#[doorbell::test(cores = 1)]
async fn requests_of_http_2_in_flight_are_answered_too() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = doorbell::spawn(server.serve(service));
    let (client, connection) = client_2(address).await;
    let asks = client.clone();
    let slow = doorbell::spawn(async move { ask_2(&asks, "/slow").await });
    within(gate.reached.cancelled()).await;
    end.cancel();
    let not_refused = is_refused(address).await;
    gate.opens.cancel();
    assert_eq!(within(slow).await.unwrap().unwrap(), Hello::TEXT);
    within(connection).await.unwrap().unwrap();
    assert!(ask_2(&client, "/").await.is_err());
    all_drained(within(server).await.unwrap().unwrap(), 1, not_refused);
}

#[doorbell::test]
async fn who_is_not_done_in_time_is_cut() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = server.drain_timeout(Duration::from_millis(100));
    let server = doorbell::spawn(server.serve(service));
    let (slow, idle) = (connect(address).await, connect(address).await);
    ask(&idle).await;
    slow.write_all(SLOW).await.unwrap();
    within(gate.reached.cancelled()).await;
    let (client, connection) = client_2(address).await;
    let asked = ask_2(&client, "/slow");
    let mut asked = pin!(asked);
    // Clones: this one, the one in the closure, and those of three services.
    while gate.inside(5) < 2 {
        assert!(poll!(asked.as_mut()).is_pending());
        sleep(Duration::from_millis(1)).await;
    }
    end.cancel();
    let served = within(server).await.unwrap().unwrap();
    assert_eq!(counts(served), [3, 0, 1, 2]);
    within(closes(&slow)).await;
    assert!(within(asked).await.is_err());
    drop(within(connection).await);
    all_dropped(&gate).await;
}

/// Waits until no services and requests are left.
async fn all_dropped(gate: &Gate) {
    within(async {
        while gate.inside(1) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[doorbell::test]
async fn a_server_that_is_dropped_takes_its_connections_with_it() {
    let gate = Gate::new();
    let (server, service, address, _end) = server(&gate);
    let task = doorbell::spawn(server.serve(service));
    let (slow, idle) = (connect(address).await, connect(address).await);
    ask(&idle).await;
    slow.write_all(SLOW).await.unwrap();
    within(gate.reached.cancelled()).await;
    let (client, connection) = client_2(address).await;
    within(ask_2(&client, "/")).await.unwrap();
    task.abort();
    within(closes(&slow)).await;
    within(closes(&idle)).await;
    drop(within(connection).await);
    is_refused(address).await;
    all_dropped(&gate).await;
}

#[doorbell::test]
async fn a_handler_that_panics_ends_its_own_connection() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = doorbell::spawn(server.serve(service));
    let (bad, good) = (connect(address).await, connect(address).await);
    let (client, _connection): (Client2, _) = client_2(address).await;
    ask(&good).await;
    bad.write_all(b"GET /panic HTTP/1.1\r\nhost: here\r\n\r\n")
        .await
        .unwrap();
    within(closes(&bad)).await;
    assert!(within(ask_2(&client, "/panic")).await.is_err());
    // Over HTTP/2 only the request was dropped.
    within(ask_2(&client, "/")).await.unwrap();
    within(ask(&good)).await;
    ask(&connect(address).await).await;
    end.cancel();
    let served = within(server).await.unwrap().unwrap();
    assert_eq!((served.accepted, served.cut), (4, 0));
}

#[doorbell::test]
async fn a_service_that_panics_when_it_is_called_leaves_nothing_of_its_connection() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let kept = Arc::new(());
    let left = Arc::downgrade(&kept);
    // What the connections share has this closure.
    let server = server.http2(move |_| _ = &kept);
    let server = doorbell::spawn(server.serve(service));
    let (client, _connection): (Client2, _) = client_2(address).await;
    assert!(within(ask_2(&client, "/panic-at-once")).await.is_err());
    end.cancel();
    within(server).await.unwrap().unwrap();
    within(async {
        while left.strong_count() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[doorbell::test]
async fn connections_and_their_requests_run_in_the_class_of_the_task_that_serves() {
    let (listener, address) = bind();
    let class = || {
        service_fn(async |_: Request<RequestBody>| {
            let class = format!("{}, hello, world", current_class().unwrap());
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(class)))
        })
    };
    let server = doorbell::task().class(Class::rt(7));
    let server = server.spawn(doorbell_hyper::serve(listener, class));
    let expected = format!("{}, hello, world", Class::rt(7));
    let one = ask(&connect(address).await).await;
    assert!(one.ends_with(&expected), "{one}");
    let (client, _connection) = client_2(address).await;
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), expected);
    server.abort();
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    let mut server = pin!(Server::new(bind().0).serve(hello));
    let polled = server
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(
        matches!(polled, Poll::Ready(Err(ServeError::NoRuntime(_)))),
        "{polled:?}"
    );
}

#[test]
fn a_server_whose_runtime_has_ended_says_so() {
    let runtime = Builder::new().cores(1).build().unwrap();
    let mut server = pin!(Server::new(bind().0).serve(hello));
    let mut cx = Context::from_waker(Waker::noop());
    {
        let _entered = runtime.handle().enter();
        assert!(server.as_mut().poll(&mut cx).is_pending());
    }
    drop(runtime);
    let polled = server.as_mut().poll(&mut cx);
    assert!(
        matches!(polled, Poll::Ready(Err(ServeError::RuntimeEnded))),
        "{polled:?}"
    );
}

#[doorbell::test]
async fn a_listener_that_was_shut_down_ends_the_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let ended = within(doorbell_hyper::serve(listener, hello)).await;
    assert!(matches!(ended, Err(ServeError::Listener(_))), "{ended:?}");
}

/// Fails with an error of one connection, and then with its own.
struct Fails(Vec<io::Error>);

impl Listener for Fails {
    type Io = DoorbellIo;

    async fn accept(&mut self) -> io::Result<(DoorbellIo, ConnectionInfo)> {
        Err(self.0.pop().expect("the server has ended"))
    }
}

#[doorbell::test]
async fn a_listener_that_fails_by_itself_ends_the_server_with_its_error() {
    for own in [
        io::Error::other("its own"),
        io::Error::new(io::ErrorKind::InvalidData, "its own"),
    ] {
        let listener = Fails(vec![own, io::ErrorKind::ConnectionReset.into()]);
        let ended = within(doorbell_hyper::serve(listener, hello)).await;
        let Err(ServeError::Listener(error)) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(error.to_string(), "its own");
    }
}

/// How long a server waits at most for clients without a request in flight, on a loaded machine.
const SOON: Duration = Duration::from_secs(20);

#[doorbell::test]
async fn half_a_first_head_does_not_hold_the_end_of_a_server() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = server.header_timeout(None);
    let server = doorbell::spawn(server.drain_timeout(SOON * 2).serve(service));
    let (half, next) = (connect(address).await, connect(address).await);
    half.write_all(&REQUEST[..20]).await.unwrap();
    ask(&next).await;
    next.write_all(&REQUEST[..20]).await.unwrap();
    // Over HTTP/2 half of the first bytes, and half of a frame of a head.
    let two = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x0f\x01\x05\0";
    let (begun, framed, _silent) = (
        connect(address).await,
        connect(address).await,
        connect(address).await,
    );
    begun.write_all(&two[..10]).await.unwrap();
    framed.write_all(two).await.unwrap();
    // Until the server has read all.
    sleep(Duration::from_millis(500)).await;
    let start = Instant::now();
    end.cancel();
    let served = within(server).await.unwrap().unwrap();
    assert_eq!(counts(served), [5, 0, 5, 0]);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[doorbell::test]
async fn a_head_that_is_completed_soon_after_the_signal_is_answered() {
    let gate = Gate::new();
    let (server, service, address, end) = server(&gate);
    let server = doorbell::spawn(server.serve(service));
    let half = connect(address).await;
    half.write_all(&REQUEST[..20]).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    end.cancel();
    sleep(Duration::from_millis(500)).await;
    half.write_all(&REQUEST[20..]).await.unwrap();
    within(answer(&half)).await;
    within(closes(&half)).await;
    assert_eq!(counts(within(server).await.unwrap().unwrap())[3], 0);
}

#[doorbell::test]
async fn an_answer_that_would_go_on_for_ever_learns_of_the_end() {
    let (listener, address) = bind();
    let end = CancellationToken::new();
    let server = Server::new(listener).shutdown_on(end.clone().cancelled_owned());
    let begun = CancellationToken::new();
    let theirs = begun.clone();
    let events = move |info: &ConnectionInfo| {
        let (begun, end) = (theirs.clone(), info.server_end());
        service_fn(move |request: Request<RequestBody>| {
            let (begun, end) = (begun.clone(), end.clone());
            async move {
                assert!(!end.is_cancelled());
                if request.version() == Version::HTTP_2 {
                    begun.cancel();
                }
                let first = stream::iter([Hello::TEXT]);
                let last = stream::once(async move {
                    end.clone().cancelled_owned().await;
                    assert!(end.is_cancelled());
                    "goodbye, world"
                });
                let frame = |text| Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
                let body = StreamBody::new(first.chain(last).map(frame));
                Ok::<_, Infallible>(Response::new(body))
            }
        })
    };
    let server = doorbell::spawn(server.serve_with(events));
    let stream = connect(address).await;
    stream.write_all(REQUEST).await.unwrap();
    let (client, connection) = client_2(address).await;
    let two = doorbell::spawn(async move { ask_2(&client, "/").await });
    let mut all = String::new();
    loop {
        let mut some = [0; 512];
        let count = within(stream.read(&mut some)).await.unwrap();
        all += str::from_utf8(&some[..count]).unwrap();
        if all.contains(Hello::TEXT) {
            within(begun.cancelled()).await;
            end.cancel();
        }
        if count == 0 {
            break;
        }
    }
    assert!(all.contains("goodbye, world"), "{all}");
    let two = within(two).await.unwrap().unwrap();
    assert_eq!(two, "hello, worldgoodbye, world");
    drop(within(connection).await);
    let served = within(server).await.unwrap().unwrap();
    assert_eq!(counts(served), [2, 0, 2, 0]);
}
