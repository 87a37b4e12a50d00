//! Seats in a file: who belongs to a workspace, by their address.

use super::Member;
use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use gateway_domain::id::UserId;
use gateway_domain::resource::Kind;
use serde_json::{Map, Value};

impl Declared for Member {
    const SECTION: &'static str = "members";
    const SCOPES: Option<&'static str> = Some("workspace_users");
    const SLUG: &'static str = "user";
    const NAMED: bool = false;

    fn declare(row: &ResourceRow<Self>, _: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "role", row.doc.role);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let role = take(&mut item.fields, "role")?.ok_or_else(|| bad("role", "is required"))?;
        item.end()?;
        let user = UserId(from.find(Kind::User, None, "user", &item.slug)?);
        let same = item.before.as_ref().filter(|row| row.doc.role == role);
        let (by_group, by_sign_on) = same.map_or((false, false), |row| (row.doc.by_group, row.doc.by_sign_on));
        let doc = Self { user_id: user, role, by_group, by_sign_on, rest: Map::new() };
        let actor = &from.call.actor;
        let mut row = ResourceRow::fresh(&from.call.app, actor.org, item.workspace, Some(actor.key.0), doc);
        row.slug = user.to_string();
        row.name.clone_from(&row.slug);
        Ok(row)
    }
}
