//! Real servers for tests: each start gets a free port and a directory of its own, and both are gone when
//! the value is dropped, also after a panic. Only ever a dev-dependency.
//! A missing program fails the test and says what to install: a skipped test proves nothing.

#![expect(clippy::panic, reason = "a test that cannot start its server has failed")]

mod bucket;
mod certificate;
mod child;
mod clickhouse;
mod installed;
mod postgres;
mod program;
mod redis;
mod relay;

pub use bucket::Bucket;
pub use clickhouse::ClickHouse;
pub use installed::installed;
pub use postgres::Postgres;
pub use redis::Redis;
