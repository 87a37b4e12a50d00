//! People in a file. Somebody who is in none of the invites yet is a user by it; how they prove who they are is not
//! told.

use super::User;
use crate::change::WriteView;
use crate::problem::{Problem, bad, forbidden};
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use gateway_domain::resource::person::{OrgRole, email};
use serde_json::{Map, Value};

impl Declared for User {
    const SECTION: &'static str = "users";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("organisation_users");
    const SLUG: &'static str = "email";
    const NAMED: bool = false;
    const STATES: &'static [&'static str] = &[User::INACTIVE];

    fn declare(row: &ResourceRow<Self>, _: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "first_name", &row.doc.first_name);
        put(&mut fields, "last_name", &row.doc.last_name);
        put(&mut fields, "role", row.doc.role);
        Ok(fields)
    }

    /// Keys of somebody who is not active must not open anything, and the file has a state for each.
    fn verify(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        if row.status != User::INACTIVE {
            return Ok(());
        }
        match around.snapshot.keys().find(|key| key.active && key.owner == Some(row.id)) {
            Some(key) => Err(bad("status", format_args!("is inactive, but the key `{}` is not suspended", key.name))),
            None => Ok(()),
        }
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        const LONGEST: usize = 255;
        let first_name: String = take(&mut item.fields, "first_name")?.unwrap_or_default();
        let last_name: String = take(&mut item.fields, "last_name")?.unwrap_or_default();
        if first_name.chars().count().max(last_name.chars().count()) > LONGEST {
            return Err(bad("first_name", format_args!("and last_name must be at most {LONGEST} characters")));
        }
        let role = take(&mut item.fields, "role")?.ok_or_else(|| bad("role", "is required"))?;
        item.end()?;
        let owner = item.before.as_ref().is_some_and(|row| row.doc.role == OrgRole::Owner);
        if role == OrgRole::Owner && !owner && !from.by_operator {
            return Err(forbidden("role owner is given by the operator alone: `gateway import`"));
        }
        let address = email("email", &item.slug)?;
        let name = format!("{first_name} {last_name}");
        // What a directory tells is no configuration: it stays as it is.
        let directory = item.before.as_ref().and_then(|row| row.doc.directory.clone());
        let signs_in_as = item.before.as_ref().and_then(|row| row.doc.signs_in_as.clone());
        let (email, rest) = (address.clone(), Map::new());
        let doc = Self { email, first_name, last_name, role, directory, signs_in_as, rest };
        let actor = &from.call.actor;
        let mut row = ResourceRow::fresh(&from.call.app, actor.org, None, Some(actor.key.0), doc);
        row.slug = address;
        row.name = name;
        Ok(row)
    }
}
