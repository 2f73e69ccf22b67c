//! tokio-postgres with cancel, and sqlx, against the system's PostgreSQL where it is installed.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// A server of its own, which ends with this.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that does not run as root: PostgreSQL refuses that.
fn command(program: &str) -> Command {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=postgres",
        "--regid=postgres",
        "--clear-groups",
        program,
    ]);
    command
}

fn begin() -> Option<Server> {
    let folder = tempfile::tempdir().ok()?;
    // For the user that the server runs as.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).ok()?;
    let data = folder.path().join("data");
    let made = command("initdb")
        .args(["--auth=trust", "--username=test", "--no-sync", "-D"])
        .arg(&data)
        .output()
        .ok()?;
    if !made.status.success() {
        return None;
    }
    let child = command("postgres")
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
        .arg(folder.path())
        .arg("-D")
        .arg(&data)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    Some(Server { child, folder })
}

async fn connect(folder: &Path) -> tokio_postgres::Client {
    let config = format!("host={} user=test dbname=postgres", folder.display());
    let until = std::time::Instant::now() + super::LONG;
    loop {
        match tokio_postgres::connect(&config, NoTls).await {
            Ok((client, connection)) => {
                drop(tokio::spawn(connection));
                return client;
            }
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn queries_and_cancels(folder: &Path) {
    let client = connect(folder).await;
    let row = client
        .query_one("select $1::int4 + 1", &[&41])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i32>(0), 42);
    let cancel = client.cancel_token();
    let sleeps = doorbell::spawn(async move { client.execute("select pg_sleep(600)", &[]).await });
    while !sleeps.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel_query(NoTls).await.unwrap();
    }
    let error = sleeps.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
}

async fn a_pool_of_sqlx(folder: &Path) {
    let options = sqlx::postgres::PgConnectOptions::new()
        .host(folder.to_str().unwrap())
        .username("test")
        .database("postgres");
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(3);
    let pool = pool.connect_with(options).await.unwrap();
    let tasks: Vec<_> = (0..16_i32)
        .map(|number| {
            let pool = pool.clone();
            doorbell::spawn(async move {
                let query = sqlx::query_scalar::<_, i32>("select $1 + 1").bind(number);
                query.fetch_one(&pool).await
            })
        })
        .collect();
    for (number, task) in (1..).zip(tasks) {
        assert_eq!(task.await.unwrap().unwrap(), number);
    }
    pool.close().await;
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn queries_a_cancel_and_a_pool() {
    let Some(server) = begin() else {
        println!("skipped: no PostgreSQL");
        return;
    };
    queries_and_cancels(server.folder.path()).await;
    a_pool_of_sqlx(server.folder.path()).await;
}
