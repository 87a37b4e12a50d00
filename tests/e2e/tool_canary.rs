//! Marked values in every credential, header, metadata value and body of calls of tools and agents, on every way: what
//! a server is called with is nowhere but there, what a caller brings never goes there, and what is said is in no log,
//! metric or trace.

use crate::canary::{Planted, Seen};
use crate::harness::{Answer, Upstream, eventually, reply};
use crate::journal::metric;
use crate::tool_matrix::{ToolHouse, ways};
use serde_json::{Value, json};

/// Says what it was sent, secrets and all, as an answer that is a failure: of sign-in, of its own, or of no protocol at
/// all.
async fn gossip(status: u16) -> Upstream {
    Upstream::replying(move |seen| {
        let told: String = seen.headers.iter().map(|(n, v)| format!("{n}: {v}; ")).collect();
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": told}});
        let heads =
            [("content-type", "application/json"), ("www-authenticate", told.as_str()), ("set-cookie", told.as_str())];
        reply::whole(status, &heads, error.to_string())
    })
    .await
}

/// A token endpoint that gives this token; `None`: it refuses, and repeats what it was sent.
async fn tokens(token: Option<String>) -> Upstream {
    Upstream::replying(move |seen| match &token {
        Some(token) => reply::json(200, &json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600})),
        None => reply::json(401, &json!({"error": "invalid_client", "error_description": seen.text()})),
    })
    .await
}

/// How an integration signs in.
enum SignsIn {
    ByHeader,
    /// It asks an endpoint, which gives this token; `None`: it refuses, and repeats what it was sent.
    ByToken(Option<String>),
}

/// Servers, and what they are called with.
struct CanaryHouse {
    house: ToolHouse,
    collector: Upstream,
    /// Token endpoints and gossips, and for how long they are there.
    others: Vec<Upstream>,
    /// `kept`: what servers are called with. `brought`: what callers bring. `said`: what is said and told of calls.
    planted: Planted,
    seen: Seen,
}

impl CanaryHouse {
    async fn start() -> Self {
        let collector =
            Upstream::replying(|_| reply::whole(200, &[("content-type", "application/x-protobuf")], b"")).await;
        let endpoint = collector.url().replace("/v1", "/");
        let flags =
            ["--log-bodies", "all", "--log-level", "trace", "--otlp-endpoint", &endpoint, "--otlp-interval", "200ms"];
        let house = ToolHouse::with(&flags).await;
        let mut all = Self { house, collector, others: Vec::new(), planted: Planted::default(), seen: Seen::default() };
        for kind in ["mcp", "agent"] {
            let body = json!({"auth_type": "headers", "configurations": all.headers(kind)});
            let path = format!("/{kind}-integrations/{kind}");
            let changed = all.house.gateway.admin().put(&path, &body).await.expect(200);
            all.seen.answer(&path, &changed);
        }
        let key = all.house.key.clone();
        all.planted.keep("brought: the key", &key);
        all
    }

    fn headers(&mut self, kind: &str) -> Value {
        json!({"custom_headers": {
            "authorization": format!("Bearer {}", self.planted.at(format!("kept: the authorization of {kind}"))),
            "x-team-token": self.planted.at(format!("kept: a header of {kind}")),
        }})
    }

    /// What a caller sends beside what it says.
    fn brought(&mut self, place: &str) -> Vec<(String, String)> {
        let mut at = |name: &str| self.planted.at(format!("brought: {name} of {place}"));
        let headers = [
            ("cookie", format!("session={}", at("the cookie"))),
            ("authorization", format!("Bearer {}", at("the authorization"))),
            ("x-user-claims", format!("{{\"sub\":\"{}\"}}", at("claims"))),
            ("x-user-jwt", at("a token")),
            ("x-auth-token", at("another token")),
        ];
        let mut headers: Vec<(String, String)> =
            headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let metadata = json!({"team": self.planted.at(format!("said: the metadata of {place}"))});
        headers.push(("x-gateway-metadata".to_owned(), metadata.to_string()));
        headers.push(("x-gateway-api-key".to_owned(), self.house.key.clone()));
        headers
    }

    fn note(&mut self, place: &str, answer: &Answer) {
        self.seen.answer(place, answer);
    }

    /// Calls in every way that there is.
    async fn ways(&mut self) {
        for way in ways() {
            let headers = self.brought(&format!("{way:?}"));
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let answer = way.ask(&self.house.gateway, &headers).await.expect(200);
            self.note(&format!("{way:?}"), &answer);
        }
    }

