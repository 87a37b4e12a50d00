//! What a list of models is asked for: filters, order and pages. What is not known is refused by its name.

use super::CatalogItem;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const MOST: usize = 1000;
const NAMES: [&str; 8] = ["ai_service", "provider", "limit", "offset", "sort", "order", "after_id", "before_id"];

#[derive(Debug, Default)]
pub(super) struct Listing {
    ai_service: Option<String>,
    provider: Option<String>,
    limit: Option<usize>,
    offset: usize,
    sort: Sort,
    descending: bool,
    /// Where pages of Anthropic's clients go on.
    after: Option<String>,
    before: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Sort {
    #[default]
    Name,
    Provider,
    Service,
}

impl Listing {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Fault> {
        let mut given: BTreeMap<&'static str, String> = BTreeMap::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name);
            let Some(known) = NAMES.iter().find(|known| **known == name) else {
                let shown: String = name.chars().take(64).collect();
                return Err(bad(&shown, &format!("is not known here; a list of models takes {}", NAMES.join(", "))));
            };
            if given.insert(known, decoded(value).into_owned()).is_some() {
                return Err(bad(known, "must be given once"));
            }
        }
        let mut take = |name: &str| given.remove(name).filter(|value| !value.is_empty());
        let listing = Self {
            ai_service: take("ai_service"),
            provider: take("provider").map(|slug| slug.strip_prefix('@').unwrap_or(&slug).to_owned()),
            limit: take("limit").map(|text| whole("limit", &text, 1..=MOST)).transpose()?,
            offset: take("offset").map_or(Ok(0), |text| whole("offset", &text, 0..=1_000_000))?,
            sort: match take("sort").as_deref() {
                None | Some("name") => Sort::Name,
                Some("provider") => Sort::Provider,
                Some("ai_service") => Sort::Service,
                Some(_) => return Err(bad("sort", "must be one of name, provider, ai_service")),
            },
            descending: match take("order").as_deref() {
                None | Some("asc") => false,
                Some("desc") => true,
                Some(_) => return Err(bad("order", "must be asc or desc")),
            },
            after: take("after_id"),
            before: take("before_id"),
        };
        if listing.after.is_some() && listing.before.is_some() {
            return Err(bad("before_id", "must not stand beside after_id"));
        }
        Ok(listing)
    }

    pub(super) fn page(&self, mut items: Vec<CatalogItem<'_>>) -> Value {
        items.retain(|item| {
            self.ai_service.as_deref().is_none_or(|asked| asked == item.family)
                && self.provider.as_deref().is_none_or(|asked| asked == item.provider)
        });
        items.sort_by(|a, b| {
            let name = || (&a.model, a.provider).cmp(&(&b.model, b.provider));
            let order = match self.sort {
                Sort::Name => name(),
                Sort::Provider => a.provider.cmp(b.provider).then_with(name),
                Sort::Service => a.family.cmp(b.family).then_with(name),
            };
            if self.descending { order.reverse() } else { order }
        });
        let at = |id: &str| items.iter().position(|item| item.id() == id);
        let (total, limit) = (items.len(), self.limit.unwrap_or(usize::MAX));
        // A page before an id is the last one that fits there. Behind an id that is gone there is nothing.
        let (start, end) = match (&self.after, &self.before) {
            (Some(id), _) => (at(id).map_or(total, |i| i + 1), total),
            (None, Some(id)) => {
                let end = at(id).unwrap_or_default();
                (end.saturating_sub(limit), end)
            }
            (None, None) => (self.offset.min(total), total),
        };
        let shown = &items[start..end.min(start.saturating_add(limit))];
        let has_more = if self.before.is_some() { start > 0 } else { start + shown.len() < total };
        json!({
            "object": "list",
            "total_count": total,
            "has_more": has_more,
            "first_id": shown.first().map(CatalogItem::id),
            "last_id": shown.last().map(CatalogItem::id),
            "data": shown.iter().map(CatalogItem::value).collect::<Vec<Value>>(),
        })
    }
}

fn whole(field: &str, text: &str, within: RangeInclusive<usize>) -> Result<usize, Fault> {
    let rule = || format!("must be a whole number of {}..{}", within.start(), within.end());
    text.parse().ok().filter(|n| within.contains(n)).ok_or_else(|| bad(field, &rule()))
}

fn bad(field: &str, rule: &str) -> Fault {
    Fault::new(FaultKind::BadPath, format!("The query parameter {field} {rule}")).on(field)
}
