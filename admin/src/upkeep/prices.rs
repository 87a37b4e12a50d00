//! Costs that come later: records whose price nobody knew when they were made get it once somebody does.

use crate::app::App;
use gateway_domain::ports::StoreError;
use gateway_domain::price::{PriceBook, PriceCard, price};
use gateway_domain::record::{Costed, Unpriced};
use gateway_domain::snapshot::Snapshot;

/// Prices what can be priced by now; returns how many records that were. Any number of nodes may do it at once: the
/// first cost stands.
pub async fn reprice(app: &App) -> Result<u64, StoreError> {
    let mut priced = 0;
    for group in app.logs.unpriced().await? {
        let Some(card) = card(&app.live.snapshot(), &group) else { continue };
        let mut after = None;
        loop {
            let page = app.logs.unpriced_of(&group, after).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.created_at, last.id));
            let cost = |usage| price(usage, &card);
            let costs: Vec<Costed> = page
                .iter()
                .filter_map(|r| Some(Costed { id: r.id, created_at: r.created_at, cost: cost(r.usage.as_ref()?)? }))
                .collect();
            app.logs.set_costs(&costs).await?;
            priced += costs.len() as u64;
        }
    }
    Ok(priced)
}

/// What such a call costs now: by its integration, else what everybody pays.
fn card(snapshot: &Snapshot, group: &Unpriced) -> Option<PriceCard> {
    let workspace = snapshot.workspace(group.workspace).filter(|w| w.org == group.org);
    let provider = workspace.and_then(|w| w.provider(&group.virtual_key));
    let upstream = provider.and_then(|p| snapshot.upstream(p.integration));
    match upstream.filter(|u| u.provider.slug == group.provider) {
        Some(upstream) => upstream.card(&group.model).copied(),
        None => PriceBook::builtin().card(&group.provider, &group.model).copied(),
    }
}
