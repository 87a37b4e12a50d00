//! Marked secrets in every place where a secret can be. None of them stands in clear in an answer, on the process's
//! output, in the journal, a database file, a trace, a metric, a log, or on any page of the admin port.

use crate::harness::call::Call;
use crate::harness::gateway::target;
use crate::harness::issuer::{FIRST, Issuer, SECOND, in_seconds};
use crate::harness::ports::Port;
use crate::harness::raw::{Raw, post};
use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, WORKSPACE_KEY, eventually, hello, reply, with};
use crate::journal::{blocking, metric};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::path::Path;

/// Secrets by the place that they were put in.
#[derive(Default)]
pub(crate) struct Planted(Vec<(String, String)>);

impl Planted {
    /// A new one. It reads alike in JSON, URLs and headers.
    pub(crate) fn at(&mut self, place: impl Into<String>) -> String {
        // Of no word that anything else could hold, and different from its neighbours from the start.
        let n = self.0.len();
        let secret = format!("Cq{n:03}Zkanary{:04x}", n * 2_654_435 % 65_521);
        self.0.push((place.into(), secret.clone()));
        secret
    }

    pub(crate) fn keep(&mut self, place: impl Into<String>, secret: &str) {
        self.0.push((place.into(), secret.to_owned()));
    }

    /// Those of places that begin so.
    pub(crate) fn only(&self, place: &str) -> Self {
        Self(self.0.iter().filter(|(of, _)| of.starts_with(place)).cloned().collect())
    }

    /// Without those of places that begin so.
    pub(crate) fn without(&self, place: &str) -> Self {
        Self(self.0.iter().filter(|(of, _)| !of.starts_with(place)).cloned().collect())
    }

    /// The places whose secret stands in `bytes`, in clear or in an encoding that anybody can undo.
    fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let holds = |form: &[u8]| memchr::memmem::find(bytes, form).is_some();
        let told = |secret: &str| forms(secret).iter().any(|form| holds(form));
        self.0.iter().filter(|(_, secret)| told(secret)).map(|(place, _)| place.as_str()).collect()
    }
}

/// As it is, in hex, and in base64 at each of the three ways in which it can be cut.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let hex = bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut all = vec![bytes.to_vec(), hex.into_bytes()];
    for skipped in 0..3 {
        let whole = &bytes[skipped..skipped + (bytes.len() - skipped) / 3 * 3];
        all.push(STANDARD_NO_PAD.encode(whole).into_bytes());
    }
    all
}

/// Where the secret was seen.
#[derive(Default)]
pub(crate) struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    pub(crate) fn note(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    pub(crate) fn answer(&mut self, place: &str, answer: &Answer) {
        let heads: String = answer.headers.iter().map(|(n, v)| format!("{n}: {v:?}\n")).collect();
        self.note(format!("the answer to {place}"), [heads.as_bytes(), &answer.body].concat());
    }

    /// Every file below, and how many bytes they had.
    pub(crate) fn folder(&mut self, folder: &Path, but: &[&str]) -> usize {
        let mut total = 0;
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                total += self.folder(&path, but);
            } else if path.is_file() && !but.iter().any(|name| path.ends_with(name)) {
                let bytes = std::fs::read(&path).unwrap_or_default();
                total += bytes.len();
                self.note(path.display().to_string(), bytes);
            }
        }
        total
    }

    #[track_caller]
    pub(crate) fn hold_none_of(&self, planted: &Planted) {
        let all = self.0.iter().filter_map(|(place, bytes)| {
            let found = planted.found_in(bytes);
            (!found.is_empty()).then(|| format!("{place} tells {found:?}"))
        });
        let all: Vec<String> = all.collect();
        assert!(all.is_empty(), "{}", all.join("\n"));
    }
}

