//! Prompts and partials that workspaces share with each other: who sees what, who may change it, and what becomes of
//! what is taken away or forked.

use crate::harness::{House, list, text};
use serde_json::{Value, json};

/// Two prompts' worth of things in the default workspace: a prompt, the partial that it asks for, and a key of `team`.
struct Neighbours {
    house: House,
    partial: String,
    prompt: String,
    team: String,
    other: String,
}

impl Neighbours {
    async fn new() -> Self {
        let house = House::new().await;
        let admin = house.as_admin();
        let partial = json!({"name": "tone", "string": "Be brief."});
        let partial = text(&admin.post("/prompts/partials", partial).await.expect(200)["slug"]);
        let prompt =
            json!({"name": "hello", "string": format!("{{{{>{partial}}}}} Hi"), "parameters": {"n": 1}, "model": "m"});
        let prompt = text(&admin.post("/prompts", prompt).await.expect(200)["slug"]);
        let mut keys = Vec::new();
        for slug in ["team", "other"] {
            house.workspace(slug).await;
            let scopes =
                ["read", "list", "create", "update", "delete", "publish"].map(|verb| format!("prompts.{verb}"));
            keys.push(house.key("workspace/service", json!({"workspace_id": slug, "scopes": scopes})).await.1);
        }
        let other = keys.pop().expect("a key");
        let team = keys.pop().expect("a key");
        Self { house, partial, prompt, team, other }
    }

    fn prompt(&self, rest: &str) -> String {
        format!("/prompts/{}{rest}", self.prompt)
    }

    fn partial(&self, rest: &str) -> String {
        format!("/prompts/partials/{}{rest}", self.partial)
    }
}

#[tokio::test]
async fn who_is_named_reads_and_nobody_else_does() {
    let here = Neighbours::new().await;
    let (admin, team, other) = (here.house.as_admin(), here.house.with(&here.team), here.house.with(&here.other));
    for path in [here.prompt(""), here.prompt("/versions"), here.partial(""), here.partial("/versions")] {
        team.get(&path).await.refused(404, "AB08");
    }
    let told = admin.post(&here.prompt("/share"), json!({"workspaces": ["team"]})).await.expect(200);
    assert_eq!(told["prompt_share"]["access"], "workspaces");
    admin.post(&here.partial("/share"), json!({"access": "organisation"})).await.expect(200);
    let seen = team.get(&here.prompt("")).await.expect(200);
    assert_eq!((&seen["name"], &seen["is_read_only"]), (&json!("hello"), &json!(true)));
    assert_eq!(seen["prompt_share"], Value::Null, "with whom else it is shared is its owner's business");
    team.get(&here.prompt("/versions/1")).await.expect(200);
    assert_eq!(team.get(&here.prompt("/versions")).await.expect(200)["total"], 1);
    team.get(&here.partial("")).await.expect(200);
    other.get(&here.partial("/versions")).await.expect(200);
    other.get(&here.prompt("")).await.refused(404, "AB08");
    // The list says so when it is asked.
    assert_eq!(list(&team.get("/prompts").await.expect(200), "name"), Vec::<String>::new());
    assert_eq!(list(&team.get("/prompts?type=shared").await.expect(200), "name"), ["hello"]);
    assert_eq!(list(&team.get("/prompts?type=all&search=HEL").await.expect(200), "name"), ["hello"]);
    assert_eq!(list(&other.get("/prompts?type=shared").await.expect(200), "name"), Vec::<String>::new());
    assert_eq!(list(&other.get("/prompts/partials?type=shared").await.expect(200), "name"), ["tone"]);
    assert_eq!(list(&team.get("/prompts?type=shared&collection_id=default").await.expect(200), "name"), [""; 0]);
    team.get("/prompts?type=theirs").await.refused(400, "AB01");
    let own = admin.get("/prompts?show_prompt_share=true").await.expect(200)["data"][0].clone();
    assert_eq!(
        (own["prompt_share"]["workspaces"].as_array().map(Vec::len), &own["is_read_only"]),
        (Some(1), &json!(false))
    );
    assert_eq!(admin.get(&here.prompt("")).await.expect(200)["prompt_share"], Value::Null, "unless it is asked for");
    let shown = admin.get(&here.partial("?show_prompt_share=true")).await.expect(200);
    assert_eq!(shown["prompt_share"]["access"], "organisation");
    admin.get(&here.partial("?show_prompt_share=maybe")).await.refused(400, "AB01");
}

