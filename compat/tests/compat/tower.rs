//! tower's timeout, rate limit and buffer.

use std::convert::Infallible;
use std::time::{Duration, Instant};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

async fn double(number: u32) -> Result<u32, Infallible> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(2 * number)
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_timeout_ends_a_call() {
    let never = service_fn(|(): ()| std::future::pending::<Result<(), Infallible>>());
    let service = ServiceBuilder::new()
        .timeout(Duration::from_millis(20))
        .service(never);
    let error = service.oneshot(()).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_rate_limit_holds_calls_back() {
    let mut service = ServiceBuilder::new()
        .rate_limit(2, Duration::from_millis(50))
        .service(service_fn(double));
    let started = Instant::now();
    for number in 0..3 {
        let answer = service.ready().await.unwrap().call(number).await;
        assert_eq!(answer, Ok(2 * number));
    }
    assert!(started.elapsed() >= Duration::from_millis(45));
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_buffer_is_shared_by_tasks() {
    let service = ServiceBuilder::new()
        .buffer(4)
        .concurrency_limit(2)
        .service(service_fn(double));
    let tasks: Vec<_> = (0..32)
        .map(|number| {
            let service = service.clone();
            doorbell::spawn(async move { service.oneshot(number).await.unwrap() })
        })
        .collect();
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(task.await.unwrap(), 2 * number);
    }
}
