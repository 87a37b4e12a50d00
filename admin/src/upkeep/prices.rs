//! Costs that come later: records whose price nobody knew when they were made get it once somebody does.

use crate::app::App;
use gateway_domain::ports::StoreError;
use gateway_domain::price::{PriceBook, PriceCard, PriceQuery, price};
use gateway_domain::record::{Costed, LogRecord, Unpriced};
use gateway_domain::snapshot::Snapshot;
use gateway_domain::time::Timestamp;

/// Prices what can be priced by now; returns how many records that were. Any number of nodes may do it at once: the
/// first cost stands.
pub async fn reprice(app: &App) -> Result<u64, StoreError> {
    let mut priced = 0;
    for group in app.repricing.unpriced().await? {
        let mut after = None;
        loop {
            let page = app.repricing.unpriced_of(&group, after).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.created_at, last.id));
            let snapshot = app.live.snapshot();
            let cost = |r: &LogRecord| {
                let card = card(&snapshot, &group, r.created_at);
                price(r.usage()?, card.as_ref(), r.created_at)
            };
            let costs: Vec<Costed> = page
                .iter()
                .filter_map(|r| Some(Costed { id: r.id, created_at: r.created_at, cost: cost(r)? }))
                .collect();
            app.repricing.set_costs(&costs).await?;
            priced += costs.len() as u64;
            if costs.is_empty() && card(&snapshot, &group, last.created_at).is_none() {
                // Nobody knows it still; what is younger may be of another price, but not of none.
                break;
            }
        }
    }
    Ok(priced)
}

/// The price of such a call where it is not what everybody pays.
pub(crate) fn own_card(snapshot: &Snapshot, group: &Unpriced, at: Timestamp) -> Option<PriceCard> {
    let (provider, model) = (&*group.provider, &*group.model);
    let org = snapshot.org(group.org)?;
    let workspace = snapshot.workspace(group.workspace).filter(|w| w.org == group.org);
    let managed = workspace.and_then(|w| w.provider(&group.virtual_key));
    let upstream = managed.and_then(|p| snapshot.upstream(p.integration));
    match upstream.filter(|u| u.provider.slug == provider) {
        Some(upstream) => upstream.own_card(model, &org.prices, at),
        None => org.prices.card(provider, model).cloned(),
    }
}

/// What such a call cost at its time: by its integration, else its organisation, else what everybody pays.
fn card(snapshot: &Snapshot, group: &Unpriced, at: Timestamp) -> Option<PriceCard> {
    snapshot.org(group.org)?;
    let (provider, model) = (&*group.provider, &*group.model);
    own_card(snapshot, group, at)
        .or_else(|| PriceBook::builtin().card(PriceQuery { provider, model, region: "", at }).cloned())
}
