//! Revisions, what changed since, conflicts, refusals and parallel writers.

use crate::{Engine, House, batch, id, on_every_engine, put, row};
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{Batch, ConfigStore, Directory, ResourceQuery, StoreError, WriteError};
use gateway_domain::resource::{Kind, Stored};
use std::time::Duration;
use tokio::time::timeout;

on_every_engine!(
    starts_empty,
    every_write_is_a_revision,
    what_changed_since,
    documents_survive_byte_for_byte,
    a_taken_slug_is_named,
    a_slug_is_free_again,
    slugs_are_unique_per_place,
    a_refused_write_leaves_nothing,
    a_write_without_rows_keeps_the_number,
    a_writer_sees_what_others_wrote,
    a_writer_from_the_future_is_refused,
    parallel_writers_lose_nothing,
    a_write_wakes,
    the_directory_lists_and_finds,
    old_tombstones_are_forgotten,
);

fn slugs(rows: &[Stored]) -> Vec<&str> {
    rows.iter().map(|row| row.slug.as_str()).collect()
}

async fn starts_empty(house: House) {
    let database = house.open().await;
    for changes in [database.load().await.unwrap(), database.since(0).await.unwrap()] {
        assert_eq!((changes.revision, changes.rows.len()), (0, 0));
    }
}

async fn old_tombstones_are_forgotten(house: House) {
    let database = house.open().await;
    let gone = |n: u128, slug: &str, at: i64| {
        let mut row = row(n, slug);
        row.deleted_at = Some(Timestamp(at));
        row
    };
    put(&database, 0, vec![row(1, "lives"), gone(2, "old", 10), gone(3, "young", 30)]).await.unwrap();
    database.purge(Timestamp(20)).await.unwrap();
    let mut left = database.since(0).await.unwrap();
    left.rows.sort_by_key(|row| row.id);
    assert_eq!((left.revision, slugs(&left.rows)), (1, vec!["lives", "young"]));
    database.purge(Timestamp(20)).await.unwrap();
    assert_eq!(database.since(0).await.unwrap().rows.len(), 2);
}

async fn every_write_is_a_revision(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        let written = put(&database, n - 1, vec![row(n as u128, &format!("s{n}"))]).await.unwrap();
        assert_eq!(written.revision, n);
        assert_eq!(written.rows[0].revision, n);
    }
    let mut all = database.load().await.unwrap();
    all.rows.sort_by_key(|row| row.revision);
    assert_eq!((all.revision, slugs(&all.rows)), (3, vec!["s1", "s2", "s3"]));
}

async fn what_changed_since(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "a"), row(2, "b")]).await.unwrap();
    put(&database, 1, vec![row(3, "c")]).await.unwrap();
    let mut gone = row(1, "a");
    gone.deleted_at = Some(Timestamp(77));
    gone.version = 2;
    let written = put(&database, 2, vec![gone.clone()]).await.unwrap();

    let since = database.since(1).await.unwrap();
    assert_eq!((since.revision, slugs(&since.rows)), (3, vec!["c", "a"]));
    gone.revision = 3;
    assert_eq!(since.rows[1], gone);
    assert_eq!(written.rows, vec![gone]);

    let mut live = database.load().await.unwrap();
    live.rows.sort_by_key(|row| row.revision);
    assert_eq!((live.revision, slugs(&live.rows)), (3, vec!["b", "c"]));
    let nothing = database.since(3).await.unwrap();
    assert_eq!((nothing.revision, nothing.rows.len()), (3, 0));
    // A node ahead of a restored database learns where that stands.
    assert_eq!(database.since(9).await.unwrap().revision, 3);
}

async fn documents_survive_byte_for_byte(house: House) {
    let database = house.open().await;
    let doc = "{ \"z\":1.50, \"a\" : 1e2,\t\"unknown\":{\"\\u00e9\":\"é\\u0000\",\"emoji\":\"🦀\"},\"a\":2 }\n";
    let mut odd = row(1, "");
    odd.kind = "kind_of_a_newer_node".into();
    odd.doc = doc.into();
    odd.name = "na'me \"; DROP TABLE resource; --".into();
    odd.owner = Some(id(9));
    odd.workspace = None;
    odd.schema = i32::MAX;
    put(&database, 0, vec![odd.clone()]).await.unwrap();
    odd.revision = 1;
    assert_eq!(database.load().await.unwrap().rows, vec![odd.clone()]);
    assert_eq!(database.since(0).await.unwrap().rows, vec![odd]);
}

