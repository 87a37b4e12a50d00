//! Operations on a user and on a group: what each leaves, and what is refused by which keyword.

use super::{apply, read};
use crate::input::JsonBody;
use crate::scim::document;
use crate::scim::schema::{GROUPS, ResourceType, USERS};
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("no object: {other}"),
    }
}

/// What is left, or the keyword of the refusal.
fn patched(of: &'static ResourceType, before: &Value, operations: &Value) -> Result<Value, &'static str> {
    let schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
    let body = JsonBody(object(json!({"schemas": schemas, "Operations": operations})));
    let done = read(body, of).and_then(|changes| {
        let mut doc = object(before.clone());
        apply(&mut doc, of, &changes, 1000)?;
        document::settled(doc, of)
    });
    done.map(Value::Object).map_err(|problem| problem.keyword.unwrap_or("none"))
}

fn ann() -> Value {
    json!({"userName": "ann", "active": true, "name": {"givenName": "Ann"},
        "emails": [{"value": "a@work.example", "type": "work", "primary": true}, {"value": "a@home.example", "type": "home"}]})
}

#[test]
fn operations_change_what_their_path_leads_to() {
    const MORE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
    for (operation, pointer, want) in [
        (json!({"op": "Replace", "path": "active", "value": "False"}), "/active", json!(false)),
        (json!({"op": "add", "path": "title", "value": "Boss"}), "/title", json!("Boss")),
        (json!({"op": "remove", "path": "name.givenName"}), "/name", json!(null)),
        (json!({"op": "add", "path": "name", "value": {"familyName": "Lee"}}), "/name/givenName", json!("Ann")),
        (json!({"op": "replace", "path": "NAME.FamilyName", "value": "Lee"}), "/name/familyName", json!("Lee")),
        (
            json!({"op": "replace", "path": "emails[type eq \"work\"].value", "value": "b@work.example"}),
            "/emails/0/value",
            json!("b@work.example"),
        ),
        (json!({"op": "remove", "path": "emails[type eq \"home\"]"}), "/emails/1", json!(null)),
        (json!({"op": "remove", "path": "emails"}), "/emails", json!(null)),
        (
            json!({"op": "replace", "path": "emails", "value": [{"value": "c@x.example"}]}),
            "/emails/0/value",
            json!("c@x.example"),
        ),
        (
            json!({"op": "add", "path": "emails", "value": [{"value": "n@x.example", "type": "other", "primary": true}]}),
            "/emails/0/primary",
            json!(false),
        ),
        (
            json!({"op": "add", "path": "phoneNumbers[type eq \"mobile\"].value", "value": "+1"}),
            "/phoneNumbers/0",
            json!({"type": "mobile", "value": "+1"}),
        ),
        (json!({"op": "add", "path": format!("{MORE}:department"), "value": "D"}), "/x/department", json!("D")),
        (json!({"op": "add", "path": format!("{MORE}:manager"), "value": "42"}), "/x/manager/value", json!("42")),
        (
            json!({"op": "add", "value": {"name.familyName": "Lee", "id": "no", "active": "False"}}),
            "/active",
            json!(false),
        ),
        (json!({"op": "add", "value": {format!("{MORE}:division"): "V"}}), "/x/division", json!("V")),
        (json!({"op": "replace", "value": {MORE: {"costCenter": "C"}}}), "/x/costCenter", json!("C")),
        (json!({"OP": "REPLACE", "Path": "displayName", "Value": "Annie"}), "/displayName", json!("Annie")),
    ] {
        let mut left = patched(&USERS, &ann(), &json!([operation])).unwrap_or_else(|k| panic!("{operation}: {k}"));
        if let Some(more) = left.as_object_mut().and_then(|left| left.shift_remove(MORE)) {
            left["x"] = more;
        }
        assert_eq!(left.pointer(pointer).cloned().unwrap_or_default(), want, "{operation} leaves {left}");
    }
}

#[test]
fn what_cannot_be_done_has_its_keyword_and_changes_nothing() {
    for (operation, want) in [
        (json!({"op": "replace", "path": "emails[type eq \"fax\"].value", "value": "x"}), "noTarget"),
        (json!({"op": "remove"}), "noTarget"),
        (json!({"op": "replace", "path": "id", "value": "x"}), "mutability"),
        (json!({"op": "add", "path": "groups", "value": [{"value": "x"}]}), "mutability"),
        (json!({"op": "add", "path": "shoeSize", "value": "44"}), "invalidPath"),
        (json!({"op": "add", "path": "emails[type eq \"work\"", "value": "x"}), "invalidPath"),
        (json!({"op": "add", "path": "emails[type is \"work\"]", "value": {}}), "invalidPath"),
        (json!({"op": "add", "path": "userName[type eq \"work\"]", "value": "x"}), "invalidPath"),
        (json!({"op": "move", "path": "active", "value": true}), "invalidSyntax"),
        (json!({"op": "add", "path": "active"}), "invalidValue"),
        (json!({"op": "add", "path": "active", "value": "perhaps"}), "invalidValue"),
        (json!({"op": "add", "path": "name", "value": 7}), "invalidValue"),
        (json!({"op": "add", "value": "x"}), "invalidValue"),
        (json!({"op": "add", "path": "roles", "value": [{"value": "admin"}]}), "invalidValue"),
        (json!({"op": "add", "path": 7, "value": "x"}), "invalidPath"),
        (json!("add"), "invalidSyntax"),
    ] {
        let both = json!([{"op": "replace", "path": "title", "value": "Boss"}, operation]);
        assert_eq!(patched(&USERS, &ann(), &both), Err(want), "{operation}");
    }
    assert_eq!(patched(&USERS, &ann(), &json!([])), Err("invalidSyntax"));
}

#[test]
fn members_come_and_go() {
    let before = json!({"displayName": "G", "members": [{"value": "a"}, {"value": "b"}]});
    let left = |operations: Value| {
        let left = patched(&GROUPS, &before, &operations).unwrap_or_else(|k| panic!("{operations}: {k}"));
        let all = left["members"].as_array().cloned().unwrap_or_default();
        all.iter().map(|m| m["value"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join("")
    };
    for (operation, want) in [
        (json!({"op": "Add", "path": "members", "value": [{"$ref": null, "value": "c"}, {"value": "a"}]}), "abc"),
        (json!({"op": "Remove", "path": "members", "value": [{"$ref": null, "value": "a"}]}), "b"),
        (json!({"op": "remove", "path": "members[value eq \"b\"]"}), "a"),
        // Who is not there is not there afterwards.
        (json!({"op": "remove", "path": "members[value eq \"z\"]"}), "ab"),
        (json!({"op": "replace", "path": "members", "value": [{"value": "x", "display": "X"}]}), "x"),
        (json!({"op": "replace", "value": {"id": "g", "displayName": "H"}}), "ab"),
        (json!({"op": "remove", "path": "members"}), ""),
        (json!({"op": "add", "path": "members", "value": "c"}), "abc"),
    ] {
        assert_eq!(left(json!([operation])), want, "{operation}");
    }
}
