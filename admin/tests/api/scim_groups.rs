//! Groups of a directory, and the seats that they give where an admin mapped them.

use crate::harness::{House, text};
use crate::scim::{DirectoryClient, GROUP, encoded};
use serde_json::{Value, json};

async fn role(house: &House, workspace: &str, user: &str) -> Value {
    let answer = house.as_admin().get(&format!("/admin/workspaces/{workspace}/users/{user}")).await;
    if answer.status == 404 { json!(null) } else { answer.expect(200)["role"].clone() }
}

async fn map(house: &House, group: &str, workspace: &str, role: &str) -> String {
    let body = json!({"workspace_id": workspace, "scim_group_id": group, "role": role});
    text(&house.as_admin().post("/scim/workspaces", body).await.expect(200)["id"])
}

fn members(operation: &str, users: &[&str]) -> Value {
    let values: Vec<Value> = users.iter().map(|id| json!({"value": id})).collect();
    json!([{"op": operation, "path": "members", "value": values}])
}

#[tokio::test]
async fn groups_live_as_the_rfc_says() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let (ann, bob) = (directory.user("ann@example.com").await, directory.user("bob@example.com").await);
    let body =
        json!({"schemas": [GROUP], "displayName": "Tour Guides", "externalId": "g-1", "members": [{"value": ann}]});
    let made = directory.post("/Groups", body.clone()).await.expect(201);
    let (id, path) = (text(&made["id"]), format!("/Groups/{}", text(&made["id"])));
    let at = format!("http://gateway.example/v1/scim/Users/{ann}");
    let member = json!({"value": ann, "$ref": at, "display": "ann@example.com", "type": "User"});
    assert_eq!((&made["members"], &made["meta"]["resourceType"]), (&json!([member]), &json!("Group")));
    directory.post("/Groups", body).await.scim_refused(409, Some("uniqueness"));
    let shown = directory.get(&format!("/Users/{ann}")).await.expect(200);
    assert_eq!((&shown["groups"][0]["value"], &shown["groups"][0]["display"]), (&json!(id), &json!("Tour Guides")));
    for filter in [
        "displayName eq \"tour guides\"".to_owned(),
        "externalId eq \"g-1\"".to_owned(),
        format!("members.value eq \"{ann}\""),
        format!("members[value eq \"{ann}\"]"),
        "displayName sw \"tour\" and members pr".to_owned(),
    ] {
        assert_eq!(directory.found("/Groups", &filter, "displayName").await, ["Tour Guides"], "{filter}");
    }
    let none = format!("members eq \"{bob}\"");
    assert_eq!(directory.found("/Groups", &none, "displayName").await, Vec::<String>::new());
    // A PATCH of a group says nothing, unless it is asked to (RFC 7644, 3.5.2).
    assert_eq!(directory.patch(&path, members("add", &[&bob])).await.status, 204);
    let both = directory
        .ask(
            http::Method::PATCH,
            &format!("{path}?attributes=members.value"),
            Some(json!({"schemas": [crate::scim::PATCH], "Operations": members("add", &[&bob])})),
        )
        .await
        .expect(200);
    let mut ids: Vec<&str> =
        both["members"].as_array().expect("a list").iter().filter_map(|m| m["value"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        {
            let mut all = [ann.as_str(), bob.as_str()];
            all.sort_unstable();
            all
        },
        "nobody twice"
    );
    let whole = json!({"schemas": [GROUP], "displayName": "Guides", "members": [{"value": bob, "display": "B"}]});
    let put = directory.put(&path, whole).await.expect(200);
    assert_eq!(
        (&put["displayName"], &put["members"][0]["value"], &put["externalId"]),
        (&json!("Guides"), &json!(bob), &json!(null))
    );
    for (value, keyword) in [
        (json!({"value": "0194f1f2-0000-7000-8000-000000000000"}), "invalidValue"),
        (json!({"value": "nobody"}), "invalidValue"),
        (json!({"value": id, "type": "Group"}), "invalidValue"),
        (json!({"display": "nobody"}), "invalidValue"),
        (json!({"value": ann, "colour": "red"}), "invalidSyntax"),
    ] {
        let operations = json!([{"op": "add", "path": "members", "value": [value]}]);
        let answer = directory.patch(&path, operations).await;
        assert_eq!(answer.status, 400, "{value}: {}", answer.text);
        answer.scim_refused(400, Some(keyword));
    }
    // A user who is deleted belongs to nothing any more.
    directory.delete(&format!("/Users/{bob}")).await;
    assert_eq!(directory.get(&path).await.expect(200)["members"], json!(null));
    assert_eq!(directory.delete(&path).await.status, 204);
    directory.get(&path).await.scim_refused(404, None);
}

