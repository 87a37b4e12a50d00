//! An MCP server that signs people in by itself, with the authorisation server behind it, and a gateway before both:
//! what was asked of either can be read, and both can be told to misbehave.

use crate::harness::{Answer, Gateway, Seen, Upstream, reply};
use crate::mcp_client::{PUBLIC, PageBrowser, Pairs, challenge, encoded, field, get, pairs};
use crate::mcp_script::{JSON, offered, request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const REFRESHED: &str = "refresh-canary-";
pub(crate) const OPENS: &str = "access-canary-";

/// What it was told, and how it behaves.
pub(crate) struct AccountBook {
    count: u32,
    /// Access tokens that open the server.
    pub(crate) opens: BTreeSet<String>,
    /// Refresh tokens that were not spent.
    pub(crate) renews: BTreeSet<String>,
    /// How long an access token opens the server, in seconds.
    pub(crate) lives: u64,
    /// Codes with the proof that each wants.
    codes: Vec<(String, String)>,
    /// Laid over the documents.
    pub(crate) resource: Value,
    pub(crate) issuer: Value,
    /// Takes clients that register, with a secret.
    pub(crate) registers: bool,
    /// The one client that it knows, with its secret.
    pub(crate) knows: Option<(String, String)>,
    /// Opens for everybody, and lists and calls for accounts alone.
    pub(crate) opens_freely: bool,
    /// Refuses lists for want of this scope.
    pub(crate) wants_scope_to_list: Option<String>,
    /// Refuses calls for want of this scope.
    pub(crate) wants_scope: Option<String>,
    /// Cannot renew anything for a while.
    pub(crate) is_busy: bool,
    /// Takes no token at all.
    pub(crate) is_shut: bool,
}

pub(crate) struct AccountServer {
    pub(crate) upstream: Upstream,
    book: Arc<Mutex<AccountBook>>,
}

impl AccountServer {
    pub(crate) async fn start() -> Self {
        let book = Arc::new(Mutex::new(AccountBook {
            count: 0,
            opens: BTreeSet::new(),
            renews: BTreeSet::new(),
            lives: 3600,
            codes: Vec::new(),
            resource: json!({}),
            issuer: json!({}),
            registers: false,
            knows: None,
            opens_freely: false,
            wants_scope_to_list: None,
            wants_scope: None,
            is_busy: false,
            is_shut: false,
        }));
        let told = book.clone();
        let upstream = Upstream::replying(move |seen| {
            // Whoever asks at the same time asks before this one is answered.
            if seen.target == "/token" {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            answer(&mut told.lock().expect("no panic"), seen)
        })
        .await;
        Self { upstream, book }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, AccountBook> {
        self.book.lock().expect("no panic")
    }

    pub(crate) fn origin(&self) -> String {
        self.upstream.url().trim_end_matches("/v1").to_owned()
    }

    /// What it heard at one of its addresses.
    pub(crate) fn asked(&self, path: &str) -> Vec<Seen> {
        self.upstream.seen().into_iter().filter(|seen| seen.target.split('?').next() == Some(path)).collect()
    }

    /// Forms of renewals.
    pub(crate) fn renewals(&self) -> usize {
        self.asked("/token").iter().filter(|seen| seen.text().contains("grant_type=refresh_token")).count()
    }

    /// Calls of tools, with the token that each came with.
    pub(crate) fn called(&self) -> Vec<Seen> {
        let is_call = |seen: &Seen| seen.method == "POST" && seen.json()["method"] == "tools/call";
        self.asked("/v1").into_iter().filter(is_call).collect()
    }

    /// Somebody signs in there and allows the gateway: what their browser brings back.
    pub(crate) fn allow(&self, location: &str) -> Pairs {
        let url = reqwest::Url::parse(location).expect("a URL");
        assert_eq!(url.origin().ascii_serialization(), self.origin(), "nobody is sent elsewhere");
        let asked: Pairs = url.query_pairs().into_owned().collect();
        for (name, value) in [("response_type", "code"), ("code_challenge_method", "S256")] {
            assert_eq!(get(&asked, name), value);
        }
        assert_eq!(get(&asked, "redirect_uri"), format!("{PUBLIC}/oauth/upstream-callback"));
        let mut book = self.book();
        book.count += 1;
        let code = format!("code-{}", book.count);
        book.codes.push((code.clone(), get(&asked, "code_challenge").to_owned()));
        pairs(&[("code", &code), ("state", get(&asked, "state")), ("iss", &self.origin())])
    }
}

fn answer(book: &mut AccountBook, seen: &Seen) -> Vec<u8> {
    let origin = format!("http://{}", seen.header("host").unwrap_or_default());
    match seen.target.as_str() {
        "/.well-known/oauth-protected-resource/v1" => {
            let document = json!({"resource": format!("{origin}/v1"), "authorization_servers": [origin],
                "scopes_supported": ["files:read"]});
            reply::json(200, &laid(document, &book.resource))
        }
        "/.well-known/oauth-authorization-server" => {
            let document = json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"), "revocation_endpoint": format!("{origin}/revoke"),
                "registration_endpoint": book.registers.then(|| format!("{origin}/register")),
                "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true,
                "client_id_metadata_document_supported": !book.registers && book.knows.is_none(),
                "token_endpoint_auth_methods_supported":
                    [if book.registers || book.knows.is_some() { "client_secret_basic" } else { "none" }],
            });
            reply::json(200, &laid(document, &book.issuer))
        }
        "/register" => reply::json(
            201,
            &json!({"client_id": "registered", "client_secret": "client-canary-secret",
            "token_endpoint_auth_method": "client_secret_basic", "client_secret_expires_at": 0}),
        ),
        "/token" => token(book, seen),
        "/revoke" => reply::whole(200, &[], ""),
        "/v1" => server(book, seen),
        _ => reply::whole(404, &[], ""),
    }
}

fn laid(mut document: Value, over: &Value) -> Value {
    for (name, value) in over.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

fn token(book: &mut AccountBook, seen: &Seen) -> Vec<u8> {
    let url = reqwest::Url::parse(&format!("http://x/?{}", seen.text())).expect("a form");
    let form: Pairs = url.query_pairs().into_owned().collect();
    let denied = |error: &str| reply::json(400, &json!({"error": error, "error_description": seen.text()}));
    let is_known = match book.registers {
        _ if book.knows.is_some() => {
            let sent = seen.header("authorization").and_then(|sent| sent.strip_prefix("Basic "));
            let plain = sent.and_then(|sent| STANDARD.decode(sent).ok()).unwrap_or_default();
            book.knows.as_ref().is_some_and(|(id, secret)| plain == format!("{id}:{secret}").as_bytes())
        }
        true => seen.header("authorization").is_some_and(|sent| sent.starts_with("Basic ")),
        false => get(&form, "client_id") == format!("{PUBLIC}/oauth/client.json"),
    };
    if !is_known {
        return denied("invalid_client");
    }
    if book.is_busy {
        return reply::whole(503, &[], "");
    }
    let is_good = match get(&form, "grant_type") {
        "authorization_code" => {
            let proof = challenge(get(&form, "code_verifier"));
            let at = book.codes.iter().position(|(code, wanted)| code == get(&form, "code") && *wanted == proof);
            at.map(|at| book.codes.remove(at)).is_some()
        }
        _ => book.renews.remove(get(&form, "refresh_token")),
    };
    if !is_good {
        return denied("invalid_grant");
    }
    book.count += 1;
    let (access, refresh) = (format!("{OPENS}{}", book.count), format!("{REFRESHED}{}", book.count));
    book.opens.insert(access.clone());
    book.renews.insert(refresh.clone());
    reply::json(
        200,
        &json!({"access_token": access, "token_type": "Bearer", "expires_in": book.lives, "refresh_token": refresh}),
    )
}

/// The MCP server itself, which keeps sessions.
fn server(book: &AccountBook, seen: &Seen) -> Vec<u8> {
    let token = seen.header("authorization").and_then(|sent| sent.strip_prefix("Bearer "));
    let is_opening = book.opens_freely && seen.text().contains(r#""initialize""#);
    if is_opening && token.is_none() {
        let result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "accounts", "version": "3"},
            "capabilities": {"tools": {}}});
        let answer = json!({"jsonrpc": "2.0", "id": seen.json()["id"], "result": result}).to_string();
        return reply::whole(200, &[JSON, ("mcp-session-id", "up-free")], answer);
    }
    if book.is_shut || !token.is_some_and(|token| book.opens.contains(token)) {
        return reply::whole(401, &[("www-authenticate", r#"Bearer scope="files:read""#)], "");
    }
    if seen.method != "POST" {
        return reply::whole(if seen.method == "DELETE" { 204 } else { 405 }, &[], "");
    }
    let body = seen.json();
    let (method, id) = (body["method"].as_str().unwrap_or_default(), body["id"].clone());
    if id.is_null() {
        return reply::whole(202, &[], "");
    }
    let lists = book.wants_scope_to_list.as_ref().filter(|_| method.ends_with("/list"));
    if let Some(scope) = book.wants_scope.as_ref().filter(|_| method == "tools/call").or(lists) {
        let told = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
        return reply::whole(403, &[("www-authenticate", &told)], "");
    }
    let result = match method {
        "initialize" => json!({"protocolVersion": body["params"]["protocolVersion"],
            "serverInfo": {"name": "accounts", "version": "3"}, "capabilities": {"tools": {}}}),
        method => match offered(method, &body["params"]) {
            Some(result) => result,
            None => {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "scripted"}});
                return reply::json(200, &error);
            }
        },
    };
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let session = ("mcp-session-id", "up-1");
    let headers = [JSON, session];
    reply::whole(200, &headers[..if method == "initialize" { 2 } else { 1 }], answer)
}