#[tokio::test]
async fn only_its_owner_changes_what_is_shared() {
    let here = Neighbours::new().await;
    let (admin, team) = (here.house.as_admin(), here.house.with(&here.team));
    for path in [here.prompt("/share"), here.partial("/share")] {
        admin.put(&path, json!({"access": "organisation"})).await.expect(200);
    }
    for path in [here.prompt(""), here.partial("")] {
        team.put(&path, json!({"name": "mine"})).await.refused(404, "AB08");
        team.put(&format!("{path}/makeDefault"), json!({"version": 1})).await.refused(404, "AB08");
        team.put(&format!("{path}/share"), json!({"workspaces": ["other"]})).await.refused(404, "AB08");
        team.post(&format!("{path}/unshare"), json!({})).await.refused(404, "AB08");
        team.delete(&format!("{path}/share")).await.refused(404, "AB08");
        team.delete(&path).await.refused(404, "AB08");
    }
    let foreign = here.house.organisation("elsewhere").await;
    here.house.with(&foreign).get(&here.prompt("")).await.refused(404, "AB08");
    let theirs = here.house.with(&foreign).get("/prompts?type=all").await.expect(200);
    assert_eq!(theirs["total"], 0, "an organisation is all that it can be shared with");
    let strangers = json!({"workspaces": ["default", "nowhere"]});
    let said = admin.put(&here.prompt("/share"), strangers).await.refused(400, "AB01");
    assert!(said.starts_with("workspaces[1] is not a workspace"), "{said}");
    for (body, word) in [
        (json!({}), "workspaces is required"),
        (json!({"workspaces": []}), "workspaces must name"),
        (json!({"workspaces": vec!["team"; 1001]}), "workspaces must name"),
        (json!({"workspaces": ["default"]}), "workspaces names the workspace that it lies in"),
        (json!({"access": "everybody"}), "access must be"),
        (json!({"access": "organisation", "workspaces": ["team"]}), "workspaces cannot be given"),
    ] {
        let said = admin.put(&here.prompt("/share"), body).await.refused(400, "AB01");
        assert!(said.starts_with(word), "{said}");
    }
    let said = admin.post(&here.prompt("/unshare"), json!({"workspaces": ["team"]})).await.refused(400, "AB01");
    assert!(said.contains("shared with the organisation"), "{said}");
}

