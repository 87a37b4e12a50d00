//! What was used of budgets, as admins see it and set it back: the database's counts, with what this process counted
//! a moment ago.

use super::UsageCheckpoint;
use gateway_domain::counters::{Change, Keep, Slot};
use gateway_domain::ports::{Entity, EntityQuery, Fut, Holder, Standings, StoreError, Which};
use gateway_domain::record::Page;
use gateway_domain::resource::budget::Budget;
use gateway_policies::slot_of;
use gateway_store::{ChargeSum, Count};
use std::collections::{HashMap, HashSet};

impl Standings for UsageCheckpoint {
    fn entities<'a>(&'a self, query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>> {
        Box::pin(async {
            self.flush().await?;
            let page = self.database.count_page(query, (self.clock)()).await?;
            let rows = page.rows.iter().map(|count| self.entity(count, query.limit)).collect();
            Ok(Page { rows, ..Page::of(page.total) })
        })
    }

    fn totals<'a>(&'a self, holders: &'a [(Holder, &'a Budget)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>> {
        Box::pin(async move {
            self.flush().await?;
            let now = (self.clock)();
            let asked: HashSet<Holder> = holders.iter().map(|(holder, _)| *holder).collect();
            let asked: Vec<Holder> = asked.into_iter().collect();
            let counts = self.database.counts_of_all(&asked, now).await?;
            let known: HashMap<Slot, &Count> = counts.iter().map(|count| (count.slot, count)).collect();
            let entity = |(holder, budget): &(Holder, &Budget)| {
                let count = known.get(&slot_of(*holder, budget, now))?;
                Some(self.entity(count, budget.limit()))
            };
            Ok(holders.iter().map(entity).collect())
        })
    }

    fn reset<'a>(&'a self, holder: Holder, which: Which<'a>) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.catch_up().await;
            self.flush().await?;
            let now = (self.clock)();
            let counts = self.database.counts_of(holder, which, now).await?;
            let used: Vec<u64> = counts.iter().map(|count| self.used(count)).collect();
            let changes: Vec<Change> = counts.iter().zip(&used).map(|(count, used)| nothing(count, *used)).collect();
            self.counters.settle(&changes);
            {
                let mut pending = self.pending.lock();
                counts.iter().zip(&changes).for_each(|(count, change)| pending.add(part(count, change.used)));
            }
            let slots: Vec<_> = counts.iter().map(|count| count.slot).collect();
            self.database.note_reset(&slots, now).await?;
            self.flush().await?;
            Ok(!counts.is_empty())
        })
    }
}

impl UsageCheckpoint {
    /// What this process counted is newer than what the database knows, as long as it counts by itself.
    fn used(&self, count: &Count) -> u64 {
        self.ledger.level(count.slot).map_or(count.used.max(0).unsigned_abs(), |(used, _)| used)
    }

    fn entity(&self, count: &Count, limit: u64) -> Entity {
        let used = self.used(count);
        Entity {
            id: count.slot.key.to_string(),
            value_key: count.owner.as_ref().map(|o| o.value_key.to_string()).unwrap_or_default(),
            used,
            exhausted: used >= limit,
            last_reset_at: count.reset_at.filter(|at| *at >= count.slot.began),
        }
    }
}

fn nothing(count: &Count, used: u64) -> Change {
    Change {
        slot: count.slot,
        ends: count.ends,
        limit: u64::MAX,
        measured: count.measured,
        keep: Keep::Shared,
        back: 0,
        more: 0,
        used: i64::try_from(used).map_or(i64::MIN, |used| -used),
        owes: false,
    }
}

fn part(count: &Count, used: i64) -> ChargeSum {
    ChargeSum {
        slot: count.slot,
        ends: count.ends,
        measured: count.measured,
        keep: count.keep,
        used,
        owner: count.owner.clone(),
    }
}