/// Gives a gateway the server `files`, which is called with accounts of people.
pub(crate) async fn connect_server(gateway: &Gateway, server: &AccountServer) {
    let integration = json!({"name": "Files", "slug": "files-int", "url": server.upstream.url(), "transport": "http",
        "auth_type": "oauth_auto"});
    gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
    let named = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
    gateway.admin().post("/mcp-servers", &named).await.expect(200);
}

/// A call of the modern era by a client that opens addresses, or does not.
pub(crate) async fn call(gateway: &Gateway, key: &str, opens: bool) -> Answer {
    asked(gateway, key, "tools/call", json!({"name": "echo", "arguments": {}}), opens).await
}

pub(crate) async fn asked(gateway: &Gateway, key: &str, method: &str, params: Value, opens: bool) -> Answer {
    asked_at(gateway, "/files/mcp", key, (method, params, opens)).await
}

/// Asks like [`asked`], at another server.
pub(crate) async fn asked_at(
    gateway: &Gateway,
    path: &str,
    key: &str,
    (method, mut params, opens): (&str, Value, bool),
) -> Answer {
    let capabilities = if opens { json!({"elicitation": {"url": {}}}) } else { json!({}) };
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities});
    let call = gateway.call("POST", path).key(key).header("accept", "application/json, text/event-stream");
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let name = params["name"].as_str().map(str::to_owned);
    let call = name.into_iter().fold(call, |call, name| call.header("mcp-name", &name));
    call.json(&request(method, params)).send().await
}

