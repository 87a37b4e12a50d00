//! Opening: twice, at once, newer, older, and what goes wrong told in words.

use crate::{Engine, House, on_every_engine, options, put, row};
use gateway_domain::ports::ConfigStore;
use gateway_store::{DatabaseOptions, DatabaseUrl, MigrateError, OpenError, migrate, open};
use gateway_testing::Postgres;
use sqlx::{Connection, Executor};

on_every_engine!(twice_is_once);

async fn twice_is_once(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "kept")]).await.unwrap();
    migrate(&database).await.unwrap();
    assert_eq!(database.load().await.unwrap().rows.len(), 1);
    if house.engine != Engine::Memory {
        database.close().await;
        let unchanged = DatabaseOptions { migrate: false, ..options() };
        let again = open(&house.url, &unchanged).await.unwrap();
        assert_eq!(again.load().await.unwrap().rows.len(), 1);
    }
}

async fn many_nodes_at_once(house: House) {
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = house.url.clone();
        nodes.spawn(async move { open(&url, &options()).await.map(drop) });
    }
    for opened in nodes.join_all().await {
        opened.unwrap();
    }
    assert_eq!(house.open().await.load().await.unwrap().revision, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_start_at_once_on_a_server() {
    many_nodes_at_once(House::new(Engine::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_handles_open_one_file_at_once() {
    many_nodes_at_once(House::new(Engine::File)).await;
}

const NEWER: &str = "INSERT INTO migration (version, name) VALUES (9999, 'of a newer program')";

async fn newer_is_refused(house: House) {
    for migrate in [true, false] {
        let refused = open(&house.url, &DatabaseOptions { migrate, ..options() }).await.unwrap_err();
        let told = refused.to_string();
        assert!(matches!(refused, OpenError::Migrate { source: MigrateError::Newer { database: 9999, .. }, .. }));
        assert!(told.contains("newer program") && told.contains("9999"), "{told}");
    }
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let house = House::new(Engine::File);
    house.open().await.close().await;
    let url = format!("sqlite:{}", house.path("gateway.db").display());
    sqlx::SqliteConnection::connect(&url).await.unwrap().execute(NEWER).await.unwrap();
    newer_is_refused(house).await;
}

#[tokio::test]
async fn a_newer_server_is_refused() {
    let server = Postgres::shared();
    let url = server.create("newer");
    open(&DatabaseUrl::parse(&url).unwrap(), &options()).await.unwrap();
    sqlx::PgConnection::connect(&url).await.unwrap().execute(NEWER).await.unwrap();
    let house = House { url: DatabaseUrl::parse(&url).unwrap(), ..House::new(Engine::Postgres) };
    newer_is_refused(house).await;
}

#[tokio::test]
async fn an_empty_database_is_older_for_those_who_may_not_change_it() {
    for engine in [Engine::File, Engine::Postgres] {
        let house = House::new(engine);
        let refused = open(&house.url, &DatabaseOptions { migrate: false, ..options() }).await.unwrap_err();
        assert!(matches!(&refused, OpenError::Migrate { source: MigrateError::Older { database: 0, .. }, .. }));
        assert!(refused.to_string().contains("gateway migrate"), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_says_no_is_understood() {
    let server = Postgres::shared();
    let told = async |url: String| open(&DatabaseUrl::parse(&url).unwrap(), &options()).await.unwrap_err();
    let wrong = told(server.url().replace("test-password", "s3cret")).await;
    assert!(matches!(wrong, OpenError::Refused { .. }), "{wrong}");
    assert!(!format!("{wrong} {wrong:?}").contains("s3cret"), "{wrong:?}");
    let missing = told(server.url_of("nowhere")).await;
    assert!(matches!(missing, OpenError::NoDatabase { .. }), "{missing}");
    assert!(missing.to_string().contains("/nowhere"), "{missing}");
}

#[tokio::test]
async fn nobody_there() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://me:s3cret@127.0.0.1:{port}/app");
    let refused = open(&DatabaseUrl::parse(&url).unwrap(), &options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("127.0.0.1:{port}")), "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("s3cret"), "{refused:?}");
}

/// A listener that never speaks: only the deadline ends the wait.
#[tokio::test]
async fn somebody_silent() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me@127.0.0.1:{}/app", silent.local_addr().unwrap().port());
    let short = DatabaseOptions { connect_timeout: std::time::Duration::from_millis(200), ..options() };
    let refused = open(&DatabaseUrl::parse(&url).unwrap(), &short).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
    assert!(refused.to_string().contains("no answer within 0.2 s"), "{refused}");
}

#[tokio::test]
async fn a_file_that_cannot_be() {
    let house = House::new(Engine::File);
    let nowhere = DatabaseUrl::sqlite_file(house.path("no/such/dir/gateway.db"));
    let refused = open(&nowhere, &options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Create { .. }), "{refused}");
    assert!(refused.to_string().contains("no/such/dir"), "{refused}");
    std::fs::write(house.path("text.db"), "this is no database, it only looks like a file").unwrap();
    let refused = open(&DatabaseUrl::sqlite_file(house.path("text.db")), &options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Failed { .. }), "{refused:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new(Engine::File);
    let database = house.open().await;
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    for name in ["gateway.db", "gateway.db-wal"] {
        let mode = std::fs::metadata(house.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}