#[tokio::test]
async fn seats_follow_groups_and_mappings() {
    let house = House::new().await;
    house.workspace("team").await;
    let directory = DirectoryClient::of(&house).await;
    let (ann, bob) = (directory.user("ann@example.com").await, directory.user("bob@example.com").await);
    let (guides, chiefs) = (directory.group("Guides", &[&ann]).await, directory.group("Chiefs", &[]).await);
    assert_eq!(role(&house, "team", &ann).await, json!(null), "a group alone gives nothing");
    let mapping = map(&house, &guides, "team", "Member").await;
    assert_eq!(role(&house, "team", &ann).await, "member");
    map(&house, &chiefs, "team", "manager").await;
    // Who belongs to both has the greater role.
    directory.patch(&format!("/Groups/{chiefs}"), members("Add", &[&ann, &bob])).await;
    assert_eq!(
        (role(&house, "team", &ann).await, role(&house, "team", &bob).await),
        (json!("manager"), json!("manager"))
    );
    directory.patch(&format!("/Groups/{chiefs}"), members("Remove", &[&ann])).await;
    assert_eq!(role(&house, "team", &ann).await, "member");
    // Whoever loses the seat loses the keys there, and only there.
    let scopes = json!({"user_id": ann, "scopes": ["configs.list"], "workspace_id": "team"});
    let (_, key) = house.key("workspace/user", scopes).await;
    let (_, other) =
        house.key("workspace/user", json!({"user_id": bob, "scopes": ["configs.list"], "workspace_id": "team"})).await;
    house.with(&key).get("/configs").await.expect(200);
    house.as_admin().delete(&format!("/scim/workspaces/{mapping}")).await.expect(200);
    assert_eq!(role(&house, "team", &ann).await, json!(null));
    assert!(!house.in_force(&key) && house.in_force(&other));
    // So it is when the group goes, with what maps it.
    assert_eq!(directory.delete(&format!("/Groups/{chiefs}")).await.status, 204);
    assert_eq!(role(&house, "team", &bob).await, json!(null));
    assert!(!house.in_force(&other));
    assert_eq!(house.as_admin().get("/scim/workspaces").await.expect(200), json!({"mappings": [], "total_count": 0}));
}

#[tokio::test]
async fn seats_by_hand_stay_as_they_are() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let ann = directory.user("ann@example.com").await;
    let seat = json!({"users": [{"id": ann, "role": "member"}]});
    house.as_admin().post("/admin/workspaces/default/users", seat).await.expect(200);
    let group = directory.group("G", &[&ann]).await;
    let mapping = map(&house, &group, "default", "admin").await;
    assert_eq!(role(&house, "default", &ann).await, "member");
    house.as_admin().delete(&format!("/scim/workspaces/{mapping}")).await.expect(200);
    assert_eq!(role(&house, "default", &ann).await, "member", "nor is it taken");
    // One that a group gave becomes the admin's own when an admin changes it.
    house.as_admin().delete(&format!("/admin/workspaces/default/users/{ann}")).await.expect(200);
    let mapping = map(&house, &group, "default", "admin").await;
    assert_eq!(role(&house, "default", &ann).await, "admin");
    house
        .as_admin()
        .put(&format!("/admin/workspaces/default/users/{ann}"), json!({"role": "manager"}))
        .await
        .expect(200);
    house.as_admin().delete(&format!("/scim/workspaces/{mapping}")).await.expect(200);
    assert_eq!(role(&house, "default", &ann).await, "manager");
}

