//! Fields of logs that are kept: not shown, not summed, not asked by, not exported; and whoever holds an Admin key sees
//! on.

use crate::harness::{House, now, text};
use crate::logs::record;
use gateway_admin::{EXPORT_LEASE, run_export};
use gateway_domain::export::EXPORT_KIND;
use gateway_domain::record::LogRecord;
use serde_json::{Value, json};

async fn filled() -> (House, LogRecord) {
    let house = House::new().await;
    let call = record(house.org().id, house.default_workspace(), -1, "t");
    house.logs().append(std::slice::from_ref(&call)).await.expect("appended");
    (house, call)
}

async fn deny(house: &House, path: &str, fields: Value) {
    let body = json!({"export_settings": {"denied_fields": fields}});
    let shown = house.as_admin().put(path, body.clone()).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let shown = house.as_admin().get(path).await.expect(200);
    assert_eq!(shown["export_settings"], body["export_settings"]);
}

const WORKSPACE: &str = "/admin/workspaces/default";

fn range() -> String {
    let day = 86_400_000_000;
    let (from, to) = (now().plus_micros(-day), now().plus_micros(day));
    format!("time_of_generation_min={from}&time_of_generation_max={to}")
}

#[tokio::test]
async fn what_is_kept_is_shown_to_nobody_without_an_admin_key() {
    let (house, call) = filled().await;
    deny(&house, "/admin/organisation", json!(["ai_model", "cost"])).await;
    deny(&house, WORKSPACE, json!(["request", "metadata"])).await;
    let told = house.as_service().get("/logs/exports/field-restrictions").await.expect(200);
    assert_eq!(told["denied_fields"], json!(["request", "ai_model", "cost", "metadata"]));
    let one = house.as_service().get(&format!("/logs/{}", call.id)).await.expect(200);
    let list = house.as_service().get("/logs").await.expect(200)["data"][0].clone();
    for shown in [one, list] {
        let metrics = &shown["metrics"];
        for field in ["cost", "ai_model", "response_model"] {
            assert_eq!(metrics[field], json!(null), "{field}");
        }
        assert_eq!((&metrics["metadata.key"], &metrics["total_units"]), (&json!([]), &json!(10)));
        assert_eq!(shown["request"].get("body"), None);
        assert_eq!(shown["request"]["url"], "/v1/chat/completions");
    }
    let all = house.as_admin().get(&format!("/logs/{}", call.id)).await.expect(200);
    assert_eq!((&all["metrics"]["cost"], &all["metrics"]["ai_model"]), (&json!(2.5), &json!("gpt-x")));
    let range = range();
    let graph = async |key: &str| {
        let path = format!("/analytics/graphs/cost?{range}");
        house.with(key).get(&path).await.expect(200)["summary"]["total"].clone()
    };
    assert_eq!((graph(crate::harness::SERVICE).await, graph(crate::harness::ADMIN).await), (json!(null), json!(2.5)));
    let path = format!("/analytics/groups/config?{range}");
    let row = house.as_service().get(&path).await.expect(200)["data"][0].clone();
    assert_eq!((&row["requests"], &row["cost"], &row["total_tokens"]), (&json!(1), &json!(null), &json!(10)));
    for (path, says) in [
        ("/logs?cost_min=1", "cost_min asks for cost"),
        ("/logs?ai_model=gpt-x", "ai_model asks for ai_model"),
        ("/logs?ai_org_model=openai__gpt-x", "ai_org_model asks for ai_model"),
        ("/logs?metadata=%7B%22_user%22%3A%22ann%22%7D", "metadata asks for metadata"),
        ("/analytics/graphs/requests?ai_model=gpt-x", "ai_model asks for ai_model"),
        ("/analytics/groups/model", "group_by asks for ai_model"),
        ("/analytics/groups/users", "group_by asks for metadata"),
        ("/analytics/groups/metadata/team", "group_by asks for metadata"),
        ("/analytics/groups/config?columns=cost", "columns asks for cost"),
        ("/analytics/groups/config?order_by=cost", "order_by asks for cost"),
        ("/analytics/graphs/feedbacks/ai-models", "graph asks for ai_model"),
    ] {
        let path = format!("{path}{}{range}", if path.contains('?') { "&" } else { "?" });
        let said = house.as_service().get(&path).await.refused(400, "AB01");
        assert!(said.contains(says), "{path}: {said}");
        let seen = house.as_admin().get(&path).await;
        assert_eq!(seen.status, 200, "{path}: {}", seen.text);
    }
}

#[tokio::test]
async fn no_export_has_what_is_denied_whoever_asks() {
    let (house, _) = filled().await;
    let body = json!({"filters": {}, "requested_data": ["trace_id", "cost", "metadata"]});
    let id = text(&house.as_admin().post("/logs/exports", body.clone()).await.expect(200)["id"]);
    house.as_admin().post(&format!("/logs/exports/{id}/start"), json!({})).await.expect(200);
    // The field is denied after the export was ordered and before it is made.
    deny(&house, WORKSPACE, json!(["cost"])).await;
    let leased = house.app.jobs.take(&[EXPORT_KIND], EXPORT_LEASE).await.expect("a store").expect("due");
    let blob = gateway_domain::export::ExportProgress::default().part_of(leased.job.id, 0);
    run_export(&house.app, leased).await;
    let file = house.app.blobs.read(blob, 0).await.expect("the file");
    let line: Value = serde_json::from_slice(&file).expect("one line");
    assert_eq!(line, json!({"trace_id": "t", "cost": null, "metadata": {"_user": "ann"}}));
    for key in [crate::harness::ADMIN, crate::harness::SERVICE] {
        let said = house.with(key).post("/logs/exports", body.clone()).await.refused(400, "AB01");
        assert!(said.contains("requested_data asks for cost"), "{said}");
        let filtered = json!({"filters": {"cost_min": 1}, "requested_data": ["id"]});
        let said = house.with(key).post("/logs/exports", filtered).await.refused(400, "AB01");
        assert!(said.contains("filters.cost_min asks for cost"), "{said}");
    }
}

/// Every field that can be denied, alone: the answers keep their form.
#[tokio::test]
async fn each_field_can_be_kept_by_itself_and_opened_only_from_above() {
    let (house, call) = filled().await;
    for field in gateway_domain::export::LogField::ALL {
        let body = json!({"export_settings": {"denied_fields": [field.name()]}});
        if !field.is_deniable() {
            let said = house.as_admin().put(WORKSPACE, body).await.refused(400, "AB01");
            assert!(said.contains("export_settings.denied_fields must hold only id, trace_id"), "{said}");
            continue;
        }
        deny(&house, WORKSPACE, json!([field.name()])).await;
        house.as_service().get(&format!("/logs/{}", call.id)).await.expect(200);
        house.as_service().get("/logs").await.expect(200);
    }
    let scopes = json!({"scopes": ["workspaces.update", "workspaces.read"]});
    let (_, inside) = house.key("workspace/service", scopes).await;
    let open = json!({"export_settings": {"denied_fields": []}});
    house.with(&inside).put(WORKSPACE, open).await.refused(403, "AB03");
    let same = house.with(&inside).get(WORKSPACE).await.expect(200)["export_settings"].clone();
    house.with(&inside).put(WORKSPACE, json!({"export_settings": same})).await.expect(200);
    house.as_admin().put(WORKSPACE, json!({"export_settings": null})).await.expect(200);
    let told = house.as_service().get("/logs/exports/field-restrictions").await.expect(200);
    assert_eq!(told["denied_fields"], json!([]));
}