async fn a_taken_slug_is_named(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "taken")]).await.unwrap();
    match put(&database, 1, vec![row(2, "free"), row(3, "taken")]).await {
        Err(WriteError::Store(StoreError::Conflict(what))) => assert_eq!(what, "config 'taken'"),
        other => panic!("{other:?}"),
    }
    // Neither the number nor the other row of the batch was kept.
    let all = database.load().await.unwrap();
    assert_eq!((all.revision, slugs(&all.rows)), (1, vec!["taken"]));
    assert_eq!(put(&database, 1, vec![row(2, "free")]).await.unwrap().revision, 2);
}

async fn a_slug_is_free_again(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "name")]).await.unwrap();
    let mut gone = row(1, "name");
    gone.deleted_at = Some(Timestamp(5));
    // Both come in one batch, the heir listed first.
    put(&database, 1, vec![row(2, "name"), gone]).await.unwrap();
    assert_eq!(database.load().await.unwrap().rows[0].id, id(2));
}

async fn slugs_are_unique_per_place(house: House) {
    let database = house.open().await;
    let place = |n: u128, workspace: Option<u128>, kind: &str, org: u128| Stored {
        workspace: workspace.map(id),
        kind: kind.into(),
        org: id(org),
        ..row(n, "same")
    };
    let apart = vec![
        place(1, Some(1), "config", 1),
        place(2, Some(2), "config", 1),
        place(3, None, "config", 1),
        place(4, None, "config", 2),
        place(5, None, "provider", 1),
        row(6, ""),
        row(7, ""),
    ];
    put(&database, 0, apart).await.unwrap();
    let clash = put(&database, 1, vec![place(8, None, "config", 1)]).await;
    assert!(matches!(clash, Err(WriteError::Store(StoreError::Conflict(_)))), "{clash:?}");
}

async fn a_refused_write_leaves_nothing(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    match database.write(1, Box::new(|_| Err(Box::new("because")))).await {
        Err(WriteError::Rejected(why)) => assert_eq!(*why.downcast::<&str>().unwrap(), "because"),
        other => panic!("{other:?}"),
    }
    assert_eq!(database.load().await.unwrap().revision, 1);
    assert_eq!(put(&database, 1, vec![row(2, "b")]).await.unwrap().revision, 2);
}

async fn a_write_without_rows_keeps_the_number(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    let written = database.write(0, Box::new(|_| Ok(Batch::default()))).await.unwrap();
    assert_eq!((written.revision, slugs(&written.rows)), (1, vec!["a"]));
    assert_eq!(database.since(0).await.unwrap().revision, 1);
    assert_eq!(put(&database, 1, vec![row(2, "b")]).await.unwrap().revision, 2);
}

async fn a_writer_sees_what_others_wrote(house: House) {
    let database = house.open().await;
    put(&database, 0, vec![row(1, "a"), row(2, "b")]).await.unwrap();
    let decide = |news: &gateway_domain::ports::Changes| {
        assert_eq!((news.revision, slugs(&news.rows)), (1, vec!["a", "b"]));
        let mut changed = news.rows[0].clone();
        changed.name = "changed".into();
        Ok(batch(vec![changed]))
    };
    let written = database.write(0, Box::new(decide)).await.unwrap();
    assert_eq!(written.revision, 2);
    // The row that this write replaced appears once, as it is now.
    let mut got: Vec<_> = written.rows.iter().map(|r| (r.slug.as_str(), r.name.as_str(), r.revision)).collect();
    got.sort_unstable();
    assert_eq!(got, [("a", "changed", 2), ("b", "Config b", 1)]);
}

async fn a_writer_from_the_future_is_refused(house: House) {
    let database = house.open().await;
    let written = put(&database, 4, vec![row(1, "a")]).await;
    assert!(matches!(written, Err(WriteError::Store(StoreError::Broken(_)))), "{written:?}");
    assert_eq!(database.load().await.unwrap().revision, 0);
}

/// Each adds one to a number in the same document: a lost update would show in the sum, a skipped or
/// repeated revision in the numbers.
async fn parallel_writers_lose_nothing(house: House) {
    const WRITERS: i64 = 8;
    const ROUNDS: i64 = 5;
    let first = house.open().await;
    let mut counter = row(1, "counter");
    counter.doc = "0".into();
    put(&first, 0, vec![counter]).await.unwrap();
    // Two handles stand for two processes where there is a server or a file: they share nothing but the database.
    let second = if house.engine == Engine::Memory { first.clone() } else { house.open().await };
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let database = if writer % 2 == 0 { first.clone() } else { second.clone() };
        writers.spawn(async move {
            let mut revisions = Vec::new();
            for _ in 0..ROUNDS {
                let decide = |news: &gateway_domain::ports::Changes| {
                    let mut row = news.rows.iter().find(|r| r.slug == "counter").unwrap().clone();
                    row.doc = (row.doc.parse::<i64>().unwrap() + 1).to_string();
                    Ok(batch(vec![row]))
                };
                revisions.push(database.write(0, Box::new(decide)).await.unwrap().revision);
            }
            revisions
        });
    }
    let mut revisions: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (2..=1 + WRITERS * ROUNDS).collect::<Vec<_>>());
    let all = second.load().await.unwrap();
    assert_eq!((all.revision, all.rows[0].doc.clone()), (1 + WRITERS * ROUNDS, (WRITERS * ROUNDS).to_string()));
}

