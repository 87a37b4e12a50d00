//! Tests of the crate from outside: policies as the Admin API saves them, calls as the proxy describes them.

mod bound;
mod budget;
mod cost;
mod exact;
mod fixture;
mod keys;
mod ledger;
mod matching;
mod model;
mod money;
mod verdict;
