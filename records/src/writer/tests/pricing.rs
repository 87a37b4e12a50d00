//! What the writer adds to records: their price, and what the cache saved.

use super::super::prepare;
use super::*;
use gateway_domain::NanoUsd;
use gateway_domain::record::CacheStatus;

/// Ten tokens in and five out at the public price of the model: 2.5 and 10 dollars for a million.
const LISTED: Option<NanoUsd> = Some(NanoUsd(75_000));

fn prepared(change: impl FnOnce(&mut LogRecord)) -> LogRecord {
    let mut record = record(1);
    change(&mut record);
    prepare(std::slice::from_mut(&mut record));
    record
}

#[test]
fn usage_has_its_listed_price() {
    let called = prepared(|_| {});
    assert_eq!((called.cost, called.llm_or_none().saved), (LISTED, None));
}

#[test]
fn a_hit_costs_nothing_and_tells_what_it_saved() {
    let hit = prepared(|record| record.llm_mut().expect("a call of a model").cache = CacheStatus::Hit);
    assert_eq!((hit.cost, hit.llm_or_none().saved), (Some(NanoUsd(0)), LISTED));
    let miss = prepared(|record| record.llm_mut().expect("a call of a model").cache = CacheStatus::Miss);
    assert_eq!((miss.cost, miss.llm_or_none().saved), (LISTED, None));
}

#[test]
fn what_nobody_knows_the_price_of_has_none() {
    assert_eq!(prepared(|record| record.model = "a-model-of-ones-own".into()).cost, None);
    assert_eq!(prepared(|record| record.operation = RecordedOperation::NONE).cost, None);
}

#[test]
fn a_cost_that_came_along_stays_where_no_price_says_better() {
    let told = |record: &mut LogRecord| record.cost = Some(NanoUsd(7));
    let own = prepared(|record| {
        told(record);
        record.model = "a-model-of-ones-own".into();
    });
    assert_eq!(own.cost, Some(NanoUsd(7)));
    assert_eq!(prepared(told).cost, LISTED);
}
