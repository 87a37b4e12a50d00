//! What attackers may try on the sign-in of MCP clients: each try as it would be made, and what it must not give.

use crate::harness::Answer;
use crate::mcp_client::{
    BACK, PUBLIC, PageBrowser, Pairs, SignedIn, VERIFIER, access, but, challenge, claims, encoded, field, get, pairs,
    person, redirect_params, refresh, signing_in,
};
use serde_json::json;

async fn refused(here: &SignedIn, form: &Pairs) -> String {
    let answer = here.form("/oauth/token", form).await.expect(400);
    answer.json()["error"].as_str().expect("an error").to_owned()
}

#[tokio::test]
async fn a_code_that_comes_twice_ends_what_it_began() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let code = here.code(&client).await;
    let tokens = here.form("/oauth/token", &here.exchange(&client, &code)).await.expect(200).json();
    assert_eq!(here.opens(access(&tokens)).await, 200);
    assert_eq!(refused(&here, &here.exchange(&client, &code)).await, "invalid_grant");
    assert_eq!(here.opens(access(&tokens)).await, 401);
    assert_eq!(refused(&here, &here.refreshing(&client, refresh(&tokens))).await, "invalid_grant");
}

#[tokio::test]
async fn a_code_is_for_its_client_its_address_and_its_proof() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let thief = here.register(BACK).await;
    let long = "x".repeat(200);
    for (wrong, error) in [
        (&[("client_id", &*thief)][..], "invalid_grant"),
        (&[("redirect_uri", "https://app.example.com/cb/")], "invalid_grant"),
        (&[("code_verifier", "another-verifier-of-at-least-forty-three-characters")], "invalid_grant"),
        (&[("code_verifier", &challenge(VERIFIER))], "invalid_grant"),
        (&[("resource", &format!("{PUBLIC}/other/mcp"))], "invalid_target"),
        (&[("code_verifier", "")], "invalid_request"),
        (&[("code_verifier", &long)], "invalid_request"),
        (&[("redirect_uri", "")], "invalid_request"),
        (&[("grant_type", "password")], "unsupported_grant_type"),
        (&[("grant_type", "client_credentials")], "unsupported_grant_type"),
    ] {
        let code = here.code(&client).await;
        assert_eq!(refused(&here, &but(here.exchange(&client, &code), wrong)).await, error, "{wrong:?}");
        if matches!(error, "invalid_grant" | "invalid_target") {
            // It is used up, whoever had it.
            assert_eq!(refused(&here, &here.exchange(&client, &code)).await, "invalid_grant", "{wrong:?}");
        }
    }
    let nobody = but(here.exchange(&client, "x"), &[("client_id", "7e8d1c3a-0000-4000-8000-000000000000")]);
    let unknown = here.form("/oauth/token", &nobody).await.expect(401);
    assert_eq!(unknown.json()["error"], "invalid_client");
    // A refresh token of another client gives nothing, and costs its owner nothing.
    let tokens = here.tokens(&client, "mcp:read").await;
    assert_eq!(refused(&here, &here.refreshing(&thief, refresh(&tokens))).await, "invalid_grant");
    let more = but(here.refreshing(&client, refresh(&tokens)), &[("scope", "mcp:write")]);
    assert_eq!(refused(&here, &more).await, "invalid_scope");
    here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(200);
    for garbage in ["gwr_AAAA", "nothing", "gwr_", access(&tokens), &"x".repeat(5_000)] {
        here.form("/oauth/token", &here.refreshing(&client, garbage)).await.expect(400);
    }
}

/// A page that says no, and sends nobody anywhere.
fn is_told(answer: &Answer) {
    assert!(answer.status == 400 || answer.status == 403, "{}: {}", answer.status, answer.text());
    assert!(
        answer.header("location").is_none() && answer.header("content-type").is_some_and(|kind| kind.contains("html"))
    );
}