    /// One more server and one more agent behind this address; what their calls are answered.
    async fn behind(&mut self, slug: &str, url: &str, signs_in: SignsIn) {
        let (auth, configurations) = match signs_in {
            SignsIn::ByHeader => ("headers", self.headers(slug)),
            SignsIn::ByToken(token) => {
                let endpoint = tokens(token).await;
                let secret = self.planted.at(format!("kept: the client's secret of {slug}"));
                let client = json!({"token_url": format!("{}/token", endpoint.url()), "client_id": "gateway",
                    "client_secret": secret});
                self.others.push(endpoint);
                ("oauth_client_credentials", json!({"oauth": client}))
            }
        };
        let integration =
            json!({"name": slug, "slug": slug, "url": url, "auth_type": auth, "configurations": configurations});
        for kind in ["mcp", "agent"] {
            let mut integration = integration.clone();
            if kind == "mcp" {
                integration["transport"] = "http".into();
            }
            let server = json!({"name": slug, "slug": slug, format!("{kind}_integration_id"): slug});
            for (path, body) in [(format!("/{kind}-integrations"), integration), (format!("/{kind}-servers"), server)] {
                let made = self.house.gateway.admin().post(&path, &body).await.expect(200);
                self.note(&path, &made);
            }
        }
        let (word, secret) = (
            self.planted.at(format!("said: a body of {slug}")),
            self.planted.at(format!("brought: a field of {slug}")),
        );
        let tool = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo",
            "arguments": {"say": word, "api_key": secret}}});
        let part = json!([{"text": word}, {"data": {"api_key": secret}}]);
        let message = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": part}});
        let rpc = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": message});
        for (path, body) in [
            (format!("/{slug}/mcp"), tool.clone()),
            (format!("/{slug}/mcp?key={}", self.planted.at("brought: a query")), tool),
            (format!("/v1/agent/{slug}"), rpc("SendMessage")),
            (format!("/v1/agent/{slug}"), rpc("SendStreamingMessage")),
            (format!("/v1/agent/{slug}"), rpc(&self.planted.at("said: a method"))),
            (format!("/v1/agent/{slug}?token={}", self.planted.at("brought: a query of an agent")), rpc("GetTask")),
        ] {
            let headers = self.brought(&path);
            let call = self.house.gateway.call("POST", &path).header("a2a-version", "1.0");
            let call = call.header("accept", "application/json, text/event-stream").json(&body);
            let answer = headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await;
            self.note(&path, &answer);
        }
    }

    /// What admins are shown.
    async fn pages(&mut self) {
        let admin = self.house.gateway.admin();
        let mut told = Vec::new();
        for kind in ["mcp", "agent"] {
            told.push(format!("/{kind}-integrations"));
            told.push(format!("/{kind}-servers"));
            for tail in ["", "/capabilities", "/workspaces"] {
                told.push(format!("/{kind}-integrations/{kind}{tail}"));
            }
        }
        told.extend(["/mcp-integrations/mcp/metadata", "/configuration", "/nodes/settings"].map(str::to_owned));
        let logs = admin.get("/logs?page_size=500").await.expect(200);
        let rows = logs.json()["data"].as_array().expect("rows").clone();
        assert!(rows.len() > ways().len(), "{} records", rows.len());
        told.extend(rows.iter().map(|row| format!("/logs/{}", row["id"].as_str().expect("an id"))));
        self.seen.answer("/logs", &logs);
        for path in told {
            let page = admin.get(&path).await.expect(200);
            self.seen.answer(&path, &page);
        }
    }
}

fn bytes_of(upstream: &Upstream) -> Vec<u8> {
    upstream
        .seen()
        .iter()
        .flat_map(|seen| format!("{} {:?} {}", seen.target, seen.headers, seen.text()).into_bytes())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_brought_said_and_kept_for_tools_and_agents_is_told_nowhere_else() {
    let mut canary = CanaryHouse::start().await;
    canary.ways().await;
    for status in [400, 401, 500] {
        let gossip = gossip(status).await;
        canary.behind(&format!("gossip-{status}"), &gossip.url(), SignsIn::ByHeader).await;
        canary.others.push(gossip);
    }
    let token = canary.planted.at("kept: a token that was issued");
    let (mcp, agent) = (canary.house.mcp.upstream.url(), canary.house.agent.url());
    canary.behind("issued", &mcp, SignsIn::ByToken(Some(token.clone()))).await;
    canary.behind("granted", &agent, SignsIn::ByToken(Some(token))).await;
    canary.behind("refused", &agent, SignsIn::ByToken(None)).await;
    let gateway = &canary.house.gateway;
    eventually("all records are stored", || async {
        let of = async |name: &str| metric(gateway, name).await;
        (of("gateway_records_queue_depth").await + of("gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    canary.pages().await;
    let CanaryHouse { house, collector, others, planted, mut seen } = canary;
    let [own, brought, said] = ["kept", "brought", "said"].map(|what| planted.only(what));
    let mut quiet = Seen::default();
    quiet.note("the output", house.gateway.process.output());
    quiet.note("the metrics", house.gateway.metrics().await);
    // What is said stands in records, which are for that; nobody else hears of it.
    quiet.hold_none_of(&said);
    eventually("traces were sent", || async {
        collector.seen().iter().any(|sent| sent.target == "/v1/traces").then_some(())
    })
    .await;
    let mut traces = Seen::default();
    let sent: Vec<u8> = collector.seen().into_iter().flat_map(|sent| sent.body).collect();
    traces.note("what went to the collector", sent);
    // Metadata is among what spans tell.
    traces.hold_none_of(&said.without("said: the metadata"));
    seen.folder(&house.gateway.folder().join("data"), &["master.key"]);
    for planted in [&own, &brought] {
        for place in [&quiet, &traces, &seen] {
            place.hold_none_of(planted);
        }
    }
    let mut upstream = Seen::default();
    for (place, server) in [("the server", &house.mcp.upstream), ("the agent", &house.agent)] {
        upstream.note(place, bytes_of(server));
    }
    for (n, other) in others.iter().enumerate() {
        upstream.note(format!("another of them, {n}"), bytes_of(other));
    }
    // Fields of bodies go to whom they were written for, and metadata does not.
    upstream.hold_none_of(&brought.without("brought: a field of"));
    upstream.hold_none_of(&said.without("said: a body of").without("said: a method"));
}
