//! Addresses that checks may hold, and hosts that nobody may have the gateway call: refused where they are saved, by
//! check and parameter; what only a look-up or a redirect tells, and what clients write, is never dialled.

use crate::forbidden::{hosts, never};
use crate::harness::{Answer, Gateway, Upstream, hello, reply, with};
use gateway_domain::egress::Trusted;
use gateway_guardrails::partners::{credential_fields, namespaces};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Parameters of a check that is whole but for its address.
struct AddressField {
    check: &'static str,
    name: &'static str,
    parameters: Value,
    form: AddressForm,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressForm {
    Parameter,
    /// The base address of a partner: over TLS only.
    Base,
    /// The name of a partner's host and no more.
    Host,
}

impl AddressField {
    /// `None`: it is no host to begin with.
    fn with(&self, address: &str) -> Option<Value> {
        let mut parameters = self.parameters.clone();
        let (at, value) = match self.form {
            AddressForm::Parameter => ("", address.to_owned()),
            AddressForm::Base => ("/credentials", address.replace("http://", "https://")),
            AddressForm::Host => {
                let host = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
                ("/credentials", host.to_owned())
            }
        };
        // An empty one is as good as none, and its default is another host.
        if value.is_empty() {
            return None;
        }
        parameters.pointer_mut(at).expect("an object")[self.name] = value.into();
        Some(json!({ "id": self.check, "parameters": parameters }))
    }
}

fn fields() -> Vec<AddressField> {
    use AddressForm::{Base, Host, Parameter};
    let own = |check, name| AddressField { check, name, parameters: json!({}), form: Parameter };
    let partner = |check, name, form, more: Value| {
        let parameters = with(json!({ "credentials": { "apiKey": "k" } }), more);
        AddressField { check, name, parameters, form }
    };
    let aws = json!({ "awsRegion": "us-east-1", "awsAccessKeyId": "a", "awsSecretAccessKey": "s" });
    let bedrock = json!({ "credentials": aws, "guardrailId": "g", "guardrailVersion": "1" });
    vec![
        own("default.webhook", "webhookURL"),
        own("default.log", "logURL"),
        own("default.jwt", "jwksUri"),
        own("default.jwt", "introspectEndpoint"),
        partner("acuvity.scan", "apexUrl", Base, json!({})),
        partner("aporia.validateProject", "apiEndpoint", Base, json!({ "projectID": "p" })),
        partner("bedrock.guard", "customHost", Base, bedrock),
        partner("cato.analyze", "apiBase", Base, json!({})),
        partner("crowdstrike-aidr.guardChatCompletions", "baseUrl", Base, json!({})),
        partner("f5-guardrails.scan", "calypsoUrl", Base, json!({})),
        partner("javelin.guardrails", "domain", Base, json!({})),
        partner("lakera.guard", "apiBase", Base, json!({})),
        partner("promptsecurity.protectPrompt", "apiDomain", Base, json!({})),
        partner("pangea.textGuard", "domain", Host, json!({})),
        partner("pangea.pii", "domain", Host, json!({})),
    ]
}

fn checks(address: &str) -> Vec<Value> {
    fields().iter().filter_map(|field| field.with(address)).collect()
}

fn names(answer: &Answer, host: &str) {
    let told = answer.text();
    for field in fields().iter().filter(|field| field.with(host).is_some()) {
        let names = |line: &&str| line.contains(field.check) && line.contains(field.name);
        let is_named = told.split("check `").any(|line| names(&line));
        assert!(is_named, "{host}: {} of {} is not named: {told}", field.name, field.check);
    }
}

#[test]
fn every_address_of_a_partner_is_in_the_table() {
    let (none, known) = (Trusted::default(), fields());
    for namespace in namespaces() {
        for field in credential_fields(namespace).expect("fields") {
            // A secret or a text takes both, a base address the first, the name of a host the second.
            let takes = |value: &str| field.check(value, &none).is_ok();
            let is_address = takes("https://hooks.example.com") != takes("hooks.example.com");
            let of =
                |known: &AddressField| known.check.split('.').next() == Some(namespace) && known.name == field.name;
            assert_eq!(is_address, known.iter().any(of), "{} of {namespace}", field.name);
        }
    }
    assert!(hosts().count() >= 40);
}

#[tokio::test]
async fn an_address_that_nobody_may_call_is_refused_where_it_is_saved() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let admin = gateway.admin();
    for host in hosts() {
        let guardrail = json!({ "name": "g", "checks": checks(host) });
        names(&admin.post("/guardrails", &guardrail).await.expect(400), host);
        let hook = json!([{ "id": "h", "checks": checks(host) }]);
        let config = json!({ "provider": "mock", "before_request_hooks": hook });
        let saved = admin.post("/configs", &json!({ "name": "c", "config": config })).await.expect(400);
        names(&saved, host);
        // A header cannot carry the others, which refuses them as well.
        if host.is_ascii() {
            names(&gateway.chat().config(&config).json(&hello()).send().await.expect(400), host);
        }
        for field in fields().iter().filter(|field| field.form != AddressForm::Parameter) {
            let Some(check) = field.with(host) else { continue };
            let partner = field.check.split('.').next();
            let plugin = json!({ "partner": partner, "credentials": check["parameters"]["credentials"] });
            let told = admin.post("/plugins", &plugin).await.expect(400).text();
            assert!(told.contains(field.name), "{host} {}: {told}", field.check);
        }
    }
    // What is trusted may be private.
    let fine = "https://trusted.example";
    admin.post("/guardrails", &json!({ "name": "g", "checks": checks(fine) })).await.expect(200);
}

