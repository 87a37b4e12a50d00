//! The tables of names row by row: each field of a record and each metric is told with what it should say, or is named
//! in the pages as one that nothing fills yet.

use crate::harness::{Gateway, Upstream, eventually, hello, reply, with};
use serde_json::{Value, json};

const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// What a row of the table has to say.
enum Says {
    Is(Value),
    /// A number above nothing.
    Some,
    /// A number, which may be nothing.
    Number,
    /// A text that is not empty.
    Text,
    /// Empty, and named in the pages.
    NotYet,
}

use Says::{Is, NotYet, Number, Some as More, Text};

/// The one record of `trace`, by itself.
pub(crate) async fn record_of(gateway: &Gateway, trace: &str) -> Value {
    let admin = gateway.admin();
    let id = eventually(&format!("a record of {trace}"), || async {
        let list = admin.get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        assert!(list["total"].as_u64() <= Some(1), "{list}");
        list["data"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    admin.get(&format!("/logs/{id}")).await.expect(200).json()
}

fn at<'v>(record: &'v Value, path: &str) -> &'v Value {
    // Two fields of `metrics` have a dot in their names.
    path.split('/').fold(record, |value, name| &value[name])
}

#[track_caller]
fn holds(record: &Value, rows: &[(&str, Says)]) {
    for (path, says) in rows {
        let found = at(record, path);
        let well = match says {
            Is(value) => found == value,
            More => found.as_f64().is_some_and(|n| n > 0.0),
            Number => found.is_number(),
            Text => found.as_str().is_some_and(|text| !text.is_empty()),
            NotYet => {
                let name = path.rsplit('/').next().expect("a name");
                assert!(OPERATIONS.contains(&format!("`{name}`")), "{path} is not named in the page");
                found.is_null()
            }
        };
        assert!(well, "{path} is {found} in {record}");
    }
}

#[tokio::test]
async fn every_field_of_a_record_is_told() {
    let gateway = Gateway::with(&["--log-bodies", "all", "--header-alias", "x-acme-"]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let target = json!({ "provider": "@main", "override_params": { "seed": 4 } });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target], "cache": { "mode": "simple" } });
    let slug = gateway.admin().config("saved", &config).await;
    let saved = gateway.admin().get(&format!("/configs/{slug}")).await.expect(200).json();
    let saved = if saved["data"].is_object() { saved["data"].clone() } else { saved };
    let call = gateway.chat().header("x-gateway-config", &slug).header("x-gateway-trace-id", "whole");
    let call = call.header("x-gateway-metadata", r#"{"_user":"ann"}"#).header("x-gateway-span-name", "step");
    let call = call.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let call = call.header("x-acme-runtime", "node").header("x-acme-runtime-version", "24.1");
    call.header("x-acme-package-version", "acme-2.0").json(&hello()).send().await.expect(200);
    let record = record_of(&gateway, "whole").await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let organisation = gateway.admin().get("/admin/organisation").await.expect(200).json();
    top(&record, &organisation);
    holds(
        &record["metrics"],
        &[
            ("id", Is(record["_id"].clone())),
            ("organisation_id", Is(organisation["id"].clone())),
            ("organisation_name", Is(organisation["name"].clone())),
            ("workspace_slug", Is(json!("default"))),
            ("prompt_id", NotYet),
            ("prompt_version_id", NotYet),
            ("prompt_slug", NotYet),
            ("config_id", Is(saved["id"].clone())),
            ("config", Is(json!(slug))),
            ("config_version_id", Is(saved["version_id"].clone())),
            ("api_key_id", Text),
            ("virtual_key", Is(json!("main"))),
            ("trace_id", Is(json!("whole"))),
            ("span_id", Text),
            ("span_name", Is(json!("step"))),
            ("parent_span_id", Is(json!("b7ad6b7169203331"))),
            ("internal_trace_id", Is(json!(trace))),
            ("ai_org", Is(json!("openai"))),
            ("ai_model", Is(json!("gpt-4o-mini"))),
            ("is_success", Is(json!(true))),
            ("is_proxy_call", Is(json!(false))),
            ("stream_mode", Is(json!(0))),
            ("mode", Is(json!("fallback"))),
            ("last_used_option_index", Is(json!(0))),
            ("log_store_file_path_format", NotYet),
            ("retry_success_count", Is(json!(0))),
            ("source", Is(json!("gateway"))),
            ("runtime", Is(json!("node"))),
            ("runtime_version", Is(json!("24.1"))),
            ("sdk_version", Is(json!("acme-2.0"))),
            ("req_units", Is(json!(5))),
            ("res_units", Is(json!(3))),
            ("total_units", Is(json!(8))),
            ("cost", More),
            ("cost_currency", Is(json!("USD"))),
            ("request_url", Is(json!("/v1/chat/completions"))),
            ("request_method", Is(json!("POST"))),
            ("response_status_code", Is(json!(200))),
            ("response_time", Number),
            ("cache_status", Is(json!("miss"))),
            ("cache_type", Is(json!("simple"))),
            ("metadata.key", Is(json!(["_user"]))),
            ("metadata.value", Is(json!(["ann"]))),
            ("request_parsing_time", More),
            ("pre_processing_time", More),
            ("cache_processing_time", More),
            ("response_parsing_time", Number),
            ("gateway_processing_time", More),
            ("upstream_response_time", Number),
        ],
    );
    // Told on request only, and not at all when the request asks for it to be hidden.
    let call = gateway.chat().provider("mock").header("x-gateway-trace-id", "hidden").header("x-acme-runtime", "node");
    call.header("x-gateway-sensitive-headers", "x-acme-runtime").json(&hello()).send().await.expect(200);
    let hidden = record_of(&gateway, "hidden").await;
    holds(&hidden["metrics"], &[("runtime", Is(Value::Null)), ("internal_trace_id", Is(Value::Null))]);
    holds(&hidden["metrics"], &[("config_id", Is(Value::Null)), ("cache_type", Is(Value::Null))]);
}

