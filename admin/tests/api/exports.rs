//! Exports of logs: asked for, made once, gone on with, cancelled, fetched by a link that ends, and nobody else's.

use crate::harness::{Answer, House, pass_seconds, text};
use crate::logs::record;
use axum::body::Body;
use gateway_admin::{EXPORT_LEASE, run_export};
use gateway_domain::export::{EXPORT_KIND, ExportProgress, LogField};
use gateway_domain::ports::{JobEnd, NewBlob};
use gateway_domain::record::{LogCursor, LogRecord};
use http::Request;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor as _};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

/// So many records of the default workspace, each a second older than the one before.
async fn filled(count: i64) -> (House, Vec<LogRecord>) {
    let house = House::new().await;
    let (org, home) = (house.org().id, house.default_workspace());
    let mut records: Vec<LogRecord> = (0..count).map(|n| record(org, home, -n - 1, &format!("t{n}"))).collect();
    if let Some(refused) = records.get_mut(1) {
        refused.status = 429;
    }
    house.logs().append(&records).await.expect("appended");
    (house, records)
}

async fn made(house: &House, body: Value) -> String {
    text(&house.as_admin().post("/logs/exports", body).await.expect(200)["id"])
}

async fn started(house: &House, id: &str) {
    house.as_admin().post(&format!("/logs/exports/{id}/start"), json!({})).await.expect(200);
}

/// What a node does; whether there was something to do.
async fn work(house: &House) -> bool {
    let Some(leased) = house.app.jobs.take(&[EXPORT_KIND], EXPORT_LEASE).await.expect("a store") else { return false };
    run_export(&house.app, leased).await;
    true
}

async fn shown(house: &House, id: &str) -> Value {
    house.as_admin().get(&format!("/logs/exports/{id}")).await.expect(200)
}

async fn link(house: &House, id: &str) -> String {
    let told = house.as_admin().get(&format!("/logs/exports/{id}/download")).await.expect(200);
    let url = text(&told["signed_url"]);
    url[url.find("/v1/").expect("a path")..].to_owned()
}

async fn fetch(house: &House, path: &str) -> Answer {
    house.send(Request::get(path).body(Body::empty()).expect("a request")).await
}

