//! The prices that everybody pays, and what else is public of models: the rows of `data/prices.json`. Read when they
//! are first asked for; nothing of it is on the way of a request before that.

use super::card::PriceCard;
use super::names;
use super::row::{Abilities, Modalities, ModelKind, PriceRow, midnight};
use crate::time::Timestamp;
use ahash::AHashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// The family whose users choose what their models are called: a deployment `gpt-4o` may be any model.
pub const DEPLOYING: &str = "azure-openai";

/// Which price is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PriceQuery<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    /// The region of the cloud that serves the model, or empty.
    pub region: &'a str,
    /// When the call began.
    pub at: Timestamp,
}

/// A model of the book, at the price of one time and region.
#[derive(Clone, Debug)]
pub struct CatalogModel {
    pub provider: &'static str,
    pub model: &'static str,
    /// Empty where the price holds in every region that has no row of its own.
    pub region: &'static str,
    pub title: Option<&'static str>,
    pub kind: ModelKind,
    /// Tokens that it can look at, and write; 0 is not known.
    pub context: u32,
    pub output_limit: u32,
    pub reads: Modalities,
    pub writes: Modalities,
    pub abilities: Abilities,
    /// The price holds from the first to before the second.
    pub from: Option<Timestamp>,
    until: Option<Timestamp>,
    /// The day on which its provider ends it.
    pub shutdown: Option<&'static str>,
    shut: Option<Timestamp>,
    pub card: PriceCard,
}

impl CatalogModel {
    fn holds(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }

    pub fn is_shut(&self, at: Timestamp) -> bool {
        self.shut.is_some_and(|shut| shut <= at)
    }
}

#[derive(Debug, Default)]
pub struct PriceBook {
    /// Rows of one model lie beside each other.
    rows: Vec<CatalogModel>,
    providers: AHashMap<&'static str, ProviderShelf>,
}

#[derive(Debug, Default)]
struct ProviderShelf {
    rows: Range<u32>,
    /// Where the rows of a model lie, by each name that it goes by.
    names: AHashMap<&'static str, Range<u32>>,
}

static BUILTIN: OnceLock<PriceBook> = OnceLock::new();

impl PriceBook {
    /// Reads a file with a row on each line, sorted by provider and model.
    pub fn parse(json: &'static str) -> Result<Self, String> {
        let lines: Vec<&str> = json.lines().filter(|line| line.starts_with('{')).collect();
        let mut book = Self { rows: Vec::with_capacity(lines.len()), ..Self::default() };
        for line in lines {
            let row = serde_json::from_str(line.trim_end_matches(',')).map_err(|e| format!("{e} in {line}"))?;
            book.put(row)?;
        }
        for shelf in book.providers.values_mut() {
            shelf.names.shrink_to_fit();
        }
        Ok(book)
    }

    fn put(&mut self, row: PriceRow<'static>) -> Result<(), String> {
        let at = u32::try_from(self.rows.len()).map_err(|_| "too many rows".to_owned())?;
        let shelf = self
            .providers
            .entry(row.provider)
            .or_insert_with(|| ProviderShelf { rows: at..at, ..ProviderShelf::default() });
        shelf.rows.end = at + 1;
        for name in std::iter::once(&row.model).chain(&row.also) {
            shelf.names.entry(name).or_insert(at..at).end = at + 1;
        }
        self.rows.push(CatalogModel {
            provider: row.provider,
            model: row.model,
            region: row.region,
            title: row.name,
            kind: row.kind,
            context: row.context,
            output_limit: row.output,
            reads: row.reads(),
            writes: row.writes(),
            abilities: row.abilities(),
            from: midnight(row.from)?,
            until: midnight(row.until)?,
            shutdown: row.shutdown,
            shut: midnight(row.shutdown)?,
            card: PriceCard::public(row.list().ok_or("hours that cannot be read")?),
        });
        Ok(())
    }

    /// Reads the file when it is first called, which takes milliseconds.
    pub fn builtin() -> &'static Self {
        BUILTIN.get_or_init(Self::read)
    }

    fn read() -> Self {
        Self::parse(include_str!("../../data/prices.json")).unwrap_or_default()
    }

    /// Reads the file, unless somebody did; the rows that this call read.
    pub fn open() -> Option<usize> {
        let mut read = None;
        BUILTIN.get_or_init(|| {
            let book = Self::read();
            read = Some(book.len());
            book
        });
        read
    }

    /// The prices of the file where it was read already; `None`: it was not, and is not read now.
    pub fn opened() -> Option<&'static Self> {
        BUILTIN.get()
    }

    /// The price of a model that is called by its own name, at the price of everybody.
    pub fn card(&self, query: PriceQuery<'_>) -> Option<&PriceCard> {
        self.model(query).filter(|_| query.provider != DEPLOYING).map(|model| &model.card)
    }

    /// The price of a model that is known by its own name, whatever it is called by.
    pub fn deployed(&self, query: PriceQuery<'_>) -> Option<&PriceCard> {
        // What its own list lacks costs what it costs at the maker, as it does for what the list has.
        let maker = || self.model(PriceQuery { provider: "openai", ..query }).filter(|_| query.provider == DEPLOYING);
        self.model(query).or_else(maker).map(|model| &model.card)
    }

    /// The row of a model at a time; that of the region before that of all others.
    pub fn model(&self, query: PriceQuery<'_>) -> Option<&CatalogModel> {
        let shelf = self.providers.get(query.provider)?;
        let rows = names::find(query.model, |name| shelf.names.get(name))?;
        let mut everywhere = None;
        for row in self.slice(rows) {
            if row.holds(query.at) {
                match row.region {
                    "" => everywhere = Some(row),
                    own if own == query.region => return Some(row),
                    _ => {}
                }
            }
        }
        everywhere
    }

    /// Whether the price depends on the region, and how it is there.
    pub fn regional(&self, query: PriceQuery<'_>) -> Option<&PriceCard> {
        self.model(query).filter(|model| !model.region.is_empty()).map(|model| &model.card)
    }

    /// Models of a provider that it had at a time, each once, in the order of their names.
    pub fn models(&self, provider: &str, at: Timestamp) -> impl Iterator<Item = &CatalogModel> {
        let rows = self.providers.get(provider).map(|shelf| self.slice(&shelf.rows)).unwrap_or_default();
        rows.iter().filter(move |row| row.region.is_empty() && row.holds(at) && !row.is_shut(at))
    }

    fn slice(&self, rows: &Range<u32>) -> &[CatalogModel] {
        self.rows.get(rows.start as usize..rows.end as usize).unwrap_or_default()
    }

    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
#[path = "tests/book.rs"]
mod tests;
