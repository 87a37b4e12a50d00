//! Lists (RFC 7644, 3.4.2): a part of what is stored, or of what a filter holds for. An attribute that must equal
//! something is looked up in memory; every other filter is held against what is stored page by page, up to a bound.

use super::filter::{ScimFilter, holds, parse};
use super::refusal::{MEDIA_TYPE, invalid_value, too_many};
use super::schema::ResourceType;
use super::selection::AttributeSelection;
use crate::problem::Problem;
use crate::resource::{Resource, ResourceRow, everything};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::ports::ResourceQuery;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(super) const PARAMETERS: &[&str] = &["filter", "startIndex", "count", "attributes", "excludedAttributes"];
pub(super) const MOST: usize = 200;

const USUALLY: usize = 100;
const PAGE: u64 = 500;
/// Ids that the store is asked for at once.
const CHUNK: usize = 1000;
const MESSAGE: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// How resources of one type are found and shown.
pub(super) trait ScimListed: Resource {
    const TYPE: &'static ResourceType;
    /// The resource as it is shown, before attributes are cut; those that the selection leaves out need not be made.
    fn render(row: &ResourceRow<Self>, call: &AdminCall, selection: &AttributeSelection) -> Map<String, Value>;
    /// Ids of all that a filter may hold for, where memory knows; `None`: any.
    fn candidates(filter: &ScimFilter, call: &AdminCall) -> Option<Vec<Uuid>>;
    /// How much of a page it takes, 1 for what is of no size.
    fn weight(_row: &ResourceRow<Self>, _selection: &AttributeSelection) -> usize {
        1
    }
}

/// What of the list is asked for: from 0, and how many.
struct Slice {
    start: usize,
    count: usize,
}

impl Slice {
    fn read(call: &AdminCall) -> Result<Self, Problem> {
        let number = |name: &str| -> Result<Option<i64>, Problem> {
            let parsed = call.query.text(name).map(str::parse).transpose();
            parsed.map_err(|_| invalid_value(name, "must be a whole number"))
        };
        // Less than the first is the first, less than none is none (RFC 7644, 3.4.2.4).
        let start = number("startIndex")?.unwrap_or(1).max(1) - 1;
        let count = number("count")?.map_or(USUALLY, |count| usize::try_from(count.max(0)).unwrap_or(MOST).min(MOST));
        Ok(Self { start: usize::try_from(start).unwrap_or(usize::MAX), count })
    }
}

pub(super) async fn list<R: ScimListed>(call: AdminCall) -> Result<AdminReply, Problem> {
    let selection = AttributeSelection::read(&call.query, R::TYPE)?;
    let slice = Slice::read(&call)?;
    let filter = call.query.text("filter").map(|text| parse(text, R::TYPE)).transpose()?;
    let (total, rows) = match &filter {
        None => stored::<R>(&call, &slice).await?,
        Some(filter) => filtered::<R>(&call, filter, &slice).await?,
    };
    let mut room = MOST_WEIGHT;
    let mut resources = Vec::new();
    for row in &rows {
        let weight = R::weight(row, &selection);
        // Fewer than were asked for may be given; the first always is.
        if weight > room && !resources.is_empty() {
            break;
        }
        room = room.saturating_sub(weight);
        resources.push(selection.cut(R::render(row, &call, &selection)));
    }
    Ok(AdminReply::typed(
        MEDIA_TYPE,
        json!({
            "schemas": [MESSAGE],
            "totalResults": total,
            "startIndex": slice.start + 1,
            "itemsPerPage": resources.len(),
            "Resources": resources,
        }),
    ))
}

/// Members of all groups of one answer.
const MOST_WEIGHT: usize = 50_000;

/// The newest first; pages of the store begin at multiples of their size, so two of them hold any slice.
async fn stored<R: ScimListed>(call: &AdminCall, slice: &Slice) -> Result<(u64, Vec<ResourceRow<R>>), Problem> {
    let size = slice.count.max(1) as u64;
    let (first, skip) = (slice.start as u64 / size, slice.start as u64 % size);
    let mut rows = Vec::new();
    let mut total = 0;
    for page in [first, first + 1] {
        let query = ResourceQuery { page, page_size: size, ..everything::<R>(call, None) };
        let found = call.app.directory.list(&query).await?;
        total = found.total;
        rows.extend(found.rows);
        if skip == 0 {
            break;
        }
    }
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let rows = rows.iter().skip(skip).take(slice.count).map(ResourceRow::read).collect::<Result<_, _>>()?;
    Ok((total, rows))
}

async fn filtered<R: ScimListed>(
    call: &AdminCall,
    filter: &ScimFilter,
    slice: &Slice,
) -> Result<(u64, Vec<ResourceRow<R>>), Problem> {
    // `None`: everything there is.
    let chunks: Vec<Vec<Uuid>> = match R::candidates(filter, call) {
        Some(ids) => ids.chunks(CHUNK).map(<[Uuid]>::to_vec).collect(),
        None => vec![Vec::new()],
    };
    let mut found = ScimMatches { slice, total: 0, looked_at: 0, rows: Vec::new() };
    for ids in chunks {
        found.gather(call, filter, ids).await?;
    }
    Ok((found.total as u64, found.rows))
}

/// What a filter holds for, as far as was looked.
struct ScimMatches<'s, R> {
    slice: &'s Slice,
    total: usize,
    looked_at: usize,
    rows: Vec<ResourceRow<R>>,
}

impl<R: ScimListed> ScimMatches<'_, R> {
    async fn gather(&mut self, call: &AdminCall, filter: &ScimFilter, ids: Vec<Uuid>) -> Result<(), Problem> {
        // What the filter does not look at need not be made for it.
        let needed = AttributeSelection::Only(filter.paths());
        let most = call.app.quotas.directory.looked_at;
        let mut query = ResourceQuery { ids, page_size: PAGE, ..everything::<R>(call, None) };
        loop {
            let page = call.app.directory.list(&query).await?;
            self.looked_at += page.rows.len();
            if page.total > most as u64 || self.looked_at > most {
                return Err(too_many(most));
            }
            for stored in &page.rows {
                let row: ResourceRow<R> = ResourceRow::read(stored)?;
                if !holds(filter, &R::render(&row, call, &needed)) {
                    continue;
                }
                self.total += 1;
                if self.total > self.slice.start && self.rows.len() < self.slice.count {
                    self.rows.push(row);
                }
            }
            if page.rows.len() as u64 != query.page_size {
                return Ok(());
            }
            query.page += 1;
        }
    }
}
