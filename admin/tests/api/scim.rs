//! SCIM by the RFC's own examples, and what holds for every directory: tags, filters, pages, refusals, bounds, and that
//! somebody who is switched off may do nothing.

use crate::harness::{Answer, Asker, House, text};
use http::{Method, header};
use serde_json::{Value, json};
use std::ops::Deref;

pub(crate) const CORE: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub(crate) const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
pub(crate) const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
pub(crate) const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
pub(crate) const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// A directory with a key that an admin made for it: an [`Asker`] that speaks as directories do.
pub(crate) struct DirectoryClient<'h>(Asker<'h>);

impl<'h> Deref for DirectoryClient<'h> {
    type Target = Asker<'h>;

    fn deref(&self) -> &Asker<'h> {
        &self.0
    }
}

impl<'h> DirectoryClient<'h> {
    pub(crate) async fn of(house: &'h House) -> Self {
        let scopes = json!(["scim.create", "scim.read", "scim.update", "scim.delete", "scim.list"]);
        let (_, key) = house.key("organisation/service", json!({"scopes": scopes})).await;
        Self::by(house, &key)
    }

    /// A client that uses a key that is there already.
    fn by(house: &'h House, key: &str) -> Self {
        let headers = vec![
            (header::AUTHORIZATION, format!("Bearer {key}")),
            (header::CONTENT_TYPE, "application/scim+json".to_owned()),
            (header::HOST, "gateway.example".to_owned()),
        ];
        Self(house.nobody().speaking("/scim", headers, "application/scim+json"))
    }

    pub(crate) async fn patch(&self, path: &str, operations: Value) -> Answer {
        self.ask(Method::PATCH, path, Some(json!({"schemas": [PATCH], "Operations": operations}))).await
    }

    /// Somebody new, by id.
    pub(crate) async fn user(&self, name: &str) -> String {
        text(&self.post("/Users", json!({"schemas": [CORE], "userName": name})).await.expect(201)["id"])
    }

    pub(crate) async fn group(&self, name: &str, members: &[&str]) -> String {
        let members: Vec<Value> = members.iter().map(|id| json!({"value": id})).collect();
        let body = json!({"schemas": [GROUP], "displayName": name, "members": members});
        text(&self.post("/Groups", body).await.expect(201)["id"])
    }

    /// What a filter finds, by one attribute.
    pub(crate) async fn found(&self, list: &str, filter: &str, attribute: &str) -> Vec<String> {
        let found = self.get(&format!("{list}?filter={}", encoded(filter))).await.expect(200);
        assert_eq!(found["schemas"], json!([LIST]));
        let all = found["Resources"].as_array().expect("a list");
        assert_eq!((&found["totalResults"], &found["itemsPerPage"]), (&json!(all.len()), &json!(all.len())));
        let mut names: Vec<String> = all.iter().map(|one| text(&one[attribute])).collect();
        names.sort();
        names
    }
}

pub(crate) fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Answer {
    /// A refusal in the protocol's form; returns its sentence.
    pub(crate) fn scim_refused(&self, status: u16, keyword: Option<&str>) -> String {
        let body = self.expect(status);
        assert_eq!(body["schemas"], json!(["urn:ietf:params:scim:api:messages:2.0:Error"]), "{body}");
        assert_eq!((&body["status"], &body["scimType"]), (&json!(status.to_string()), &json!(keyword)), "{body}");
        text(&body["detail"])
    }
}

