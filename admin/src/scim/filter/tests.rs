//! Filters against one user: those of RFC 7644, figure 1, and what holds or is refused beside them.

use super::{holds, parse};
use crate::scim::schema::USERS;
use serde_json::{Map, Value, json};

fn user() -> Map<String, Value> {
    let user = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "id": "2819c223", "externalId": "Ext-1", "userName": "bjensen", "title": "Tour Guide", "userType": "Employee",
        "active": true, "name": {"familyName": "O'Malley", "givenName": "Barbara"},
        "emails": [{"value": "bjensen@example.com", "type": "work", "primary": true}, {"value": "b@jensen.org", "type": "home"}],
        "ims": [{"value": "some@foo.com", "type": "xmpp"}],
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Tours", "manager": {"value": "9"}},
        "meta": {"resourceType": "User", "created": "2011-05-13T04:42:34Z", "lastModified": "2011-05-13T04:42:34Z"},
    });
    let Value::Object(user) = user else { panic!("an object") };
    user
}

#[test]
fn the_examples_of_the_rfc_hold() {
    for filter in [
        r#"userName eq "bjensen""#,
        r#"name.familyName co "O'Malley""#,
        r#"userName sw "J""#,
        r#"urn:ietf:params:scim:schemas:core:2.0:User:userName sw "J""#,
        "title pr",
        r#"meta.lastModified gt "2011-05-13T04:42:34Z""#,
        r#"meta.lastModified ge "2011-05-13T04:42:34Z""#,
        r#"meta.lastModified lt "2011-05-13T04:42:34Z""#,
        r#"meta.lastModified le "2011-05-13T04:42:34Z""#,
        r#"title pr and userType eq "Employee""#,
        r#"title pr or userType eq "Intern""#,
        r#"schemas eq "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User""#,
        r#"userType eq "Employee" and (emails co "example.com" or emails.value co "example.org")"#,
        r#"userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")"#,
        r#"userType eq "Employee" and (emails.type eq "work")"#,
        r#"userType eq "Employee" and emails[type eq "work" and value co "@example.com"]"#,
        r#"emails[type eq "work" and value co "@example.com"] or ims[type eq "xmpp" and value co "@foo.com"]"#,
    ] {
        let read = parse(filter, &USERS).unwrap_or_else(|p| panic!("{filter}: {}", p.message));
        let no = ["sw \"J\"", " gt ", " lt ", "ne \"Employee\"", "schemas eq"].iter().any(|part| filter.contains(part));
        assert_eq!(holds(&read, &user()), !no, "{filter}");
    }
}

#[test]
fn words_names_and_texts_are_compared_as_their_attributes_say() {
    for (filter, want) in [
        (r#"USERNAME EQ "BJENSEN""#, true),
        (r#"externalId eq "ext-1""#, false),
        (r#"externalId eq "Ext-1""#, true),
        (r#"id eq "2819C223""#, false),
        ("active eq true", true),
        (r#"active eq "True""#, true),
        ("active ne true", false),
        ("nickName eq null", true),
        ("title eq null", false),
        ("nickName pr", false),
        (r#"nickName ne "x""#, true),
        (r#"shoeSize eq "44""#, false),
        ("not (shoeSize pr)", true),
        (r#"emails[type eq "work" and value ew "jensen.org"]"#, false),
        (r#"emails[not (type eq "work")]"#, true),
        (r#"emails.type eq "home" and emails.primary eq true"#, true),
        (r#"emails[type eq "home" and primary eq true]"#, false),
        (r#"emails eq "b@jensen.org""#, true),
        (r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "tours""#, true),
        (r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value eq "9""#, true),
        (r#"userName eq "a" or userName eq "bjensen" and title pr"#, true),
        (r#"userName eq "bjensen" or title pr and nickName pr"#, true),
        (r#"(userName eq "bjensen" or title pr) and nickName pr"#, false),
        (r#"name.givenName gt "A" and name.givenName lt "C""#, true),
        (r#"userName eq "say \"hi\" \u00e9""#, false),
        (r#"meta.created eq "2011-05-13T06:42:34+02:00""#, true),
    ] {
        let read = parse(filter, &USERS).unwrap_or_else(|p| panic!("{filter}: {}", p.message));
        assert_eq!(holds(&read, &user()), want, "{filter}");
    }
}

#[test]
fn what_is_no_filter_is_refused() {
    let deep = format!("{}userName pr{}", "(".repeat(40), ")".repeat(40));
    let nots = format!("{}userName pr{}", "not (".repeat(40), ")".repeat(40));
    let many = vec!["title pr"; 200].join(" or ");
    let long = format!("userName eq \"{}\"", "x".repeat(5000));
    for filter in [
        "",
        " ",
        "userName",
        "userName eq",
        "userName is \"x\"",
        "userName eq x",
        "userName eq \"x",
        "userName eq \"x\" and",
        "userName eq \"x\" title pr",
        "(userName pr",
        "userName pr)",
        "emails[type eq \"work\"",
        "emails[]",
        "emails[type pr]]",
        "emails[type[x pr]]",
        "active gt true",
        "active co \"t\"",
        "userName gt 5",
        "name gt \"a\"",
        "and",
        "not userName pr",
        "1 eq 1",
        "\"userName\" eq \"x\"",
        "userName eq {}",
        "userName eq []",
        &deep,
        &nots,
        &many,
        &long,
        "é eq \"x\"",
    ] {
        let problem = parse(filter, &USERS).err();
        let problem = problem.unwrap_or_else(|| panic!("`{}` was read", &filter.chars().take(60).collect::<String>()));
        assert_eq!(problem.keyword, Some("invalidFilter"), "{filter}");
    }
}