#[tokio::test]
async fn shares_are_added_replaced_and_taken_back() {
    let here = Neighbours::new().await;
    let admin = here.house.as_admin();
    let share = here.prompt("/share");
    let sees = async |key: &str| here.house.with(key).get(&here.prompt("")).await.status == 200;
    let both = async || (sees(&here.team).await, sees(&here.other).await);
    admin.post(&share, json!({"workspaces": ["team"]})).await.expect(200);
    admin.post(&share, json!({"access": "workspaces", "workspaces": ["other"]})).await.expect(200);
    assert_eq!(both().await, (true, true), "another one is added");
    admin.put(&share, json!({"workspaces": ["other"]})).await.expect(200);
    assert_eq!(both().await, (false, true), "others are put in their place");
    admin.put(&share, json!({"workspaces": ["other", "team"]})).await.expect(200);
    admin.post(&here.prompt("/unshare"), json!({"workspaces": ["other"]})).await.expect(200);
    assert_eq!(both().await, (true, false));
    let last = admin.post(&here.prompt("/unshare"), json!({"workspaces": ["team"]})).await.expect(200);
    assert_eq!((last["prompt_share"].clone(), both().await), (Value::Null, (false, false)));
    for end in ["/share", "/unshare"] {
        admin.post(&share, json!({"access": "organisation"})).await.expect(200);
        assert_eq!(both().await, (true, true));
        admin.delete(&here.prompt(end)).await.expect(200);
        assert_eq!(both().await, (false, false), "DELETE {end}");
    }
    // It goes along with the workspace that it is shared with, and with its own.
    admin.post(&share, json!({"access": "organisation"})).await.expect(200);
    admin.delete(&here.prompt("")).await.expect(200);
    assert_eq!(here.house.with(&here.team).get("/prompts?type=shared").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn what_others_ask_for_is_not_taken_from_them() {
    let here = Neighbours::new().await;
    let (admin, team) = (here.house.as_admin(), here.house.with(&here.team));
    let asking = json!({"name": "p", "string": format!("{{{{>{}}}}}", here.partial), "parameters": {}});
    team.post("/prompts", asking.clone()).await.refused(400, "AB01");
    admin.put(&here.partial("/share"), json!({"workspaces": ["team", "other"]})).await.expect(200);
    let path = format!("/prompts/{}", text(&team.post("/prompts", asking).await.expect(200)["slug"]));
    admin.delete(&here.prompt("")).await.expect(200);
    for said in [
        admin.delete(&here.partial("/share")).await.refused(409, "AB07"),
        admin.put(&here.partial("/share"), json!({"workspaces": ["other"]})).await.refused(409, "AB07"),
        admin.put(&here.partial(""), json!({"status": "archived"})).await.refused(409, "AB07"),
        admin.delete(&here.partial("")).await.refused(409, "AB07"),
    ] {
        assert!(said.contains("workspaces `team`"), "{said}");
    }
    admin.post(&here.partial("/unshare"), json!({"workspaces": ["other"]})).await.expect(200);
    team.delete(&path).await.expect(200);
    admin.delete(&here.partial("")).await.expect(200);
}

#[tokio::test]
async fn a_fork_is_ones_own() {
    let here = Neighbours::new().await;
    let (admin, team) = (here.house.as_admin(), here.house.with(&here.team));
    team.post(&here.prompt("/fork"), json!({})).await.refused(404, "AB08");
    admin.put(&here.prompt("/share"), json!({"workspaces": ["team"]})).await.expect(200);
    let said = team.post(&here.prompt("/fork"), json!({})).await.refused(400, "AB01");
    assert!(said.contains(&here.partial), "what it asks for has to be there: {said}");
    admin.put(&here.partial("/share"), json!({"workspaces": ["team"]})).await.expect(200);
    admin.put(&here.prompt(""), json!({"string": "Second", "version_description": "2"})).await.expect(200);
    let made = team.post(&here.prompt("/fork"), json!({})).await.expect(200);
    let own = format!("/prompts/{}", text(&made["slug"]));
    let read = team.get(&own).await.expect(200);
    let first = admin.get(&here.prompt("")).await.expect(200);
    for field in ["name", "string", "parameters", "model"] {
        assert_eq!(read[field], first[field], "{field}");
    }
    assert_eq!(read["prompt_version_description"], format!("forked from {}, version 1", here.prompt));
    assert_eq!(read["is_read_only"], false);
    team.put(&own, json!({"name": "mine"})).await.expect(200);
    admin.delete(&here.prompt("/share")).await.expect(200);
    team.get(&own).await.expect(200);
    // A fork can be made of any version, under a name, in the same workspace or by an Admin key in another.
    let folder = admin.post("/collections", json!({"name": "f"})).await.expect(200)["id"].clone();
    let asked = json!({"name": "again", "version": 2, "collection_id": folder, "model": "other"});
    let again = admin.post(&here.prompt("/fork"), asked).await.expect(200);
    let again = admin.get(&format!("/prompts/{}", text(&again["id"]))).await.expect(200);
    assert_eq!(
        (&again["name"], &again["string"], &again["model"]),
        (&json!("again"), &json!("Second"), &json!("other"))
    );
    assert_eq!(again["collection_id"], folder);
    admin.post(&here.prompt("/fork"), json!({"version": 9})).await.refused(400, "AB01");
    admin.post(&here.prompt("/fork"), json!({"virtual_key": "nobody"})).await.refused(400, "AB01");
    let there =
        admin.post(&here.partial("/fork"), json!({"workspace_id": "other", "name": "theirs"})).await.expect(200);
    let there = format!("/prompts/partials/{}", text(&there["slug"]));
    let read = here.house.with(&here.other).get(&there).await.expect(200);
    assert_eq!((&read["name"], &read["string"]), (&json!("theirs"), &json!("Be brief.")));
    admin.post(&here.partial("/fork"), json!({"version": 7})).await.refused(400, "AB01");
}
