//! Two tables made from the routes themselves: every role on every route, and every kind of broken body on every
//! route that reads one. A new route stands in both without being asked.

use crate::access::{Things, call, guarded, is_everybodys, is_of_workspaces, opens, scopes_of};
use crate::harness::{ADMIN, Answer, CLIENT, House, SERVICE, row, text, token};
use axum::body::Body;
use gateway_admin::ClientAddr;
use gateway_domain::WorkspaceId;
use gateway_domain::keys::KeyHash;
use gateway_domain::resource::{Kind, Stored};
use http::{Method, Request};
use serde_json::{Value, json};
use uuid::Uuid;

/// A key of a new person with this role, given every scope that a workspace key can hold: what it may do is up to
/// the role.
async fn person(house: &House, role: &str, seat: &str) -> String {
    let seats = json!([{"id": "default", "role": seat}]);
    let (user, _) = house.user(&format!("{role}-{seat}@example.net"), role, seats, None).await;
    let key = format!("key-of-{role}-{seat}");
    let doc = json!({"type": "workspace-user", "hash": KeyHash::of(&key).to_string(), "masked": "****",
        "user_id": user, "scopes": scopes_of(house, SERVICE).await, "creation_mode": "api"});
    let workspace = Some(house.default_workspace().0);
    let stored = row(Kind::ApiKey, Uuid::now_v7(), house.org().id, "", &doc);
    house.store(vec![Stored { workspace, ..stored }]).await;
    key
}

#[tokio::test]
async fn each_role_opens_what_it_holds_and_nothing_else() {
    let house = House::new().await;
    let mut narrower: Vec<String> = Vec::new();
    for (role, seat) in [("member", "member"), ("member", "manager"), ("member", "admin"), ("admin", "admin")] {
        let key = person(&house, role, seat).await;
        let held = scopes_of(&house, &key).await;
        let lost: Vec<&String> = narrower.iter().filter(|s| !held.contains(s)).collect();
        assert!(lost.is_empty(), "{role} with the seat {seat} may less than the role below: {lost:?}");
        let things = Things::of(&house, ADMIN, &format!("{role}-{seat}")).await;
        for route in guarded() {
            let answer = call(&house, Some(&key), &route, &things).await;
            let gate = answer.status == 403 && answer.text.contains("lacks the scope");
            let what = format!("{role} with the seat {seat}: {} {}: {}", route.method, route.path, answer.text);
            assert!(answer.status != 401 && answer.status.as_u16() < 500, "{what}");
            // Some handlers ask for the one scope of a row's own kind after the gate.
            assert!(!gate || !opens(&route, &held) || route.scopes.len() > 1, "{what}");
            assert!(gate || opens(&route, &held), "{what}");
            // Who reads logs may have them read by a job, and who reads configs may ask what they come to.
            let reads = route.path.starts_with("/logs/exports") || route.path == "/configs/explain";
            let judges = is_of_workspaces(route.path) || reads;
            let writes = route.method != Method::GET && !route.scopes.is_empty() && !judges;
            assert!(seat != "member" || !writes || gate, "who only reads changes nothing: {what}");
            let of_the_organisation = route.path.starts_with("/admin/organisation") || route.path == "/audit-logs";
            assert!(role != "member" || !of_the_organisation || answer.status == 403, "{what}");
        }
        narrower = held;
    }
}

/// A key of every kind of another organisation, each with all that its kind can hold.
async fn strangers(house: &House) -> Vec<String> {
    let admin = house.organisation("elsewhere").await;
    let theirs = house.with(&admin);
    let invite =
        json!({"email": "eve@elsewhere.example", "role": "admin", "workspaces": [{"id": "default", "role": "admin"}]});
    let invite = theirs.post("/admin/users/invites", invite).await.expect(200);
    let accepted = json!({"token": token(&invite["invite_link"]), "first_name": "Eve", "last_name": "Else"});
    let user = house.nobody().post("/invites/accept", accepted).await.expect(200)["id"].clone();
    let scopes = scopes_of(house, SERVICE).await;
    let workspace = theirs.get("/admin/workspaces").await.expect(200)["data"][0]["id"].clone();
    let workspace: Uuid = text(&workspace).parse().expect("an id");
    let service = json!({"name": "s", "scopes": scopes});
    let service = text(&theirs.post("/api-keys/workspace/service", service).await.expect(200)["key"]);
    // What somebody may do is up to the role, so that the key itself may hold everything.
    let own = "key-of-a-person-elsewhere".to_owned();
    let doc = json!({"type": "workspace-user", "hash": KeyHash::of(&own).to_string(), "masked": "****", "user_id": user,
        "scopes": scopes, "creation_mode": "api"});
    let org = house.app.live.snapshot().workspace(WorkspaceId(workspace)).expect("theirs").org;
    let stored = row(Kind::ApiKey, Uuid::now_v7(), org, "", &doc);
    house.store(vec![Stored { workspace: Some(workspace), ..stored }]).await;
    vec![service, own, admin]
}