/// The link of an answer of [`call`], below the public address.
#[track_caller]
pub(crate) fn link(answer: &Answer) -> String {
    let told = answer.json();
    let asked = &told["result"]["inputRequests"]["gateway/connect"];
    let url = asked["params"]["url"].as_str().or(told["error"]["data"]["authorization_url"].as_str());
    let url = url.unwrap_or_else(|| panic!("no link: {told}"));
    url.strip_prefix(PUBLIC).unwrap_or_else(|| panic!("a link of ours: {url}")).to_owned()
}

/// What a browser does at a link.
pub(crate) async fn press(browser: &mut PageBrowser<'_>, link: &str, page: &Answer, more: &[(&str, &str)]) -> Answer {
    let mut form = pairs(&[("ticket", &field(page, "ticket"))]);
    form.extend(pairs(more));
    browser.send(link, &form).await
}

/// Up to the server's own sign-in: where the browser is sent.
pub(crate) async fn leave(browser: &mut PageBrowser<'_>, link: &str, key: &str) -> String {
    let page = browser.open(link).await.expect(200);
    let page = press(browser, link, &page, &[("step", "key"), ("key", key)]).await.expect(200);
    let left = press(browser, link, &page, &[("step", "connect")]).await.expect(303);
    left.header("location").expect("a place").to_owned()
}

pub(crate) async fn back(browser: &mut PageBrowser<'_>, told: &Pairs) -> Answer {
    browser.open(&format!("/oauth/upstream-callback?{}", encoded(told))).await
}

/// All the way, from a call that was refused to an account.
pub(crate) async fn connect(gateway: &Gateway, server: &AccountServer, key: &str) {
    let link = link(&call(gateway, key, true).await.expect(200));
    let mut browser = PageBrowser::of(gateway);
    let location = leave(&mut browser, &link, key).await;
    let done = back(&mut browser, &server.allow(&location)).await.expect(200);
    assert!(done.text().contains("Connected"), "{}", done.text());
}