async fn a_write_wakes(house: House) {
    let writer = house.open().await;
    // Two nodes share a server; a SQLite file belongs to one process, whose handles are clones.
    let node = if house.engine == Engine::Postgres { house.open().await } else { writer.clone() };
    if house.engine == Engine::Postgres {
        // The first wait ends when the ear is in place.
        timeout(Duration::from_secs(5), node.wake()).await.unwrap();
    }
    let waits = timeout(Duration::from_millis(50), node.wake()).await;
    assert!(waits.is_err(), "woken by nothing");
    put(&writer, 0, vec![row(1, "a")]).await.unwrap();
    timeout(Duration::from_secs(1), node.wake()).await.unwrap();
    assert_eq!(node.since(0).await.unwrap().revision, 1);
    // Also while somebody is waiting.
    let (woken, _) = tokio::join!(timeout(Duration::from_secs(1), node.wake()), put(&writer, 1, vec![row(2, "b")]));
    woken.unwrap();
}

async fn the_directory_lists_and_finds(house: House) {
    let database = house.open().await;
    let mut rows: Vec<_> = (1..=5).map(|n| row(n, &format!("s{n}"))).collect();
    rows[1].workspace = None;
    rows[2].status = "archived".into();
    rows[3].deleted_at = Some(Timestamp(9));
    rows[4].org = id(1_001);
    rows[0].name = "Config s1 für Ä".into();
    put(&database, 0, rows).await.unwrap();
    let (org, workspace) = (OrgId(id(1_000)), WorkspaceId(id(2_000)));
    let all = ResourceQuery { page_size: 10, ..ResourceQuery::all(Kind::Config, org) };
    let check = async |query: &ResourceQuery, total: u64, want: &[&str]| {
        let page = database.list(query).await.unwrap();
        assert_eq!((page.total, slugs(&page.rows)), (total, want.to_vec()), "{query:?}");
    };
    check(&all, 3, &["s3", "s2", "s1"]).await;
    check(&ResourceQuery { page_size: 2, page: 1, ..all.clone() }, 3, &["s1"]).await;
    check(&ResourceQuery { page: 7, ..all.clone() }, 3, &[]).await;
    check(&ResourceQuery { workspace: Some(None), ..all.clone() }, 1, &["s2"]).await;
    check(&ResourceQuery { workspace: Some(Some(workspace)), ..all.clone() }, 2, &["s3", "s1"]).await;
    check(&ResourceQuery { status: Some("archived".into()), ..all.clone() }, 1, &["s3"]).await;
    check(&ResourceQuery { name: Some("Config s1 für Ä".into()), ..all.clone() }, 1, &["s1"]).await;
    for (search, found) in [
        ("onfig S", vec!["s3", "s2", "s1"]),
        ("FüR Ä", vec!["s1"]),
        ("S2", vec!["s2"]),
        ("%", vec![]),
        ("_", vec![]),
        ("s1\\", vec![]),
    ] {
        let query = ResourceQuery { search: Some(search.into()), ..all.clone() };
        check(&query, found.len() as u64, &found).await;
    }
    check(&ResourceQuery { ids: vec![id(1), id(2), id(4)], ..all.clone() }, 2, &["s2", "s1"]).await;
    check(&ResourceQuery { kind: Kind::Provider, ..all.clone() }, 0, &[]).await;
    check(&ResourceQuery { deleted: true, ..all.clone() }, 1, &["s4"]).await;

    let find = async |workspace: Option<WorkspaceId>, what: &str| {
        let found = database.get(Kind::Config, org, workspace, what).await.unwrap();
        found.map(|row| row.slug).unwrap_or_default()
    };
    assert_eq!(find(None, "s1").await, "s1");
    assert_eq!(find(None, &id(2).to_string()).await, "s2");
    assert_eq!(find(Some(workspace), "s1").await, "s1");
    assert_eq!(find(Some(workspace), &id(2).to_string()).await, "", "belongs to no workspace");
    assert_eq!(find(None, "s4").await, "", "deleted");
    assert_eq!(find(None, "s5").await, "", "another organisation's");
    assert_eq!(find(None, "' OR 1=1 --").await, "");
}
