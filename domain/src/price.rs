//! What calls cost: the card of a model and the one `price()`, the book of public prices, and prices of one's own.
//! Unknown stays unknown: a class that was used but has no rate makes the whole cost `None`, never zero. No clock is
//! asked: the time of the call is given.

mod bill;
mod book;
mod card;
mod class;
mod factors;
mod names;
mod row;
mod speech;

pub use bill::price;
pub use book::{CatalogModel, DEPLOYING, PriceBook, PriceQuery};
pub use card::{DearHours, PictureRate, PriceCard, PriceList, RateTable, TierRates, UpperRates, halves_pictures};
pub use class::PriceClass;
pub use factors::FactorTable;
pub use row::{Abilities, Modalities, ModelKind};
pub use speech::UntoldSpeech;

pub(crate) use names::undated;