#[tokio::test]
async fn nobody_is_sent_anywhere_before_a_decision() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let mut browser = PageBrowser::of(&here.served.gateway);
    let long = "x".repeat(2_000);
    for wrong in [
        &[("redirect_uri", "https://evil.example/cb")][..],
        &[("redirect_uri", "https://app.example.com/cb/")],
        &[("redirect_uri", "https://app.example.com/cb?next=https://evil.example")],
        &[("redirect_uri", "https://app.example.com.evil.example/cb")],
        &[("redirect_uri", "https://app.example.com@evil.example/cb")],
        &[("redirect_uri", "javascript:alert(1)")],
        &[("redirect_uri", "")],
        &[("client_id", "nobody")],
        &[("client_id", "")],
        &[("response_type", "token")],
        &[("response_mode", "fragment")],
        // No proof, or one that anybody who saw the request could give (RFC 7636, 7.2).
        &[("code_challenge", "")],
        &[("code_challenge_method", "plain")],
        &[("code_challenge_method", "")],
        &[("code_challenge", "short")],
        &[("resource", "")],
        &[("resource", "https://evil.example/files/mcp")],
        &[("resource", "https://ai.example.com/gw")],
        &[("resource", "https://ai.example.com/gw/files/mcp/")],
        &[("resource", "https://ai.example.com/gw/../files/mcp")],
        &[("scope", "openid")],
        &[("state", &long)],
    ] {
        is_told(&browser.authorize(&but(here.asked(&client), wrong)).await);
    }
    let twice = format!("/oauth/authorize?{}&state=2", encoded(&here.asked(&client)));
    is_told(&browser.open(&twice).await);
    // What is no server of theirs is told behind the sign-in alone, like what does not exist.
    let nobody = but(here.asked(&client), &[("resource", &format!("{PUBLIC}/nobody/mcp"))]);
    let page = browser.authorize(&nobody).await.expect(200);
    let page = browser.press(&page, &[("step", "key"), ("key", &here.key)]).await.expect(200);
    assert!(page.text().contains("may use no server"), "{}", page.text());
    is_told(&browser.press(&page, &[("step", "allow")]).await);
    // A client that says no gets it in OAuth's words, once somebody has pressed the button.
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    let denied = redirect_params(&browser.press(&page, &[("step", "deny")]).await);
    assert_eq!((get(&denied, "error"), get(&denied, "iss"), get(&denied, "code")), ("access_denied", PUBLIC, ""));
    for redirect in ["http://evil.example/cb", "javascript:alert(1)", "https://a.example/#x", "data:text/html,x", "/cb"]
    {
        let body = json!({"redirect_uris": [redirect]});
        let answer = here.served.gateway.call("POST", "/oauth/register").json(&body).send().await.expect(400);
        assert_eq!(answer.json()["error"], "invalid_redirect_uri", "{redirect}");
    }
}

#[tokio::test]
async fn only_a_page_of_ours_in_the_browser_that_began_decides() {
    let here = signing_in(&[]).await;
    let gateway = &here.served.gateway;
    let client = here.register(BACK).await;
    let mut browser = PageBrowser::of(gateway);
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    for header in ["content-security-policy", "x-frame-options", "referrer-policy"] {
        assert!(page.header(header).is_some(), "{header}");
    }
    let policy = page.header("content-security-policy").expect("a policy").to_owned();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    let cookie = page.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        cookie.starts_with("__Host-gateway-oauth=") && cookie.ends_with("; HttpOnly; Secure; SameSite=Lax"),
        "{cookie}"
    );
    let consent = browser.press(&page, &[("step", "key"), ("key", &here.key)]).await.expect(200);
    let form = pairs(&[
        ("ticket", &field(&consent, "ticket")),
        ("step", "allow"),
        ("workspace", &field(&consent, "workspace")),
    ]);
    let own: String = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let post = async |cookie: Option<&str>, more: &[(&str, &str)], form: &Pairs| {
        let call = gateway.call("POST", "/oauth/authorize").without("x-gateway-api-key");
        let call = cookie.iter().fold(call, |call, cookie| call.header("cookie", cookie));
        let call = more.iter().fold(call, |call, (name, value)| call.header(name, value));
        call.body("application/x-www-form-urlencoded", encoded(form)).send().await
    };
    // Another site's page sends the form; another browser has it; another browser's cookie goes with it.
    is_told(&post(Some(&own), &[("sec-fetch-site", "cross-site")], &form).await);
    is_told(&post(Some(&own), &[("sec-fetch-site", "same-site")], &form).await);
    is_told(&post(Some(&own), &[("origin", "https://evil.example")], &form).await);
    is_told(&post(Some(&own), &[("origin", "null")], &form).await);
    is_told(&post(None, &[], &form).await);
    let mut other = PageBrowser::of(gateway);
    let theirs = other.authorize(&here.asked(&client)).await.expect(200);
    let foreign: String = other.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    is_told(&post(Some(&foreign), &[], &form).await);
    is_told(&post(Some(&format!("{own}; {foreign}")), &[], &form).await);
    // A page on which nobody has signed in decides nothing, and a ticket that was changed is none.
    let unsigned = but(form.clone(), &[("ticket", &field(&theirs, "ticket"))]);
    is_told(&post(Some(&foreign), &[], &unsigned).await);
    let mut changed = field(&consent, "ticket");
    let last = if changed.ends_with('A') { "B" } else { "A" };
    changed.replace_range(changed.len() - 1.., last);
    is_told(&post(Some(&own), &[], &but(form.clone(), &[("ticket", &changed)])).await);
    // A key that was typed into another kind of page, or a service key, is nobody's sign-in.
    is_told(&browser.press(&theirs, &[("step", "key"), ("key", &here.key)]).await);
    is_told(&browser.press(&page, &[("step", "key"), ("key", &here.served.key)]).await);
    let good = [("origin", "https://ai.example.com")];
    assert!(!get(&redirect_params(&post(Some(&own), &good, &form).await), "code").is_empty());
    is_told(&post(Some(&own), &good, &form).await);
}

