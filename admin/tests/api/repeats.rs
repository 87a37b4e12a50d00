//! Writes that are sent again: done once, answered alike, kept sealed, and by whoever sent them only.

use crate::harness::{ADMIN, Answer, CLIENT, House, SERVICE, list, pass_seconds, text};
use axum::body::Body;
use futures_util::FutureExt;
use gateway_admin::ClientAddr;
use gateway_domain::ports::{Changes, Live};
use gateway_domain::snapshot::{RowProblem, Snapshot};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// A request with a name of its own.
struct NamedWrite<'a> {
    house: &'a House,
    key: &'a str,
    name: &'a str,
}

impl NamedWrite<'_> {
    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, body).await
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = Request::builder().method(method).uri(format!("/v1{path}")).extension(ClientAddr(CLIENT));
        let request = request.header("x-gateway-api-key", self.key).header("idempotency-key", self.name);
        self.house.send(request.body(Body::from(body.to_string())).expect("a request")).await
    }
}

fn named<'a>(house: &'a House, name: &'a str) -> NamedWrite<'a> {
    NamedWrite { house, key: ADMIN, name }
}

fn is_again(answer: &Answer) -> bool {
    answer.headers.get("idempotency-replayed").is_some_and(|v| v == "true")
}

fn key() -> Value {
    json!({"name": "k", "scopes": ["configs.list", "configs.create"]})
}

const KEYS: &str = "/api-keys/workspace/service";

async fn names(house: &House, path: &str) -> Vec<String> {
    list(&house.as_admin().get(path).await.expect(200), "name")
}

#[tokio::test]
async fn what_is_sent_again_is_answered_as_before_and_done_once() {
    let house = House::new().await;
    let before = names(&house, "/api-keys").await.len();
    let first = named(&house, "a-1").post(KEYS, &key()).await;
    assert!(!is_again(&first));
    let again = named(&house, "\"a-1\"").post(KEYS, &key()).await;
    assert_eq!(first.expect(200), again.expect(200), "with the secret that is shown once");
    assert!(is_again(&again));
    assert_eq!(again.headers["x-config-revision"], first.headers["x-config-revision"]);
    assert_eq!(names(&house, "/api-keys").await.len(), before + 1);
    // Another request under the name of this one.
    let other = json!({"name": "other", "scopes": ["configs.list"]});
    for (path, body) in [(KEYS, &other), ("/configs", &key()), ("/api-keys/workspace/user", &key())] {
        let said = named(&house, "a-1").post(path, body).await.refused(422, "AB01");
        assert!(said.contains("idempotency-key"), "{said}");
    }
    // Names are each key's own: another key may give the same one to another request.
    let by_service = NamedWrite { house: &house, key: &text(&first.json()["key"]), name: "a-1" };
    let config = json!({"name": "c", "config": {"provider": "mock"}});
    by_service.post("/configs", &config).await.expect(200);
    assert!(is_again(&by_service.post("/configs", &config).await));
    // Its day is over.
    pass_seconds(86_401);
    let anew = named(&house, "a-1").post(KEYS, &key()).await;
    assert!(!is_again(&anew));
    assert_ne!(anew.expect(200)["key"], first.json()["key"]);
}

