//! No side door: what holds on chat holds on every way through the gateway.

use crate::harness::{Gateway, Raw, Seen, Upstream, gateway::target, hello, raw::Response, reply, with};
use crate::ways::{GatewayWay, WayAnswer, leave_a_record, refuse_whoever_may_not};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Chat,
    Prompt,
    ProxyChat,
    UnknownJson,
    Pictures,
    EditJson,
    Edit,
    Variation,
    Speech,
    Transcription,
    Translation,
    Moderation,
    Rerank,
    CohereRerank,
    Ocr,
    Upload,
    WebSocket,
}

const WAYS: [Way; 17] = [
    Way::Chat,
    Way::Prompt,
    Way::ProxyChat,
    Way::UnknownJson,
    Way::Pictures,
    Way::EditJson,
    Way::Edit,
    Way::Variation,
    Way::Speech,
    Way::Transcription,
    Way::Translation,
    Way::Moderation,
    Way::Rerank,
    Way::CohereRerank,
    Way::Ocr,
    Way::Upload,
    Way::WebSocket,
];

impl Way {
    const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Prompt => "/v1/prompts/pp-matrix/completions",
            Self::ProxyChat => "/v1/proxy/chat/completions",
            Self::UnknownJson => "/v1/brand/new",
            Self::Pictures => "/v1/images/generations",
            Self::Edit | Self::EditJson => "/v1/images/edits",
            Self::Variation => "/v1/images/variations",
            Self::Speech => "/v1/audio/speech",
            Self::Transcription => "/v1/audio/transcriptions",
            Self::Translation => "/v1/audio/translations",
            Self::Moderation => "/v1/moderations",
            Self::Rerank => "/v1/rerank",
            Self::CohereRerank => "/v2/rerank",
            Self::Ocr => "/v1/ocr",
            Self::Upload => "/v1/files",
            Self::WebSocket => "/v1/realtime?model=gpt-realtime",
        }
    }

    /// The status of a success.
    const fn success(self) -> u16 {
        if matches!(self, Self::WebSocket) { 101 } else { 200 }
    }

    /// A form that is held.
    const fn is_form(self) -> bool {
        matches!(self, Self::Edit | Self::Variation | Self::Transcription | Self::Translation)
    }

    /// Nothing is read of what goes up.
    const fn is_unread(self) -> bool {
        matches!(self, Self::Upload | Self::WebSocket)
    }

    /// Its answer may be kept.
    const fn is_cached(self) -> bool {
        !self.is_form() && !self.is_unread() && !matches!(self, Self::Speech | Self::EditJson)
    }

    /// A family of providers that serves it.
    const fn family(self) -> &'static str {
        if matches!(self, Self::Ocr) { "mistral-ai" } else { "openai" }
    }

    /// The text of what is asked for, for guardrails to find.
    fn body(self) -> Value {
        let model = "gpt-4o-mini";
        match self {
            Self::EditJson => {
                json!({ "model": model, "prompt": "hello", "images": [{ "image_url": "https://example.com/a.png" }] })
            }
            Self::Pictures => json!({ "model": model, "prompt": "hello" }),
            Self::Speech => json!({ "model": model, "input": "hello", "voice": "v" }),
            Self::Moderation => json!({ "model": model, "input": "hello" }),
            Self::Rerank | Self::CohereRerank => json!({ "model": model, "query": "hello", "documents": ["a"] }),
            Self::Ocr => json!({ "model": model, "document": { "type": "document_url", "document_url": "hello" } }),
            Self::Prompt => json!({ "variables": { "word": "hello" } }),
            _ => hello(),
        }
    }

    /// What has to be there before it can be asked for: a prompt that is no chat of the others.
    async fn prepare(self, gateway: &Gateway) {
        if self == Self::Prompt {
            let document = "version: 1\nprompts:\n- {workspace: default, slug: pp-matrix, name: p, versions: [{version: 1, \
                            string: 'say {{word}}', model: gpt-4o-mini, parameters: {seed: 1}}]}";
            let imported = gateway.admin().post("/configuration/import", &json!({ "document": document })).await;
            imported.expect(200);
        }
    }

    fn request(self, headers: &[(&str, &str)]) -> String {
        let own = |value: &str| match self.family() {
            "openai" => value.to_owned(),
            family => value.replace("\"openai\"", &format!("\"{family}\"")).replace("@main", "@second"),
        };
        let headers: String = headers.iter().map(|(n, v)| format!("{n}: {}\r\n", own(v))).collect();
        let (kind, body) = match self {
            Self::WebSocket => {
                return format!(
                    "GET {} HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
                     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n",
                    self.path()
                );
            }
            _ if self.is_form() || self == Self::Upload => (
                "multipart/form-data; boundary=b",
                "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n\
                 --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\na\r\n\
                 --b\r\ncontent-disposition: form-data; name=\"image\"; filename=\"a\"\r\n\r\na\r\n--b--\r\n"
                    .to_owned(),
            ),
            _ => ("application/json", self.body().to_string()),
        };
        let (path, length) = (self.path(), body.len());
        format!(
            "POST {path} HTTP/1.1\r\nhost: g\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
    }

    async fn ask(self, gateway: &Gateway, headers: &[(&str, &str)]) -> Response {
        self.prepare(gateway).await;
        let mut client = Raw::connect(gateway.proxy).await;
        let named = headers.iter().any(|(n, _)| *n == "x-gateway-api-key");
        let key = [("x-gateway-api-key", crate::harness::WORKSPACE_KEY)];
        let all = if named { headers.to_vec() } else { [&key, headers].concat() };
        client.send(self.request(&all)).await;
        client.response().await
    }
}

