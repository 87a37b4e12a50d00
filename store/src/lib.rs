//! Floor 2: every backend behind the ports. SQLite and Postgres speak one SQL text, ClickHouse keeps records; secrets
//! are sealed here. Knows rows and bytes, never what a document means: no business rule lives in this crate.

mod alerts;
mod assignments;
mod audit;
mod availability;
mod blobs;
mod charge_sums;
mod claims;
mod configs;
mod counters;
mod database;
mod directory;
mod exports;
mod feedback;
mod filter;
mod id_seal;
mod jobs;
pub mod journal;
mod kept_answers;
mod kept_objects;
mod key_uses;
mod last_good;
mod logs;
mod master_key;
mod mcp_accounts;
mod migration;
mod node_registry;
mod notices;
mod oauth;
mod owned_objects;
mod purge;
mod redis;
mod reseal;
mod session;
mod time_limit;
mod url;
mod vault;

pub use blobs::{BadBlobUrl, BlobPlaces, ObjectPlace, Relocated, RowBlobs};
pub use charge_sums::{ChargeSum, Count};
pub use counters::{CounterVerdict, RedisCounters, Seed};
pub use database::{Database, DatabaseOptions, OpenError, open, open_later};
pub use id_seal::SivSeal;
pub use key_uses::KeyUseLog;
pub use last_good::{LastGood, LastGoodError};
pub use logs::{
    BadColumnsUrl, BodiesOutside, ColumnStore, ColumnsUrl, DayFiles, LogSource, LogsUrl, Nowhere, Partitions,
    TransferError, Transferred, open_logs,
};
pub use master_key::{BadKey, KeyError, MasterKey};
pub use migration::{MigrateError, migrate};
pub use redis::{BadRedisUrl, Redis, RedisFailure, RedisState, RedisUrl};
pub use reseal::{ResealError, Resealed};
pub use url::{BadUrl, DatabaseUrl};
pub use vault::SealingVault;