async fn lines(house: &House, id: &str) -> Vec<Value> {
    let answer = fetch(house, &link(house, id).await).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[tokio::test]
async fn an_export_is_asked_for_made_and_fetched() {
    let (house, records) = filled(5).await;
    let fields = json!(["id", "trace_id", "cost", "response_status_code", "metadata", "ai_model"]);
    let asked = json!({"filters": {"status_code": [200, 500], "ai_model": "gpt-x"}, "requested_data": fields,
        "description": "all that went well", "workspace_id": "default"});
    let told = house.as_admin().post("/logs/exports", asked).await.expect(200);
    assert_eq!((&told["total"], &told["object"]), (&json!(4), &json!("export")));
    let id = text(&told["id"]);
    assert_eq!(shown(&house, &id).await["status"], "draft");
    assert!(!work(&house).await, "nobody started it");
    house.as_admin().get(&format!("/logs/exports/{id}/download")).await.refused(409, "AB07");
    started(&house, &id).await;
    assert_eq!(shown(&house, &id).await["status"], "in_progress");
    for (path, method) in [("", "DELETE"), ("", "PUT"), ("/start", "POST")] {
        let body = (method == "PUT").then(|| json!({"filters": {}}));
        let (method, path) = (method.parse().expect("a method"), format!("/logs/exports/{id}{path}"));
        house.as_admin().ask(method, &path, body).await.refused(409, "AB07");
    }
    assert!(work(&house).await && !work(&house).await, "it is made once");
    let done = shown(&house, &id).await;
    assert_eq!(
        (&done["status"], &done["exported_records"], &done["truncated"]),
        (&json!("success"), &json!(4), &json!(false))
    );
    let got = lines(&house, &id).await;
    let want: Vec<Value> = [0, 2, 3, 4]
        .map(|n: usize| {
            json!({"id": records[n].id, "trace_id": format!("t{n}"), "cost": 2.5, "response_status_code": 200,
                "metadata": {"_user": "ann"}, "ai_model": "gpt-x"})
        })
        .into();
    assert_eq!(got, want);
    let all = house.as_admin().get("/logs/exports").await.expect(200);
    assert_eq!((&all["total"], &all["data"][0]["id"]), (&json!(1), &json!(id)));
    // Something else is asked for: the file goes, and so does what links opened.
    let old = link(&house, &id).await;
    let change = json!({"filters": {"trace_id": "t1"}, "requested_data": ["request", "id"]});
    let told = house.as_admin().put(&format!("/logs/exports/{id}"), change).await.expect(200);
    assert_eq!(told["total"], 1);
    fetch(&house, &old).await.refused(404, "AB08");
    started(&house, &id).await;
    assert!(work(&house).await);
    assert_eq!(lines(&house, &id).await[0]["request"]["url"], "/v1/chat/completions");
    house.as_admin().delete(&format!("/logs/exports/{id}")).await.expect(200);
    house.as_admin().get(&format!("/logs/exports/{id}")).await.refused(404, "AB08");
    assert_eq!(house.app.blobs.kept().await.expect("a store").blobs, 0);
}

#[tokio::test]
async fn a_link_opens_its_own_file_and_ends() {
    let (house, _) = filled(2).await;
    let (one, other) = (made(&house, asked("t0")).await, made(&house, asked("t1")).await);
    for id in [&one, &other] {
        started(&house, id).await;
        assert!(work(&house).await);
    }
    let path = link(&house, &one).await;
    assert!(fetch(&house, &path).await.text.contains("t0"));
    let (_, token) = path.split_once("token=").expect("a token");
    let mut forged = token.to_owned();
    forged.replace_range(10..11, if &token[10..11] == "A" { "B" } else { "A" });
    let sealed = house.app.vault.seal("something else").replace("sealed:v1:", "").replace('+', "-").replace('/', "_");
    for path in [
        path.replace(&one, &other),
        format!("/v1/logs/exports/{one}/file?token={forged}"),
        format!("/v1/logs/exports/{one}/file?token={sealed}"),
        format!("/v1/logs/exports/{one}/file?token="),
        format!("/v1/logs/exports/{one}/file"),
    ] {
        let said = fetch(&house, &path).await.refused(403, "AB03");
        assert!(said.contains("not valid"), "{said}");
    }
    fetch(&house, &format!("{path}&more=1")).await.refused(400, "AB01");
    pass_seconds(3_601);
    let said = fetch(&house, &path).await.refused(403, "AB03");
    assert!(said.contains("has ended"), "{said}");
    // Long after, the file itself is gone.
    pass_seconds(8 * 86_400);
    house.app.blobs.expire(crate::harness::now(), crate::harness::now()).await.expect("a store");
    house.as_admin().get(&format!("/logs/exports/{one}/download")).await.refused(404, "AB08");
}

fn asked(trace: &str) -> Value {
    json!({"filters": {"trace_id": trace}, "requested_data": ["trace_id"]})
}

#[tokio::test]
async fn what_another_node_left_is_gone_on_with() {
    let (house, records) = filled(6).await;
    let id = made(&house, json!({"filters": {}, "requested_data": ["trace_id"]})).await;
    started(&house, &id).await;
    // A node that wrote a page, noted it, wrote more, and died.
    let leased = house.app.jobs.take(&[EXPORT_KIND], Duration::from_secs(60)).await.expect("a store").expect("due");
    let blob = ExportProgress::default().part_of(leased.job.id, 0);
    let new = NewBlob { id: blob, org: house.org().id, kind: EXPORT_KIND, expires_at: None };
    house.app.blobs.begin(&new).await.expect("begun");
    let page = "{\"trace_id\":\"t0\"}\n{\"trace_id\":\"t1\"}\n";
    house.app.blobs.write(blob, 0, page.as_bytes()).await.expect("written");
    let behind = LogCursor { created_at: records[1].created_at, id: records[1].id };
    let (rows, at) = (2, page.len() as u64);
    let progress =
        ExportProgress { behind: Some(behind.to_string()), rows, bytes: at, at, ..ExportProgress::default() };
    let progress = serde_json::to_string(&progress).expect("JSON");
    house.app.jobs.beat(leased.lease, Some(&progress), Duration::ZERO).await.expect("noted");
    house.app.blobs.write(blob, at, b"half a pa").await.expect("written");
    assert!(work(&house.elsewhere().await).await);
    let told: Vec<String> = lines(&house, &id).await.iter().map(|line| text(&line["trace_id"])).collect();
    assert_eq!(told, ["t0", "t1", "t2", "t3", "t4", "t5"]);
    assert_eq!(shown(&house, &id).await["exported_records"], 6);
    // Whoever comes back finds that it is another's.
    run_export(&house.app, leased).await;
    assert_eq!(shown(&house, &id).await["status"], "success");
}

/// The bytes of a file whose whole job is one part.
async fn file_of(house: &House, blob: Uuid) -> Vec<u8> {
    let mut file = Vec::new();
    loop {
        let piece = house.app.blobs.read(blob, file.len() as u64).await.expect("the file");
        if piece.is_empty() {
            return file;
        }
        file.extend(piece);
    }
}

/// Every field, as columns of the type that fits it, read back by the format's own reader.
#[tokio::test]
async fn columns_hold_what_lines_would() {
    let (house, records) = filled(3).await;
    let all: Vec<&str> = LogField::ALL.iter().map(|field| field.name()).collect();
    let id = made(&house, json!({"filters": {}, "requested_data": all, "format": "parquet"})).await;
    started(&house, &id).await;
    let leased = house.app.jobs.take(&[EXPORT_KIND], EXPORT_LEASE).await.expect("a store").expect("due");
    let blob = ExportProgress::default().part_of(leased.job.id, 1);
    run_export(&house.app, leased).await;
    let told = shown(&house, &id).await;
    assert_eq!(
        (&told["status"], &told["exported_records"], &told["format"]),
        (&json!("success"), &json!(3), &json!("parquet"))
    );
    let file = file_of(&house, blob).await;
    assert_eq!(told["bytes"], file.len());
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).expect("a Parquet file");
    let rows: Vec<Row> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    for (row, record) in rows.iter().zip(&records) {
        let of = |name: &str| {
            let found = row.get_column_iter().find(|(column, _)| *column == name);
            found.unwrap_or_else(|| panic!("no {name}")).1.clone()
        };
        assert_eq!(of("id"), Field::Str(record.id.to_string()));
        assert_eq!(of("trace_id"), Field::Str(record.trace_id.to_string()));
        // The file has times to the millisecond, just like the logs that are shown.
        let at = record.created_at.micros();
        assert_eq!(of("created_at"), Field::TimestampMicros(at - at.rem_euclid(1_000)));
        assert_eq!(
            (of("response_status_code"), of("cost")),
            (Field::Long(i64::from(record.status)), Field::Double(2.5))
        );
        assert_eq!((of("is_success"), of("req_units")), (Field::Bool(record.status == 200), Field::Long(7)));
        assert_eq!((of("metadata"), of("prompt_slug")), (Field::Str(r#"{"_user":"ann"}"#.to_owned()), Field::Null));
        let Field::Str(request) = of("request") else { panic!("no text") };
        let request: Value = serde_json::from_str(&request).expect("JSON");
        assert_eq!(request["url"], "/v1/chat/completions");
    }
    house.as_admin().delete(&format!("/logs/exports/{id}")).await.expect(200);
    assert_eq!(house.app.blobs.kept().await.expect("a store").blobs, 0);
}

#[tokio::test]
async fn columns_that_another_node_left_are_begun_anew() {
    let (house, _) = filled(4).await;
    let id = made(&house, json!({"filters": {}, "requested_data": ["trace_id"], "format": "parquet"})).await;
    started(&house, &id).await;
    let leased = house.app.jobs.take(&[EXPORT_KIND], Duration::from_secs(60)).await.expect("a store").expect("due");
    // A node that wrote something, noted it, and died.
    let job = leased.job.id;
    let new = NewBlob {
        id: ExportProgress::default().part_of(job, 1),
        org: house.org().id,
        kind: EXPORT_KIND,
        expires_at: None,
    };
    house.app.blobs.begin(&new).await.expect("begun");
    house.app.blobs.write(new.id, 0, b"PAR1 and some").await.expect("written");
    let progress = ExportProgress { first: 1, part: 1, rows: 2, bytes: 13, at: 13, ..ExportProgress::default() };
    let progress = serde_json::to_string(&progress).expect("JSON");
    house.app.jobs.beat(leased.lease, Some(&progress), Duration::ZERO).await.expect("noted");
    assert!(work(&house.elsewhere().await).await);
    assert_eq!(shown(&house, &id).await["exported_records"], 4);
    let file = file_of(&house, ExportProgress::default().part_of(job, 2)).await;
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).expect("a Parquet file");
    let row = |row: Row| row.get_string(0).expect("a text").clone();
    let told: Vec<String> = reader.get_row_iter(None).expect("rows").map(|found| row(found.expect("a row"))).collect();
    assert_eq!(told, ["t0", "t1", "t2", "t3"]);
    // Whoever comes back finds that it is another's, and takes nothing away.
    run_export(&house.app, leased).await;
    assert_eq!(shown(&house, &id).await["status"], "success");
    assert_eq!(house.app.blobs.kept().await.expect("a store").blobs, 1);
}

#[tokio::test]
async fn cancelled_ones_stop_and_can_be_started_again() {
    let (house, _) = filled(60).await;
    let id = made(&house, json!({"filters": {}, "requested_data": ["id"]})).await;
    let cancel = format!("/logs/exports/{id}/cancel");
    house.as_admin().post(&cancel, json!({})).await.refused(409, "AB07");
    started(&house, &id).await;
    let leased = house.app.jobs.take(&[EXPORT_KIND], EXPORT_LEASE).await.expect("a store").expect("due");
    house.as_admin().post(&cancel, json!({})).await.expect(200);
    run_export(&house.app, leased).await;
    assert_eq!(shown(&house, &id).await["status"], "stopped");
    started(&house, &id).await;
    house.as_admin().post(&cancel, json!({})).await.expect(200);
    let told = shown(&house, &id).await;
    assert_eq!((&told["status"], &told["exported_records"]), (&json!("stopped"), &json!(50)));
    assert!(!work(&house).await);
    // The newest, as many as may be.
    started(&house, &id).await;
    assert!(work(&house).await);
    let told = shown(&house, &id).await;
    assert_eq!((&told["exported_records"], &told["truncated"]), (&json!(50), &json!(true)));
    let ids: HashSet<String> = lines(&house, &id).await.iter().map(|line| text(&line["id"])).collect();
    assert_eq!(ids.len(), 50);
    house.as_admin().delete(&format!("/logs/exports/{id}")).await.expect(200);
    assert_eq!(house.app.blobs.kept().await.expect("a store").blobs, 0);
}

/// A page written and noted of six records, and then it was cancelled.
async fn begun_and_cancelled(house: &House, records: &[LogRecord]) -> String {
    let id = made(house, json!({"filters": {}, "requested_data": ["trace_id"]})).await;
    started(house, &id).await;
    let leased = house.app.jobs.take(&[EXPORT_KIND], Duration::from_secs(60)).await.expect("a store").expect("due");
    let blob = ExportProgress::default().part_of(leased.job.id, 0);
    let new = NewBlob { id: blob, org: house.org().id, kind: EXPORT_KIND, expires_at: None };
    house.app.blobs.begin(&new).await.expect("begun");
    let page = "{\"trace_id\":\"t0\"}\n{\"trace_id\":\"t1\"}\n";
    house.app.blobs.write(blob, 0, page.as_bytes()).await.expect("written");
    let behind = LogCursor { created_at: records[1].created_at, id: records[1].id };
    let at = page.len() as u64;
    let progress =
        ExportProgress { behind: Some(behind.to_string()), rows: 2, bytes: at, at, ..ExportProgress::default() };
    let progress = serde_json::to_string(&progress).expect("JSON");
    house.app.jobs.beat(leased.lease, Some(&progress), EXPORT_LEASE).await.expect("noted");
    house.as_admin().post(&format!("/logs/exports/{id}/cancel"), json!({})).await.expect(200);
    house.app.jobs.end(leased.lease, &JobEnd::Stopped).await.expect("ended");
    id
}

#[tokio::test]
async fn cancelled_ones_are_gone_on_with_where_they_ended() {
    let (house, records) = filled(6).await;
    let id = begun_and_cancelled(&house, &records).await;
    assert_eq!(shown(&house, &id).await["exported_records"], 2);
    started(&house, &id).await;
    assert_eq!(shown(&house, &id).await["exported_records"], 2, "it goes on from there");
    assert!(work(&house).await);
    let told: Vec<String> = lines(&house, &id).await.iter().map(|line| text(&line["trace_id"])).collect();
    assert_eq!(told, ["t0", "t1", "t2", "t3", "t4", "t5"]);
    assert_eq!(house.app.blobs.kept().await.expect("a store").blobs, 1);

    // What is asked for otherwise is begun anew.
    let id = begun_and_cancelled(&house, &records).await;
    let other = json!({"filters": {}, "requested_data": ["id", "trace_id"]});
    house.as_admin().put(&format!("/logs/exports/{id}"), other).await.expect(200);
    started(&house, &id).await;
    assert!(work(&house).await);
    assert!(lines(&house, &id).await.iter().all(|line| line["id"].is_string()));
}

#[tokio::test]
async fn an_export_is_of_whoever_may_see_it() {
    let (house, _) = filled(2).await;
    let elsewhere = house.workspace("elsewhere").await;
    let fields = json!({"scopes": ["logs.export"], "workspace_id": elsewhere});
    let (_, far) = house.key("workspace/service", fields).await;
    let (_, person) = house.key("workspace/user", json!({"scopes": ["logs.export"]})).await;
    let id = made(&house, asked("t0")).await;
    for key in [&far, &person] {
        for (method, path) in
            [("GET", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/cancel"), ("GET", "/download")]
        {
            let method = method.parse().expect("a method");
            house.with(key).ask(method, &format!("/logs/exports/{id}{path}"), None).await.refused(404, "AB08");
        }
        assert_eq!(house.with(key).get("/logs/exports").await.expect(200)["total"], 0);
    }
    let own = text(&house.with(&person).post("/logs/exports", asked("t0")).await.expect(200)["id"]);
    house.with(&person).get(&format!("/logs/exports/{own}")).await.expect(200);
    assert_eq!(house.as_admin().get("/logs/exports").await.expect(200)["total"], 2);
    for n in 0..4 {
        let id = made(&house, asked(&n.to_string())).await;
        started(&house, &id).await;
    }
    let said = house.as_admin().post(&format!("/logs/exports/{id}/start"), json!({})).await;
    let said = said.refused(429, "AB04");
    assert!(said.contains("4 exports are in progress"), "{said}");
    assert_eq!(shown(&house, &id).await["status"], "draft");
}

#[tokio::test]
async fn who_takes_logs_away_stands_in_the_audit_trail() {
    let (house, _) = filled(2).await;
    let id = made(&house, json!({"filters": {"status_code": "200"}, "requested_data": ["id"]})).await;
    started(&house, &id).await;
    assert!(work(&house).await);
    link(&house, &id).await;
    house.as_admin().delete(&format!("/logs/exports/{id}")).await.expect(200);
    let query = format!("organisation_id={}&start_time=2020-01-01&end_time=2100-01-01", house.org().id);
    let trail = house.as_admin().get(&format!("/audit-logs?{query}&resource_type=log_export")).await.expect(200);
    let rows = trail["records"].as_array().expect("rows");
    let actions: Vec<String> = rows.iter().map(|row| text(&row["action"])).collect();
    assert_eq!(actions, ["delete", "download", "start", "create"], "{trail}");
    assert!(rows.iter().all(|row| row.to_string().contains("status_code") && row.to_string().contains(&id)), "{trail}");
}

#[tokio::test]
async fn what_is_wrong_with_it_is_named() {
    let house = House::new().await;
    for (body, says) in [
        (json!({"requested_data": ["id"]}), "filters"),
        (json!({"filters": {}}), "requested_data is required"),
        (json!({"filters": {}, "requested_data": []}), "requested_data must name at least one"),
        (json!({"filters": {}, "requested_data": ["colour"]}), "requested_data must hold only id, trace_id"),
        (json!({"filters": {"colour": "red"}, "requested_data": ["id"]}), "filters.colour is not a known filter"),
        (json!({"filters": {"page_size": 5}, "requested_data": ["id"]}), "filters.page_size is not a known filter"),
        (json!({"filters": {"status_code": "x"}, "requested_data": ["id"]}), "filters.status_code must be"),
        (
            json!({"filters": {"cost_min": true}, "requested_data": ["id"]}),
            "filters.cost_min must be a text or a number",
        ),
        (json!({"filters": {"metadata": [[]]}, "requested_data": ["id"]}), "filters.metadata must be"),
        (json!({"filters": {"cache_status": "s"}, "requested_data": ["id"]}), "filters.cache_status must be of"),
        (json!({"filters": {}, "requested_data": ["id"], "format": "csv"}), "format must be"),
        (json!({"filters": {}, "requested_data": ["id"], "description": "x".repeat(1_001)}), "description must be"),
        (json!({"filters": {"workspace_slug": "default"}, "requested_data": ["id"], "colour": 1}), "colour"),
    ] {
        let said = house.as_admin().post("/logs/exports", body).await.refused(400, "AB01");
        assert!(said.contains(says), "{says}: {said}");
    }
    house.workspace("other").await;
    let body = json!({"filters": {"workspace_slug": "other"}, "requested_data": ["id"], "workspace_id": "default"});
    let said = house.as_admin().post("/logs/exports", body).await.refused(400, "AB01");
    assert!(said.contains("filters.workspace_slug must be the workspace of the export"), "{said}");
}