impl GatewayWay for Way {
    async fn take(self, gateway: &Gateway, headers: &[(&str, &str)]) -> WayAnswer {
        let response = self.ask(gateway, headers).await;
        WayAnswer { status: response.head.status, text: response.text() }
    }

    fn success(self) -> u16 {
        Self::success(self)
    }
}

/// Answers every way's request.
async fn upstream() -> Upstream {
    Upstream::replying(answer).await
}

fn answer(seen: &Seen) -> Vec<u8> {
    if seen.header("upgrade").is_some() {
        let head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
        return format!("{head}sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n").into_bytes();
    }
    if seen.target.ends_with("/ocr") {
        return reply::json(
            200,
            &json!({ "pages": [], "model": "gpt-4o-mini", "usage_info": { "pages_processed": 0 } }),
        );
    }
    reply::chat("hi")
}

fn text(config: &Value) -> String {
    config.to_string()
}

#[tokio::test]
async fn who_may_not_is_refused_on_every_way() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = text(&target(&upstream));
    refuse_whoever_may_not(&gateway, &WAYS, &[("x-gateway-config", &config)]).await;
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn bad_headers_and_missing_providers_are_refused_on_every_way() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = text(&target(&upstream));
    for way in WAYS {
        for headers in [
            &[("x-gateway-config", config.as_str()), ("x-gateway-request-timeout", "soon")][..],
            &[("x-gateway-config", "{")],
            &[("x-gateway-config", "pc-none")],
            &[("x-gateway-provider", "nobody")],
            &[("x-gateway-provider", "@nobody")],
            &[],
        ] {
            let response = way.ask(&gateway, headers).await;
            assert_eq!(response.head.status, 400, "{way:?} {headers:?}: {}", response.text());
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn saved_only_mode_holds_on_every_way() {
    let gateway = Gateway::with(&["--block-inline-config", "true"]).await;
    let upstream = upstream().await;
    let config = text(&target(&upstream));
    for way in WAYS {
        for headers in [
            &[("x-gateway-config", config.as_str())][..],
            &[("x-gateway-provider", "openai"), ("authorization", "Bearer sk-own")],
        ] {
            let response = way.ask(&gateway, headers).await;
            assert_eq!(response.head.status, 400, "{way:?}: {}", response.text());
            assert!(response.text().contains("_blocked"), "{way:?}: {}", response.text());
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn credential_headers_and_answers_are_the_same_on_every_way() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    gateway.admin().provider("second", "mistral-ai", Some(&upstream.url())).await;
    for way in WAYS {
        let trace = format!("trace-{way:?}");
        let headers = [
            ("x-gateway-provider", "@main"),
            ("x-gateway-trace-id", trace.as_str()),
            ("x-gateway-forward-headers", "x-one"),
            ("x-one", "1"),
            ("x-two", "2"),
        ];
        let response = way.ask(&gateway, &headers).await;
        assert_eq!(response.head.status, way.success(), "{way:?}: {}", response.text());
        for (name, value) in [
            ("x-gateway-trace-id", trace.as_str()),
            ("x-gateway-provider", way.family()),
            ("x-gateway-retry-attempt-count", "0"),
            ("x-gateway-last-used-option-index", "config"),
        ] {
            // A handshake is passed on as the upstream gave it.
            let expected = Some(value).filter(|_| way != Way::WebSocket);
            assert_eq!(response.head.header(name), expected, "{way:?} {name}");
        }
        let seen = upstream.seen().pop().expect("it went up");
        assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"), "{way:?}");
        assert_eq!(seen.header("x-one"), Some("1"), "{way:?}");
        // Pass-through passes headers on as well.
        let passes = matches!(way, Way::ProxyChat | Way::UnknownJson) || way.is_unread();
        let other = passes.then_some("2");
        assert_eq!(seen.header("x-two"), other, "{way:?}");
        assert!(!seen.headers.iter().any(|(n, _)| n.to_lowercase().starts_with("x-gateway")), "{way:?}");
    }
}

#[tokio::test]
async fn fallback_and_its_index_hold_on_every_way() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let nobody = crate::harness::ports::Port::reserve();
    let refusing =
        json!({ "provider": "openai", "api_key": "k", "custom_host": format!("http://{}/v1", nobody.address) });
    let good = upstream().await;
    for way in WAYS {
        for first in [target(&broken), refusing.clone()] {
            let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
            let response = way.ask(&gateway, &[("x-gateway-config", &text(&config))]).await;
            assert_eq!(response.head.status, way.success(), "{way:?}: {}", response.text());
            if way != Way::WebSocket {
                let index = response.head.header("x-gateway-last-used-option-index");
                assert_eq!(index, Some("config.targets[1]"), "{way:?}");
            }
        }
    }
}

#[tokio::test]
async fn timeouts_hold_on_every_way() {
    let gateway = Gateway::start().await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let config = text(&with(target(&silent), json!({ "request_timeout": 150 })));
    for way in WAYS {
        let response = way.ask(&gateway, &[("x-gateway-config", &config)]).await;
        assert_eq!(response.head.status, 408, "{way:?}: {}", response.text());
        assert!(response.text().contains("150ms"), "{way:?}: {}", response.text());
    }
}

#[tokio::test]
async fn what_was_read_comes_from_the_cache_and_nothing_else_does() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = text(&with(target(&upstream), json!({ "cache": "simple" })));
    for way in WAYS {
        let before = upstream.seen().len();
        let one = way.ask(&gateway, &[("x-gateway-config", &config)]).await;
        let two = way.ask(&gateway, &[("x-gateway-config", &config)]).await;
        let statuses = [one.head.status, two.head.status];
        assert_eq!(statuses, [way.success(); 2], "{way:?}: {}", two.text());
        let told = [&one, &two].map(|r| r.head.header("x-gateway-cache-status"));
        let (expected, calls) = match way {
            Way::WebSocket => ([None; 2], 2),
            _ if way.is_cached() => ([Some("MISS"), Some("HIT")], 1),
            _ => ([Some("DISABLED"); 2], 2),
        };
        assert_eq!((told, upstream.seen().len() - before), (expected, calls), "{way:?}");
        if calls == 1 {
            assert_eq!(one.text(), two.text(), "{way:?}");
        }
    }
}

#[tokio::test]
async fn limits_that_need_a_field_hold_whether_it_was_read_or_not() {
    for way in [Way::Upload, Way::Transcription, Way::Edit] {
        let gateway = Gateway::start().await;
        let upstream = upstream().await;
        gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
        let policy = json!({
            "name": "by model", "type": "requests", "unit": "rpw", "value": 1,
            "conditions": [{ "key": "model", "value": "whisper-1" }], "group_by": [{ "key": "api_key" }],
        });
        gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
        let ask = async |way: Way| way.ask(&gateway, &[("x-gateway-provider", "@main")]).await.head.status;
        assert_eq!((ask(way).await, ask(way).await), (200, 429), "{way:?}");
        assert_eq!(ask(Way::Chat).await, 200, "this is another model");
    }
}

#[tokio::test]
async fn a_key_calls_the_models_that_it_may_on_every_way() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = text(&target(&upstream));
    let key = async |models: Value| gateway.admin().workspace_key("held", json!({ "allowed_models": models })).await.1;
    let (others, these) = (key(json!(["o3*"])).await, key(json!(["gpt-*", "whisper-1"])).await);
    for way in WAYS {
        let refused = way.ask(&gateway, &[("x-gateway-api-key", &others), ("x-gateway-config", &config)]).await;
        assert_eq!(refused.head.status, 403, "{way:?}: {}", refused.text());
        assert!(refused.text().contains("allowed_models"), "{way:?}: {}", refused.text());
    }
    assert_eq!(upstream.connections(), 0);
    for way in WAYS {
        let answer = way.ask(&gateway, &[("x-gateway-api-key", &these), ("x-gateway-config", &config)]).await;
        // A file that goes to a provider may ask for any.
        let expected = if matches!(way, Way::Upload) { 403 } else { way.success() };
        assert_eq!(answer.head.status, expected, "{way:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn guardrails_hold_on_every_way() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let team = json!({ "default.requiredMetadataKeys": { "metadataKeys": ["team"] }, "deny": true });
    let words = json!({ "default.contains": { "words": ["hello"], "operator": "none" }, "deny": true });
    let config = |check: &Value| text(&with(target(&upstream), json!({ "input_guardrails": [check] })));
    for way in WAYS {
        let by_team = config(&team);
        let denied = way.ask(&gateway, &[("x-gateway-config", &by_team)]).await;
        assert_eq!(denied.head.status, 446, "{way:?}: {}", denied.text());
        assert_eq!(denied.head.header("x-gateway-guardrails"), Some("in=deny"), "{way:?}");
        let headers = [("x-gateway-config", by_team.as_str()), ("x-gateway-metadata", r#"{"team":"red"}"#)];
        let passed = way.ask(&gateway, &headers).await;
        assert_eq!(passed.head.status, way.success(), "{way:?}: {}", passed.text());
        // Bodies that are not read have no text to judge.
        let unseen = way.is_unread() || way.is_form() || matches!(way, Way::Ocr);
        let expected = if unseen { way.success() } else { 446 };
        let by_words = way.ask(&gateway, &[("x-gateway-config", &config(&words))]).await;
        assert_eq!(by_words.head.status, expected, "{way:?}: {}", by_words.text());
    }
}

#[tokio::test]
async fn every_way_leaves_a_record() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = text(&target(&upstream));
    leave_a_record(&gateway, &WAYS, &[("x-gateway-config", &config)], |way, row| {
        assert!(row.to_string().contains(&way.success().to_string()), "{way:?}: {row}");
    })
    .await;
}
