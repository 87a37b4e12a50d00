//! Log records: appended in batches by the record shipper, read a page at a time by admins, kept by the day on
//! each engine. Nothing here is on the path of a request.

mod append;
mod batch_sizes;
mod body_objects;
mod clickhouse;
pub(crate) mod columns;
mod copy;
mod day;
mod detail;
pub(crate) mod field;
mod files;
mod label;
mod legacy_table;
mod null_store;
mod paging;
mod partitions;
mod query;
mod readers;
mod rollup;
mod shape;
mod sums;
mod transfer;

pub(crate) use append::without_zero;
pub use body_objects::BodiesOutside;
pub use clickhouse::{BadColumnsUrl, ColumnStore, ColumnsUrl};
pub use files::DayFiles;
pub use null_store::Nowhere;
pub use partitions::Partitions;
pub use transfer::{LogSource, TransferError, Transferred};

use crate::database::{DatabaseOptions, OpenError, open_later};
use crate::url::{BadUrl, DatabaseUrl, Engine};
use gateway_domain::ports::{LogStore, NamedMetadata};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where records go.
#[derive(Clone)]
pub enum LogsUrl {
    /// A folder of SQLite files.
    Files(PathBuf),
    Postgres(DatabaseUrl),
    ClickHouse(Box<ColumnsUrl>),
    /// `null:`, and `off:` where nobody even writes: for measurements.
    Nowhere,
}

impl LogsUrl {
    /// `sqlite:<folder>`, `postgres://…`, `clickhouse://…`, `clickhouses://…`, `null:`, `off:`.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if matches!(text, "null:" | "off:") {
            return Ok(Self::Nowhere);
        }
        if ColumnsUrl::is_meant_by(text) {
            return Ok(Self::ClickHouse(Box::new(ColumnsUrl::parse(text)?)));
        }
        let url = DatabaseUrl::parse(text)?;
        match url.0 {
            Engine::File(folder) => Ok(Self::Files(folder)),
            Engine::Memory => Err(BadUrl::NoPath),
            Engine::Postgres(_) => Ok(Self::Postgres(url)),
        }
    }
}

impl fmt::Debug for LogsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(folder) => write!(f, "LogsUrl(sqlite:{})", folder.display()),
            Self::Postgres(url) => write!(f, "LogsUrl({url})"),
            Self::ClickHouse(url) => write!(f, "LogsUrl({url})"),
            Self::Nowhere => f.write_str("LogsUrl(null:)"),
        }
    }
}

/// A server that is away does not matter here: records wait for it in the journal. `names` says by which keys of
/// metadata sums are kept.
pub async fn open_logs(
    url: &LogsUrl,
    options: &DatabaseOptions,
    names: Option<Arc<dyn NamedMetadata>>,
) -> Result<Arc<dyn LogStore>, OpenError> {
    Ok(match url {
        LogsUrl::Files(folder) => Arc::new(
            DayFiles::open(folder, options, names)
                .map_err(|source| OpenError::Create { path: folder.clone(), source })?,
        ),
        LogsUrl::Postgres(url) => Arc::new(Partitions::over(open_later(url, options).await?, names)),
        LogsUrl::ClickHouse(url) => {
            Arc::new(ColumnStore::open(url, options).map_err(|why| OpenError::Columns { place: url.to_string(), why })?)
        }
        LogsUrl::Nowhere => Arc::new(Nowhere::default()),
    })
}