#[tokio::test]
async fn nobody_reaches_what_is_another_organisations() {
    let house = House::new().await;
    let keys = strangers(&house).await;
    let things = Things::of(&house, ADMIN, "mine").await;
    let before = house.app.live.snapshot().revision;
    for (at, key) in keys.iter().enumerate() {
        let mut opened = 0;
        for route in guarded().iter().filter(|r| r.path.contains("{id}") && !is_everybodys(r.path)) {
            let answer = call(&house, Some(key), route, &things).await;
            let hidden = matches!(answer.status.as_u16(), 403 | 404);
            assert!(hidden, "key {at}: {} {}: {} {}", route.method, route.path, answer.status, answer.text);
            opened += usize::from(answer.status == 404);
        }
        assert!(opened > 20, "key {at} has no scopes that would let it see something");
        for list in ["/configs", "/providers", "/prompts?type=all", "/guardrails", "/prompts/partials?type=all"] {
            let told = house.with(key).get(list).await.expect(200);
            assert_eq!(told["data"], json!([]), "key {at}: {list}");
        }
    }
    assert_eq!(house.app.live.snapshot().revision, before, "nothing was written");
}

async fn send(house: &House, method: &Method, path: &str, body: impl Into<Body>) -> Answer {
    let request = Request::builder().method(method).uri(format!("/v1{path}")).extension(ClientAddr(CLIENT));
    // No Admin key acts on the data plane.
    let key = if is_of_workspaces(path) { SERVICE } else { ADMIN };
    let request = request.header("x-gateway-api-key", key).body(body.into()).expect("a request");
    house.send(request).await
}

/// Routes that read a body, with what the description says of it.
async fn readers(house: &House, things: &Things) -> Vec<(Method, String, Value)> {
    let request = Request::get("/openapi.json").body(Body::empty()).expect("a request");
    let document = house.send(request).await.expect(200);
    let mut out = Vec::new();
    for route in guarded() {
        let told = &document["paths"][format!("/v1{}", route.path)][route.method.as_str().to_lowercase()];
        if told.get("requestBody").is_some() {
            let schema = &told["requestBody"]["content"]["application/json"]["schema"]["properties"];
            out.push((route.method.clone(), things.fill(route.path), schema.clone()));
        }
    }
    assert!(out.len() >= 20, "bodies are read by {} routes", out.len());
    out
}

#[tokio::test]
async fn broken_bodies_are_refused_on_every_route() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "broken").await;
    let before = house.app.live.snapshot().revision;
    let long = vec![b' '; 4 * 1024 * 1024 + 1];
    for (method, path, _) in readers(&house, &things).await {
        for (body, status) in [
            (&b"["[..], 400),
            (b"[]", 400),
            (b"7", 400),
            (b"null", 400),
            (b"{\"name\": \"\xff\xfe\"}", 400),
            (b"{\"no_such_field\": 1}", 400),
            (b"{\"name\": 1, \"name\": {}}", 400),
            (&long, 413),
        ] {
            let answer = send(&house, &method, &path, body.to_vec()).await;
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
            assert_eq!(answer.status, status, "{method} {path} {shown}: {}", answer.text);
            answer.refused(status, "AB01");
        }
    }
    assert_eq!(house.app.live.snapshot().revision, before, "nothing was written");
}

/// Each field with values of every type: whatever is not taken is a 4xx in the documented form.
#[tokio::test]
async fn fields_of_any_type_never_break_a_route() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "types").await;
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(1.5),
        json!(""),
        json!("x".repeat(300)),
        json!("\u{0}"),
        json!([]),
        json!([[]]),
        json!([{}]),
        json!({}),
        json!({"": {"a": []}}),
    ];
    for (method, path, fields) in readers(&house, &things).await {
        for name in fields.as_object().expect("fields").keys() {
            for value in &values {
                let answer = send(&house, &method, &path, json!({name: value}).to_string()).await;
                let code = answer.status.as_u16();
                let what = format!("{method} {path} {name}={value}: {code} {}", answer.text);
                assert!(code == 200 || (400..500).contains(&code), "{what}");
                let told = answer.json();
                let has_code = told["data"]["errorCode"].is_string() || told["status"].is_string();
                assert!(code == 200 || has_code, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn pages_and_paths_are_held_to_their_bounds() {
    let house = House::new().await;
    for route in guarded().iter().filter(|r| r.method == Method::GET && !r.path.contains('{')) {
        let paging =
            ["page_size=-1", "page_size=x", "current_page=-1", "pageSize=1e9", "page_size=99999999999999999999"];
        let texts = ["name=%00", "email=%00", "ids=%00", "workspace_id=%00", "search=%00", "exact_name=%ff"];
        for query in paging.into_iter().chain(texts) {
            let answer = house.as_admin().get(&format!("{}?{query}", route.path)).await;
            // Some have no pages, some call them otherwise: none may break.
            assert!(answer.status.as_u16() < 500, "{} {query}: {}", route.path, answer.text);
        }
    }
    for id in ["%00", "%ff", "..%2f..", "'%20OR%201=1", &"x".repeat(5000)] {
        for path in [
            "configs",
            "guardrails",
            "plugins",
            "secret-references",
            "deployments",
            "oauth-clients",
            "alerts",
            "providers",
            "integrations",
            "api-keys",
            "policies/usage-limits",
            "admin/users",
            "scim/Users",
            "scim/Groups",
        ] {
            let answer = house.as_admin().get(&format!("/{path}/{id}")).await;
            assert!(matches!(answer.status.as_u16(), 400 | 404), "{path}/{id}: {} {}", answer.status, answer.text);
        }
    }
}
