//! The requests that two directories send, in the order and the spelling of their own pages: Microsoft Entra ID
//! (learn.microsoft.com, "Develop a SCIM endpoint") and Okta (developer.okta.com, "Okta and SCIM Version 2.0").

use crate::harness::{House, text};
use crate::scim::{CORE, DirectoryClient, ENTERPRISE, GROUP, LIST, encoded};
use serde_json::json;

/// Create, look up by name, change e-mails and names, rename, switch off, delete.
#[tokio::test]
async fn entra_provisions_users_as_it_documents() {
    let house = House::new().await;
    let entra = DirectoryClient::of(&house).await;
    // The first request of a connection test: nobody has this name.
    let nobody =
        entra.get(&format!("/Users?filter={}", encoded("userName eq \"non-existent user\""))).await.expect(200);
    assert_eq!(
        (&nobody["schemas"], &nobody["totalResults"], &nobody["Resources"]),
        (&json!([LIST]), &json!(0), &json!([]))
    );
    let made = entra
        .post(
            "/Users",
            json!({
                "schemas": [CORE, ENTERPRISE],
                "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
                "userName": "Test_User_ab6490ee@testuser.com",
                "active": true,
                "emails": [{"primary": true, "type": "work", "value": "Test_User_fd0ea19b@testuser.com"}],
                "meta": {"resourceType": "User"},
                "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
                "roles": [],
            }),
        )
        .await
        .expect(201);
    let path = format!("/Users/{}", text(&made["id"]));
    assert_eq!(entra.get(&path).await.expect(200)["userName"], "Test_User_ab6490ee@testuser.com");
    let found = entra.found("/Users", "userName eq \"test_user_ab6490ee@testuser.com\"", "externalId").await;
    assert_eq!(found, ["0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"]);
    entra.get("/Users/5171a35d82074e068ce2").await.scim_refused(404, None);
    let changed = entra
        .patch(
            &path,
            json!([
                {"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "updatedEmail@microsoft.com"},
                {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
            ]),
        )
        .await
        .expect(200);
    assert_eq!(
        (&changed["emails"][0]["value"], &changed["name"]["familyName"]),
        (&json!("updatedEmail@microsoft.com"), &json!("updatedFamilyName"))
    );
    let renamed =
        json!([{"op": "Replace", "path": "userName", "value": "5b50642d-79fc-4410-9e90-4c077cdd1a59@testuser.com"}]);
    assert_eq!(
        entra.patch(&path, renamed).await.expect(200)["userName"],
        "5b50642d-79fc-4410-9e90-4c077cdd1a59@testuser.com"
    );
    // Attributes of the extension by their whole name, a manager as a bare id.
    let more = json!([
        {"op": "Add", "path": format!("{ENTERPRISE}:department"), "value": "Sales"},
        {"op": "Add", "path": format!("{ENTERPRISE}:manager"), "value": text(&made["id"])},
        {"op": "Add", "path": "phoneNumbers[type eq \"mobile\"].value", "value": "8144134"},
    ]);
    let with_more = entra.patch(&path, more).await.expect(200);
    assert_eq!(
        (&with_more[ENTERPRISE]["department"], &with_more[ENTERPRISE]["manager"]["value"]),
        (&json!("Sales"), &made["id"])
    );
    assert_eq!(with_more["phoneNumbers"], json!([{"type": "mobile", "value": "8144134"}]));
    let off = json!([{"op": "Replace", "path": "active", "value": false}]);
    assert_eq!(entra.patch(&path, off).await.expect(200)["active"], false);
    // Entra writes booleans as texts unless its flag of 2020 is set.
    let on = json!([{"op": "Replace", "path": "active", "value": "True"}]);
    assert_eq!(entra.patch(&path, on).await.expect(200)["active"], true);
    let off = json!([{"op": "Replace", "path": "active", "value": "False"}]);
    assert_eq!(entra.patch(&path, off).await.expect(200)["active"], false);
    let listed = entra
        .get(&format!("/Users?filter={}", encoded("externalId eq \"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef\"")))
        .await;
    assert_eq!(listed.expect(200)["Resources"][0]["active"], false, "who is switched off is found and shown");
    assert_eq!(entra.delete(&path).await.status, 204);
}

#[tokio::test]
async fn entra_provisions_groups_as_it_documents() {
    let house = House::new().await;
    let entra = DirectoryClient::of(&house).await;
    let user = entra.user("member@testuser.com").await;
    let made = entra
        .post(
            "/Groups",
            json!({
                "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
                "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
                "displayName": "displayName",
                "meta": {"resourceType": "Group"},
            }),
        )
        .await
        .expect(201);
    let path = format!("/Groups/{}", text(&made["id"]));
    let shown = entra.get(&format!("{path}?excludedAttributes=members")).await.expect(200);
    assert_eq!(
        (&shown["displayName"], &shown["externalId"]),
        (&json!("displayName"), &json!("8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159"))
    );
    let query = format!("/Groups?excludedAttributes=members&filter={}", encoded("displayName eq \"displayName\""));
    let found = entra.get(&query).await.expect(200);
    assert_eq!((&found["totalResults"], &found["Resources"][0]["id"]), (&json!(1), &made["id"]));
    let renamed = json!([{"op": "Replace", "path": "displayName", "value": "1879db59-3bdf-4490-ad68-ab880a269474updatedDisplayName"}]);
    assert_eq!(entra.patch(&path, renamed).await.status, 204);
    let member = |op: &str| json!([{"op": op, "path": "members", "value": [{"$ref": null, "value": user}]}]);
    assert_eq!(entra.patch(&path, member("Add")).await.status, 204);
    assert_eq!(entra.get(&path).await.expect(200)["members"][0]["value"], json!(user));
    // It asks whether somebody belongs to a group by both ids.
    let both = format!("id eq \"{}\" and members eq \"{user}\"", text(&made["id"]));
    assert_eq!(entra.found("/Groups", &both, "id").await, [text(&made["id"])]);
    assert_eq!(entra.patch(&path, member("Remove")).await.status, 204);
    assert_eq!(entra.get(&path).await.expect(200)["members"], json!(null));
    assert_eq!(entra.delete(&path).await.status, 204);
}

#[tokio::test]
async fn okta_provisions_users_as_it_documents() {
    let house = House::new().await;
    let okta = DirectoryClient::of(&house).await;
    let query = format!("/Users?filter={}&startIndex=1&count=100", encoded("userName eq \"test.user@okta.local\""));
    let nobody = okta.get(&query).await.expect(200);
    assert_eq!(
        (&nobody["totalResults"], &nobody["startIndex"], &nobody["itemsPerPage"]),
        (&json!(0), &json!(1), &json!(0))
    );
    let made = okta
        .post(
            "/Users",
            json!({
                "schemas": [CORE],
                "userName": "test.user@okta.local",
                "name": {"givenName": "Test", "familyName": "User"},
                "emails": [{"primary": true, "value": "test.user@okta.local", "type": "work"}],
                "displayName": "Test User",
                "locale": "en-US",
                "externalId": "00ujl29u0le5T6Aj10h7",
                "groups": [],
                "password": "1mz050nq",
                "active": true,
            }),
        )
        .await
        .expect(201);
    let (id, path) = (text(&made["id"]), format!("/Users/{}", text(&made["id"])));
    let page = okta.get("/Users?startIndex=1&count=2").await.expect(200);
    assert_eq!(page["itemsPerPage"], 1);
    let mut whole = okta.get(&path).await.expect(200);
    // An update is a PUT of what was read, with what changed.
    whole["name"] = json!({"givenName": "Another", "middleName": "Excited", "familyName": "User"});
    whole["active"] = json!(true);
    let put = okta.put(&path, whole.clone()).await.expect(200);
    assert_eq!(
        (&put["name"]["givenName"], &put["locale"], &put["id"]),
        (&json!("Another"), &json!("en-US"), &json!(id))
    );
    // An application that Okta publishes is told by PATCH, without a path.
    let off = json!([{"op": "replace", "value": {"active": false}}]);
    assert_eq!(okta.patch(&path, off).await.expect(200)["active"], false);
    let on = json!([{"op": "replace", "value": {"active": true}}]);
    assert_eq!(okta.patch(&path, on).await.expect(200)["active"], true);
    // One that an admin set up is told by PUT.
    whole["active"] = json!(false);
    assert_eq!(okta.put(&path, whole).await.expect(200)["active"], false);
    assert_eq!(house.as_admin().get(&format!("/admin/users/{id}")).await.expect(200)["status"], "inactive");
}

#[tokio::test]
async fn okta_provisions_groups_as_it_documents() {
    let house = House::new().await;
    let okta = DirectoryClient::of(&house).await;
    let (first, second) = (okta.user("test.user@okta.local").await, okta.user("other.user@okta.local").await);
    let made = okta
        .post("/Groups", json!({"schemas": [GROUP], "displayName": "Test SCIMv2", "members": []}))
        .await
        .expect(201);
    let (id, path) = (text(&made["id"]), format!("/Groups/{}", text(&made["id"])));
    assert_eq!(okta.get("/Groups?startIndex=1&count=100").await.expect(200)["totalResults"], 1);
    let renamed = json!([{"op": "replace", "value": {"id": id, "displayName": "Test SCIMv2 renamed"}}]);
    assert_eq!(okta.patch(&path, renamed).await.status, 204);
    let add = json!([{"op": "add", "path": "members", "value": [{"value": first, "display": "test.user@okta.local"}]}]);
    assert_eq!(okta.patch(&path, add).await.status, 204);
    let swap = json!([
        {"op": "remove", "path": format!("members[value eq \"{first}\"]")},
        {"op": "add", "path": "members", "value": [{"value": second, "display": "other.user@okta.local"}]},
    ]);
    assert_eq!(okta.patch(&path, swap).await.status, 204);
    assert_eq!(okta.get(&path).await.expect(200)["members"][0]["value"], json!(second));
    let pushed =
        json!([{"op": "replace", "path": "members", "value": [{"value": first, "display": "test.user@okta.local"}]}]);
    assert_eq!(okta.patch(&path, pushed).await.status, 204);
    let shown = okta.get(&path).await.expect(200);
    assert_eq!((&shown["displayName"], &shown["members"][0]["value"]), (&json!("Test SCIMv2 renamed"), &json!(first)));
    let put = json!({"schemas": [GROUP], "id": id, "displayName": "Test SCIMv2", "members": [{"value": second, "display": "o"}]});
    assert_eq!(okta.put(&path, put).await.expect(200)["members"].as_array().map(Vec::len), Some(1));
    assert_eq!(okta.delete(&path).await.status, 204);
}
