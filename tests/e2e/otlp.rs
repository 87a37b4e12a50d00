//! Traces and metrics as a collector gets them, decoded with the published protocol crate; trace context in and out.

use crate::harness::call::Call;
use crate::harness::gateway::target;
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, hello, reply, with};
use crate::tls::{client, secure};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that takes everything.
async fn collector() -> Upstream {
    Upstream::replying(|_| reply::whole(200, &[("content-type", "application/x-protobuf")], b"")).await
}

async fn traced(collector: &Upstream, flags: &[&str]) -> Gateway {
    let endpoint = collector.url().replace("/v1", "/");
    let usual = ["--otlp-endpoint", &endpoint, "--otlp-interval", "200ms"];
    Gateway::with(&[&usual[..], flags].concat()).await
}

fn spans_of(collector: &Upstream) -> Vec<Span> {
    let messages = collector.seen().into_iter().filter(|s| s.target == "/v1/traces");
    messages
        .flat_map(|seen| {
            assert_eq!(seen.header("content-type"), Some("application/x-protobuf"));
            let told = ExportTraceServiceRequest::decode(&*seen.body).expect("a message of OTLP");
            let resource = &told.resource_spans[0];
            assert_eq!(resource.schema_url, "https://opentelemetry.io/schemas/1.40.0");
            let of_resource = &resource.resource.as_ref().expect("a resource").attributes;
            assert_eq!(text(of_resource, "service.name").as_deref(), Some("gateway"));
            told.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|s| s.spans).collect::<Vec<_>>()
        })
        .collect()
}

/// Spans of the kind (2 server, 3 client), oldest first.
async fn spans(collector: &Upstream, kind: i32, count: usize) -> Vec<Span> {
    let mut found = eventually("spans", || async {
        let found: Vec<Span> = spans_of(collector).into_iter().filter(|s| s.kind == kind).collect();
        (found.len() >= count).then_some(found)
    })
    .await;
    found.sort_by_key(|s| s.start_time_unix_nano);
    found
}

fn value(of: &[KeyValue], key: &str) -> Option<Any> {
    of.iter().find(|a| a.key == key)?.value.clone()?.value
}

