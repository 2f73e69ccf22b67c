//! sqlx with SQLite, in this process.

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use std::time::Duration;

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn tasks_share_a_pool_with_transactions_and_its_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("data"))
        .create_if_missing(true);
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .acquire_timeout(super::LONG)
        .connect_with(options)
        .await
        .unwrap();
    let run = async |statement: &'static str| sqlx::query(statement).execute(&pool).await.unwrap();
    run("create table numbers (number integer)").await;
    let tasks: Vec<_> = (1..=16)
        .map(|number: i64| {
            let pool = pool.clone();
            doorbell::spawn(async move {
                let insert = sqlx::query("insert into numbers values (?)").bind(number);
                insert.execute(&pool).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let mut transaction = pool.begin().await.unwrap();
    let delete = sqlx::query("delete from numbers").execute(&mut *transaction);
    assert_eq!(delete.await.unwrap().rows_affected(), 16);
    // Dropped, so rolled back, by the pool in a task of tokio.
    drop(transaction);
    let sum: i64 = sqlx::query_scalar("select sum(number) from numbers")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(sum, 136);

    let held = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let third = tokio::time::timeout(Duration::from_millis(20), pool.acquire()).await;
    assert!(third.is_err());
    drop(held);
    pool.close().await;
}
