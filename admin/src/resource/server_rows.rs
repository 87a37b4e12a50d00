//! A workspace's names for what its integrations lead to, MCP servers and agents: how they are described, called and
//! listed.

use super::{Resource, ResourceRow, Slug, collect, everything};
use crate::problem::{Problem, bad};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::resource::mcp::check_server_slug;
use gateway_domain::resource::slugify;
use serde_json::Value;

const LONGEST_DESCRIPTION: usize = 500;
/// Rows of a page.
const MOST_SERVERS: u64 = 100;

pub(super) fn check_description(text: Option<&str>) -> Result<(), Problem> {
    if text.is_some_and(|text| text.chars().count() > LONGEST_DESCRIPTION) {
        return Err(bad("description", format_args!("must be at most {LONGEST_DESCRIPTION} characters")));
    }
    Ok(())
}

/// The slug of a new one, which stands in the path of its calls: as it was given, else from its name.
pub(super) fn slug_of(given: Option<String>, kind: &str, name: &str) -> Result<Slug, Problem> {
    let slug = match Slug::given("slug", given)? {
        Some(given) => given,
        None => Slug::Derived(derived(kind, name)),
    };
    if let Slug::Given(slug) | Slug::Derived(slug) = &slug {
        check_server_slug(slug).map_err(|rule| bad("slug", rule))?;
    }
    Ok(slug)
}

/// A slug made of a name: short enough that a tail can be added, and with the kind before it where it would be no slug.
fn derived(kind: &str, name: &str) -> String {
    let slug: String = slugify(name).chars().take(40).collect();
    let slug = slug.trim_end_matches('-').to_owned();
    if check_server_slug(&slug).is_ok() { slug } else { format!("{kind}-{slug}").trim_end_matches('-').to_owned() }
}

pub(super) async fn list<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let home = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging_by("current_page", "page_size", MOST_SERVERS)?;
    let rows = collect::<R>(&call, everything::<R>(&call, Some(Some(home)))).await?;
    let (id, search) = (call.query.text("id"), call.query.text("search").map(str::to_lowercase));
    let wanted = |row: &&ResourceRow<R>| {
        let fits = |text: &str| search.as_ref().is_none_or(|search| text.to_lowercase().contains(search));
        id.is_none_or(|id| row.slug == id || row.id.to_string() == id) && (fits(&row.name) || fits(&row.slug))
    };
    let data: Vec<Value> = rows.iter().filter(wanted).map(|row| R::view(row, &call)).collect();
    Ok(AdminReply::json(R::listed(data.len() as u64, paging.cut(&data).to_vec())))
}