#[tokio::test]
async fn a_key_in_the_place_of_a_session_is_no_session() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let mut browser = PageBrowser::of(&here.served.gateway);
    browser.cookies.push(("__Host-gateway-session".to_owned(), here.key.clone()));
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    assert!(!page.text().contains("ann@example.com"), "{}", page.text());
    is_told(&browser.press(&page, &[("step", "allow")]).await);
}

#[tokio::test]
async fn tokens_of_others_open_nothing() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    // Another installation signs the same claims, and says that it is this one.
    let there = signing_in(&[]).await;
    let other = there.register(BACK).await;
    let foreign = there.tokens(&other, "mcp").await;
    assert_eq!(claims(access(&foreign))["iss"], claims(access(&tokens))["iss"]);
    assert_eq!(here.opens(access(&foreign)).await, 401);
    let same = but(here.refreshing(&client, refresh(&foreign)), &[]);
    assert_eq!(refused(&here, &same).await, "invalid_grant");
    // A token that names a key of ours and no signature, or a signature by its own rules.
    let kid = here.served.gateway.get("/.well-known/jwks.json").send().await.expect(200).json();
    assert_eq!((&kid["keys"][0]["kty"], &kid["keys"][0]["d"]), (&json!("EC"), &json!(null)));
    let kid = kid["keys"][0]["kid"].as_str().expect("a key").to_owned();
    let encode = |value: &serde_json::Value| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
    };
    let body = encode(&claims(access(&tokens)));
    for alg in ["none", "HS256", "RS256", "ES384"] {
        let head = encode(&json!({"alg": alg, "kid": kid, "typ": "at+jwt"}));
        for signature in ["", "AAAA", access(&tokens).rsplit('.').next().expect("a signature")] {
            let status = here.opens(&format!("{head}.{body}.{signature}")).await;
            assert!(matches!(status, 401 | 403), "{alg}: {status}");
        }
    }
    let mut later = claims(access(&tokens));
    later["exp"] = json!(9_999_999_999_i64);
    let (head, signature) = (access(&tokens).split('.').next(), access(&tokens).rsplit('.').next());
    let longer = format!("{}.{}.{}", head.expect("a head"), encode(&later), signature.expect("a signature"));
    assert_eq!(here.opens(&longer).await, 401);
}