fn text(of: &[KeyValue], key: &str) -> Option<String> {
    value(of, key).map(|v| match v {
        Any::StringValue(s) => s,
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[tokio::test]
async fn a_call_becomes_spans_with_the_attributes_of_the_conventions() {
    let (collector, upstream) = (collector().await, Upstream::replying(|_| reply::chat("hi")).await);
    let flags = [
        "--otlp-headers",
        "X-Tenant=blue, authorization=Bearer k",
        "--otlp-resource",
        "deployment.environment.name=test",
    ];
    let gateway = traced(&collector, &flags).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let call = gateway.chat().provider("@main").header("x-gateway-metadata", r#"{"_user":"ann"}"#);
    call.json(&hello()).send().await.expect(200);
    let client = spans(&collector, 3, 1).await.remove(0);
    let server = spans(&collector, 2, 1).await.remove(0);
    assert_eq!((client.name.as_str(), server.name.as_str()), ("chat gpt-4o-mini", "POST /v1/chat/completions"));
    assert_eq!((&client.trace_id, &client.parent_span_id), (&server.trace_id, &server.span_id));
    assert!(server.parent_span_id.is_empty() && client.trace_id.len() == 16 && client.span_id.len() == 8);
    assert!(server.start_time_unix_nano <= client.start_time_unix_nano);
    assert!(client.start_time_unix_nano < client.end_time_unix_nano);
    for (key, expected) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o-mini"),
        ("gen_ai.usage.input_tokens", "IntValue(5)"),
        ("gen_ai.usage.output_tokens", "IntValue(3)"),
        ("http.response.status_code", "IntValue(200)"),
        ("gateway.provider.slug", "main"),
        ("gateway.workspace.slug", "default"),
        ("gateway.metadata._user", "ann"),
    ] {
        assert_eq!(text(&client.attributes, key).as_deref(), Some(expected), "{key}");
    }
    for (key, expected) in
        [("http.request.method", "POST"), ("url.path", "/v1/chat/completions"), ("url.scheme", "http")]
    {
        assert_eq!(text(&server.attributes, key).as_deref(), Some(expected), "{key}");
    }
    let seen = collector.seen().into_iter().find(|s| s.target == "/v1/traces").expect("traces");
    assert_eq!((seen.header("x-tenant"), seen.header("authorization")), (Some("blue"), Some("Bearer k")));
    let sent = upstream.only();
    let parent = sent.header("traceparent").expect("the trace goes on upstream");
    assert_eq!(parent, format!("00-{}-{}-01", hex(&client.trace_id), hex(&client.span_id)));
}

#[tokio::test]
async fn a_span_says_by_which_scheme_its_client_came() {
    let (collector, upstream) = (collector().await, Upstream::replying(|_| reply::chat("hi")).await);
    let gateway = secure(&["--otlp-endpoint", &collector.url().replace("/v1", "/")]).await;
    let url = format!("https://localhost:{}/v1/chat/completions", gateway.proxy.port());
    let call = Call::new(&client(false), "POST", &url).key(WORKSPACE_KEY).config(&target(&upstream));
    call.json(&hello()).send().await.expect(200);
    let server = spans(&collector, 2, 1).await.remove(0);
    assert_eq!(text(&server.attributes, "url.scheme").as_deref(), Some("https"));
}

#[tokio::test]
async fn failures_and_fallbacks_are_told_apart() {
    let collector = collector().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let whole = Upstream::replying(|_| reply::chat("hi")).await;
    let gateway = traced(&collector, &[]).await;
    let target = |u: &Upstream| json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": u.url() });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&broken), target(&whole)] });
    gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    let clients = spans(&collector, 3, 2).await;
    assert_eq!(text(&clients[0].attributes, "error.type").as_deref(), Some("503"));
    assert_eq!(clients[0].status.as_ref().map(|s| s.code), Some(2));
    assert!(text(&clients[1].attributes, "error.type").is_none() && clients[1].status.is_none());
    assert_ne!(clients[0].span_id, clients[1].span_id);
    for (span, upstream) in clients.iter().zip([&broken, &whole]) {
        let parent = upstream.only().header("traceparent").expect("a parent").to_owned();
        assert!(parent.contains(&hex(&span.span_id)), "{parent}");
    }
}

#[tokio::test]
async fn the_clients_trace_is_continued() {
    let (collector, upstream) = (collector().await, Upstream::replying(|_| reply::chat("hi")).await);
    let gateway = traced(&collector, &[]).await;
    let call = gateway.chat_through(&upstream).header("traceparent", PARENT).header("tracestate", "a=1,b=2");
    call.header("baggage", "team=blue,_user=bob").json(&hello()).send().await.expect(200);
    let server = spans(&collector, 2, 1).await.remove(0);
    assert_eq!((hex(&server.trace_id), hex(&server.parent_span_id)), (TRACE.into(), "b7ad6b7169203331".into()));
    assert_eq!((server.trace_state.as_str(), server.flags & 0x300), ("a=1,b=2", 0x300));
    assert_eq!(text(&server.attributes, "gateway.metadata.team").as_deref(), Some("blue"));
    let sent = upstream.only();
    assert!(sent.header("traceparent").is_some_and(|p| p.contains(TRACE) && !p.contains("b7ad6b7169203331")));
    assert_eq!(sent.header("tracestate"), Some("a=1,b=2"));
    let logs = gateway.admin().get(&format!("/logs?trace_id={TRACE}")).await.expect(200).json();
    assert_eq!(logs["data"][0]["metrics"]["parent_span_id"], "b7ad6b7169203331");
    // What the client did not sample is carried on and not exported.
    let call = gateway.chat_through(&upstream).header("traceparent", &PARENT.replace("-01", "-00"));
    call.json(&hello()).send().await.expect(200);
    gateway.chat_through(&upstream).header("x-gateway-trace-id", "after").json(&hello()).send().await.expect(200);
    spans(&collector, 2, 2).await;
    assert_eq!(spans_of(&collector).iter().filter(|s| hex(&s.trace_id) == TRACE && s.kind == 2).count(), 1);
    assert!(upstream.seen()[1].header("traceparent").is_some_and(|p| p.ends_with("-00")));
}

#[tokio::test]
async fn without_a_collector_what_came_is_handed_on() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.chat_through(&upstream).header("traceparent", PARENT).json(&hello()).send().await.expect(200);
    gateway.chat_through(&upstream).header("traceparent", "nonsense").json(&hello()).send().await.expect(200);
    let raw = gateway.post("/v1/proxy/chat/completions").config(&target(&upstream));
    raw.header("traceparent", PARENT).json(&hello()).send().await.expect(200);
    let sent: Vec<_> = upstream.seen().iter().map(|s| s.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(sent, [Some(PARENT.to_owned()), None, Some(PARENT.to_owned())]);
    let call = gateway.chat_through(&upstream).header("x-gateway-trace-id", "named").header("x-gateway-span-id", "s-1");
    let call = call.header("x-gateway-span-name", "step one").header("x-gateway-parent-span-id", "s-0");
    call.json(&hello()).send().await.expect(200);
    let row = eventually("a record", || async {
        let logs = gateway.admin().get("/logs?trace_id=named").await.expect(200).json();
        logs["data"][0]["metrics"].is_object().then(|| logs["data"][0]["metrics"].clone())
    })
    .await;
    assert_eq!((&row["span_id"], &row["span_name"]), (&json!("s-1"), &json!("step one")));
    assert_eq!(row["parent_span_id"], "s-0");
}

#[tokio::test]
async fn metrics_carry_the_histograms_of_the_conventions() {
    let (collector, upstream) = (collector().await, Upstream::replying(|_| reply::chat("hi")).await);
    let gateway = traced(&collector, &[]).await;
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    let found = eventually("metrics of the call", || async {
        let last = collector.seen().into_iter().rfind(|s| s.target == "/v1/metrics")?;
        let told = ExportMetricsServiceRequest::decode(&*last.body).expect("a message of OTLP");
        let all = told.resource_metrics.into_iter().flat_map(|r| r.scope_metrics).flat_map(|s| s.metrics);
        let all: Vec<_> = all.collect();
        all.iter().any(|m| m.name == "gen_ai.client.token.usage").then_some(all)
    })
    .await;
    let metric = |name: &str| found.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no {name}"));
    for (name, unit, count) in
        [("gen_ai.client.operation.duration", "s", 1), ("gen_ai.client.token.usage", "{token}", 2)]
    {
        let metric = metric(name);
        assert_eq!(metric.unit, unit);
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{name} is no histogram") };
        assert_eq!((histogram.data_points.len(), histogram.aggregation_temporality), (count, 2), "{name}");
        for point in &histogram.data_points {
            assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
            assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            for (key, expected) in [
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", "openai"),
                ("gen_ai.request.model", "gpt-4o-mini"),
            ] {
                assert_eq!(text(&point.attributes, key).as_deref(), Some(expected), "{name} {key}");
            }
        }
    }
    let Some(Data::Sum(requests)) = &metric("request_count").data else { panic!("no sum") };
    assert!(requests.is_monotonic);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let collector =
        Upstream::replying(
            move |_| {
                if gate.load(SeqCst) { reply::whole(200, &[], b"") } else { reply::whole(400, &[], b"no") }
            },
        )
        .await;
    let gateway = traced(&collector, &[]).await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let dropped = async || {
        let text = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("an answer").text().await;
        text.expect("text").lines().any(|l| l == "gateway_otlp_records_dropped 1")
    };
    eventually("a counted drop", || async { dropped().await.then_some(()) }).await;
    let part = async || {
        let page = gateway.client().get(gateway.admin_url("/health/status")).send().await.expect("an answer");
        page.json::<serde_json::Value>().await.expect("JSON")["components"]["otlp"].clone()
    };
    assert_eq!((&part().await["status"], &part().await["dropped"]), (&json!("degraded"), &json!(1)));
    open.store(true, SeqCst);
    gateway.chat().provider("mock").json(&with(hello(), json!({ "stream": true }))).send().await.expect(200);
    eventually("spans of the next call", || async { (spans_of(&collector).len() >= 4).then_some(()) }).await;
    eventually("a part that does well", || async { (part().await["status"] == "ok").then_some(()) }).await;
}

#[tokio::test]
async fn wrong_settings_are_named_at_start() {
    for (flag, value) in [
        ("--otlp-endpoint", "collector:4318"),
        ("--otlp-headers", "nonsense"),
        ("--otlp-sample", "2"),
        ("--metrics-labels", "colour"),
        ("--metrics-const-labels", "app"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = crate::harness::process::program();
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.path()).args([flag, value]);
        if flag != "--otlp-endpoint" {
            command.args(["--otlp-endpoint", "http://127.0.0.1:1"]);
        }
        let out = command.output().expect("the program runs");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && told.contains(flag), "{flag}: {told}");
    }
}