#[tokio::test]
async fn every_kind_of_write_is_done_once() {
    let house = House::new().await;
    let user = house.user("ann@example.com", "member", json!([]), None).await.0;
    let made =
        house.as_admin().post("/configs", json!({"name": "c", "config": {"provider": "mock"}})).await.expect(200);
    let config = format!("/configs/{}", text(&made["slug"]));
    let rotated = format!("/api-keys/{}/rotate", house.key("workspace/service", key()).await.0);
    for (n, (method, path, body)) in [
        (Method::PUT, config.as_str(), json!({"config": {"provider": "openai"}})),
        (Method::POST, &format!("{config}/rollback"), json!({"version": 1})),
        (Method::POST, &rotated, json!({})),
        (Method::POST, "/integrations", json!({"name": "i", "ai_provider_id": "openai", "key": "k-k-k-k-k"})),
        (Method::POST, "/virtual-keys", json!({"name": "v", "provider": "openai", "key": "k-k-k-k-k"})),
        (Method::POST, "/admin/workspaces", json!({"name": "w"})),
        (Method::POST, "/admin/workspaces/default/users", json!({"users": [{"id": user, "role": "member"}]})),
        (Method::POST, "/admin/users/invites", json!({"email": "b@example.com", "role": "member", "workspaces": []})),
        (Method::POST, "/labels", json!({"name": "l"})),
        (Method::POST, "/prompts/partials", json!({"name": "t", "string": "x"})),
        (
            Method::POST,
            "/guardrails",
            json!({"name": "g", "checks": [{"id": "contains", "parameters": {"words": ["x"]}}]}),
        ),
        (Method::POST, "/logs/exports", json!({"filters": {}, "requested_data": ["id"]})),
        (Method::DELETE, config.as_str(), json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("write-{n}");
        let first = named(&house, &name).ask(method.clone(), path, &body).await;
        let done = first.expect(200);
        let revision = house.app.live.snapshot().revision;
        let again = named(&house, &name).ask(method.clone(), path, &body).await;
        assert_eq!(again.expect(200), done, "{method} {path}");
        assert!(is_again(&again), "{method} {path}");
        assert_eq!(house.app.live.snapshot().revision, revision, "{method} {path} was done again");
    }
    let exports = house.as_admin().get("/logs/exports").await.expect(200);
    assert_eq!(exports["total"], 1);
}

#[tokio::test]
async fn of_many_at_once_one_is_done_whichever_node_is_asked() {
    let one = House::new().await;
    let two = one.elsewhere().await;
    for round in 0..6 {
        let name = format!("round-{round}");
        let body = json!({"name": format!("w{round}")});
        let post = async |house: &House| named(house, &name).post("/admin/workspaces", &body).await;
        let (a, b, c, d) = tokio::join!(post(&one), post(&two), post(&one), post(&two));
        let mut made = Vec::new();
        for answer in [a, b, c, d] {
            match answer.status {
                StatusCode::OK => made.push(text(&answer.json()["id"])),
                _ => assert!(answer.refused(409, "AB07").contains("is being carried out")),
            }
        }
        made.dedup();
        assert_eq!(made.len(), 1, "round {round}");
        one.catch_up().await;
        let found = names(&one, &format!("/admin/workspaces?exact_name=w{round}")).await;
        assert_eq!(found.len(), 1);
    }
}

/// A node that dies where its change is committed and nobody has been told.
struct Dying(Arc<dyn Live>);

impl Live for Dying {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn publish(&self, _: &Changes) -> Vec<RowProblem> {
        panic!("killed between commit and answer");
    }
}

#[tokio::test]
async fn what_a_dying_node_committed_is_not_done_again() {
    let house = House::new().await;
    let mut dying = house.beside().await;
    dying.equip(|app| app.live = Arc::new(Dying(app.live.clone())));
    let before = names(&house, "/api-keys").await.len();
    let died = AssertUnwindSafe(named(&dying, "a-1").post(KEYS, &key())).catch_unwind().await;
    assert!(died.is_err());
    house.catch_up().await;
    assert_eq!(names(&house, "/api-keys").await.len(), before + 1, "it was committed");
    let again = named(&house, "a-1").post(KEYS, &key()).await;
    let told = again.expect(200);
    assert!(is_again(&again));
    assert!(house.in_force(&text(&told["key"])), "the secret that nobody had seen opens");
    assert_eq!(names(&house, "/api-keys").await.len(), before + 1);
}

#[tokio::test]
async fn what_was_refused_may_be_sent_again_otherwise() {
    let house = House::new().await;
    let wrong = json!({"name": "", "config": {"provider": "mock"}});
    named(&house, "a").post("/configs", &wrong).await.refused(400, "AB01");
    let right = json!({"name": "c", "config": {"provider": "mock"}});
    let first = named(&house, "a").post("/configs", &right).await;
    assert!(!is_again(&first));
    first.expect(200);
    let wrong = json!({"filters": {}, "requested_data": ["nothing"]});
    named(&house, "b").post("/logs/exports", &wrong).await.refused(400, "AB01");
    let right = json!({"filters": {}, "requested_data": ["id"]});
    named(&house, "b").post("/logs/exports", &right).await.expect(200);
    // Reading and judging need no name, and take any.
    for path in ["/configuration/diff", "/configs/explain"] {
        let (a, b) = (named(&house, "a").post(path, &json!({})).await, named(&house, "c").post(path, &json!({})).await);
        assert_eq!(a.status, b.status, "{path}");
    }
}

#[tokio::test]
async fn names_and_their_number_are_bounded() {
    let house = House::new().await;
    for name in ["", &"x".repeat(256)] {
        let said = named(&house, name).post("/labels", &json!({"name": "l"})).await.refused(400, "AB01");
        assert!(said.starts_with("idempotency-key must have 1 to 255"), "{said}");
    }
    let most = house.app.quotas.kept_answers;
    for n in 0..most {
        let name = format!("n{n}");
        named(&house, &name).post("/labels", &json!({"name": name})).await.expect(200);
    }
    let over = named(&house, "one-more").post("/labels", &json!({"name": "one-more"})).await;
    assert_eq!(over.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(house.as_admin().get("/labels?search=one-more").await.expect(200)["total"], 0);
    assert!(is_again(&named(&house, "n0").post("/labels", &json!({"name": "n0"})).await), "what is kept is told");
    // Nothing is kept of a request without a name, so nothing stands in its way.
    house.as_admin().post("/labels", json!({"name": "without"})).await.expect(200);
    // When they are forgotten there is room.
    let answers = house.app.answers.clone();
    assert_eq!(answers.forget_answers(crate::harness::now().plus_micros(1)).await.expect("forgotten"), most);
    named(&house, "one-more").post("/labels", &json!({"name": "one-more"})).await.expect(200);
}

#[tokio::test]
async fn kept_answers_are_sealed_and_told_to_their_own_key_only() {
    let house = House::new().await;
    let made = text(&named(&house, "a-1").post(KEYS, &key()).await.expect(200)["key"]);
    let service = NamedWrite { house: &house, key: SERVICE, name: "a-1" };
    assert!(!is_again(&service.post(KEYS, &key()).await), "another key has no part in it");
    let stored = house.at_rest().await;
    assert!(!stored.windows(made.len()).any(|bytes| bytes == made.as_bytes()), "the secret lies open");
}
