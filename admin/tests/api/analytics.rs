//! Who spent what: graphs, summaries and groups over records, for those who may see them.

use crate::harness::{House, now};
use crate::logs::{called, record, used};
use gateway_domain::id::KeyId;
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{CacheStatus, LlmDetail, LogRecord, RecordedOperation, RecordedPrompt, Timings};
use gateway_domain::{Timestamp, Usage, WorkspaceId};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

const HOUR: i64 = 3_600_000_000;

/// So many hours before the hour that it is.
fn at(hours: i64, minutes: i64) -> Timestamp {
    let now = now().micros();
    Timestamp(now - now.rem_euclid(HOUR) - hours * HOUR + minutes * 60_000_000)
}

fn plain(house: &House, workspace: WorkspaceId, created_at: Timestamp) -> LogRecord {
    LogRecord {
        created_at,
        metadata: r#"{"_user":"ann","team":"red"}"#.into(),
        ..record(house.org().id, workspace, 0, "t")
    }
}

fn looked_up(cache: CacheStatus, saved: Option<NanoUsd>) -> RecordedOperation {
    called(LlmDetail { cache, saved, ..used() })
}

/// Ten cents and 40 tokens in four calls of two people, over three hours; one of them in another workspace.
async fn filled() -> House {
    let house = House::new().await;
    house.as_admin().put("/admin/organisation", json!({"analytics_metadata_keys": ["team"]})).await.expect(200);
    let (home, other) = (house.default_workspace(), house.workspace("other").await);
    let mut records = vec![
        plain(&house, home, at(3, 10)),
        plain(&house, home, at(3, 20)),
        plain(&house, home, at(2, 30)),
        plain(&house, other, at(1, 40)),
        // A target that was tried before the third.
        plain(&house, home, at(2, 30)),
    ];
    records[1].status = 500;
    records[1].metadata = r#"{"_user":"bob","team":"blue"}"#.into();
    records[2].attempt = 2;
    records[2].model = "claude-x".into();
    records[2].provider = "anthropic".into();
    records[2].key = Some(KeyId(Uuid::from_u128(5)));
    records[2].timings = Timings { total_us: 4_500_000, ..Timings::default() };
    records[4].last = false;
    records[4].status = 503;
    records[4].operation = called(LlmDetail::NONE);
    records[4].cost = None;
    house.logs().append(&records).await.expect("appended");
    house
}

fn range(hours: i64) -> String {
    format!("time_of_generation_min={}&time_of_generation_max={}", at(hours, 0), at(-1, 0))
}

async fn ask(house: &House, path: &str, more: &str) -> Value {
    let path = format!("/analytics/{path}?{}{more}", range(5));
    let told = house.as_admin().get(&path).await.expect(200);
    assert_eq!(told["partial"], false, "{path}");
    told
}

fn points(told: &Value, field: &str) -> Vec<Value> {
    told["data_points"].as_array().expect("points").iter().map(|p| p[field].clone()).collect()
}

#[tokio::test]
async fn graphs_sum_up_a_range_and_each_bucket_of_it() {
    let house = filled().await;
    let told = ask(&house, "graphs/requests", "").await;
    assert_eq!((&told["summary"]["total"], &told["object"]), (&json!(3), &json!("analytics-graph")));
    assert_eq!(told["data_points"][0]["timestamp"], json!(at(5, 0)));
    assert_eq!(points(&told, "total")[..5], [json!(0), json!(0), json!(2), json!(1), json!(0)]);
    let everywhere = ask(&house, "graphs/requests", "&workspace_slug=*").await;
    assert_eq!(everywhere["summary"]["total"], 4);
    let told = ask(&house, "graphs/cost", "").await;
    assert_eq!(told["summary"], json!({"total": 7.5, "avg": 2.5}));
    assert_eq!(points(&told, "avg")[..3], [json!(null), json!(null), json!(2.5)]);
    assert_eq!(ask(&house, "graphs/tokens", "").await["summary"], json!({"total": 30, "avg": 10.0}));
    let latency = ask(&house, "graphs/latency", "").await["summary"].clone();
    assert_eq!(latency["avg"], 2_500.0);
    for (name, wanted) in [("p50", 1_500.0), ("p90", 1_500.0), ("p99", 1_500.0)] {
        let told = latency[name].as_f64().expect("a number");
        assert!((told - wanted).abs() <= wanted * 0.01, "{name} {told}");
    }
    assert_eq!(ask(&house, "graphs/users", "").await["summary"]["total"], 2);
    assert_eq!(ask(&house, "graphs/users/requests", "").await["summary"], json!({"total": 3, "unique": 2, "avg": 1.5}));
    assert_eq!(ask(&house, "graphs/errors", "").await["summary"]["total"], 1);
    assert_eq!(ask(&house, "graphs/errors/rate", "").await["summary"]["rate"], 33.33);
    let stacks = ask(&house, "graphs/errors/stacks", "").await;
    assert_eq!(points(&stacks, "stats")[2], json!([{"status_code": 500, "count": 1}]));
    let codes = ask(&house, "graphs/errors/status-codes", "").await;
    assert_eq!(codes["summary"], json!({"total_errors": 1, "unique_error_codes": 1}));
    assert_eq!(codes["data_points"], json!([{"status_code": 500, "count": 1}]));
    let rescued = ask(&house, "graphs/requests/rescued", "").await;
    assert_eq!(rescued["summary"], json!({"retry": 0, "fallback": 1}));
    assert_eq!((&points(&rescued, "fallback")[3], &points(&rescued, "retry")[3]), (&json!(1), &json!([])));
}

