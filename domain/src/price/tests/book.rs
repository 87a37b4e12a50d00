//! The list that ships: that it is read whole, and that names, days and regions find their row.

#[path = "pages.rs"]
mod pages;

use super::*;
use crate::money::PicoRate;
use crate::price::{PriceClass, price};
use crate::usage::{Usage, UsageDetail};

fn at(day: &str) -> Timestamp {
    day.parse().expect("a day")
}

fn query<'a>(provider: &'a str, model: &'a str) -> PriceQuery<'a> {
    PriceQuery { provider, model, region: "", at: at("2026-11-22") }
}

fn input(book: &PriceBook, query: PriceQuery<'_>) -> Option<u64> {
    book.model(query)?.card.rate(PriceClass::Input).map(|PicoRate(rate)| rate)
}

#[test]
fn every_row_of_the_file_is_read() {
    let file = include_str!("../../../data/prices.json");
    let book = PriceBook::parse(file).expect("reads");
    assert_eq!(book.len(), file.lines().count() - 2);
    assert!(book.len() > 2_500, "{}", book.len());
    let mut before = ("", "", "", None);
    for row in &book.rows {
        let this = (row.provider, row.model, row.region, row.from);
        assert!(before < this, "{this:?} stands behind {before:?}");
        before = this;
        let rates = row.card.list.standard.rates.iter().count() + row.card.list.pictures.len();
        assert!(rates > 0, "{this:?} has no rate");
    }
}

#[test]
fn the_public_examples_come_out() {
    let book = PriceBook::builtin();
    let cost = |model, usage: Usage| {
        let card = book.card(query("openai", model));
        price(&usage, card, at("2026-11-22")).map(|nano| nano.0)
    };
    let none = Usage::default();
    let long = Usage { input: 200_000, cache_read: 100_000, output: 1_000, ..none };
    assert_eq!(cost("gpt-5.5", long), Some(2_145_000_000));
    let heard = Usage { detail: UsageDetail { millis_in: 90_000, ..UsageDetail::default() }, ..none };
    assert_eq!(cost("whisper-1", heard), Some(9_000_000), "a minute and a half");
    assert_eq!(cost("gpt-image-2", Usage { input: 50, output: 4_160, ..none }), Some(125_050_000));
}

#[test]
fn a_long_prompt_costs_more_from_the_token_on_that_its_provider_says() {
    let book = PriceBook::builtin();
    let dollars = |provider, model, input| {
        let card = book.card(query(provider, model));
        let nanos = price(&Usage { input, ..Usage::default() }, card, at("2026-11-22")).expect("a price");
        nanos.0 as f64 / 1e9
    };
    // 5 and 10 dollars a million, above 272,000.
    assert_eq!(dollars("openai", "gpt-5.5", 272_000), 1.36);
    assert_eq!(dollars("openai", "gpt-5.5", 272_001), 2.720_01);
    // 2 and 4 dollars a million, from 200,000 on.
    assert_eq!(dollars("x-ai", "grok-4.6", 199_999), 0.399_998);
    assert_eq!(dollars("x-ai", "grok-4.6", 200_000), 0.8);
    assert_eq!(dollars("x-ai", "grok-4.6", 200_001), 0.800_004);
}

#[test]
fn names_lead_to_their_model() {
    let book = PriceBook::builtin();
    let same = |provider: &str, name: &str, model: &str| {
        assert!(input(book, query(provider, model)).is_some(), "{model} is there");
        assert_eq!(input(book, query(provider, name)), input(book, query(provider, model)), "{name}");
    };
    same("openai", "gpt-4o-2099-01-01", "gpt-4o");
    same("anthropic", "claude-sonnet-5-5-20991231", "claude-sonnet-5-5");
    assert_eq!(input(book, query("openai", "ft:gpt-5.5:acme::1")), None, "what was fine-tuned is not its base");
    assert_eq!(input(book, query("openai", "nobody-knows")), None);
    assert_eq!(input(book, query("nobody", "gpt-4o")), None);
}

#[test]
fn a_price_is_that_of_its_day_and_region() {
    let book = PriceBook::parse(concat!(
        r#"{"provider":"p","model":"m","also":["n"],"until":"2026-03-01","source":"s","date":"2026-01-01","rates":{"input":1}},"#,
        "\n",
        r#"{"provider":"p","model":"m","also":["n"],"from":"2026-03-01","shutdown":"2026-12-01","source":"s","date":"2026-01-01","rates":{"input":2}},"#,
        "\n",
        r#"{"provider":"p","model":"m","region":"eu-west-1","source":"s","date":"2026-01-01","rates":{"input":3}}"#,
    ))
    .expect("reads");
    let of = |name, day: &str, region| input(&book, PriceQuery { provider: "p", model: name, region, at: at(day) });
    assert_eq!(of("m", "2026-02-28T23:59:59Z", ""), Some(1));
    assert_eq!(of("n", "2026-03-01", ""), Some(2));
    assert_eq!(of("m", "2026-03-01", "eu-west-1"), Some(3));
    assert_eq!(of("m", "2026-03-01", "us-east-1"), Some(2));
    assert_eq!(book.models("p", at("2026-11-30")).count(), 1, "each model once");
    assert_eq!(book.models("p", at("2026-12-01")).count(), 0, "and none that its provider ended");
}

#[test]
fn what_users_name_themselves_has_no_public_price() {
    let book = PriceBook::builtin();
    assert!(book.model(query("azure-openai", "gpt-4o")).is_some());
    assert!(book.card(query("azure-openai", "gpt-4o")).is_none(), "a deployment of that name may be anything");
    assert!(book.deployed(query("azure-openai", "gpt-4o")).is_some());
}
