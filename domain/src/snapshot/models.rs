//! What single models of an integration have of their own: host, headers, price. Made with the snapshot, so that
//! a request finds each by one look-up.

use super::{Build, Upstream};
use crate::cloud::Settings;
use crate::cloud::azure::PRICED_AS;
use crate::egress::check_custom_host;
use crate::id::WorkspaceId;
use crate::price::{PriceBook, PriceCard};
use crate::resource::integration::{Access, Integration};
use crate::resource::limits::Limits;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The integration as it is called for models with a host or headers of their own.
pub(super) fn tuned(
    plain: &Upstream,
    doc: &Integration,
    build: &Build<'_>,
) -> Result<HashMap<String, Arc<Upstream>>, String> {
    let mut out = HashMap::new();
    for (slug, model) in &doc.models.list {
        if model.custom_host.is_none() && model.custom_headers.is_empty() {
            continue;
        }
        let mut own = plain.clone();
        if let Some(url) = &model.custom_host {
            let base = check_custom_host(url, build.trusted).map_err(|why| format!("custom_host of {slug} {why}"))?;
            own.base = Some(Arc::new(base));
        }
        for (name, sealed) in &model.custom_headers {
            let value = build.vault.open(sealed).map_err(|e| format!("a header of {slug} cannot be opened: {e}"))?;
            own.headers.retain(|(n, _)| n != name);
            own.headers.push((name.clone(), value));
        }
        // Prepared heads and pools of one model are not those of another.
        own.generation = slug.bytes().fold(plain.generation, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        out.insert(slug.clone(), Arc::new(own));
    }
    Ok(out)
}

/// Prices of models that are not what everybody pays: set by the admin, of a base model, or with a factor.
pub(super) fn cards(doc: &Integration, provider: &str, settings: &Settings) -> HashMap<String, Arc<PriceCard>> {
    let book = PriceBook::builtin();
    let mut cards: HashMap<String, PriceCard> = HashMap::new();
    if doc.price_factors.is_some() {
        let all = book.models(provider).filter_map(|m| Some((m.to_owned(), *book.card(provider, m)?)));
        cards.extend(all);
    }
    // What a deployment is said to be.
    let behind =
        settings.deployments().iter().filter_map(|d| d.model.as_deref()).chain(settings.get("azure_model_name"));
    cards.extend(behind.filter_map(|m| Some((m.to_owned(), *book.card(PRICED_AS, m)?))));
    for (slug, model) in &doc.models.list {
        let own = model.rates.map(|r| r.card());
        let base = model.base_model_slug.as_deref();
        let base = base.and_then(|b| {
            let set = doc.models.list.get(b).and_then(|m| m.rates).map(|r| r.card());
            set.or_else(|| book.card(provider, b).copied())
        });
        if let Some(card) = own.or(base) {
            cards.insert(slug.clone(), card);
        }
    }
    let factors = doc.price_factors.unwrap_or_default();
    cards.into_iter().map(|(model, card)| (model, Arc::new(factors.apply(&card)))).collect()
}

pub(super) fn limits(access: &Access) -> BTreeMap<WorkspaceId, Arc<Limits>> {
    access.workspace_limits.iter().map(|(id, limits)| (*id, Arc::new(limits.clone()))).collect()
}