/// RFC 7644, 3.3, 3.4.1, 3.5.1 and 3.6, with its example of a user.
#[tokio::test]
async fn the_life_of_a_user_in_the_rfc() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let body = json!({"schemas": [CORE], "userName": "bjensen", "externalId": "bjensen",
        "name": {"formatted": "Ms. Barbara J Jensen III", "familyName": "Jensen", "givenName": "Barbara"},
        "emails": [{"value": "bjensen@example.com", "type": "work"}]});
    let made = directory.post("/Users", body.clone()).await;
    let user = made.expect(201);
    let (id, at) = (text(&user["id"]), text(&user["meta"]["location"]));
    assert_eq!(at, format!("http://gateway.example/v1/scim/Users/{id}"));
    assert_eq!(
        (made.headers[header::LOCATION].to_str().ok(), made.headers[header::ETAG].to_str().ok()),
        (Some(&*at), Some("W/\"1\""))
    );
    for (field, want) in [("userName", "bjensen"), ("externalId", "bjensen")] {
        assert_eq!(user[field], want);
    }
    assert_eq!((&user["active"], &user["name"], &user["emails"]), (&json!(true), &body["name"], &body["emails"]));
    assert_eq!((&user["meta"]["resourceType"], &user["meta"]["version"]), (&json!("User"), &json!("W/\"1\"")));
    let path = format!("/Users/{id}");
    assert_eq!(directory.get(&path).await.expect(200), user);
    // To the Admin API it is a user like any other.
    let own = house.as_admin().get(&format!("/admin/users/{id}")).await.expect(200);
    for (field, want) in
        [("email", "bjensen@example.com"), ("first_name", "Barbara"), ("role", "member"), ("status", "active")]
    {
        assert_eq!(own[field], want, "{field}");
    }
    let twin = json!({"schemas": [CORE], "userName": "BJENSEN", "emails": [{"value": "other@example.com"}]});
    directory.post("/Users", twin).await.scim_refused(409, Some("uniqueness"));
    let twin = json!({"schemas": [CORE], "userName": "other", "emails": [{"value": "BJensen@example.com"}]});
    directory.post("/Users", twin).await.scim_refused(409, Some("uniqueness"));
    // What a PUT leaves out is gone; what only the service says is passed by.
    let whole = json!({"schemas": [CORE], "id": "x", "meta": {"version": "x"}, "userName": "bjensen", "groups": [{"value": "x"}],
        "emails": [{"value": "bjensen@example.com"}, {"value": "babs@jensen.org", "primary": true}], "roles": []});
    let user = directory.put(&path, whole).await.expect(200);
    assert_eq!((&user["externalId"], &user["name"], &user["id"]), (&json!(null), &json!(null), &json!(id)));
    assert_eq!(house.as_admin().get(&format!("/admin/users/{id}")).await.expect(200)["email"], "babs@jensen.org");
    let gone = directory.delete(&path).await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    directory.get(&path).await.scim_refused(404, None);
    directory.delete(&path).await.scim_refused(404, None);
}

/// RFC 7643, 8.2 and 8.3: the full user with the enterprise extension comes back as it was sent.
#[tokio::test]
async fn the_full_user_of_the_rfc_comes_back() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let body = full_user();
    let mut want = body.clone();
    want.as_object_mut().expect("an object").remove("password");
    let made = directory.post("/Users", body).await.expect(201);
    for (field, value) in want.as_object().expect("an object") {
        assert_eq!(made[field], *value, "{field}");
    }
    assert!(!made.to_string().contains("t1meMa$heen"), "a password is shown to nobody");
    let org = house.org().id;
    let trail = house.as_admin();
    let trail =
        trail.get(&format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01")).await;
    assert!(!trail.text.contains("t1meMa$heen") && trail.text.contains("bjensen@example.com"));
    assert!(!String::from_utf8_lossy(&house.at_rest().await).contains("t1meMa$heen"), "nor kept");
}

pub(crate) fn full_user() -> Value {
    json!({
        "schemas": [CORE, ENTERPRISE],
        "externalId": "701984",
        "userName": "bjensen@example.com",
        "name": {"formatted": "Ms. Barbara J Jensen, III", "familyName": "Jensen", "givenName": "Barbara",
            "middleName": "Jane", "honorificPrefix": "Ms.", "honorificSuffix": "III"},
        "displayName": "Babs Jensen",
        "nickName": "Babs",
        "profileUrl": "https://login.example.com/bjensen",
        "emails": [{"value": "bjensen@example.com", "type": "work", "primary": true},
            {"value": "babs@jensen.org", "type": "home"}],
        "addresses": [{"type": "work", "streetAddress": "100 Universal City Plaza", "locality": "Hollywood", "region": "CA",
            "postalCode": "91608", "country": "USA", "formatted": "100 Universal City Plaza\nHollywood, CA 91608 USA",
            "primary": true}],
        "phoneNumbers": [{"value": "555-555-5555", "type": "work"}, {"value": "555-555-4444", "type": "mobile"}],
        "ims": [{"value": "someaimhandle", "type": "aim"}],
        "photos": [{"value": "https://photos.example.com/profilephoto/72930000000Ccne/F", "type": "photo"}],
        "userType": "Employee",
        "title": "Tour Guide",
        "preferredLanguage": "en-US",
        "locale": "en-US",
        "timezone": "America/Los_Angeles",
        "active": true,
        "password": "t1meMa$heen",
        "x509Certificates": [{"value": "MIIDQzCCAqygAwIBAgICEAAwDQYJKoZIhvcNAQEFBQAw"}],
        ENTERPRISE: {"employeeNumber": "701984", "costCenter": "4130", "organization": "Universal Studios",
            "division": "Theme Park", "department": "Tour Operations",
            "manager": {"value": "26118915-6090-4610-87e4-49d8ca9f808d", "$ref": "../Users/26118915", "displayName": "John Smith"}},
    })
}

