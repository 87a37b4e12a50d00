//! Saved guardrails: forms of answers, versions, levels with their scopes, secrets, bounds, and what the data plane
//! finds.

use crate::harness::{House, SERVICE, list, merge, text};
use gateway_domain::resource::AuditQuery;
use gateway_domain::snapshot::SavedGuardrail;
use serde_json::{Value, json};
use std::sync::Arc;

fn contains(words: &[&str]) -> Value {
    json!([{"id": "default.contains", "parameters": {"words": words, "operator": "none"}}])
}

fn webhook(url: &str, token: &str) -> Value {
    json!([{"id": "default.webhook", "parameters": {"webhookURL": url, "headers": {"Authorization": token}}}])
}

/// Saved with these fields beside a name.
pub(crate) async fn save(house: &House, fields: Value) -> Value {
    let mut body = json!({"name": "g"});
    merge(&mut body, fields);
    house.as_admin().post("/guardrails", body).await.expect(200)
}

/// The guardrail that the data plane finds under a name from the default workspace.
fn in_force(house: &House, name: &str) -> Option<Arc<SavedGuardrail>> {
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
    snapshot.guardrail(workspace, name).cloned()
}

#[tokio::test]
async fn a_guardrail_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = save(&house, json!({"checks": contains(&["x"]), "actions": {"deny": true}})).await;
    let fields: Vec<&String> = made.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["id", "slug", "version_id"]);
    let slug = text(&made["slug"]);
    assert!(slug.starts_with("pg-"), "{slug}");
    let path = format!("/guardrails/{slug}");
    let read = admin.get(&path).await.expect(200);
    assert_eq!(read["workspace_id"], json!(house.default_workspace()));
    assert_eq!((&read["status"], &read["object"]), (&json!("active"), &json!("guardrail")));
    assert_eq!(read["checks"][0]["is_enabled"], true, "what counts is told");
    assert_eq!(read["actions"], json!({"deny": true, "async": false}));
    for field in ["organisation_id", "owner_id", "updated_by", "created_at", "last_updated_at", "version_id"] {
        assert!(read[field].is_string(), "{field}: {read}");
    }
    assert_eq!(admin.get(&format!("/guardrails/{}", text(&made["id"]))).await.expect(200)["slug"], slug);
    assert_eq!(in_force(&house, &slug).expect("in force").definition["actions"]["deny"], true);

    let renamed = admin.put(&path, json!({"name": "h"})).await.expect(200);
    assert_eq!(renamed, made, "a name is no new version");
    let changed = admin.put(&path, json!({"checks": contains(&["y"])})).await.expect(200);
    assert_ne!(changed["version_id"], made["version_id"]);
    let now = in_force(&house, &slug).expect("in force");
    assert_eq!(now.definition["checks"][0]["parameters"]["words"], json!(["y"]), "the very next request sees it");
    assert_eq!(now.definition["actions"]["deny"], true, "what is absent stays");
    let versions = admin.get(&format!("{path}/versions")).await.expect(200);
    assert_eq!((&versions["total"], &versions["data"][0]["version_id"]), (&json!(2), &changed["version_id"]));
    assert_eq!(versions["data"][1]["checks"][0]["parameters"]["words"], json!(["x"]));

    assert_eq!(admin.delete(&path).await.expect(200), json!({}));
    assert!(in_force(&house, &slug).is_none());
    admin.get(&path).await.refused(404, "AB08");
    admin.delete(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn what_cannot_run_is_refused_by_check_and_parameter() {
    let house = House::new().await;
    let admin = house.as_admin();
    let check = |id: &str, parameters: Value| json!({"checks": [{"id": id, "parameters": parameters}]});
    for (fields, says) in [
        (json!({}), "checks is required"),
        (json!({"checks": "x"}), "`checks` must be a list of at least one check"),
        (json!({"checks": []}), "`checks` must hold at least one check"),
        (check("default.nonsense", json!({})), "default.nonsense"),
        (check("nobody.scan", json!({})), "nobody.scan"),
        (check("default.contains", json!({})), "check `default.contains`: `words` is required"),
        (check("default.contains", json!({"words": ["x"], "colour": 1})), "`colour` is not a parameter of this check"),
        (check("default.regexMatch", json!({"rule": "("})), "check `default.regexMatch`: `rule`"),
        (check("default.jsonSchema", json!({"schema": {"type": 7}})), "check `default.jsonSchema`: `schema`"),
        (check("default.wordCount", json!({"minWords": "many"})), "check `default.wordCount`: `minWords`"),
        (check("mistral.moderateContent", json!({})), "`credentials.apiKey` is required: save it for the organisation"),
        (
            check("default.webhook", json!({"webhookURL": "https://a.example", "forwardHeaders": ["authorization"]})),
            "`forwardHeaders[0]` must not be `authorization`",
        ),
        (check("default.webhook", json!({"webhookURL": "ftp://a.example"})), "`webhookURL` must begin with"),
        (json!({"checks": [{"id": "default.notNull", "when": 1}]}), "`checks[0].when` is not a known key"),
        (json!({"checks": contains(&["x"]), "actions": {"deny": "yes"}}), "`actions.deny` must be true or false"),
        (json!({"checks": contains(&["x"]), "actions": {"fire": true}}), "`actions.fire` is not a known key"),
        (json!({"checks": vec![contains(&["x"])[0].clone(); 51]}), "`checks` must have at most 50 entries"),
        (json!({"checks": contains(&[&"x".repeat(1 << 20)])}), "checks must have at most 1048576 bytes"),
        (json!({"checks": contains(&["x"]), "slug": "mine"}), "slug is not a known field"),
    ] {
        let mut body = json!({"name": "g"});
        merge(&mut body, fields);
        let said = admin.post("/guardrails", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{says} not in {said}");
    }
    let two = json!({"name": "g", "checks": [{"id": "contains"}, {"id": "endsWith"}]});
    let all = admin.post("/guardrails", two).await.expect(400);
    assert_eq!(all["data"]["errors"].as_array().map(Vec::len), Some(2), "all at once: {all}");
    let path = format!("/guardrails/{}", text(&save(&house, json!({"checks": contains(&["x"])})).await["slug"]));
    for (body, says) in [
        (json!({"checks": []}), "`checks` must hold at least one check"),
        (json!({"checks": null}), "checks must not be null"),
        (json!({"status": "retired"}), "status must be active or archived"),
        (json!({"name": " "}), "name must not be empty"),
    ] {
        let said = admin.put(&path, body).await.refused(400, "AB01");
        assert!(said.contains(says), "{says} not in {said}");
    }
}

#[tokio::test]
async fn each_level_has_scopes_and_lists_of_its_own() {
    let house = House::new().await;
    let (admin, service) = (house.as_admin(), house.as_service());
    let org = house.org().id.to_string();
    let shared = save(&house, json!({"checks": contains(&["x"]), "organisation_id": org})).await;
    let body = json!({"name": "own", "checks": contains(&["x"])});
    let own = service.post("/guardrails", body.clone()).await.expect(200);
    let path = format!("/guardrails/{}", text(&shared["slug"]));
    assert_eq!(admin.get(&path).await.expect(200)["workspace_id"], Value::Null);
    assert!(in_force(&house, &text(&shared["slug"])).is_some(), "every workspace finds it");

    let here = admin.get("/guardrails").await.expect(200);
    assert_eq!((list(&here, "slug"), &here["total"]), (vec![text(&own["slug"])], &json!(1)));
    assert!(here["data"][0].get("checks").is_none(), "lists are brief");
    let above = admin.get(&format!("/guardrails?organisation_id={org}")).await.expect(200);
    assert_eq!(list(&above, "slug"), [text(&shared["slug"])]);
    let both = admin.get(&format!("/guardrails?organisation_id={org}&workspace_id=default")).await.expect(200);
    assert_eq!(list(&both, "slug"), [text(&own["slug"])]);

    for answer in [
        service.get(&path).await,
        service.put(&path, json!({"name": "x"})).await,
        service.delete(&path).await,
        service.get(&format!("/guardrails?organisation_id={org}")).await,
        service.post("/guardrails", json!({"name": "x", "checks": contains(&["x"]), "organisation_id": org})).await,
    ] {
        let said = answer.refused(403, "AB03");
        assert!(said.contains("organisation_guardrails."), "{said}");
    }
    let only = house.key("organisation/service", json!({"scopes": ["organisation_guardrails.create"]})).await.1;
    let said = house.with(&only).post("/guardrails", body.clone()).await.refused(403, "AB03");
    assert!(said.contains("guardrails.create") && !said.contains("organisation_"), "{said}");
    house.workspace("other").await;
    let far = json!({"name": "far", "checks": contains(&["x"]), "workspace_id": "other"});
    let far = text(&admin.post("/guardrails", far).await.expect(200)["slug"]);
    service.get(&format!("/guardrails/{far}")).await.refused(404, "AB08");
    assert!(in_force(&house, &far).is_none(), "another workspace's is not found");
    let foreign = house.organisation("elsewhere").await;
    house.with(&foreign).get(&path).await.refused(404, "AB08");
    let said = house.with(&foreign).get(&format!("/guardrails?organisation_id={org}")).await;
    said.refused(404, "AB08");
}

#[tokio::test]
async fn lists_have_pages_ids_and_statuses() {
    let house = House::new().await;
    let admin = house.as_admin();
    let mut made = Vec::new();
    for at in 0..3 {
        made.push(save(&house, json!({"name": format!("g{at}"), "checks": contains(&["x"])})).await);
    }
    let newest = admin.get("/guardrails?page_size=2").await.expect(200);
    assert_eq!((list(&newest, "name"), &newest["total"]), (vec!["g2".to_owned(), "g1".to_owned()], &json!(3)));
    assert_eq!(list(&admin.get("/guardrails?page_size=2&current_page=1").await.expect(200), "name"), ["g0"]);
    let ids = format!("/guardrails?ids={},{}", text(&made[0]["id"]), text(&made[2]["id"]));
    assert_eq!(list(&admin.get(&ids).await.expect(200), "name"), ["g2", "g0"]);
    admin.put(&format!("/guardrails/{}", text(&made[1]["slug"])), json!({"status": "archived"})).await.expect(200);
    assert!(in_force(&house, &text(&made[1]["slug"])).is_none(), "nothing runs it");
    assert_eq!(list(&admin.get("/guardrails?status=archived").await.expect(200), "name"), ["g1"]);
    assert_eq!(admin.get("/guardrails?status=active").await.expect(200)["total"], 2);
    admin.put(&format!("/guardrails/{}", text(&made[1]["slug"])), json!({"status": "active"})).await.expect(200);
    assert!(in_force(&house, &text(&made[1]["slug"])).is_some());
    for query in ["ids=x", "status=retired", "page_size=1001", "colour=red"] {
        admin.get(&format!("/guardrails?{query}")).await.refused(400, "AB01");
    }
}

#[tokio::test]
async fn a_mask_keeps_the_secret_where_it_goes_to_the_same_service() {
    const URL: &str = "https://judge.example/x";
    let house = House::new().await;
    let admin = house.as_admin();
    let made = save(&house, json!({"checks": webhook(URL, "Bearer 0123456789abcdef")})).await;
    let slug = text(&made["slug"]);
    let path = format!("/guardrails/{slug}");
    let token = || in_force(&house, &slug).expect("in force").definition["checks"][0]["parameters"]["headers"].clone();
    let read = admin.get(&path).await.expect(200);
    assert_eq!(
        read["checks"],
        json!([{"id": "default.webhook", "is_enabled": true,
        "parameters": {"webhookURL": URL, "headers": {"Authorization": "****cdef"}}}])
    );
    admin.put(&path, json!({"checks": read["checks"], "name": "again"})).await.expect(200);
    assert_eq!(token(), json!({"Authorization": "Bearer 0123456789abcdef"}));
    let elsewhere = json!({"checks": webhook("https://thief.example/x", "****cdef")});
    let said = admin.put(&path, elsewhere).await.refused(400, "AB01");
    assert!(said.contains("headers.Authorization is masked, and the check now calls another address"), "{said}");
    let said = admin.put(&path, json!({"checks": webhook(URL, "****0000")})).await.refused(400, "AB01");
    assert!(said.contains("stands for no stored one"), "{said}");
    let moved = json!({"checks": webhook("https://other.example/x", "Bearer new-0123456789")});
    admin.put(&path, moved).await.expect(200);
    assert_eq!(token(), json!({"Authorization": "Bearer new-0123456789"}));
    let versions = admin.get(&format!("{path}/versions")).await.expect(200);
    assert_eq!(versions["total"], 3);
    assert!(!versions.to_string().contains("0123456789"), "{versions}");
}

#[tokio::test]
async fn a_workspace_holds_so_many_guardrails_and_configs_and_no_more() {
    let house = House::new().await;
    let admin = house.as_admin();
    let quotas = house.app.quotas;
    let first = save(&house, json!({"checks": contains(&["x"])})).await;
    for _ in 1..quotas.guardrails {
        save(&house, json!({"checks": contains(&["x"])})).await;
    }
    let first = format!("/guardrails/{}", text(&first["slug"]));
    admin.put(&first, json!({"status": "archived"})).await.expect(200);
    let body = json!({"name": "one more", "checks": contains(&["x"])});
    let said = admin.post("/guardrails", body.clone()).await.refused(409, "AB07");
    assert_eq!(said, "the workspace has 20 guardrails, archived ones included, and may have 20");
    admin.put(&first, json!({"name": "still changed"})).await.expect(200);
    let org = house.org().id.to_string();
    save(&house, json!({"checks": contains(&["x"]), "organisation_id": org})).await;
    admin.delete(&first).await.expect(200);
    admin.post("/guardrails", body).await.expect(200);

    let config = json!({"name": "c", "config": {"provider": "openai"}});
    let mut last = Value::Null;
    for _ in 0..quotas.configs {
        last = admin.post("/configs", config.clone()).await.expect(200);
    }
    let said = admin.post("/configs", config.clone()).await.refused(409, "AB07");
    assert_eq!(said, "the workspace has 100 configs, and may have 100");
    let last = format!("/configs/{}", text(&last["slug"]));
    admin.put(&last, json!({"name": "still changed"})).await.expect(200);
    admin.delete(&last).await.expect(200);
    admin.post("/configs", config).await.expect(200);
}

#[tokio::test]
async fn changes_are_told_in_the_trail_and_so_are_refusals() {
    let house = House::new().await;
    let made = save(&house, json!({"checks": webhook("https://judge.example/x?sig=s3cr3t", "Bearer s3cr3t")})).await;
    let path = format!("/guardrails/{}", text(&made["slug"]));
    house.as_admin().put(&path, json!({"checks": 7})).await.refused(400, "AB01");
    house.as_admin().delete(&path).await.expect(200);
    let query = AuditQuery { resource_kind: Some("guardrail".into()), page_size: 10, ..AuditQuery::default() };
    let rows = house.app.history.audit(&query).await.expect("readable").rows;
    let mut told: Vec<(&str, u16)> = rows.iter().map(|r| (r.action.as_str(), r.status)).collect();
    told.sort_unstable();
    assert_eq!(told, [("create", 200), ("delete", 200), ("update", 400)]);
    assert!(rows.iter().all(|r| !r.details.contains("s3cr3t")), "{rows:?}");
}

#[tokio::test]
async fn what_is_tried_is_named_in_one_way_and_nothing_runs_it_here() {
    let house = House::new().await;
    let made = save(&house, json!({"checks": contains(&["x"])})).await;
    let path = format!("/guardrails/{}/invoke", text(&made["slug"]));
    let (request, response) = (json!({"messages": []}), json!({"choices": []}));
    for (body, says) in [
        (json!({}), "hook is required"),
        (json!({"hook": "sideways", "text": "x"}), "hook must be one of: input, output"),
        (json!({"hook": "input"}), "text is required, or else request"),
        (json!({"hook": "output"}), "text is required, or else response"),
        (json!({"hook": "input", "text": "x", "request": request}), "text must be given alone"),
        (json!({"hook": "input", "response": response}), "response is judged by the hook output"),
        (json!({"hook": "output", "request": request}), "response is required beside a request"),
        (json!({"hook": "input", "request": []}), "request must be an object"),
        (json!({"hook": "input", "text": "x", "metadata": {"a": 1}}), "metadata value of `a` must be a string"),
        (json!({"hook": "input", "text": "x", "colour": 1}), "colour is not a known field"),
    ] {
        let said = house.as_service().post(&path, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    for body in [
        json!({"hook": "input", "text": "x", "metadata": {"a": "b"}}),
        json!({"hook": "before_request_hook", "request": request}),
        json!({"hook": "output", "text": "x"}),
        json!({"hook": "afterRequestHook", "response": response, "request": request}),
    ] {
        house.as_service().post(&path, body).await.refused(501, "AB01");
    }
    let ask = json!({"hook": "input", "text": "x"});
    house.as_admin().post(&path, ask.clone()).await.refused(403, "AB03");
    house.with(SERVICE).post("/guardrails/pg-none/invoke", ask.clone()).await.refused(404, "AB08");
    let query = AuditQuery { resource_kind: Some("guardrail".into()), page_size: 10, ..AuditQuery::default() };
    assert_eq!(house.app.history.audit(&query).await.expect("readable").rows.len(), 1, "judging changes nothing");
}
