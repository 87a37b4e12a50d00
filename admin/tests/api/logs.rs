//! Request logs: filters, paging, the documented form, and nobody else's records.

use crate::harness::{House, in_seconds, list, now, text};
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{
    CacheStatus, LlmDetail, LogRecord, RecordedOperation, RecordedPrompt, Steps, Timings, Trace,
};
use gateway_domain::{OrgId, Usage, WorkspaceId};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) fn used() -> LlmDetail {
    LlmDetail { usage: Some(Usage { input: 7, output: 3, ..Usage::default() }), ..LlmDetail::NONE }
}

/// What records of these tests are about.
pub(crate) fn called(llm: LlmDetail) -> RecordedOperation {
    RecordedOperation::new("chat", llm)
}

pub(crate) fn record(org: OrgId, workspace: WorkspaceId, at: i64, trace: &str) -> LogRecord {
    LogRecord {
        id: Uuid::now_v7(),
        created_at: now().plus_micros(at * 1_000_000),
        trace_id: trace.into(),
        attempt: 1,
        last: true,
        org,
        workspace,
        workspace_slug: "default".into(),
        key: None,
        key_name: "".into(),
        owner: None,
        config: "pc-1".into(),
        config_id: None,
        config_version: None,
        virtual_key: "main".into(),
        provider: "openai".into(),
        model: "gpt-x".into(),
        operation: called(used()),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        status: 200,
        fault: None,
        stream: true,
        option_index: "".into(),
        strategy: "single",
        cost: Some(NanoUsd(25_000_000)),
        timings: Timings { total_us: 1_500_000, ..Timings::default() },
        steps: Steps::default(),
        request_bytes: 10,
        response_bytes: 20,
        client_ip: None,
        metadata: r#"{"_user":"ann"}"#.into(),
        trace: None,
        client: None,
        charges: Vec::new(),
        bodies: None,
        hooks: None,
    }
}

/// Three records of the default workspace, oldest first, and one of another.
async fn filled() -> (House, Vec<LogRecord>) {
    let house = House::new().await;
    let other = house.workspace("other").await;
    let org = house.app.live.snapshot().orgs().next().expect("an organisation").id;
    let home = house.default_workspace();
    let mut records: Vec<LogRecord> = vec![
        record(org, home, 1, "one"),
        record(org, home, 2, "two"),
        record(org, home, 3, "three"),
        record(org, other, 4, "far"),
    ];
    records[1].status = 429;
    records[1].model = "other-model".into();
    records[2].provider = "anthropic".into();
    records[2].cost = Some(NanoUsd(5));
    house.logs().append(&records).await.expect("appended");
    (house, records)
}

#[tokio::test]
async fn the_list_is_filtered_and_paged() {
    let (house, _) = filled().await;
    let traces = async |query: &str| {
        let path = format!("/logs?{query}");
        list(&house.as_admin().get(&path).await.expect(200), "trace_id")
    };
    assert_eq!(traces("").await, ["three", "two", "one"]);
    for (query, expected) in [
        ("page_size=1&current_page=1", vec!["two"]),
        ("status_code=429", vec!["two"]),
        ("status_code=429,200&ai_model=gpt-x", vec!["three", "one"]),
        ("ai_org_model=openai__gpt-x", vec!["one"]),
        ("ai_org_model=openai__gpt-x,openai__other-model", vec!["two", "one"]),
        ("trace_id=one", vec!["one"]),
        ("cost_min=2.5", vec!["two", "one"]),
        ("cost_max=1", vec!["three"]),
        ("total_units_min=11", vec![]),
        ("virtual_keys=main&configs=pc-1&total_units_max=10", vec!["three", "two", "one"]),
        ("metadata=%7B%22_user%22%3A%22bob%22%7D", vec![]),
        ("metadata=%7B%22_user%22%3A%22ann%22%7D&trace_id=two", vec!["two"]),
        ("workspace_slug=other", vec!["far"]),
        ("workspace_slug=other,default", vec!["far", "three", "two", "one"]),
        ("workspace_id=*", vec!["far", "three", "two", "one"]),
        ("prompt_token_min=8", vec![]),
        ("prompt_token_min=7&completion_token_max=3", vec!["three", "two", "one"]),
        ("time_of_generation_max=2020-01-01", vec![]),
    ] {
        assert_eq!(traces(query).await, expected, "{query}");
    }
    let since = in_seconds(2).replace('+', "%2B");
    assert!(!traces(&format!("time_of_generation_min={since}")).await.contains(&"one".to_owned()));
}