/// RFC 7644, 3.14: a change of what somebody else changed meanwhile is not made.
#[tokio::test]
async fn tags_keep_changes_apart() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let path = format!("/Users/{}", directory.user("a@example.com").await);
    let seen = directory.ask_with(Method::GET, &path, None, &[(header::IF_NONE_MATCH, "W/\"1\"")]).await;
    assert_eq!((seen.status.as_u16(), seen.text.as_str()), (304, ""));
    let title =
        |title: &str| Some(json!({"schemas": [PATCH], "Operations": [{"op": "add", "path": "title", "value": title}]}));
    let first = directory.ask_with(Method::PATCH, &path, title("A"), &[(header::IF_MATCH, "W/\"1\"")]).await;
    assert_eq!(first.headers[header::ETAG], "W/\"2\"");
    let late = [(header::IF_MATCH, "W/\"1\", \"7\"")];
    directory.ask_with(Method::PATCH, &path, title("B"), &late).await.scim_refused(412, None);
    let put = Some(json!({"schemas": [CORE], "userName": "a@example.com"}));
    directory.ask_with(Method::PUT, &path, put, &late).await.scim_refused(412, None);
    directory.ask_with(Method::DELETE, &path, None, &late).await.scim_refused(412, None);
    let now = directory.ask_with(Method::GET, &path, None, &[(header::IF_NONE_MATCH, "W/\"1\"")]).await.expect(200);
    assert_eq!(now["title"], "A");
    let either = [(header::IF_MATCH, "\"7\", W/\"2\"")];
    assert_eq!(directory.ask_with(Method::DELETE, &path, None, &either).await.status, 204);
    let group = format!("/Groups/{}", directory.group("G", &[]).await);
    let rename =
        Some(json!({"schemas": [PATCH], "Operations": [{"op": "replace", "path": "displayName", "value": "H"}]}));
    directory
        .ask_with(Method::PATCH, &group, rename.clone(), &[(header::IF_MATCH, "W/\"9\"")])
        .await
        .scim_refused(412, None);
    assert_eq!(directory.ask_with(Method::PATCH, &group, rename, &[(header::IF_MATCH, "*")]).await.status, 204);
    directory.ask_with(Method::DELETE, &group, None, &[(header::IF_MATCH, "W/\"1\"")]).await.scim_refused(412, None);
}

