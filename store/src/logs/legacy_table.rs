//! Records of versions before the partitions: one table, `log_record`. They are moved over a few at a time, oldest
//! first, and come to rest wherever records go now. Nodes of the older version may still write to it meanwhile.

use super::columns::{COLUMNS, ColumnKind, decode};
use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::failure;
use gateway_domain::ports::{RecordAppend, StoreError};
use std::sync::LazyLock;
use tokio::time::timeout;

/// Columns of a record that the table ever had; `bodies` was never written to it by a released version.
const HAD: usize = 46;
const PAGE: u64 = 500;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let column = |(at, (name, kind)): (usize, &(&str, ColumnKind))| match kind {
        _ if at < HAD => (*name).to_owned(),
        ColumnKind::Text => "CAST(NULL AS TEXT)".to_owned(),
        ColumnKind::Int => "CAST(NULL AS BIGINT)".to_owned(),
    };
    let columns: Vec<_> = COLUMNS.iter().enumerate().map(column).collect();
    format!("SELECT {} FROM log_record", columns.join(", "))
});

impl Database {
    /// Moves what the old table of this database holds; returns how many records that were. Stopped at any moment,
    /// the next call goes on: a record is there before it is taken away here.
    pub async fn move_old_records(&self, into: &dyn RecordAppend) -> Result<u64, StoreError> {
        let mut moved = 0;
        loop {
            let (sql, values) = Filter::default().slice(&SELECT, "created_at, id", 0, PAGE);
            let page = self.rows(sql, values, decode).await?;
            if page.is_empty() {
                return Ok(moved);
            }
            into.append(&page).await?;
            let mut these = Filter::default();
            these.and_in("id", page.iter().map(|r| r.id));
            let (sql, values) = these.delete("log_record");
            let mut lease = self.lease(Side::Write).await?;
            let gone = async { lease.session().run(sql, values).await.map_err(|e| failure(&e)) };
            let gone = timeout(self.call_timeout(), gone).await;
            lease.finish(gone)?;
            moved += page.len() as u64;
        }
    }
}