#[tokio::test]
async fn key_sets_of_an_organisation_are_fetched_from_nobody_else_either() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for host in hosts() {
        let body = json!({ "jwks_uris": [format!("{host}/keys")] });
        let told = gateway.admin().put("/admin/organisation", &body).await.expect(400).text();
        assert!(told.contains("jwks_uris"), "{host}: {told}");
        let body = json!({ "issuer": host, "client_id": "c" });
        let told = gateway.admin().put("/admin/organisation/sign-on", &body).await.expect(400).text();
        assert!(told.contains("issuer"), "{host}: {told}");
    }
}

/// A listener at an address that is not trusted, and how often it was called.
async fn inside() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.expect("a listener");
    let (port, calls) = (listener.local_addr().expect("bound").port(), Arc::<AtomicUsize>::default());
    let count = calls.clone();
    let mut listening = tokio::task::JoinSet::new();
    listening.spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, SeqCst);
        }
    });
    listening.detach_all();
    (format!("127.0.0.2:{port}"), calls)
}

async fn judged(gateway: &Gateway, check: &Value, body: &Value) -> Value {
    let config = json!({ "provider": "mock", "input_guardrails": [check] });
    let answer = gateway.chat().config(&config).json(body).send().await;
    let told = answer.json();
    told["hook_results"]["before_request_hooks"][0]["checks"][0].clone()
}

fn asking(content: &Value) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": content }] })
}

fn image(url: &str) -> Value {
    asking(&json!([{ "type": "text", "text": "look" }, { "type": "image_url", "image_url": { "url": url } }]))
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_dialled() {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let machine = machine.trim();
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a listener");
    let port = listener.local_addr().expect("bound").port();
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let url = format!("http://{machine}:{port}/");
    for check in [
        json!({ "default.webhook": { "webhookURL": url } }),
        json!({ "default.log": { "logURL": url } }),
        json!({ "default.jwt": { "jwksUri": url } }),
    ] {
        let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpYXQiOjE3OTUzMTAxMzZ9.eA";
        let config = json!({ "provider": "mock", "input_guardrails": [check] });
        let call = gateway.chat().without("x-gateway-api-key").header("authorization", &format!("Bearer {token}"));
        let call = call.header("x-gateway-api-key", crate::harness::WORKSPACE_KEY).config(&config).json(&hello());
        let told = call.send().await.json();
        let told = &told["hook_results"]["before_request_hooks"][0]["checks"][0];
        assert!(told["error"].is_object(), "{check}: {told}");
    }
    let text = json!({ "default.validUrls": {} });
    assert_eq!(judged(&gateway, &text, &asking(&json!(format!("see {url}")))).await["verdict"], false);
    let inlined = judged(&gateway, &json!({ "default.inlineImageUrls": {} }), &image(&url)).await;
    let why = inlined["error"]["message"].as_str().expect("a message");
    assert!(why.contains("no address that may be called"), "{inlined}");
    let waits = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept()).await;
    assert!(waits.is_err(), "somebody was dialled");
}

#[tokio::test]
async fn redirects_lead_nowhere_inside() {
    let gateway = Gateway::start().await;
    let (inner, calls) = inside().await;
    let places = never().filter(|host| host.starts_with("http")).map(str::to_owned);
    for place in places.chain([format!("http://{inner}/x"), "http://10.0.0.1/".to_owned()]) {
        let location = place.clone();
        let leads = Upstream::replying(move |_| reply::whole(302, &[("location", location.as_str())], "")).await;
        let hook = judged(&gateway, &json!({ "default.webhook": { "webhookURL": leads.url() } }), &hello()).await;
        assert_eq!(hook["error"]["name"], "HttpError", "{place}: a webhook follows none: {hook}");
        let began = std::time::Instant::now();
        let text = asking(&json!(format!("see {}", leads.url())));
        let valid = judged(&gateway, &json!({ "default.validUrls": {} }), &text).await;
        assert_eq!((&valid["verdict"], &valid["error"]), (&json!(false), &Value::Null), "{place}: {valid}");
        let shown = judged(&gateway, &json!({ "default.inlineImageUrls": {} }), &image(&leads.url())).await;
        assert_eq!(shown["error"]["name"], "ForbiddenAddress", "{place}: {shown}");
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{place}: something was waited for");
        assert_eq!(leads.seen().len(), 3, "{place}");
    }
    assert_eq!(calls.load(SeqCst), 0, "nobody inside was called");
}

#[tokio::test]
async fn addresses_that_clients_write_are_called_no_more_freely() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    // Readers of addresses make a public host of some: those would really be called.
    let inside = |host: &&str| host.starts_with("http") && !host.contains("ex");
    let written: Vec<&str> = hosts().filter(inside).collect();
    for host in &written {
        let began = std::time::Instant::now();
        let config =
            json!({ "provider": "mock", "input_guardrails": [{ "default.inlineImageUrls": {}, "deny": true }] });
        let answer = gateway.chat().config(&config).json(&image(host)).send().await;
        let told = &answer.json()["hook_results"]["before_request_hooks"][0]["checks"][0];
        assert!(told["error"].is_object(), "{host}: {told}");
        for only_dns in [false, true] {
            let check = json!({ "default.validUrls": { "onlyDNS": only_dns } });
            let told = judged(&gateway, &check, &asking(&json!(format!("see {host}")))).await;
            assert_eq!(told["verdict"], false, "{host}: {told}");
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(8), "{host}");
    }
}