#[tokio::test]
async fn a_cursor_goes_through_the_whole_organisation() {
    let (house, _) = filled().await;
    let (mut seen, mut cursor) = (Vec::new(), "start".to_owned());
    loop {
        let path = format!("/logs?workspace_id=*&page_size=3&cursor={cursor}");
        let page = house.as_admin().get(&path).await.expect(200);
        assert_eq!(page["total"], json!(null));
        seen.extend(list(&page, "trace_id"));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(seen, ["far", "three", "two", "one"]);
    // A key of one workspace sees that, and says so where it is asked for more.
    assert_eq!(list(&house.as_service().get("/logs?cursor=start").await.expect(200), "trace_id").len(), 3);
    house.as_service().get("/logs?workspace_id=*").await.refused(403, "AB03");
    house.as_service().get("/logs?workspace_slug=default,other").await.refused(404, "AB08");
}

#[tokio::test]
async fn broken_filters_are_named() {
    let (house, _) = filled().await;
    for (query, says) in [
        ("colour=red", "colour is not a known parameter of the query"),
        ("weighted_feedback_min=11", "weighted_feedback_min must be a number from -10 to 10"),
        ("weighted_feedback_max=x", "weighted_feedback_max must be a number from -10 to 10"),
        ("cache_status=warm", "cache_status must be of disabled, hit, miss, refreshed"),
        (&format!("span_id={}", vec!["s"; 51].join(",")), "span_id must hold at most 50 names"),
        ("prompt_token_min=x", "prompt_token_min must be an integer"),
        ("cursor=x", "cursor must be `start` or the next_cursor of a page"),
        ("cursor=1.00000000000000000000000000000007&current_page=1", "cursor cannot be combined with current_page"),
        ("status_code=ok", "status_code must be comma-separated status codes"),
        ("cost_min=-1", "cost_min must be a number"),
        ("cost_min=NaN", "cost_min must be a number"),
        ("time_of_generation_min=soon", "time_of_generation_min must be an RFC 3339"),
        ("metadata=x", "metadata must be a JSON object of strings"),
        ("ai_org_model=openai", "ai_org_model must be comma-separated provider__model"),
        ("ai_org_model=a__b,c__d", "ai_org_model must share"),
        ("page_size=5000", "page_size must be at most 1000"),
    ] {
        let said = house.as_admin().get(&format!("/logs?{query}")).await.refused(400, "AB01");
        assert!(said.contains(says), "{query}: {said}");
    }
    house.as_admin().get("/logs?workspace_id=nowhere").await.refused(404, "AB08");
}

#[tokio::test]
async fn one_record_in_its_documented_form() {
    let (house, records) = filled().await;
    let read = house.as_service().get(&format!("/logs/{}", records[0].id)).await.expect(200);
    assert_eq!((&read["_id"], &read["response"]["status"]), (&json!(records[0].id), &json!(200)));
    assert_eq!(read["response"]["responseTime"], 1500);
    let metrics = &read["metrics"];
    for (field, value) in [
        ("cost", json!(2.5)),
        ("cost_currency", json!("USD")),
        ("req_units", json!(7)),
        ("res_units", json!(3)),
        ("total_units", json!(10)),
        ("ai_org", json!("openai")),
        ("is_success", json!(true)),
        ("stream_mode", json!(1)),
        ("metadata.key", json!(["_user"])),
        ("metadata.value", json!(["ann"])),
        ("response_status_code", json!(200)),
    ] {
        assert_eq!(metrics[field], value, "{field}");
    }
    assert_eq!(read["fault"], Value::Null);
}

#[tokio::test]
async fn a_page_is_bounded_in_bytes_too() {
    let house = House::new().await;
    let org = house.app.live.snapshot().orgs().next().expect("an organisation").id;
    let large = json!({"k": "v".repeat(900_000)}).to_string();
    let records: Vec<LogRecord> = (0..12)
        .map(|at| LogRecord { metadata: large.as_str().into(), ..record(org, house.default_workspace(), at, "large") })
        .collect();
    house.logs().append(&records).await.expect("appended");
    let admin = house.as_admin();
    let refused = admin.get("/logs?page_size=12").await.refused(400, "AB01");
    assert!(refused.contains("page_size asks for records with more than 8 MiB of metadata"), "{refused}");
    assert_eq!(admin.get("/logs?page_size=5").await.expect(200)["data"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn records_of_others_do_not_exist() {
    let (house, records) = filled().await;
    let far = format!("/logs/{}", records[3].id);
    house.as_service().get(&far).await.refused(404, "AB08");
    house.as_admin().get(&far).await.expect(200);
    house.as_admin().get(&format!("{far}?workspace_id=default")).await.refused(404, "AB08");
    house.as_admin().get("/logs/x").await.refused(400, "AB01");
    house.as_service().get("/logs?workspace_id=other").await.refused(404, "AB08");
    let mut theirs = record(OrgId(Uuid::now_v7()), WorkspaceId(Uuid::now_v7()), 9, "theirs");
    theirs.provider = "openai".into();
    let path = format!("/logs/{}", theirs.id);
    house.logs().append(&[theirs]).await.expect("appended");
    house.as_admin().get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn people_see_of_logs_what_their_role_lets_them() {
    let (house, records) = filled().await;
    let seat = json!([{"id": "default", "role": "member"}]);
    let (user, key) = house.user("a@example.com", "member", seat, Some(json!(["logs.list", "logs.view"]))).await;
    let id = house.with(&key).get("/api-keys/self/details").await.expect(200)["id"].clone();
    let mut own = record(records[0].org, records[0].workspace, 9, "own");
    (own.key, own.owner) = (serde_json::from_value(id).expect("an id"), user.parse().ok());
    house.logs().append(&[own.clone()]).await.expect("appended");
    let seen = async || list(&house.with(&key).get("/logs").await.expect(200), "trace_id");
    let foreign = format!("/logs/{}", records[0].id);
    assert_eq!(seen().await, ["own", "three", "two", "one"]);
    assert_eq!(house.with(&key).get(&foreign).await.expect(200)["metrics"]["metadata.key"], json!(["_user"]));
    let set = async |switches: Value| {
        house.as_admin().put("/admin/organisation", json!({"security_settings": switches})).await.expect(200);
    };
    set(json!({"members_view_log_metadata": false})).await;
    assert_eq!(house.with(&key).get(&foreign).await.expect(200)["metrics"]["metadata.key"], json!([]));
    let guess = "/logs?metadata=%7B%22_user%22%3A%22ann%22%7D";
    house.with(&key).get(guess).await.refused(403, "AB03");
    set(json!({"members_view_all_data": false})).await;
    assert_eq!(seen().await, ["own"]);
    let theirs = house.with(&key).get(&format!("/logs?api_key_ids={user}")).await.expect(200);
    assert_eq!(theirs["total"], 0, "a key that is not theirs");
    house.with(&key).get(&foreign).await.refused(404, "AB08");
    house.with(&key).get(&format!("/logs/{}", own.id)).await.expect(200);
    set(json!({"members_view_logs": false})).await;
    house.with(&key).get("/logs").await.refused(403, "AB03");
    assert_eq!(house.as_service().get("/logs").await.expect(200)["total"], 4, "a service key is nobody's");
}

#[tokio::test]
async fn logs_older_than_their_time_are_not_shown() {
    let house = House::new().await;
    let org = house.app.live.snapshot().orgs().next().expect("an organisation").id;
    const DAY: i64 = 86_400;
    let young = record(org, house.default_workspace(), -89 * DAY, "young");
    let old = record(org, house.default_workspace(), -91 * DAY, "old");
    house.logs().append(&[young.clone(), old.clone()]).await.expect("stored");
    let shown = house.as_admin().get("/logs").await.expect(200);
    assert_eq!((&shown["total"], &shown["data"][0]["trace_id"]), (&json!(1), &json!("young")));
    let long_ago = house.as_admin().get("/logs?time_of_generation_min=2000-01-01").await.expect(200);
    assert_eq!(long_ago["total"], json!(1));
    house.as_admin().get(&format!("/logs/{}", young.id)).await.expect(200);
    house.as_admin().get(&format!("/logs/{}", old.id)).await.expect(404);
}

#[tokio::test]
async fn records_get_their_cost_when_their_price_comes() {
    let house = House::new().await;
    let org = house.app.live.snapshot().orgs().next().expect("an organisation").id;
    let admin = house.as_admin();
    let made = json!({ "name": "main", "slug": "main", "ai_provider_id": "openai", "key": "sk-1" });
    admin.post("/integrations", made).await.expect(200);
    let unpriced = |trace: &str, model: &str, virtual_key: &str| LogRecord {
        cost: None,
        model: model.into(),
        virtual_key: virtual_key.into(),
        ..record(org, house.default_workspace(), 0, trace)
    };
    let records = [unpriced("own", "mine", "main"), unpriced("anybodys", "mine", ""), unpriced("known", "gpt-4o", "")];
    house.logs().append(&records).await.expect("stored");
    let costs = async || {
        let mut costs = Vec::new();
        for r in &records {
            let one = house.logs().get(r.id, None).await.expect("read").expect("there");
            costs.push(one.cost.map(|c| c.0));
        }
        costs
    };
    // 7 tokens at 2.5 and 3 at 10 dollars the million, in billionths of a dollar.
    let known = Some(7 * 2_500 + 3 * 10_000);
    assert_eq!(gateway_admin::reprice(&house.app).await.expect("priced"), 1);
    assert_eq!(costs().await, [None, None, known]);
    let price = json!({ "type": "static", "pay_as_you_go": {
        "request_token": { "price": 0.002 }, "response_token": { "price": 0.01 } } });
    let models = json!({ "models": [{ "slug": "mine", "enabled": true, "is_custom": true, "pricing_config": price }] });
    admin.put("/integrations/main/models", models).await.expect(200);
    assert_eq!(gateway_admin::reprice(&house.app).await.expect("priced"), 1);
    assert_eq!(costs().await, [Some(7 * 20_000 + 3 * 100_000), None, known]);
    assert_eq!(gateway_admin::reprice(&house.app).await.expect("nothing new"), 0);
    // One that comes to a day that was looked at before.
    house.logs().append(&[unpriced("late", "mine", "main")]).await.expect("stored");
    assert_eq!(gateway_admin::reprice(&house.app).await.expect("priced"), 1);
}

#[tokio::test]
async fn a_day_that_cannot_be_read_is_told_of() {
    let (house, _) = filled().await;
    let read = house.as_admin().get("/logs").await.expect(200);
    assert_eq!((&read["partial"], read.get("missing")), (&json!(false), None));
    house.spoil_logs_of("2001-01-01");
    let read = house.as_admin().get("/logs?time_of_generation_min=2000-01-01").await.expect(200);
    assert_eq!(read["partial"], false, "logs are shown of the last 90 days");
    let day = &now().plus_micros(-3 * 86_400_000_000).to_string()[..10];
    house.spoil_logs_of(day);
    let read = house.as_admin().get("/logs").await.expect(200);
    assert_eq!((&read["partial"], &read["missing"], &read["total"]), (&json!(true), &json!([day]), &json!(3)));
}

/// Calls are found by what their record holds of cache, prompt and span, whatever way the span came by its id.
#[tokio::test]
async fn caches_prompts_and_spans_are_found() {
    let (house, records) = filled().await;
    let (org, workspace) = (records[0].org, records[0].workspace);
    let slugged =
        |slug: &str| RecordedPrompt { id: Uuid::nil(), slug: slug.into(), version_id: Uuid::nil(), version: 1 };
    let mut prompted = record(org, workspace, 4, "prompted");
    let prompt = Some(Arc::new(slugged("pp-a")));
    prompted.operation = called(LlmDetail { prompt, cache: CacheStatus::Hit, ..used() });
    let mut named = record(org, workspace, 5, "named");
    named.operation = called(LlmDetail { prompt: Some(Arc::new(slugged("pp-b"))), ..used() });
    named.trace = Some(Arc::new(Trace { span_id: Some("client \"span\"".into()), ..Trace::default() }));
    let mut traced = record(org, workspace, 6, "traced");
    traced.attempt = 2;
    traced.trace = Some(Arc::new(Trace { id: 7, span: 0xfeed_0123_4567_89ab, ..Trace::default() }));
    let twin = LogRecord { id: Uuid::now_v7(), trace_id: "twin".into(), attempt: 1, ..traced.clone() };
    house.logs().append(&[prompted, named, traced, twin]).await.expect("appended");
    let read = async |query: &str| house.as_admin().get(&format!("/logs?{query}")).await.expect(200);
    for (query, expected) in [
        ("cache_status=hit", vec!["prompted"]),
        ("cache_status=HIT,miss", vec!["prompted"]),
        ("prompt_slug=pp-a", vec!["prompted"]),
        ("prompt_slug=pp-a,pp-b", vec!["named", "prompted"]),
        ("prompt_slug=pp-", vec![]),
        ("span_id=client%20%22span%22", vec!["named"]),
        ("span_id=client", vec![]),
        ("trace_id=named,prompted", vec!["named", "prompted"]),
    ] {
        assert_eq!(list(&read(query).await, "trace_id"), expected, "{query}");
    }
    // Whatever is shown as a span's id finds that record, and no other.
    for trace in ["one", "traced", "twin", "named"] {
        let shown = text(&read(&format!("trace_id={trace}")).await["data"][0]["metrics"]["span_id"]);
        let query = format!("span_id={}", shown.replace(' ', "%20").replace('"', "%22"));
        assert_eq!(list(&read(&query).await, "trace_id"), [trace], "{shown}");
    }
}

#[tokio::test]
async fn logs_are_found_by_what_was_thought_of_them() {
    let (house, _) = filled().await;
    for (trace, value, weight) in [("one", 10, 1.0), ("one", -10, 0.5), ("two", 2, 1.0), ("three", 9, 0.0)] {
        let body = json!({"trace_id": trace, "value": value, "weight": weight});
        house.as_service().post("/feedback", body).await.expect(200);
    }
    for (query, expected) in [
        ("weighted_feedback_min=2", vec!["two", "one"]),
        ("weighted_feedback_min=3", vec!["one"]),
        ("weighted_feedback_max=2", vec!["two"]),
        ("weighted_feedback_min=3.3&weighted_feedback_max=3.4", vec!["one"]),
        ("weighted_feedback_min=9", vec![]),
        ("weighted_feedback_min=2&trace_id=two", vec!["two"]),
        ("weighted_feedback_min=2&trace_id=three", vec![]),
        ("weighted_feedback_min=2&status_code=429", vec!["two"]),
    ] {
        let found = house.as_admin().get(&format!("/logs?{query}")).await.expect(200);
        assert_eq!(list(&found, "trace_id"), expected, "{query}");
    }
    let body = json!({"filters": {"weighted_feedback_min": 3}, "requested_data": ["id"]});
    assert_eq!(house.as_admin().post("/logs/exports", body).await.expect(200)["total"], 1);
}

/// What is shown of a record is what it is found by.
#[tokio::test]
async fn filters_go_by_what_is_shown() {
    let (house, records) = filled().await;
    let (org, workspace) = (records[0].org, records[0].workspace);
    let nothing = LogRecord { operation: called(LlmDetail::NONE), cost: None, ..record(org, workspace, 3, "refused") };
    let refused = LogRecord { status: 429, provider: "".into(), option_index: "".into(), ..nothing.clone() };
    let unsent = LogRecord { id: Uuid::now_v7(), status: 500, trace_id: "failed".into(), ..nothing.clone() };
    let index = "config.targets[1].targets[2]";
    let untold = LogRecord { id: Uuid::now_v7(), trace_id: "untold".into(), option_index: index.into(), ..nothing };
    house.logs().append(&[refused, unsent, untold]).await.expect("stored");
    let read = async |query: &str| house.as_admin().get(&format!("/logs?{query}")).await.expect(200);
    for query in ["total_units_max=9", "total_units_min=0&total_units_max=0", "cost_max=0", "cost_min=0&cost_max=0"] {
        let mut found = list(&read(query).await, "trace_id");
        found.sort();
        assert_eq!(found, ["failed", "refused"], "{query}");
    }
    for (trace, cost, at) in [("refused", json!(0.0), Value::Null), ("untold", Value::Null, json!(2))] {
        let shown = read(&format!("trace_id={trace}")).await["data"][0].clone();
        assert_eq!((&shown["metrics"]["cost"], &shown["metrics"]["last_used_option_index"]), (&cost, &at), "{trace}");
        assert!(shown["metrics"].get("log_store_file_path_format").is_some_and(Value::is_null), "{shown}");
        assert!(shown.get("log_store_file_path_format").is_none(), "{shown}");
    }
    // A shown time includes the records of that very millisecond.
    let shown = read("trace_id=two").await["data"][0]["created_at"].as_str().expect("a time").to_owned();
    assert!(shown.ends_with('Z') && shown.len() == 24, "{shown}");
    let until = list(&read(&format!("time_of_generation_max={shown}")).await, "trace_id");
    assert_eq!(until, ["two", "one"]);
    let from = list(&read(&format!("time_of_generation_min={shown}&time_of_generation_max={shown}")).await, "trace_id");
    assert_eq!(from, ["two"]);
}