#[tokio::test]
async fn lists_are_filtered_cut_and_turned() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    house.user("invited@example.com", "member", json!([]), None).await;
    for n in 0..7 {
        let body = json!({"schemas": [CORE], "userName": format!("u{n}@example.com"), "externalId": format!("e{n}"),
            "title": if n % 2 == 0 { "Even" } else { "Odd" }, "name": {"givenName": "U", "familyName": n.to_string()}});
        directory.post("/Users", body).await.expect(201);
    }
    for (filter, want) in [
        ("userName eq \"U3@example.com\"", vec!["u3@example.com"]),
        ("externalId eq \"e4\" and title eq \"even\"", vec!["u4@example.com"]),
        ("externalId eq \"e4\" and title eq \"odd\"", vec![]),
        ("userName eq \"nobody\"", vec![]),
        ("userName eq \"invited@example.com\"", vec!["invited@example.com"]),
        ("userName eq \"u1@example.com\" or userName eq \"u2@example.com\"", vec!["u1@example.com", "u2@example.com"]),
        ("title eq \"odd\"", vec!["u1@example.com", "u3@example.com", "u5@example.com"]),
        ("not (title pr)", vec!["invited@example.com"]),
        ("name.familyName gt \"4\" and name.familyName lt \"7\"", vec!["u5@example.com", "u6@example.com"]),
        ("meta.created lt \"2001-01-01T00:00:00Z\"", vec![]),
    ] {
        assert_eq!(directory.found("/Users", filter, "userName").await, want, "{filter}");
    }
    // Every slice of the list, whatever pages the store reads it by.
    let whole = directory.get("/Users").await.expect(200);
    let all: Vec<Value> = whole["Resources"].as_array().expect("a list").iter().map(|u| u["id"].clone()).collect();
    assert_eq!((all.len(), &whole["totalResults"]), (8, &json!(8)));
    for (start, count) in
        [(1, 8), (1, 3), (2, 3), (3, 3), (4, 5), (8, 1), (8, 5), (9, 5), (400, 2), (1, 0), (0, 2), (-5, 2), (1, -1)]
    {
        let page = directory.get(&format!("/Users?startIndex={start}&count={count}")).await.expect(200);
        let from = usize::try_from(start.max(1) - 1).expect("small").min(8);
        let to = (from + usize::try_from(count.max(0)).expect("small")).min(8);
        let ids: Vec<Value> = page["Resources"].as_array().expect("a list").iter().map(|u| u["id"].clone()).collect();
        assert_eq!((ids, &page["totalResults"]), (all[from..to].to_vec(), &json!(8)), "{start} {count}");
        assert_eq!(page["startIndex"], start.max(1), "{start} {count}");
    }
    let filtered = directory.get("/Users?filter=title%20pr&startIndex=3&count=2").await.expect(200);
    assert_eq!((&filtered["totalResults"], &filtered["itemsPerPage"]), (&json!(7), &json!(2)));
    let many = directory.get("/Users?count=100000").await.expect(200);
    assert_eq!(many["itemsPerPage"], 8, "no more than there are, however many are asked for");
    directory.get("/Users?count=x").await.scim_refused(400, Some("invalidValue"));
    directory.get("/Users?filter=title").await.scim_refused(400, Some("invalidFilter"));
    directory.get("/Users?sortBy=title").await.scim_refused(400, None);
    directory.get("/Users?sortOrder=descending").await.scim_refused(400, None);
    // RFC 7644, 3.7 and 3.11: what is not supported says so.
    directory.post("/Bulk", json!({"Operations": []})).await.scim_refused(501, None);
    directory.get("/Me").await.scim_refused(501, None);
}

#[tokio::test]
async fn attributes_are_shown_as_they_are_asked_for() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let id = text(&directory.post("/Users", full_user()).await.expect(201)["id"]);
    let shown = async |query: &str| directory.get(&format!("/Users/{id}?{query}")).await.expect(200);
    let some = shown("attributes=userName,name.familyName,emails.value,emails.type").await;
    let want = json!({"schemas": [CORE, ENTERPRISE], "id": id, "userName": "bjensen@example.com",
        "name": {"familyName": "Jensen"},
        "emails": [{"value": "bjensen@example.com", "type": "work"}, {"value": "babs@jensen.org", "type": "home"}]});
    assert_eq!(some, want);
    let of_company = shown(&format!("attributes={}", encoded(&format!("{ENTERPRISE}:department")))).await;
    assert_eq!(
        of_company,
        json!({"schemas": [CORE, ENTERPRISE], "id": id, ENTERPRISE: {"department": "Tour Operations"}})
    );
    let but = shown("excludedAttributes=emails,name.familyName,id,meta").await;
    assert_eq!((&but["emails"], &but["name"]["familyName"], &but["meta"]), (&json!(null), &json!(null), &json!(null)));
    assert_eq!((&but["id"], &but["name"]["givenName"]), (&json!(id), &json!("Barbara")));
    directory
        .get(&format!("/Users/{id}?attributes=a&excludedAttributes=b"))
        .await
        .scim_refused(400, Some("invalidValue"));
    let group = directory.group("G", &[&id]).await;
    assert_eq!(shown("attributes=groups").await["groups"][0]["display"], "G");
    let listed = directory.get("/Groups?excludedAttributes=members").await.expect(200);
    assert_eq!((&listed["Resources"][0]["id"], &listed["Resources"][0]["members"]), (&json!(group), &json!(null)));
}