#[tokio::test]
async fn who_tries_again_and_again_waits_and_what_is_too_long_is_refused() {
    let here = signing_in(&[]).await;
    let gateway = &here.served.gateway;
    let client = here.register(BACK).await;
    let long = json!({"redirect_uris": [BACK], "client_name": "x".repeat(20_000)});
    gateway.call("POST", "/oauth/register").json(&long).send().await.expect(413);
    for body in [
        json!({}),
        json!([]),
        json!({"redirect_uris": []}),
        json!({"redirect_uris": "x"}),
        json!({"redirect_uris": vec![BACK; 21]}),
        json!({"redirect_uris": [BACK], "grant_types": ["implicit"]}),
    ] {
        gateway.call("POST", "/oauth/register").json(&body).send().await.expect(400);
    }
    let named = json!({"redirect_uris": [BACK], "client_name": "<script>alert(1)</script>\u{202e}"});
    let named = gateway.call("POST", "/oauth/register").json(&named).send().await.expect(201).json();
    let mut browser = PageBrowser::of(gateway);
    let page = browser.authorize(&here.asked(named["client_id"].as_str().expect("an id"))).await.expect(200);
    assert!(!page.text().contains("<script>") && page.text().contains("&lt;script&gt;"), "{}", page.text());
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let body = json!({"redirect_uris": [BACK]});
        statuses.push(gateway.call("POST", "/oauth/register").json(&body).send().await.status);
    }
    assert!(statuses.contains(&201) && statuses.last() == Some(&429), "{statuses:?}");
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    let mut tries = Vec::new();
    for n in 0..12 {
        tries.push(browser.press(&page, &[("step", "key"), ("key", &format!("guess-{n}"))]).await.status);
    }
    assert_eq!((tries[0], tries[11]), (403, 429), "{tries:?}");
    let mut failed = Vec::new();
    for _ in 0..62 {
        failed.push(here.form("/oauth/token", &here.exchange(&client, "guess")).await);
    }
    assert_eq!((failed[0].status, failed[61].status), (400, 429));
    assert_eq!(failed[61].header("retry-after"), Some("60"));
}

#[tokio::test]
async fn nothing_secret_is_told_where_it_does_not_belong() {
    let here = signing_in(&["--log-level", "debug"]).await;
    let client = here.register(BACK).await;
    let asked = but(here.asked(&client), &[("state", "state-canary-4711")]);
    let told = PageBrowser::of(&here.served.gateway).allow(&asked, &here.key).await;
    let code = get(&told, "code").to_owned();
    let tokens = here.form("/oauth/token", &here.exchange(&client, &code)).await.expect(200).json();
    here.call("/files/mcp", access(&tokens), &crate::mcp_script::request("tools/list", json!({}))).await;
    let bad = here.form("/oauth/token", &here.refreshing(&client, &format!("{}x", refresh(&tokens)))).await;
    let page = PageBrowser::of(&here.served.gateway).authorize(&but(asked, &[("resource", "canary-resource-1")])).await;
    let (_, other) = person(&here.served.gateway, "eve@example.com").await;
    let admin = here.served.gateway.admin();
    let org = admin.get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    let span = "start_time=2020-01-01&end_time=2100-01-01&page_size=100";
    let audit = admin.get(&format!("/audit-logs?organisation_id={org}&{span}")).await.expect(200).text();
    assert!(audit.contains("mcp_grant"), "{audit}");
    let logs = admin.get("/logs?page_size=100").await.expect(200).text();
    let output = here.served.gateway.process.output();
    for secret in [
        &*code,
        access(&tokens),
        refresh(&tokens),
        VERIFIER,
        &here.key,
        &other,
        "state-canary-4711",
        "canary-resource-1",
    ] {
        for (place, text) in
            [("audit", &audit), ("logs", &logs), ("output", &output), ("errors", &bad.text()), ("page", &page.text())]
        {
            assert!(!text.contains(secret), "{secret} in {place}");
        }
    }
    let seen = here.served.mcp.upstream.seen();
    assert!(seen.iter().all(|seen| !format!("{seen:?}").contains(access(&tokens))));
}

#[tokio::test]
async fn a_new_key_signs_and_the_old_one_can_be_put_out_at_once() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    let data = here.served.gateway.folder().join("data").display().to_string();
    let run = async |more: &[&str]| {
        let mut command = crate::harness::process::program();
        command.args(["keys", "rotate-signing", "--data-dir", &data]).args(more);
        let done = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("no panic");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let keys = async || {
        here.served.gateway.get("/.well-known/jwks.json").send().await.json()["keys"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(keys().await, 1);
    run(&[]).await;
    crate::harness::eventually("the new key", || async { (keys().await == 2).then_some(()) }).await;
    assert_eq!(here.opens(access(&tokens)).await, 200, "what the old one signed is good until it is over");
    run(&["--at-once"]).await;
    crate::harness::eventually("the old key's end", || async {
        (here.opens(access(&tokens)).await == 401).then_some(())
    })
    .await;
    assert_eq!(keys().await, 1);
    let next = here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(200).json();
    assert_eq!(here.opens(access(&next)).await, 200, "nobody had to sign in again");
}