/// Headers whose values nobody but the provider may learn; `{}` is the secret.
static HEADERS: &[(&str, &str)] = &[
    ("authorization", "Bearer {}"),
    ("authorization", "Basic {}"),
    ("authorization", "{}"),
    ("api-key", "{}"),
    ("x-api-key", "{}"),
    ("x-goog-api-key", "{}"),
    ("cookie", "session={}"),
    ("proxy-authorization", "Basic {}"),
    ("x-amz-security-token", "{}"),
    ("x-auth-token", "{}"),
    ("x-csrf-token", "{}"),
    ("x-forwarded-access-token", "{}"),
    ("x-team", "{}"),
    ("referer", "https://a.example/?token={}"),
    ("x-gateway-vertex-service-account-json", "{}"),
    ("x-gateway-azure-ad-token", "{}"),
    ("x-gateway-azure-entra-client-secret", "{}"),
    ("x-gateway-oauth-client-secret", "{}"),
    ("x-gateway-aws-access-key-id", "{}"),
    ("x-gateway-aws-secret-access-key", "{}"),
    ("x-gateway-aws-session-token", "{}"),
    ("x-gateway-whatever", "{}"),
    ("x-gateway-custom-host", "https://user:{}@models.example/v1"),
    ("x-gateway-custom-host", "https://models.example/v1?key={}"),
    ("x-gateway-custom-host", "{}"),
    ("x-gateway-azure-foundry-url", "https://user:{}@models.example/v1"),
    ("x-gateway-oauth-token-endpoint", "https://user:{}@models.example/v1"),
    ("x-gateway-config", r#"{"provider":"openai","api_key":"{}","custom_host":"https://a:{}@models.example"}"#),
    ("x-gateway-config", r#"{"provider":"openai","api_key":["{}"]}"#),
    ("x-gateway-config", r#"{"api_key":"{}"#),
    ("x-gateway-config", r#"{"targets":[{"provider":"openai","api_key":"{}"},{"aws_secret_access_key":"{}"}]}"#),
    ("x-gateway-config", r#"[{"api_key":"{}"}]"#),
    // What anybody may read otherwise, when the request asks for it to be hashed.
    ("user-agent", "{}"),
    ("origin", "https://{}.example"),
    ("x-request-id", "{}"),
    ("accept-language", "{}"),
];

/// JSON bodies with a secret where one belongs, and where it only looks so.
static FIELDS: &[&str] = &[
    r#""api_key":"{}""#,
    r#""apiKey":"{}""#,
    r#""metadata":{"deep":[{"client-secret":"{}"}]}"#,
    r#""authorization":"Bearer {}""#,
    r#""tools":[{"type":"mcp","server_label":"a","headers":{"X-Any":"{}"},"authorization":"{}"}]"#,
    r#""password":"{}","passwd":["{}"]"#,
    r#""access_token":"{}","refresh_token":"{}","id_token":"{}","session_token":"{}""#,
    r#""aws_secret_access_key":"{}","private_key":"{}","connection_string":"{}""#,
    r#""credentials":{"anything":"{}"}"#,
    r#""cookie":"a={}""#,
    r#""image":{"url":"https://user:{}@images.example/a.png"}"#,
    r#""temperature":9,"secret":"{}""#,
    r#""temperature":{"api_key":"{}"},"model":7"#,
    r#""api_key":"{}"#,
];

static QUERIES: &[&str] = &["?key={}", "?api_key={}&alt=sse", "?{}", "?access_token={}&a=b", "?sig={}"];

/// Says what was asked of it, secrets and all, as careless providers do; as a failure where it is told to.
async fn gossip() -> Upstream {
    Upstream::replying(|seen| {
        let told: String = seen.headers.iter().map(|(n, v)| format!("{n}: {v}; ")).collect();
        let told = format!("no such key: {told}");
        if seen.text().contains("please fail") {
            let body = json!({ "error": { "message": told, "type": "invalid_request_error", "code": null } });
            let heads = [("content-type", "application/json"), ("set-cookie", "sid=kept-apart")];
            return reply::whole(401, &heads, body.to_string());
        }
        reply::chat("hi")
    })
    .await
}

fn body(fields: &str) -> String {
    let fields = if fields.is_empty() { String::new() } else { format!(",{fields}") };
    format!(r#"{{"model":"gpt-4o-mini","messages":[{{"role":"user","content":"please fail"}}]{fields}}}"#)
}

struct House {
    gateway: Gateway,
    upstream: Upstream,
    collector: Upstream,
    planted: Planted,
    seen: Seen,
}

impl House {
    fn fill(&mut self, place: &str, pattern: &str) -> String {
        let mut text = pattern.to_owned();
        while text.contains("{}") {
            let secret = self.planted.at(format!("{place} `{pattern}`"));
            text = text.replacen("{}", &secret, 1);
        }
        text
    }

    async fn send(&mut self, place: &str, call: Call) {
        let answer = call.send().await;
        self.seen.answer(place, &answer);
    }

    /// Every header, on a call that works, one that is refused, one that passes through and one that fails upstream.
    async fn headers(&mut self) {
        for (name, pattern) in HEADERS {
            let value = self.fill(name, pattern);
            let own = target(&self.upstream);
            for (path, body) in [
                ("/v1/chat/completions", hello()),
                ("/v1/chat/completions", with(hello(), json!({ "temperature": 9 }))),
                ("/v1/proxy/chat/completions", hello()),
                ("/v1/chat/completions", serde_json::from_str(&body("")).expect("JSON")),
                ("/v1/models", Value::Null),
            ] {
                let call = if body.is_null() { self.gateway.get(path) } else { self.gateway.post(path).json(&body) };
                let call = call
                    .config(&own)
                    .header("x-gateway-sensitive-headers", "user-agent,Origin,x-request-id,accept-language");
                self.send(&format!("{path} with {name}"), call.header(name, &value)).await;
            }
        }
    }

    /// A key that is none, in each of its places, and tokens that are good and bad.
    async fn keys(&mut self, issuer: &Issuer) {
        let uris = json!({ "jwks_uris": issuer.uri() });
        self.gateway.admin().put("/admin/organisation", &uris).await.expect(200);
        let claims = |sub: &str, life| json!({ "scope": "completions.write", "sub": sub, "exp": in_seconds(life) });
        let good = FIRST.sign(&claims("ann", 3600));
        let tokens = [good, FIRST.sign(&claims("bob", -5)), SECOND.sign(&claims("eve", 3600)), "eyJ.eyJ.x".to_owned()];
        let wrong =
            ["nonsense-{}-0123456789-0123456789", "gw_ws_{}0123456789012345_abcdef"].map(|p| self.fill("a key", p));
        for key in tokens.iter().chain(&wrong) {
            // A token's head is no secret; its signature is what opens.
            let secret = key.rsplit('.').next().expect("a part");
            if secret.len() > 40 {
                self.planted.keep("a token", secret);
            }
            for (name, value) in [
                ("x-gateway-api-key", key.clone()),
                ("authorization", format!("Bearer {key}")),
                ("x-api-key", key.clone()),
            ] {
                let call = self.gateway.chat().without("x-gateway-api-key").provider("mock").header(name, &value);
                self.send("a call with a key", call.json(&hello())).await;
                let call = self.gateway.admin().call("GET", "/configs").without("x-gateway-api-key");
                self.send("an admin call with a key", call.header(name, &value)).await;
            }
        }
    }

    /// Queries and fields of bodies, whole and broken, on each way through.
    async fn places(&mut self) {
        let own = target(&self.upstream);
        for pattern in QUERIES {
            for path in ["/v1/chat/completions", "/v1/proxy/chat/completions", "/v1/unknown/path"] {
                let query = self.fill(path, pattern);
                let call = self.gateway.post(&format!("{path}{query}")).config(&own);
                self.send("a call with a query", call.bytes(body(""))).await;
            }
        }
        for pattern in FIELDS {
            for path in [
                "/v1/chat/completions",
                "/v1/messages",
                "/v1/responses",
                "/v1/embeddings",
                "/v1/proxy/chat/completions",
            ] {
                let fields = self.fill(path, pattern);
                self.send("a call with a field", self.gateway.post(path).config(&own).bytes(body(&fields))).await;
            }
        }
        let secret = self.planted.at("a part of a form");
        let form = format!("--b\r\ncontent-disposition: form-data; name=\"api_key\"\r\n\r\n{secret}\r\n--b--\r\n");
        let call = self.gateway.post("/v1/files").config(&own);
        self.send("a form", call.body("multipart/form-data; boundary=b", form)).await;
        let (protocol, query) = (self.planted.at("a WebSocket's protocol"), self.planted.at("a WebSocket's query"));
        let mut raw = Raw::connect(self.gateway.proxy).await;
        raw.send(format!(
            "GET /v1/realtime?model=m&key={query} HTTP/1.1\r\nhost: gateway\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nx-gateway-provider: openai\r\n\
             sec-websocket-protocol: realtime, openai-insecure-api-key.{protocol}\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\r\n"
        ))
        .await;
        self.seen.note("the answer to a WebSocket", raw.response().await.body);
        let broken = Upstream::scripted(|mut peer| async move {
            peer.request().await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nsome").await;
        })
        .await;
        let query = self.planted.at("the query of a call that breaks off");
        let call = self.gateway.post(&format!("/v1/proxy/any?key={query}")).config(&target(&broken));
        self.send("a call that breaks off", call.bytes("{}")).await;
        let secret = self.planted.at("a broken head");
        let mut raw = Raw::connect(self.gateway.proxy).await;
        raw.send(post("/v1/chat/completions", &[("authorization ", &format!("Bearer {secret}"))], "{}")).await;
        self.seen.note("the answer to a broken head", raw.bytes().await);
    }

    /// What admins set: kept, refused, shown.
    async fn admin(&mut self) {
        let url = self.upstream.url();
        let integration = json!({
            "name": "main", "slug": "main", "ai_provider_id": "openai", "key": self.planted.at("a provider's credential"),
            "configurations": { "custom_host": url, "custom_headers": { "x-any": self.planted.at("a header of an integration") } },
        });
        let azure = json!({
            "name": "azure", "slug": "azure", "ai_provider_id": "azure-openai",
            "key": self.planted.at("a key of a cloud"), "configurations": {
                "azure_resource_name": "r", "azure_deployment_id": "d", "azure_api_version": "v",
                "azure_auth_mode": "entra", "azure_entra_tenant_id": "t", "azure_entra_client_id": "c",
                "azure_entra_client_secret": self.planted.at("a secret of a cloud"),
            },
        });
        let config = json!({
            "provider": "openai", "api_key": self.planted.at("a key in a config"),
            "override_params": { "mcp": { "headers": { "x": "y" } } },
        });
        let mut posts = vec![
            ("/integrations".to_owned(), integration.to_string()),
            ("/integrations".to_owned(), azure.to_string()),
            ("/configs".to_owned(), json!({ "name": "kept", "config": config }).to_string()),
            ("/configs".to_owned(), json!({ "name": "text", "config": config.to_string() }).to_string()),
        ];
        for (path, pattern) in [
            ("/integrations", r#"{"name":"x","ai_provider_id":"openai","key":{"deep":"{}"}}"#),
            ("/integrations", r#"{"name":"x","ai_provider_id":"openai","key":"{}\n"}"#),
            ("/integrations", r#"{"name":"x","ai_provider_id":"nobody","key":"{}"}"#),
            ("/integrations", r#"{"name":"x","ai_provider_id":"openai","key":"{}"#),
            ("/integrations", r#"{"name":"x","ai_provider_id":"openai","configurations":{"custom_headers":"{}"}}"#),
            (
                "/integrations",
                r#"{"name":"x","ai_provider_id":"openai","configurations":{"custom_host":"https://a:{}@b.example"}}"#,
            ),
            (
                "/integrations",
                r#"{"name":"x","ai_provider_id":"vertex-ai","configurations":{"vertex_service_account_json":"{}"}}"#,
            ),
            ("/configs", r#"{"name":"x","config":{"provider":"openai","api_key":["{}"]}}"#),
            ("/configs", r#"{"name":"x","config":"{\"api_key\": \"{}"}"#),
            ("/configs", r#"{"name":"x","config":{"provider":"openai","custom_host":"https://a:{}@b.example"}}"#),
            ("/configs?token={}", r#"{"name":"by query","config":{"provider":"mock"}}"#),
            ("/api-keys/workspace/service", r#"{"name":"x","scopes":"{}"}"#),
            ("/virtual-keys", r#"{"name":"legacy","provider":"openai","key":"{}"}"#),
            ("/virtual-keys", r#"{"name":"wrong","provider":"openai","key":7,"secret":"{}"}"#),
        ] {
            posts.push((self.fill(path, path), self.fill(path, pattern)));
        }
        for (path, body) in posts {
            let call = self.gateway.admin().call("POST", &path).bytes(body);
            self.send(&format!("POST {path}"), call).await;
        }
        let key = self.planted.at("a credential that replaces another");
        let change = json!({ "key": key, "configurations": { "custom_headers": { "x-any": key } } });
        self.send("PUT", self.gateway.admin().call("PUT", "/integrations/main").json(&change)).await;
        let issuers =
            format!(r#"{{"jwks_uris":"https://a:{}@b.example/keys"}}"#, self.planted.at("the address of an issuer"));
        self.send("PUT", self.gateway.admin().call("PUT", "/admin/organisation").bytes(issuers)).await;
        for pattern in [
            r#"{"issuer":"https://login.example.com","client_id":"c","client_secret":"{}"}"#,
            r#"{"issuer":"https://login.example.com","client_id":"c","client_secret":["{}"]}"#,
            r#"{"issuer":"https://a:{}@login.example.com","client_id":"c","client_secret":"s"}"#,
            r#"{"client_secret":"{}"}"#,
            r#"{"client_private_key":"{}"}"#,
            r#"{"client_private_key":["{}"]}"#,
            r#"{"client_secret":null,"client_private_key":"-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"}"#,
        ] {
            let body = self.fill("the secret of a client for sign-on", pattern);
            self.send("PUT sign-on", self.gateway.admin().call("PUT", "/admin/organisation/sign-on").bytes(body)).await;
        }
        // One that can sign: a line of it is as good as all of it here.
        let key = json!({ "client_secret": null, "client_private_key": SECOND.private() });
        self.planted.keep("the key of a client for sign-on", SECOND.private().lines().nth(3).expect("a line"));
        let set = self.gateway.admin().put("/admin/organisation/sign-on", &key).await.expect(200);
        self.seen.answer("PUT sign-on", &set);
        let body = json!({ "name": "k", "scopes": ["completions.write"] });
        let made = self.gateway.admin().post("/api-keys/workspace/service", &body).await.expect(200).json();
        let minted = made["key"].as_str().expect("a key").to_owned();
        self.planted.keep("a key that was made", &minted);
        // A budget that is used up at once: its alert goes to the operator's webhook.
        let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 2 } });
        let (_, spender) = self.gateway.admin().workspace_key("spender", limits).await;
        self.planted.keep("the key of a budget", &spender);
        let call = self.gateway.chat().key(&spender).provider("mock");
        self.send("a call that uses up a budget", call.json(&hello())).await;
        // A managed credential in use, told on by the provider.
        for text in [body_of_failure(), hello()] {
            let call = self.gateway.chat().key(&minted).provider("@main").json(&text);
            self.send("a call of a managed provider", call).await;
        }
    }

    /// Everything that the admin port shows, logs read one by one.
    async fn pages(&mut self) {
        let api = self.gateway.client().get(self.gateway.admin_url("/openapi.json")).send().await.expect("an answer");
        let api: Value = api.json().await.expect("JSON");
        let paths = api["paths"].as_object().expect("paths").iter().filter(|(_, of)| of.get("get").is_some());
        let mut paths: Vec<String> = paths.map(|(path, _)| path.clone()).filter(|p| !p.contains('{')).collect();
        let admin = self.gateway.admin();
        let org = admin.get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
        let span = "start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&page_size=100";
        paths.push(format!("/v1/audit-logs?organisation_id={org}&{span}"));
        for (list, of) in [
            ("/v1/configs", "/v1/configs"),
            ("/v1/integrations", "/v1/integrations"),
            ("/v1/providers", "/v1/providers"),
        ] {
            let rows = Answer::json(&self.get(list).await);
            for row in rows["data"].as_array().expect("rows") {
                let slug = row["slug"].as_str().expect("a slug");
                paths.extend(["", "/versions", "/diff", "/models"].map(|tail| format!("{of}/{slug}{tail}")));
            }
        }
        let mut shown = 0;
        for page in 0.. {
            let rows = Answer::json(&self.get(&format!("/v1/logs?page_size=500&current_page={page}")).await);
            let rows = rows["data"].as_array().expect("rows").clone();
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let one = self.get(&format!("/v1/logs/{}", row["id"].as_str().expect("an id"))).await;
                assert_eq!(one.status, 200, "{}", one.text());
                shown += usize::from(one.json()["request"]["body"] != json!({}));
                self.seen.note(format!("log {}", row["id"]), one.body);
            }
        }
        assert!(shown > 100, "bodies are kept, or there is nothing to look for: {shown}");
        for path in paths {
            let answer = self.get(&path).await;
            self.seen.answer(&path, &answer);
        }
    }

    async fn get(&self, path: &str) -> Answer {
        Call::new(self.gateway.client(), "GET", &self.gateway.admin_url(path)).key(ADMIN_KEY).send().await
    }

    /// Traces and metrics as the collector got them.
    fn traces(&mut self) {
        let sent = self.collector.seen();
        for target in ["/v1/traces", "/v1/metrics"] {
            let bodies: Vec<u8> = sent.iter().filter(|s| s.target == target).flat_map(|s| s.body.clone()).collect();
            assert!(!bodies.is_empty(), "nothing went to {target}");
            self.seen.note(format!("OTLP {target}"), bodies);
        }
    }
}

fn body_of_failure() -> Value {
    serde_json::from_str(&body("")).expect("JSON")
}

const LOST_ALERT: &str = "the webhook of alerts cannot be reached";

/// Where nothing listens, so that the alert is told as lost.
fn webhook(planted: &mut Planted, nobody: &Port) -> String {
    let [password, token] = ["password", "query"].map(|part| planted.at(format!("the webhook's {part}")));
    format!("http://user:{password}@{}/alerts?token={token}", nobody.address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_anywhere() {
    let mut planted = Planted::default();
    planted.keep("the Admin key", ADMIN_KEY);
    planted.keep("the workspace key", WORKSPACE_KEY);
    let (upstream, issuer) = (gossip().await, Issuer::publishing(&[&FIRST]).await);
    let collector = Upstream::replying(|_| reply::whole(200, &[("content-type", "application/x-protobuf")], b"")).await;
    let nobody = Port::reserve();
    // A log store and a Redis that are never there: the journal keeps every record, and errors are logged.
    let store = format!("postgres://user:{}@{}/logs", planted.at("the log store's password"), nobody.address);
    let redis = format!("redis://:{}@{}", planted.at("Redis' password"), nobody.address);
    let tenant = format!("authorization=Bearer {}", planted.at("the collector's header"));
    let endpoint = collector.url().replace("/v1", "/");
    let webhook = webhook(&mut planted, &nobody);
    let flags = [
        "--alert-webhook",
        &webhook,
        "--log-bodies",
        "all",
        "--log-level",
        "trace",
        "--otlp-endpoint",
        &*endpoint,
        "--otlp-interval",
        "200ms",
        "--otlp-headers",
        &tenant,
        "--metrics-labels",
        "model,config_name,api_key_name",
        "--redis-url",
        &redis,
    ];
    let gateway = Gateway::with(&[&flags[..], &["--log-store-url", &store]].concat()).await;
    let mut house = House { gateway, upstream, collector, planted, seen: Seen::default() };
    house.admin().await;
    house.headers().await;
    house.keys(&issuer).await;
    house.places().await;
    // The writer has the last of them in hand for a moment after the queue is empty.
    eventually("two hundred records in the journal", || async {
        let queued = metric(&house.gateway, "gateway_records_queue_depth").await;
        let kept = metric(&house.gateway, "gateway_journal_records").await;
        (queued == 0.0 && kept > 200.0).then_some(())
    })
    .await;
    let data = house.gateway.folder().join("data");
    let journal = house.seen.folder(&data.join("journal"), &[]);
    assert!(journal > 200_000, "the journal has {journal} bytes");
    for told in ["TRACE", "Fail to filter request", LOST_ALERT] {
        eventually(&format!("`{told}` in the log"), || async {
            house.gateway.process.output().contains(told).then_some(())
        })
        .await;
    }
    let output = house.gateway.process.output();
    house.seen.note("the output of the first process", output);
    // The same records in SQLite.
    house.gateway = house.gateway.restart_with(&flags).await;
    eventually("an empty journal", || async {
        (metric(&house.gateway, "gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    house.pages().await;
    house.traces();
    let output = house.gateway.process.output();
    assert!(!output.contains("panicked"), "{output}");
    house.seen.note("the output", output);
    house.seen.folder(&data, &["master.key"]);
    house.seen.hold_none_of(&house.planted);
}

/// What the program keeps on a server, and what it keeps beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_in_postgres() {
    let mut planted = Planted::default();
    planted.keep("the Admin key", ADMIN_KEY);
    planted.keep("the workspace key", WORKSPACE_KEY);
    let (server, url) = blocking(|| {
        let server = Postgres::start();
        let url = server.url();
        (server, url)
    })
    .await;
    let password = url.split([':', '@']).nth(2).expect("a password").to_owned();
    planted.keep("the database's password", &password);
    let (upstream, issuer) = (gossip().await, Issuer::publishing(&[&FIRST]).await);
    let collector = Upstream::replying(|_| reply::whole(200, &[], b"")).await;
    let nobody = Port::reserve();
    let webhook = webhook(&mut planted, &nobody);
    let flags = ["--database-url", &url, "--log-bodies", "all", "--log-level", "trace", "--alert-webhook", &webhook];
    let gateway = Gateway::with(&flags).await;
    let mut house = House { gateway, upstream, collector, planted, seen: Seen::default() };
    house.admin().await;
    house.keys(&issuer).await;
    house.places().await;
    eventually("an empty journal", || async {
        let of = async |name: &str| metric(&house.gateway, name).await;
        (of("gateway_records_queue_depth").await + of("gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    eventually("a lost alert", || async { house.gateway.process.output().contains(LOST_ALERT).then_some(()) }).await;
    let dump = blocking(move || Postgres::dump(&url)).await;
    for table in ["resource", "resource_version", "audit", "log_entry_", "log_body_", "counter"] {
        let insert = format!("INSERT INTO public.{table}");
        assert!(memchr::memmem::find(&dump, insert.as_bytes()).is_some(), "nothing is in {table}");
    }
    house.seen.note("the dump of the database", dump);
    let data = house.gateway.folder().join("data");
    let copy =
        ["last-good.db", "last-good.db-wal"].map(|name| std::fs::metadata(data.join(name)).map_or(0, |m| m.len()));
    assert!(copy.iter().sum::<u64>() > 16_384, "the copy of the configuration has {copy:?} bytes");
    house.seen.folder(&data, &["master.key"]);
    house.seen.note("the output", house.gateway.process.output());
    let (server, bytes) = blocking(move || {
        let mut server = server;
        server.stop();
        let mut seen = Seen::default();
        let bytes = seen.folder(&server.files(), &[]);
        ((server, seen), bytes)
    })
    .await;
    let (_server, files) = server;
    assert!(bytes > 10 << 20, "the files of the server have {bytes} bytes");
    house.seen.0.extend(files.0);
    house.seen.hold_none_of(&house.planted);
}

/// A thread that cannot be made is a panic of the runtime in the middle of a request.
#[tokio::test]
async fn no_secret_is_found_in_a_panic() {
    let mut planted = Planted::default();
    planted.keep("the workspace key", WORKSPACE_KEY);
    let gateway = Gateway::with(&["--log-level", "trace"]).await;
    // Whatever a worker makes once it has made then, so that nothing but a new thread wants memory of the system's.
    let warm = (0..32).map(|_| async { gateway.chat().provider("mock").json(&hello()).send().await.expect(200) });
    futures_util::future::join_all(warm).await;
    let id = gateway.process.id();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("/proc");
    let size = status.lines().find_map(|l| l.strip_prefix("VmSize:")).expect("a size");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("kilobytes");
    let mut limit = std::process::Command::new("prlimit");
    limit.args(["--pid", &id.to_string(), &format!("--as={}", (size + 64) * 1024)]);
    assert!(limit.status().expect("prlimit runs").success());
    // Long enough to be looked at on a thread of its own.
    let content = format!("{}{}", planted.at("a message"), "x".repeat(300 << 10));
    let body = with(
        hello(),
        json!({ "api_key": planted.at("a field"), "user": planted.at("the user"),
        "messages": [{ "role": "user", "content": content }] }),
    );
    let call = gateway.post(&format!("/v1/chat/completions?key={}", planted.at("a query"))).provider("mock");
    let broken = call.header("cookie", &planted.at("a cookie")).json(&body).attempt().await;
    assert!(broken.is_err(), "the connection ends with the request: {broken:?}");
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let output = gateway.process.output();
    assert!(output.contains("panicked") && output.contains("OS can't spawn worker thread"), "{output}");
    let mut seen = Seen::default();
    seen.note("the output", output);
    seen.note("the metrics", gateway.metrics().await);
    seen.folder(&gateway.folder().join("data"), &["master.key"]);
    seen.hold_none_of(&planted);
}