#[tokio::test]
async fn what_the_cache_saved_adds_up() {
    let house = House::new().await;
    let home = house.default_workspace();
    let hit = |hours, us| LogRecord {
        cost: Some(NanoUsd(0)),
        operation: looked_up(CacheStatus::Hit, Some(NanoUsd(20_000_000))),
        timings: Timings { total_us: us, ..Timings::default() },
        ..plain(&house, home, at(hours, 1))
    };
    let miss = LogRecord { operation: looked_up(CacheStatus::Miss, None), ..plain(&house, home, at(3, 2)) };
    house.logs().append(&[hit(3, 10_000), hit(1, 20_000), miss]).await.expect("appended");
    let told = ask(&house, "graphs/cache/hit-rate", "").await;
    assert_eq!(told["summary"], json!({"total": 2, "rate": 66.67}));
    let saved = points(&told, "cumulative_simple_cache_savings");
    assert_eq!(saved[..5], [json!(0.0), json!(0.0), json!(2.0), json!(2.0), json!(4.0)]);
    assert_eq!(points(&told, "semantic_hits")[2], 0);
    assert_eq!(ask(&house, "graphs/cache/latency", "").await["summary"]["avg"], 15.0);
    let summary = ask(&house, "summary/cache", "").await["summary"].clone();
    assert_eq!(summary, json!({"hits": 2, "avg_latency": 15.0, "total_requests": 3, "cache_speedup": 100.0}));
}

#[tokio::test]
async fn groups_have_the_columns_and_the_order_that_are_asked_for() {
    let house = filled().await;
    let users = ask(&house, "groups/users", "").await;
    assert_eq!(
        users["data"],
        json!([
            {"user": "ann", "requests": "2", "cost": "5.0", "object": "analytics-group"},
            {"user": "bob", "requests": "1", "cost": "2.5", "object": "analytics-group"},
        ])
    );
    let models = ask(&house, "groups/ai-models", "&order_by_type=asc&page_size=1").await;
    assert_eq!((&models["total"], &models["data"][0]["ai_model"]), (&json!(2), &json!("claude-x")));
    let teams = ask(&house, "groups/metadata/team", "").await;
    let first = &teams["data"][0];
    assert_eq!((&first["metadata_value"], &first["requests"], &first["cost"]), (&json!("red"), &json!(2), &json!(5.0)));
    assert_eq!(first["last_seen"], json!(at(2, 30)));
    let columns =
        "columns=requests,error_count,success_rate,p95_latency,avg_input_tokens,first_seen&order_by=error_count";
    let services = ask(&house, "groups/ai_service", &format!("&{columns}")).await;
    let top = &services["data"][0];
    assert_eq!(
        (&top["ai_service"], &top["error_count"], &top["success_rate"]),
        (&json!("openai"), &json!(1), &json!(50.0))
    );
    assert!(top["p95_latency"].is_number() && top["first_seen"] == json!(at(3, 10)), "{top}");
    for (by, label, wanted) in [
        ("model", "model", json!("gpt-x")),
        ("provider", "provider", json!("main")),
        ("status_code", "status_code", json!(200)),
        ("config", "config", json!("pc-1")),
        ("api_key", "api_key", json!(null)),
    ] {
        assert_eq!(ask(&house, &format!("groups/{by}"), "").await["data"][0][label], wanted, "{by}");
    }
    let places = ask(&house, "groups/workspace", "&workspace_id=*").await;
    assert_eq!(places["data"][0]["workspace"], json!(house.default_workspace()));
    assert_eq!(places["total"], 2);
    let logs = house.as_admin().get(&format!("/logs/groups/model?{}", range(5))).await.expect(200);
    assert_eq!(logs["total"], 2);
}

