//! OAuth clients that an admin made at the gateway's own authorisation server: what they may, how those with a secret
//! prove themselves, and their end.

use crate::harness::{Answer, Gateway, eventually};
use crate::mcp_client::{BACK, PUBLIC, PageBrowser, Pairs, SignedIn, access, but, encoded, pairs, refresh, signing_in};
use crate::mcp_script::Served;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_testing::Postgres;
use serde_json::{Value, json};

async fn made(gateway: &Gateway, kind: &str, more: Value) -> (String, String) {
    let body = json!({"name": "Known app", "slug": "known", "type": kind, "redirect_uris": [BACK]});
    let body = crate::harness::with(body, more);
    let told = gateway.admin().post("/oauth-clients", &body).await.expect(200).json();
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    (text("client_id"), text("client_secret"))
}

async fn by_header(here: &SignedIn, path: &str, (id, secret): (&str, &str), form: &Pairs) -> Answer {
    let pair = STANDARD.encode(format!("{id}:{secret}"));
    let call = here.served.gateway.call("POST", path).without("x-gateway-api-key");
    let call = call.header("authorization", &format!("Basic {pair}"));
    call.body("application/x-www-form-urlencoded", encoded(&but(form.clone(), &[("client_id", "")]))).send().await
}

#[tokio::test]
async fn what_an_admin_made_is_what_a_client_may() {
    let here = signing_in(&[]).await;
    let (client, secret) = made(&here.served.gateway, "public", json!({"scope": "mcp:read"})).await;
    assert_eq!(secret, "");
    let page = PageBrowser::of(&here.served.gateway).authorize(&here.asked(&client)).await.expect(200);
    assert!(
        page.text().contains("Known app") && page.text().contains("an admin of your organisation"),
        "{}",
        page.text()
    );
    let tokens = here.tokens(&client, "mcp").await;
    assert_eq!(tokens["scope"], "mcp:read", "no more than it may ask for");
    assert_eq!(here.opens(access(&tokens)).await, 200);
    for bad in ["https://app.example.com/cb/", "https://evil.example.com/cb", "http://127.0.0.1/cb"] {
        let asked = but(here.asked(&client), &[("redirect_uri", bad)]);
        PageBrowser::of(&here.served.gateway).authorize(&asked).await.expect(400);
    }
    // A secret of a client that has none is somebody's mistake.
    let code = here.code(&client).await;
    let form = but(here.exchange(&client, &code), &[("client_secret", "x")]);
    here.form("/oauth/token", &form).await.expect(401);
    by_header(&here, "/oauth/token", (&client, "x"), &form).await.expect(400);
    let turned = here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(200).json();
    assert_eq!(here.opens(access(&turned)).await, 200);
    // What is changed counts from the next time on.
    let change = json!({"redirect_uris": ["https://other.example.com/cb"]});
    here.served.gateway.admin().put("/oauth-clients/known", &change).await.expect(200);
    PageBrowser::of(&here.served.gateway).authorize(&here.asked(&client)).await.expect(400);
}

#[tokio::test]
async fn a_confidential_client_proves_itself_wherever_it_asks() {
    let here = signing_in(&[]).await;
    let (client, secret) = made(&here.served.gateway, "confidential", json!({})).await;
    let metadata = here.served.gateway.get("/.well-known/oauth-authorization-server").send().await.expect(200).json();
    let methods = json!(["none", "client_secret_basic", "client_secret_post"]);
    assert_eq!(metadata["token_endpoint_auth_methods_supported"], methods, "{metadata}");
    let code = here.code(&client).await;
    let form = here.exchange(&client, &code);
    // Without its secret, or with another, no code is even looked at.
    here.form("/oauth/token", &form).await.expect(401);
    here.form("/oauth/token", &but(form.clone(), &[("client_secret", "gwc_other")])).await.expect(401);
    by_header(&here, "/oauth/token", (&client, "gwc_other"), &form).await.expect(401);
    let tokens = by_header(&here, "/oauth/token", (&client, &secret), &form).await.expect(200).json();
    assert_eq!(here.opens(access(&tokens)).await, 200);
    let turning = here.refreshing(&client, refresh(&tokens));
    here.form("/oauth/token", &turning).await.expect(401);
    let turned = here.form("/oauth/token", &but(turning, &[("client_secret", &secret)])).await.expect(200).json();
    let asked = pairs(&[("token", access(&turned)), ("client_id", &client)]);
    here.form("/oauth/introspect", &asked).await.expect(401);
    let told = by_header(&here, "/oauth/introspect", (&client, &secret), &asked).await.expect(200).json();
    assert_eq!((&told["active"], &told["client_id"]), (&json!(true), &json!(client)), "{told}");
    here.form("/oauth/revoke", &asked).await.expect(401);
    assert_eq!(here.opens(access(&turned)).await, 200, "nobody else gives it back");
    // Another client's secret is none of this one's.
    let body = json!({"slug": "second"});
    let (other, others) = made(&here.served.gateway, "confidential", body).await;
    let stolen = but(here.exchange(&other, &here.code(&client).await), &[("client_secret", &others)]);
    here.form("/oauth/token", &stolen).await.expect(400);
    by_header(&here, "/oauth/revoke", (&client, &secret), &asked).await.expect(200);
    eventually("it was given back", || async { (here.opens(access(&turned)).await == 401).then_some(()) }).await;
    assert!(!here.served.gateway.process.output().contains(&secret));
}