fn top(record: &Value, organisation: &Value) {
    holds(
        record,
        &[
            ("_id", Text),
            ("organisation_id", Is(organisation["id"].clone())),
            ("created_at", Text),
            ("log_format", Is(json!(1))),
            ("request/url", Is(json!("/v1/chat/completions"))),
            ("request/method", Is(json!("POST"))),
            ("request/headers/content-type", Is(json!("application/json"))),
            ("request/body", Is(hello())),
            ("request/gatewayHeaders/x-gateway-trace-id", Is(json!("whole"))),
            ("response/status", Is(json!(200))),
            ("response/headers/content-type", Is(json!("application/json"))),
            ("response/body/choices", Is(reply::completion("hi")["choices"].clone())),
            ("response/responseTime", Number),
            ("response/lastUsedOptionJsonPath", Is(json!("config.targets[0]"))),
            ("finalUntransformedRequest/body", Is(hello())),
            ("finalUntransformedRequest/url", Is(json!("/v1/chat/completions"))),
            ("finalUntransformedRequest/method", Is(json!("POST"))),
            ("transformedRequest/body", Is(with(hello(), json!({ "seed": 4 })))),
            ("transformedRequest/url", Text),
            ("transformedRequest/method", Is(json!("POST"))),
            ("transformedRequest/headers/content-type", Is(json!("application/json"))),
            ("originalResponse/body/choices", Is(reply::completion("hi")["choices"].clone())),
            ("originalResponse/headers/content-type", Is(json!("application/json"))),
        ],
    );
}

/// Name and kind of each metric of the page's table.
static METRICS: &[(&str, &str)] = &[
    ("request_count", "counter"),
    ("http_request_duration_seconds", "histogram"),
    ("llm_request_duration_milliseconds", "histogram"),
    ("gateway_processing_time_excluding_last_byte_ms", "histogram"),
    ("llm_last_byte_diff_duration_milliseconds", "histogram"),
    ("gateway_request_duration_milliseconds", "histogram"),
    ("llm_cost_sum", "gauge"),
    ("llm_token_sum", "gauge"),
    ("authentication_duration_milliseconds", "histogram"),
    ("api_key_rate_limit_check_duration_milliseconds", "histogram"),
    ("pre_request_processing_duration_milliseconds", "histogram"),
    ("post_request_processing_duration_milliseconds", "histogram"),
    ("llm_cache_processing_duration_milliseconds", "histogram"),
];

fn is_counted(text: &str, name: &str, kind: &str) -> bool {
    let sample = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
    let counted = |l: &str| {
        l.strip_prefix(&*sample).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && l.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).is_some_and(|n| n > 0.0)
    };
    text.contains(&format!("# TYPE {name} {kind}\n")) && text.lines().any(counted)
}

#[tokio::test]
async fn every_metric_of_the_table_is_counted() {
    let gateway = Gateway::with(&["--metrics-const-labels", "app=gateway,env=test"]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let config = with(crate::harness::gateway::target(&upstream), json!({ "cache": { "mode": "simple" } }));
    for _ in 0..2 {
        gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    }
    // A page of metrics is read while records are counted, each metric at its own moment: all have to be there in one.
    let text = eventually("every metric of the table counted", || async {
        let text = gateway.metrics().await;
        let all = METRICS.iter().all(|(name, kind)| is_counted(&text, name, kind));
        let hit = text.lines().any(|l| l.starts_with("request_count{") && l.contains("cacheStatus=\"hit\""));
        (all && hit).then_some(text)
    })
    .await;
    for (name, _) in METRICS {
        assert!(OPERATIONS.contains(&format!("`{name}`")), "{name} is not in the page");
    }
    let sample = text.lines().find(|l| l.starts_with("request_count{")).expect("a sample");
    for label in ["app", "env", "method", "endpoint", "code", "provider", "source", "stream", "cacheStatus"] {
        assert!(sample.contains(&format!("{label}=\"")), "{label} is not in {sample}");
    }
    // What this program has no part for.
    for name in ["grpc_req_conversion_duration_milliseconds", "node_*"] {
        assert!(OPERATIONS.contains(&format!("`{name}`")), "{name} is not named in the page");
    }
    assert!(text.contains("process_cpu_seconds_total") && text.contains("process_open_fds"));
}
