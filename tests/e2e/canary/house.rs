//! A gateway that is told secrets in every place that takes one, and everything that it shows afterwards. What is found
//! in it is for the tests to judge.

use super::{Planted, Seen};
use crate::harness::call::Call;
use crate::harness::gateway::target;
use crate::harness::issuer::{FIRST, Issuer, SECOND, in_seconds};
use crate::harness::raw::{Raw, post};
use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, WORKSPACE_KEY, hello, reply, with};
use serde_json::{Value, json};

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
pub(super) async fn gossip() -> Upstream {
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

pub(super) struct House {
    pub(super) gateway: Gateway,
    pub(super) upstream: Upstream,
    pub(super) collector: Upstream,
    pub(super) planted: Planted,
    pub(super) seen: Seen,
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
    pub(super) async fn headers(&mut self) {
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
    pub(super) async fn keys(&mut self, issuer: &Issuer) {
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
    pub(super) async fn places(&mut self) {
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
    pub(super) async fn admin(&mut self) {
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
    pub(super) async fn pages(&mut self) {
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
    pub(super) fn traces(&mut self) {
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
