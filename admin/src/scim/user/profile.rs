//! A user's attributes and the stored user, each made of the other: the address is that of the primary e-mail, the
//! names are those of `name`, and whoever was invited has the attributes that follow from address and names.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::route::AdminCall;
use crate::scim::document::take_text;
use crate::scim::refusal::invalid_value;
use crate::scim::schema::{ENTERPRISE, USER};
use gateway_domain::resource::person::{OrgRole, User, email};
use gateway_domain::resource::provisioning::DirectoryProfile;
use serde_json::{Map, Value, json};

const LONGEST_NAME: usize = 255;

#[derive(Debug)]
pub(crate) struct Profile {
    /// `None`: as it was, and so for somebody new.
    pub(super) active: Option<bool>,
    user_name: String,
    external_id: Option<String>,
    email: String,
    first_name: String,
    last_name: String,
    attributes: Map<String, Value>,
}

impl Profile {
    /// Reads a profile from attributes that are held to their schema.
    pub(super) fn read(mut fields: Map<String, Value>) -> Result<Self, Problem> {
        let user_name = take_text(&mut fields, "userName").filter(|name| !name.trim().is_empty());
        let user_name = user_name.ok_or_else(|| invalid_value("userName", "is required"))?;
        let external_id = take_text(&mut fields, "externalId");
        let active = fields.shift_remove("active").and_then(|active| active.as_bool());
        for (name, text) in [("userName", Some(&user_name)), ("externalId", external_id.as_ref())] {
            if text.is_some_and(|text| text.chars().count() > LONGEST_NAME) {
                return Err(invalid_value(name, format_args!("must be at most {LONGEST_NAME} characters")));
            }
        }
        let email = address(&fields, &user_name)?;
        let part = |name: &str| fields.get("name").and_then(|n| n.get(name)).and_then(Value::as_str).map(str::to_owned);
        let shown = || fields.get("displayName").and_then(Value::as_str).map(str::to_owned);
        let whole = || part("formatted").or_else(shown).unwrap_or_default();
        let (first_name, last_name) = match (part("givenName"), part("familyName")) {
            (None, None) => (whole(), String::new()),
            (first, last) => (first.unwrap_or_default(), last.unwrap_or_default()),
        };
        let short = |name: String| name.chars().take(LONGEST_NAME).collect::<String>();
        let (first_name, last_name) = (short(first_name), short(last_name));
        Ok(Self { active, user_name, external_id, email, first_name, last_name, attributes: fields })
    }

    /// Somebody new: a member of the organisation, without a seat yet.
    pub(super) fn made(self, call: &AdminCall) -> ResourceRow<User> {
        let doc = User {
            email: String::new(),
            first_name: String::new(),
            last_name: String::new(),
            role: OrgRole::Member,
            directory: None,
            signs_in_as: None,
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, None, doc);
        self.onto(&mut row);
        row
    }

    pub(super) fn onto(self, row: &mut ResourceRow<User>) {
        row.slug.clone_from(&self.email);
        row.name = format!("{} {}", self.first_name, self.last_name).trim().to_owned();
        if let Some(active) = self.active {
            (if active { "active" } else { User::INACTIVE }).clone_into(&mut row.status);
        }
        let rest = row.doc.directory.take().map(|directory| directory.rest).unwrap_or_default();
        row.doc.email = self.email;
        (row.doc.first_name, row.doc.last_name) = (self.first_name, self.last_name);
        let (user_name, external_id, attributes) = (self.user_name, self.external_id, self.attributes);
        row.doc.directory = Some(DirectoryProfile { user_name, external_id, attributes, rest });
    }
}

/// The primary address, else that of work, else the first; without any the name, if it is one.
fn address(fields: &Map<String, Value>, user_name: &str) -> Result<String, Problem> {
    let emails = fields.get("emails").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let value = |item: &Value| item["value"].as_str().map(str::to_owned);
    let of = |wanted: &dyn Fn(&Value) -> bool| emails.iter().filter(|item| wanted(item)).find_map(value);
    let primary = of(&|item| item["primary"] == Value::Bool(true));
    let work = || of(&|item| item["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("work")));
    match primary.or_else(work).or_else(|| of(&|_| true)) {
        Some(text) => email("emails", &text).map_err(|wrong| invalid_value(wrong.field, wrong.rule)),
        None => email("userName", user_name)
            .map_err(|_| invalid_value("emails", "must hold an address where userName is none")),
    }
}

/// What clients write of a user.
pub(super) fn written(row: &ResourceRow<User>) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("userName".to_owned(), row.doc.user_name().into());
    match &row.doc.directory {
        Some(directory) => {
            if let Some(id) = &directory.external_id {
                out.insert("externalId".to_owned(), id.as_str().into());
            }
            out.extend(directory.attributes.clone());
        }
        None => {
            let name = format!("{} {}", row.doc.first_name, row.doc.last_name);
            let parts =
                json!({"formatted": name.trim(), "givenName": row.doc.first_name, "familyName": row.doc.last_name});
            let known = |parts: Map<String, Value>| parts.into_iter().filter(|(_, part)| *part != "").collect();
            if let Value::Object(parts) = parts {
                out.insert("name".to_owned(), Value::Object(known(parts)));
            }
            let emails = json!([{"value": row.doc.email, "type": "work", "primary": true}]);
            out.insert("emails".to_owned(), emails);
        }
    }
    out.insert("active".to_owned(), Value::Bool(row.status != User::INACTIVE));
    out
}

/// What [`written`] gives and what the service adds, except for groups and `meta`.
pub(super) fn shown(row: &ResourceRow<User>) -> Map<String, Value> {
    let written = written(row);
    let mut schemas = vec![USER.id];
    if written.contains_key(ENTERPRISE.id) {
        schemas.push(ENTERPRISE.id);
    }
    let mut out = Map::new();
    out.insert("schemas".to_owned(), json!(schemas));
    out.insert("id".to_owned(), json!(row.id));
    out.extend(written);
    out
}
