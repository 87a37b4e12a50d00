//! Counters that tests fill by hand, in place of those that requests fill.

use gateway_domain::ports::{Entity, EntityQuery, Fut, Holder, Standings, StoreError, Which};
use gateway_domain::record::Page;
use gateway_domain::resource::budget::Budget;
use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Counters(Mutex<HashMap<Holder, Vec<Entity>>>);

impl Counters {
    pub(crate) fn put(&self, holder: Holder, value_key: &str, used: u64, exhausted: bool) {
        let mut all = self.0.lock().expect("unpoisoned");
        let of = all.entry(holder).or_default();
        let id = format!("e{}", of.len());
        of.push(Entity { id, value_key: value_key.into(), used, exhausted, last_reset_at: None });
        of.sort_by(|a, b| a.value_key.cmp(&b.value_key));
    }

    fn of(&self, holder: Holder) -> Vec<Entity> {
        self.0.lock().expect("unpoisoned").get(&holder).cloned().unwrap_or_default()
    }
}

impl Standings for Counters {
    fn entities<'a>(&'a self, query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>> {
        let mut rows = self.of(query.holder);
        rows.retain(|e| query.exhausted.is_none_or(|x| e.exhausted == x));
        rows.retain(|e| query.search.as_ref().is_none_or(|s| e.value_key.contains(s)));
        let total = rows.len() as u64;
        let start = usize::try_from(query.page * query.page_size).expect("small");
        let rows = rows.into_iter().skip(start).take(usize::try_from(query.page_size).expect("small")).collect();
        Box::pin(async move { Ok(Page { rows, ..Page::of(total) }) })
    }

    fn totals<'a>(&'a self, holders: &'a [(Holder, &'a Budget)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>> {
        Box::pin(async { Ok(holders.iter().map(|(h, _)| self.of(*h).into_iter().next()).collect()) })
    }

    fn reset<'a>(&'a self, holder: Holder, which: Which<'a>) -> Fut<'a, Result<bool, StoreError>> {
        let mut all = self.0.lock().expect("unpoisoned");
        let of = all.entry(holder).or_default();
        let before = of.len();
        of.retain(|e| match which {
            Which::All => false,
            Which::Id(id) => e.id != id,
            Which::ValueKey(key) => e.value_key != key,
        });
        let found = of.len() < before;
        Box::pin(async move { Ok(found) })
    }
}