#[tokio::test]
async fn mappings_are_made_listed_and_refused() {
    let house = House::new().await;
    house.workspace("team").await;
    let directory = DirectoryClient::of(&house).await;
    let (one, two) = (directory.group("One", &[]).await, directory.group("Two", &[]).await);
    let admin = house.as_admin();
    let by_name = json!({"workspace_id": "team", "scim_group_name": "two", "role": "MANAGER"});
    let made = admin.post("/scim/workspaces", by_name.clone()).await.expect(200);
    assert_eq!(
        (&made["scim_group"], &made["scim_group_id"], &made["role"]),
        (&json!("Two"), &json!(two), &json!("manager"))
    );
    admin.post("/scim/workspaces", by_name).await.refused(409, "AB07");
    for (fields, status, code) in [
        (json!({"role": "member"}), 409, "AB07"),
        (json!({"role": "owner"}), 400, "AB01"),
        (json!({"scim_group_name": "Two"}), 400, "AB01"),
        (json!({"scim_group_id": null}), 400, "AB01"),
        (json!({"scim_group_id": "0194f1f2-0000-7000-8000-000000000000"}), 404, "AB08"),
        (json!({"workspace_id": "nowhere"}), 404, "AB08"),
        (json!({"colour": 1}), 400, "AB01"),
    ] {
        let mut body = json!({"workspace_id": "default", "scim_group_id": two, "role": "manager"});
        crate::harness::merge(&mut body, fields.clone());
        let said = admin.post("/scim/workspaces", body).await.refused(status, code);
        assert!(!said.is_empty(), "{fields}");
    }
    map(&house, &two, "default", "manager").await;
    map(&house, &one, "default", "member").await;
    let found =
        async |query: &str| admin.get(&format!("/scim/workspaces?{query}")).await.expect(200)["total_count"].clone();
    assert_eq!(found("").await, 3);
    assert_eq!(found("workspace_id=team").await, 1);
    assert_eq!(found(&format!("scim_group_id={two}")).await, 2);
    assert_eq!(found("role=Manager").await, 2);
    assert_eq!(found("page=1&page_size=2").await, 3);
    assert_eq!(
        admin.get("/scim/workspaces?page=1&page_size=2").await.expect(200)["mappings"].as_array().map(Vec::len),
        Some(1)
    );
    admin.get("/scim/workspaces?page_size=101").await.refused(400, "AB01");
    let groups = admin.get("/scim/groups?search=tw").await.expect(200);
    assert_eq!((&groups["total_count"], &groups["groups"][0]["display_name"]), (&json!(1), &json!("Two")));
    assert_eq!(admin.get("/scim/groups").await.expect(200)["total_count"], 2);
    // When a workspace goes, its mappings are shown no more.
    admin.ask(http::Method::DELETE, "/admin/workspaces/team", Some(json!({"force_delete": true}))).await.expect(200);
    assert_eq!(found("").await, 2);
}

/// A group is changed by many requests at once, as directories do it: none is lost, and each member has the seat.
#[tokio::test]
async fn changes_of_one_group_at_once_are_all_made() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let group = directory.group("G", &[]).await;
    map(&house, &group, "default", "member").await;
    let mut users = Vec::new();
    for n in 0..8 {
        users.push(directory.user(&format!("u{n}@example.com")).await);
    }
    let path = format!("/Groups/{group}");
    let (directory, path) = (&directory, &path);
    let add = async |user: String| {
        for _ in 0..20 {
            let done = directory.patch(path, members("Add", &[&user])).await;
            if done.status == 204 {
                return;
            }
            done.scim_refused(503, None);
        }
        panic!("never made");
    };
    let [a, b, c, d, e, f, g, h]: [String; 8] = users.clone().try_into().expect("eight");
    tokio::join!(add(a), add(b), add(c), add(d), add(e), add(f), add(g), add(h));
    for user in &users {
        assert_eq!(role(&house, "default", user).await, "member");
    }
    let found = directory.get(&format!("/Groups?filter={}", encoded("displayName eq \"G\""))).await.expect(200);
    assert_eq!(found["Resources"][0]["members"].as_array().map(Vec::len), Some(8));
}
