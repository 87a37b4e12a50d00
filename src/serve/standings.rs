//! What was used of budgets: nothing yet, since no budget can be set.

use gateway_domain::ports::{Entity, EntityQuery, Fut, Holder, Standings, StoreError, Which};
use gateway_domain::record::Page;
use gateway_domain::resource::budget::Spend;

pub(crate) struct Uncounted;

impl Standings for Uncounted {
    fn entities<'a>(&'a self, _query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>> {
        Box::pin(async { Ok(Page { total: 0, rows: Vec::new() }) })
    }

    fn totals<'a>(&'a self, holders: &'a [(Holder, Spend)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>> {
        Box::pin(async { Ok(vec![None; holders.len()]) })
    }

    fn reset<'a>(&'a self, _holder: Holder, _which: Which<'a>) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }
}