#[tokio::test]
async fn filters_are_those_of_the_log_list() {
    let house = filled().await;
    for (filter, calls) in [
        ("status_code=200", 2),
        ("ai_model=claude-x", 1),
        ("ai_org_model=openai__gpt-x", 2),
        ("virtual_keys=nobody", 0),
        ("api_key_ids=00000000-0000-0000-0000-000000000005", 1),
        ("metadata=%7B%22_user%22%3A%22bob%22%7D", 1),
        ("metadata=%7B%22team%22%3A%22red%22%7D", 2),
        ("prompt_slug=pp-none", 0),
        // Filters that are answered from the records themselves.
        ("cache_status=disabled", 3),
        ("span_id=none", 0),
        ("weighted_feedback_min=1", 0),
        ("trace_id=t,u", 3),
        ("total_units_min=11", 0),
        ("cost_min=2.5&prompt_token_max=7", 3),
        ("trace_id=t", 3),
        ("metadata=%7B%22other%22%3A%22red%22%7D", 0),
        ("time_zone=Asia/Kathmandu", 3),
    ] {
        let told = ask(&house, "graphs/requests", &format!("&{filter}")).await;
        assert_eq!(told["summary"]["total"], calls, "{filter}");
        let sum: i64 = points(&told, "total").iter().filter_map(Value::as_i64).sum();
        assert_eq!(sum, calls, "{filter}");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_named() {
    let house = filled().await;
    for (path, says) in [
        ("graphs/requests".to_owned(), "time_of_generation_min is required"),
        ("graphs/requests?time_of_generation_min=2026-01-01".to_owned(), "time_of_generation_max is required"),
        (format!("graphs/requests?{}&time_zone=Mars", range(1)), "time_zone must be an IANA time zone"),
        (format!("graphs/requests?{}&colour=red", range(1)), "colour is not a known parameter"),
        (format!("graphs/requests?{}&columns=cost", range(1)), "columns is not a known parameter"),
        (format!("graphs/requests?{}&cache_status=warm", range(1)), "cache_status must be of disabled"),
        (format!("graphs/feedbacks?{}&prompt_slug=p", range(1)), "prompt_slug is not available"),
        (format!("groups/colour?{}", range(1)), "group_by must be one of users"),
        (format!("groups/users?{}&columns=colour", range(1)), "columns must be of requests"),
        (format!("groups/users?{}&order_by=colour", range(1)), "order_by must be of requests"),
        (format!("groups/users?{}&order_by_type=up", range(1)), "order_by_type must be one of asc, desc"),
        (
            "graphs/cost?time_of_generation_min=2026-01-02&time_of_generation_max=2026-01-01".to_owned(),
            "must not be before",
        ),
        ("graphs/cost?time_of_generation_min=2000-01-02&time_of_generation_max=2026-01-01".to_owned(), "ten years"),
    ] {
        let said = house.as_admin().get(&format!("/analytics/{path}")).await.refused(400, "AB01");
        assert!(said.contains(says), "{path}: {said}");
    }
    let nine = json!({"analytics_metadata_keys": ["1", "2", "3", "4", "5", "6", "7", "8", "9"]});
    let said = house.as_admin().put("/admin/organisation", nine).await;
    assert!(said.refused(400, "AB01").contains("analytics_metadata_keys must hold at most 8 keys"));
    let said = house.as_admin().put("/admin/organisation", json!({"analytics_metadata_keys": [""]})).await;
    assert!(said.refused(400, "AB01").contains("analytics_metadata_keys must hold keys of 1..128 characters"));
}

#[tokio::test]
async fn nobody_sees_the_spending_of_others() {
    let house = filled().await;
    let stranger = house.organisation("strangers").await;
    let path = format!("/analytics/graphs/requests?{}&workspace_id=*", range(5));
    assert_eq!(house.with(&stranger).get(&path).await.expect(200)["summary"]["total"], 0);
    house.as_service().get(&path).await.refused(403, "AB03");
    let (_, mine) = house.key("workspace/service", json!({"scopes": ["logs.list"]})).await;
    house.with(&mine).get(&format!("/analytics/graphs/requests?{}", range(5))).await.refused(403, "AB03");
    // A member sees what own keys did, and nobody's metadata.
    let home = house.default_workspace();
    let seats = json!([{"id": home, "role": "member"}]);
    let closed = json!({"members_view_all_data": false, "members_view_log_metadata": false});
    house.as_admin().put("/admin/organisation", json!({"security_settings": closed})).await.expect(200);
    let scopes = json!(["analytics.view", "logs.list"]);
    let (user, key) = house.user("cy@example.com", "member", seats, Some(scopes)).await;
    let path = format!("/analytics/graphs/requests?{}", range(5));
    assert_eq!(house.with(&key).get(&path).await.expect(200)["summary"]["total"], 0);
    let snapshot = house.app.live.snapshot();
    let own = snapshot.keys().find(|k| k.owner.is_some_and(|o| o.to_string() == user)).expect("a key").id;
    let mut spent = plain(&house, home, at(1, 1));
    (spent.key, spent.owner) = (Some(own), user.parse().ok());
    spent.operation = called(LlmDetail { usage: Some(Usage { input: 1, ..Usage::default() }), ..LlmDetail::NONE });
    house.logs().append(&[spent]).await.expect("appended");
    assert_eq!(house.with(&key).get(&path).await.expect(200)["summary"]["total"], 1);
    for by in ["users", "metadata/team"] {
        house.with(&key).get(&format!("/analytics/groups/{by}?{}", range(5))).await.refused(403, "AB03");
    }
}

#[tokio::test]
async fn groups_tell_of_prompts_and_of_what_was_thought() {
    let house = filled().await;
    let home = house.default_workspace();
    let prompt = RecordedPrompt { id: Uuid::nil(), slug: "pp-a".into(), version_id: Uuid::nil(), version: 1 };
    let called = LogRecord {
        operation: called(LlmDetail { prompt: Some(Arc::new(prompt)), ..used() }),
        trace_id: "p".into(),
        metadata: r#"{"team":"green"}"#.into(),
        ..plain(&house, home, at(1, 10))
    };
    house.logs().append(&[called]).await.expect("appended");
    let told = ask(&house, "groups/prompt", "").await;
    let rows: Vec<_> = told["data"].as_array().expect("rows").iter().map(|r| (&r["prompt"], &r["requests"])).collect();
    assert_eq!(rows, [(&json!(null), &json!(3)), (&json!("pp-a"), &json!(1))]);
    assert_eq!(ask(&house, "graphs/requests", "&prompt_slug=pp-a").await["summary"]["total"], 1);
    for (trace, value, weight) in [("p", 4, 1.0), ("p", 1, 0.5), ("unknown", -9, 1.0)] {
        let body = json!({"trace_id": trace, "value": value, "weight": weight});
        house.as_service().post("/feedback", body).await.expect(200);
    }
    let told = ask(&house, "groups/metadata/team", "&order_by=avg_weighted_feedback").await;
    let rows: Vec<_> = told["data"].as_array().expect("rows").iter().collect();
    assert_eq!(rows[0]["metadata_value"], "green");
    assert_eq!((&rows[0]["avg_weighted_feedback"], &rows[0]["requests_with_feedback"]), (&json!(3.0), &json!(1)));
    assert_eq!((&rows[1]["avg_weighted_feedback"], &rows[1]["requests_with_feedback"]), (&json!(null), &json!(0)));
    let told = ask(&house, "groups/prompt", "&columns=avg_weighted_feedback&prompt_slug=pp-a").await;
    assert_eq!(told["data"][0]["avg_weighted_feedback"], 3.0);
    assert_eq!(ask(&house, "graphs/requests", "&weighted_feedback_min=3").await["summary"]["total"], 1);
}

#[tokio::test]
async fn feedback_is_kept_changed_and_plotted() {
    let house = House::new().await;
    let home = house.default_workspace();
    let call = plain(&house, home, at(0, -1));
    house.logs().append(std::slice::from_ref(&call)).await.expect("appended");
    let tell = async |body: Value| {
        let told = house.as_service().post("/feedback", body).await.expect(200);
        assert_eq!(told["status"], "success");
        told["feedback_ids"][0].as_str().expect("an id").to_owned()
    };
    let first = tell(json!({"trace_id": "t", "value": 10, "weight": 0.5, "metadata": {"by": "ann"}})).await;
    tell(json!({"trace_id": "t", "value": -5})).await;
    tell(json!({"trace_id": "unknown", "value": 4, "weight": 0})).await;
    let several = json!([{"trace_id": "more", "value": 1}, {"trace_id": "more", "value": 2}]);
    let ids = house.as_service().post("/feedback", several).await.expect(200)["feedback_ids"].clone();
    assert_eq!(ids.as_array().map(Vec::len), Some(2));
    assert_eq!(ask(&house, "graphs/feedbacks", "&trace_id=more").await["summary"]["total"], 2);
    assert_eq!(ask(&house, "graphs/feedbacks", "&trace_id=t,unknown").await["summary"]["total"], 3);
    assert_eq!(ask(&house, "graphs/feedbacks/weighted", "&trace_id=t").await["summary"]["avg"], 0.0);
    let scores = ask(&house, "graphs/feedbacks/scores", "&trace_id=t,unknown").await;
    let wanted = [(-5, 1), (4, 1), (10, 1)].map(|(score, total)| json!({"score": score, "total": total}));
    assert_eq!(scores["data_points"], json!(wanted));
    let models = ask(&house, "graphs/feedbacks/ai-models", "&trace_id=t,unknown").await;
    assert_eq!(
        models["data_points"],
        json!([
            {"ai_model": null, "total": 1, "avg_weighted_feedback": null},
            {"ai_model": "gpt-x", "total": 2, "avg_weighted_feedback": 0.0},
        ])
    );
    let shown = house.as_service().get(&format!("/logs/{}", call.id)).await.expect(200)["feedback"].clone();
    assert_eq!((&shown[1]["value"], &shown[1]["weight"]), (&json!(10.0), &json!(0.5)));
    assert_eq!((&shown[1]["metadata"], &shown[1]["source"]), (&json!({"by": "ann"}), &json!("client")));
    house.as_service().put(&format!("/feedback/{first}"), json!({"value": 1})).await.expect(200);
    assert_eq!(ask(&house, "graphs/feedbacks/weighted", "&trace_id=t").await["summary"]["avg"], -2.0);
    assert_eq!(ask(&house, "graphs/feedbacks", "&trace_id=unknown").await["summary"]["total"], 1);
    for (body, says) in [
        (json!({"trace_id": "t", "value": 11}), "value must be an integer of -10..10"),
        (json!({"trace_id": "t", "value": 1.5}), "value must be"),
        (json!({"trace_id": "t", "value": 1, "weight": 1.1}), "weight must be a number of 0..1"),
        (json!({"trace_id": "", "value": 1}), "trace_id must be of 1..512 bytes"),
        (json!({"trace_id": "t", "value": 1, "metadata": {"a": 1}}), "metadata value of `a` must be a string"),
        (json!({"trace_id": "t", "value": 1, "colour": "red"}), "colour"),
        (
            json!([{"trace_id": "t", "value": 1}, {"trace_id": "t", "value": 99}]),
            "[1].value must be an integer of -10..10",
        ),
        (json!([1]), "must be a JSON object"),
        (json!([]), "at least one"),
    ] {
        let said = house.as_service().post("/feedback", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    house.as_service().put(&format!("/feedback/{}", Uuid::nil()), json!({"value": 1})).await.refused(404, "AB08");
    house.as_admin().post("/feedback", json!({"trace_id": "t", "value": 1})).await.refused(403, "AB03");
    let (_, far) = house
        .key("workspace/service", json!({"scopes": ["logs.write"], "workspace_id": house.workspace("far").await}))
        .await;
    house.with(&far).put(&format!("/feedback/{first}"), json!({"value": 1})).await.refused(404, "AB08");
}
