//! Prices that are not everybody's: what an integration and an organisation set, made with the snapshot, so that a
//! request finds its own by a look-up or two. Public ones stay in the book, which is asked at the time of the call.

use crate::cloud::CloudSettings;
use crate::cloud::azure;
use crate::price::{FactorTable, PriceBook, PriceCard, PriceQuery, undated};
use crate::resource::integration::Integration;
use crate::resource::pricing::Rates;
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What an organisation pays, whichever of its integrations is called, by provider and model.
#[derive(Debug, Default)]
pub struct OrgPrices(HashMap<String, PriceCard>);

impl OrgPrices {
    /// `prices`: by `provider/model`.
    pub fn of(prices: &BTreeMap<String, Rates>) -> Self {
        Self(prices.iter().map(|(name, rates)| (name.clone(), rates.card())).collect())
    }

    pub fn card(&self, provider: &str, model: &str) -> Option<&PriceCard> {
        if self.0.is_empty() {
            return None;
        }
        let get = |model: &str| self.0.get(&format!("{provider}/{model}"));
        get(model).or_else(|| get(undated(model)?))
    }
}

/// What an integration pays.
#[derive(Debug)]
pub(super) struct OwnPrices {
    provider: &'static str,
    region: String,
    models: HashMap<String, OwnPrice>,
    factors: Option<Arc<FactorTable>>,
    /// Some of them are looked for in the public list.
    pub(super) are_listed: bool,
}

#[derive(Debug)]
enum OwnPrice {
    Set(PriceCard),
    /// The model costs what this other model of the same provider costs.
    As(String),
}

impl OwnPrices {
    pub(super) fn of(doc: &Integration, provider: &'static str, settings: &CloudSettings) -> Self {
        let mut models = HashMap::new();
        for (slug, model) in &doc.models.list {
            let base = model.base_model_slug.as_deref();
            let set = |model: &str| doc.models.list.get(model).and_then(|m| m.rates.as_ref()).map(Rates::card);
            let own = match (set(slug), base) {
                (Some(card), _) => OwnPrice::Set(card),
                (None, Some(base)) => set(base).map_or_else(|| OwnPrice::As(base.to_owned()), OwnPrice::Set),
                (None, None) => continue,
            };
            models.insert(slug.clone(), own);
        }
        let factors = doc.price_factors.as_ref().map(|factors| Arc::new(factors.table()));
        let alike = models.values().any(|own| matches!(own, OwnPrice::As(_)));
        let are_listed = alike || factors.is_some() || is_listed_apart(settings);
        Self { provider, region: region(settings).to_owned(), models, factors, are_listed }
    }

    /// The price of a model where it is not the one that everybody pays.
    pub(super) fn card(&self, asked: OwnQuery<'_>) -> Option<PriceCard> {
        let card = match self.named(asked) {
            Some(OwnPrice::Set(card)) => card.clone(),
            Some(OwnPrice::As(other)) => self.listed(OwnQuery { model: other, ..asked }, true)?,
            None => self.listed(asked, false)?,
        };
        Some(card.times(self.factors.as_ref()))
    }

    fn named(&self, asked: OwnQuery<'_>) -> Option<&OwnPrice> {
        if self.models.is_empty() {
            return None;
        }
        let model = asked.model;
        let named = self.models.get(model).or_else(|| self.models.get(undated(model)?));
        named.or_else(|| self.models.get(azure::model_behind(asked.settings, Some(model))?))
    }

    /// The price of a model that has none set here: the organisation's, else a public one. `None`: it costs what
    /// everybody pays. `likened`: an admin said that another model costs what this one does.
    fn listed(&self, asked: OwnQuery<'_>, likened: bool) -> Option<PriceCard> {
        let OwnQuery { model, at, org, settings } = asked;
        if let Some(card) = org.card(self.provider, model) {
            return Some(card.clone());
        }
        let (book, own) = (PriceBook::builtin, likened || self.factors.is_some());
        let query = PriceQuery { provider: self.provider, model, region: &self.region, at };
        match azure::model_behind(settings, Some(model)) {
            Some(behind) => book().deployed(PriceQuery { model: behind, ..query }),
            None if likened => book().deployed(query),
            None if own => book().card(query),
            None if self.region.is_empty() => None,
            None => book().regional(query),
        }
        .cloned()
    }
}

/// Which of its own prices is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnQuery<'a> {
    pub(super) model: &'a str,
    pub(super) at: Timestamp,
    pub(super) org: &'a OrgPrices,
    pub(super) settings: &'a CloudSettings,
}

/// Whether what models cost with these settings is not what their names say alone: by the region, by what a deployment
/// is.
pub fn is_listed_apart(settings: &CloudSettings) -> bool {
    !region(settings).is_empty() || !settings.deployments().is_empty() || azure::model_behind(settings, None).is_some()
}

/// Where the cloud of these settings stands; empty where that is no matter of price.
pub fn region(settings: &CloudSettings) -> &str {
    settings.get("aws_region").or_else(|| settings.get("vertex_region")).unwrap_or_default()
}
