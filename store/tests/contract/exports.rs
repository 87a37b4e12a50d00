//! Exports as rows: bounded, found by whom they are of, changed only by who saw them last, and told with what became of
//! their job.

use crate::{House, id, on_every_engine};
use gateway_domain::export::{
    EXPORT_KIND, ExportFormat, ExportProgress, ExportQuery, ExportRequest, ExportState, LogExport, LogField,
};
use gateway_domain::ports::{ExportPlace, Exports, JobBounds, JobEnd, Jobs, NewJob};
use gateway_domain::{OrgId, Timestamp, WorkspaceId};
use gateway_store::Database;
use std::time::Duration;

on_every_engine!(kept_found_and_bounded, changed_by_who_saw_it_last, shown_with_its_job, old_ones_go);

fn export(n: u128) -> LogExport {
    LogExport {
        id: id(n),
        org: OrgId(id(1_000)),
        workspace: WorkspaceId(id(2_000)),
        created_by: id(3_000 + n % 2),
        request: ExportRequest {
            description: "it's".to_owned(),
            filters: r#"{"trace_id":"t"}"#.to_owned(),
            fields: vec![LogField::Id, LogField::Cost],
            format: ExportFormat::Parquet,
            total: 7,
        },
        job: None,
        state: ExportState::Draft,
        progress: ExportProgress::default(),
        note: String::new(),
        created_at: Timestamp(i64::try_from(n).unwrap()),
        updated_at: Timestamp(i64::try_from(n).unwrap()),
    }
}

fn all() -> ExportQuery {
    let (org, workspaces) = (OrgId(id(1_000)), vec![WorkspaceId(id(2_000))]);
    ExportQuery { org, workspaces, id: None, created_by: None, page: 0, page_size: 10 }
}

async fn one(database: &Database, n: u128) -> LogExport {
    let query = ExportQuery { id: Some(id(n)), ..all() };
    database.exports(&query).await.unwrap().rows.pop().unwrap()
}

async fn kept_found_and_bounded(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        assert!(database.create(&export(n), 3).await.unwrap());
    }
    assert!(!database.create(&export(4), 3).await.unwrap(), "there is no room");
    let found = database.exports(&all()).await.unwrap();
    assert_eq!((found.total, found.rows), (3, vec![export(3), export(2), export(1)]));
    let second = ExportQuery { page: 1, page_size: 2, ..all() };
    assert_eq!(database.exports(&second).await.unwrap().rows, [export(1)]);
    let own = ExportQuery { created_by: Some(id(3_001)), ..all() };
    assert_eq!(database.exports(&own).await.unwrap().rows, [export(3), export(1)]);
    for other in [
        ExportQuery { org: OrgId(id(9)), ..all() },
        ExportQuery { workspaces: vec![WorkspaceId(id(9))], ..all() },
        ExportQuery { id: Some(id(9)), ..all() },
    ] {
        assert_eq!(database.exports(&other).await.unwrap().total, 0);
    }
}

async fn changed_by_who_saw_it_last(house: House) {
    let database = house.open().await;
    database.create(&export(1), 9).await.unwrap();
    let place = ExportPlace { org: OrgId(id(1_000)), id: id(1), job: None };
    assert!(database.hand_to(place, id(50), Timestamp(20)).await.unwrap());
    assert!(!database.hand_to(place, id(51), Timestamp(20)).await.unwrap(), "it has a job by now");
    assert!(!database.remove(place).await.unwrap());
    let request = ExportRequest { total: 8, ..export(1).request };
    assert!(!database.change(place, &request, Timestamp(21)).await.unwrap());
    let seen = ExportPlace { job: Some(id(50)), ..place };
    let foreign = ExportPlace { org: OrgId(id(9)), ..seen };
    assert!(!database.remove(foreign).await.unwrap());
    assert!(database.change(seen, &request, Timestamp(21)).await.unwrap());
    let changed = LogExport { request, updated_at: Timestamp(21), ..export(1) };
    assert_eq!(one(&database, 1).await, changed);
    assert!(database.remove(place).await.unwrap() && !database.remove(place).await.unwrap());
}

/// The job of the first export.
fn job() -> NewJob {
    NewJob {
        id: id(50),
        kind: EXPORT_KIND,
        org: OrgId(id(1_000)),
        payload: String::new(),
        progress: String::new(),
        wait: Duration::ZERO,
        most_tries: 1,
        most_open: 9,
        bounds: JobBounds::default(),
    }
}

async fn shown_with_its_job(house: House) {
    let database = house.open().await;
    database.create(&export(1), 9).await.unwrap();
    let place = ExportPlace { org: OrgId(id(1_000)), id: id(1), job: None };
    database.hand_to(place, id(50), Timestamp(20)).await.unwrap();
    assert_eq!(one(&database, 1).await.state, ExportState::Draft, "its node died before the job was queued");
    database.enqueue(&job()).await.unwrap();
    assert_eq!(one(&database, 1).await.state, ExportState::InProgress);
    let leased = database.take(&[EXPORT_KIND], Duration::from_secs(60)).await.unwrap().unwrap();
    let progress = ExportProgress { rows: 5, bytes: 80, ..ExportProgress::default() };
    let noted = serde_json::to_string(&progress).unwrap();
    database.beat(leased.lease, Some(&noted), Duration::from_secs(60)).await.unwrap();
    let running = one(&database, 1).await;
    assert_eq!((running.state, running.progress, running.job), (ExportState::InProgress, progress, Some(id(50))));
    database.end(leased.lease, &JobEnd::Failed("no room".to_owned())).await.unwrap();
    let failed = one(&database, 1).await;
    assert_eq!((failed.state, failed.note.as_str()), (ExportState::Failed, "no room"));
}

async fn old_ones_go(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        database.create(&export(n), 9).await.unwrap();
    }
    let place = ExportPlace { org: OrgId(id(1_000)), id: id(1), job: None };
    database.hand_to(place, id(50), Timestamp(1)).await.unwrap();
    database.enqueue(&job()).await.unwrap();
    assert_eq!(database.forget_exports(Timestamp(3)).await.unwrap(), 1, "one is being made, one is young");
    let left: Vec<_> = database.exports(&all()).await.unwrap().rows.iter().map(|export| export.id).collect();
    assert_eq!(left, [id(3), id(1)]);
}