#[tokio::test]
async fn broken_bodies_are_refused_in_the_protocols_words() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let many: Vec<Value> = (0..200).map(|n| json!({"value": format!("{n}@example.com")})).collect();
    for (fields, keyword, says) in [
        (json!({"schemas": []}), "invalidSyntax", "schemas must hold"),
        (json!({"schemas": "x"}), "invalidSyntax", "schemas must hold"),
        (json!({"userName": null}), "invalidValue", "userName is required"),
        (json!({"userName": " "}), "invalidValue", "userName is required"),
        (json!({"userName": "no address"}), "invalidValue", "emails must hold an address"),
        (json!({"userName": "x".repeat(300)}), "invalidValue", "userName must be at most"),
        (json!({"userName": 7}), "invalidValue", "userName must be a text"),
        (json!({"active": "perhaps"}), "invalidValue", "active must be true or false"),
        (json!({"emails": [{"value": "no address"}]}), "invalidValue", "emails must be an e-mail address"),
        (json!({"emails": many}), "invalidValue", "emails must hold at most 100"),
        (
            json!({"emails": [{"value": "a@b.c", "primary": true}, {"value": "d@b.c", "primary": true}]}),
            "invalidValue",
            "primary",
        ),
        (json!({"name": "Ann"}), "invalidValue", "name must be an object"),
        (json!({"roles": [{"value": "owner"}]}), "invalidValue", "roles must be empty"),
        (json!({"password": 7}), "invalidValue", "password must be a text"),
        (json!({"shoeSize": 44}), "invalidSyntax", "shoeSize"),
        (json!({"name": {"shoeSize": 44}}), "invalidSyntax", "shoeSize"),
        (json!({"title": "A", "TITLE": "B"}), "invalidSyntax", "title is given twice"),
        (json!({"urn:example:other": {}}), "invalidSyntax", "urn:example:other"),
        (json!({"nickName": "x".repeat(5000)}), "invalidValue", "nickName must be at most"),
        (
            json!({"addresses": vec![json!({"formatted": "x".repeat(4000)}); 50]}),
            "invalidValue",
            "the resource must be at most",
        ),
    ] {
        let mut body = json!({"schemas": [CORE], "userName": "ann@example.com"});
        crate::harness::merge(&mut body, fields);
        let said = directory.post("/Users", body).await.scim_refused(400, Some(keyword));
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(directory.found("/Users", "userName pr", "id").await, Vec::<String>::new());
    let cut = directory.ask_with(Method::POST, "/Users", Some(json!([])), &[]).await;
    cut.scim_refused(400, None);
    directory.get("/Users/none").await.scim_refused(404, None);
    directory.get("/Users/ann@example.com").await.scim_refused(404, None);
    house.nobody().get("/scim/Users").await.scim_refused(401, None);
}

#[tokio::test]
async fn the_service_says_what_it_can() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let can = directory.get("/ServiceProviderConfig").await.expect(200);
    for (ability, want) in [("patch", true), ("filter", true), ("etag", true), ("bulk", false), ("sort", false)] {
        assert_eq!(can[ability]["supported"], want, "{ability}");
    }
    let types = directory.get("/ResourceTypes").await.expect(200);
    assert_eq!((&types["totalResults"], &types["Resources"][0]["endpoint"]), (&json!(2), &json!("/Users")));
    assert_eq!(directory.get("/ResourceTypes/Group").await.expect(200)["schema"], GROUP);
    directory.get("/ResourceTypes/Device").await.scim_refused(404, None);
    let schemas = directory.get("/Schemas").await.expect(200);
    assert_eq!(schemas["totalResults"], 3);
    let user = directory.get(&format!("/Schemas/{CORE}")).await.expect(200);
    let named = |name: &str| {
        let all = user["attributes"].as_array().expect("a list");
        all.iter().find(|a| a["name"] == name).unwrap_or_else(|| panic!("{name} is not told")).clone()
    };
    assert_eq!((&named("userName")["required"], &named("userName")["uniqueness"]), (&json!(true), &json!("server")));
    assert_eq!((&named("groups")["mutability"], &named("password")["returned"]), (&json!("readOnly"), &json!("never")));
    // What the schemas tell of is what is taken.
    let full = full_user();
    for attribute in user["attributes"].as_array().expect("a list") {
        let name = text(&attribute["name"]);
        let apart = ["groups", "roles", "entitlements"].contains(&name.as_str());
        assert_eq!(full.get(&name).is_some(), !apart, "{name}");
    }
}