#[tokio::test]
async fn people_of_another_organisation_do_not_let_it_in() {
    let here = signing_in(&[]).await;
    let admin = here.served.gateway.admin();
    let other = admin.post("/admin/organisations", &json!({"name": "Elsewhere"})).await.expect(200).json();
    let theirs = admin.with_key(other["admin_key"]["key"].as_str().expect("its key"));
    let body = json!({"name": "Theirs", "type": "public", "redirect_uris": [BACK]});
    let client = theirs.post("/oauth-clients", &body).await.expect(200).json();
    let client = client["client_id"].as_str().expect("an id");
    let mut browser = PageBrowser::of(&here.served.gateway);
    let page = browser.authorize(&here.asked(client)).await.expect(200);
    let page = browser.press(&page, &[("step", "key"), ("key", &here.key)]).await.expect(200);
    assert!(page.text().contains("may use no server"), "{}", page.text());
    assert!(!page.text().contains("value=\"allow\""), "{}", page.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_client_all_that_it_was_allowed_ends_on_all_nodes() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_made"))).await;
    let (_postgres, url) = database.expect("no panic");
    let here = signing_in(&["--database-url", &url]).await;
    let master = here.served.gateway.folder().join("data/master.key").display().to_string();
    let flags = ["--public-url", PUBLIC, "--database-url", &url, "--master-key-file", &master];
    let second = Gateway::with(&flags).await;
    let (client, _) = made(&here.served.gateway, "public", json!({})).await;
    let (kept, _) = made(&here.served.gateway, "public", json!({"slug": "kept", "name": "Kept"})).await;
    let (tokens, others) = (here.tokens(&client, "mcp").await, here.tokens(&kept, "mcp").await);
    let elsewhere = Served { gateway: second, key: here.key.clone(), path: "/files/mcp", mcp: here.served.mcp };
    let opens = async |tokens: &Value| {
        let call = elsewhere.call("POST").without("x-gateway-api-key");
        let call = call.header("authorization", &format!("Bearer {}", access(tokens)));
        call.json(&crate::mcp_script::initialize("2025-06-18")).send().await.status
    };
    eventually("the other node knows it", || async { (opens(&tokens).await == 200).then_some(()) }).await;
    here.served.gateway.admin().delete("/oauth-clients/known").await.expect(200);
    eventually("it opens nothing there", || async { (opens(&tokens).await == 401).then_some(()) }).await;
    assert_eq!(opens(&others).await, 200, "another client's stays");
    let form = |path: &str, all: &Pairs| {
        let call = here.served.gateway.call("POST", path).without("x-gateway-api-key");
        call.body("application/x-www-form-urlencoded", encoded(all)).send()
    };
    let turning =
        pairs(&[("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", refresh(&tokens))]);
    form("/oauth/token", &turning).await.expect(401);
    let grants = here.served.gateway.admin().get("/mcp-servers/files/grants").await.expect(200).json();
    assert_eq!((&grants["total"], &grants["data"][0]["client_id"]), (&json!(1), &json!(kept)), "{grants}");
}
