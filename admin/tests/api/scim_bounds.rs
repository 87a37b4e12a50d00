//! What a directory may provision and ask at most: as much as there may be is taken, and one more is refused.

use crate::harness::{Answer, House};
use crate::scim::{CORE, DirectoryClient, GROUP, PATCH, encoded};
use gateway_admin::{DirectoryBounds, Quotas};
use http::Method;
use serde_json::{Value, json};

async fn bounded(bounds: DirectoryBounds) -> House {
    let mut house = House::new().await;
    house.equip(|app| app.quotas = Quotas { directory: bounds, ..app.quotas });
    house
}

fn done(answer: &Answer) {
    assert_eq!(answer.status, 204, "{}", answer.text);
}

fn members(ids: &[String]) -> Value {
    ids.iter().map(|id| json!({"value": id})).collect()
}

fn group(name: &str, ids: &[String]) -> Value {
    json!({"schemas": [GROUP], "displayName": name, "members": members(ids)})
}

#[tokio::test]
async fn users_groups_and_members_are_counted() {
    let bounds = DirectoryBounds { users: 5, groups: 2, members: 3, memberships: 5, ..DirectoryBounds::default() };
    let house = bounded(bounds).await;
    let directory = DirectoryClient::of(&house).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(directory.user(&format!("u{n}@example.com")).await);
    }
    let one_more = json!({"schemas": [CORE], "userName": "u5@example.com"});
    let said = directory.post("/Users", one_more.clone()).await.scim_refused(400, None);
    assert!(said.contains("has 5 users"), "{said}");

    // One group may have 3 members; each way in which members come is held to that.
    let said = directory.post("/Groups", group("a", &ids[..4])).await.scim_refused(400, Some("invalidValue"));
    assert!(said.contains("at most 3"), "{said}");
    let made = directory.post("/Groups", group("a", &ids[..3])).await.expect(201);
    let path = format!("/Groups/{}", made["id"].as_str().expect("an id"));
    directory.put(&path, group("a", &ids[..4])).await.scim_refused(400, Some("invalidValue"));
    let add = |id: &String| json!([{"op": "add", "path": "members", "value": [{"value": id}]}]);
    directory.patch(&path, add(&ids[3])).await.scim_refused(400, Some("invalidValue"));
    // Whoever is a member already does not count once more.
    done(&directory.patch(&path, add(&ids[2])).await);
    // All groups together may have 5 memberships: three and two are five.
    let said = directory.post("/Groups", group("b", &ids[..3])).await.scim_refused(400, None);
    assert!(said.contains("of all groups must be at most 5"), "{said}");
    let made = directory.post("/Groups", group("b", &ids[..2])).await.expect(201);
    let other = format!("/Groups/{}", made["id"].as_str().expect("an id"));
    directory.patch(&other, add(&ids[4])).await.scim_refused(400, None);
    let said = directory.post("/Groups", group("c", &[])).await.scim_refused(400, None);
    assert!(said.contains("has 2 groups"), "{said}");
    // What leaves makes room.
    done(&directory.delete(&other).await);
    directory.post("/Groups", group("c", &ids[3..])).await.expect(201);
    done(&directory.delete(&format!("/Users/{}", ids[4])).await);
    directory.post("/Users", one_more).await.expect(201);
}

#[tokio::test]
async fn filters_are_short_shallow_and_look_at_so_much() {
    let house = bounded(DirectoryBounds { looked_at: 3, ..DirectoryBounds::default() }).await;
    let directory = DirectoryClient::of(&house).await;
    for n in 0..3 {
        directory.user(&format!("u{n}@example.com")).await;
    }
    let ask = async |filter: &str| directory.get(&format!("/Users?filter={}", encoded(filter))).await;
    ask("title pr").await.expect(200);
    directory.user("u3@example.com").await;
    let said = ask("title pr").await.scim_refused(400, Some("tooMany"));
    assert!(said.contains('3'), "{said}");
    // What memory knows is looked up, however many there are.
    assert_eq!(ask("userName eq \"u3@example.com\"").await.expect(200)["totalResults"], 1);
    let sized = |bytes: usize| {
        let filter = "userName eq \"\"";
        format!("userName eq \"{}\"", "x".repeat(bytes - filter.len()))
    };
    ask(&sized(4096)).await.expect(200);
    ask(&sized(4097)).await.scim_refused(400, Some("invalidFilter"));
    let deep = |levels: usize| format!("{}userName eq \"a\"{}", "(".repeat(levels), ")".repeat(levels));
    ask(&format!("userName eq \"a\" and {}", deep(14))).await.expect(200);
    ask(&format!("userName eq \"a\" and {}", deep(40))).await.scim_refused(400, Some("invalidFilter"));
    let wide = |terms: usize| vec!["userName eq \"a\""; terms].join(" and ");
    ask(&wide(100)).await.expect(200);
    ask(&wide(101)).await.scim_refused(400, Some("invalidFilter"));
}

#[tokio::test]
async fn a_patch_has_so_many_operations_and_so_much_to_do() {
    let house = bounded(DirectoryBounds { patched: 60, ..DirectoryBounds::default() }).await;
    let directory = DirectoryClient::of(&house).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(directory.user(&format!("u{n}@example.com")).await);
    }
    let made = directory.post("/Groups", group("a", &ids)).await.expect(201);
    let path = format!("/Groups/{}", made["id"].as_str().expect("an id"));
    let rename = json!({"op": "replace", "path": "displayName", "value": "b"});
    let many = |count: usize| json!({"schemas": [PATCH], "Operations": vec![rename.clone(); count]});
    let said = directory.ask(Method::PATCH, &path, Some(many(201))).await.scim_refused(400, Some("invalidSyntax"));
    assert!(said.contains("at most 200"), "{said}");
    // Ten members against two comparisons each are twenty.
    let leave =
        |id: &String| json!({"op": "remove", "path": format!("members[value eq \"{id}\" and type ne \"Group\"]")});
    let said =
        directory.patch(&path, ids[..4].iter().map(leave).collect()).await.scim_refused(400, Some("invalidValue"));
    assert!(said.contains("too much work"), "{said}");
    let held = directory.get(&path).await.expect(200);
    assert_eq!(held["members"].as_array().map(Vec::len), Some(10), "all or nothing");
    done(&directory.patch(&path, ids[..3].iter().map(leave).collect()).await);
    let held = directory.get(&path).await.expect(200);
    assert_eq!(held["members"].as_array().map(Vec::len), Some(7));
}