/// The heart of it: who is switched off by the directory has no key that opens anything, from the next request on.
#[tokio::test]
async fn who_is_not_active_may_nothing_until_they_are_again() {
    let house = House::new().await;
    let directory = DirectoryClient::of(&house).await;
    let seat = json!([{"id": "default", "role": "member"}]);
    let (id, key) = house.user("ann@example.com", "member", seat, Some(json!(["configs.list"]))).await;
    let body = json!({"name": "b", "user_id": id, "scopes": ["configs.list"]});
    let made = house.as_admin().post("/api-keys/workspace/user", body.clone()).await.expect(200);
    let (second, second_key) = (text(&made["id"]), text(&made["key"]));
    house.as_admin().put(&format!("/api-keys/{second}"), json!({"status": "blocked"})).await.expect(200);
    let path = format!("/Users/{id}");
    let active = async |active: Value| {
        let done = directory.patch(&path, json!([{"op": "Replace", "path": "active", "value": active}])).await;
        assert_eq!(done.expect(200)["userName"], "ann@example.com");
    };
    house.with(&key).get("/configs").await.expect(200);
    active(json!("False")).await;
    assert!(!house.in_force(&key), "the proxy does not know it any more");
    house.with(&key).get("/configs").await.refused(401, "AB05");
    assert!(!house.beside().await.in_force(&key), "nor on another node");
    assert_eq!(house.as_admin().get(&format!("/admin/users/{id}")).await.expect(200)["status"], "inactive");
    house.as_admin().post("/api-keys/workspace/user", body).await.refused(400, "AB01");
    let shown = house.as_admin().get("/api-keys").await.expect(200);
    let suspended = shown["data"].as_array().expect("a list").iter().find(|k| k["status"] == "suspended").cloned();
    let suspended = text(&suspended.expect("a suspended key")["id"]);
    let open = json!({"status": "active"});
    house.as_admin().put(&format!("/api-keys/{suspended}"), open).await.refused(400, "AB01");
    active(json!(false)).await;
    active(json!(true)).await;
    house.with(&key).get("/configs").await.expect(200);
    assert!(!house.in_force(&second_key), "what was blocked for itself stays so");
    directory.delete(&path).await;
    assert!(!house.in_force(&key));
    // The owner is not a directory's to change.
    assert_eq!(directory.found("/Users", "userName eq \"ann@example.com\"", "id").await, Vec::<String>::new());
}

#[tokio::test]
async fn organisations_have_directories_of_their_own() {
    let house = House::new().await;
    let theirs = house.organisation("rival").await;
    let directory = DirectoryClient::of(&house).await;
    let rival = DirectoryClient::by(&house, &theirs);
    let id = directory.user("ann@example.com").await;
    let group = directory.group("Ours", &[&id]).await;
    assert_eq!(rival.found("/Users", "userName eq \"ann@example.com\"", "id").await, Vec::<String>::new());
    assert_eq!(rival.get("/Groups").await.expect(200)["totalResults"], 0);
    for path in [format!("/Users/{id}"), format!("/Groups/{group}")] {
        rival.get(&path).await.scim_refused(404, None);
        rival.patch(&path, json!([{"op": "add", "path": "externalId", "value": "x"}])).await.scim_refused(404, None);
        rival.delete(&path).await.scim_refused(404, None);
    }
    let body = json!({"schemas": [GROUP], "displayName": "Theirs", "members": [{"value": id}]});
    rival.post("/Groups", body).await.scim_refused(400, Some("invalidValue"));
    // Both organisations may have a user with the same address.
    rival.user("ann@example.com").await;
}
