//! What each store keeps of messages, by the records that it belongs to.

use super::super::clickhouse::ColumnStore;
use super::super::day::Day;
use super::super::field::from_json;
use super::super::files::DayFiles;
use super::super::partitions::Partitions;
use super::super::shape::Table;
use crate::database::Database;
use crate::filter::Filter;
use crate::session::Value;
use gateway_domain::ports::{Fut, StoreError};
use gateway_domain::record::{Bodies, LogRecord};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// The bodies of one record, with their length as it is stored.
pub(in crate::logs) struct FoundBodies {
    pub(super) bodies: Box<Bodies>,
    pub(super) bytes: usize,
}

pub(in crate::logs) trait KeptBodies: Send + Sync {
    /// The bodies of these records; most have none.
    fn bodies_of<'a>(&'a self, records: &'a [LogRecord]) -> Fut<'a, Result<HashMap<Uuid, FoundBodies>, StoreError>>;
}

const SELECT: &str = "SELECT id, bodies FROM log_body";

fn wanted(records: &[LogRecord]) -> (String, Vec<Value<'_>>) {
    let times = || records.iter().map(|record| record.created_at.micros());
    let mut filter = Filter::default();
    filter.and("created_at >= ?", times().min().unwrap_or_default());
    filter.and("created_at <= ?", times().max().unwrap_or_default());
    filter.and_in("id", records.iter().map(|record| record.id));
    filter.grouped(SELECT, "")
}

fn found(rows: Vec<(Uuid, Option<String>)>) -> HashMap<Uuid, FoundBodies> {
    let read = |(id, text): (Uuid, Option<String>)| {
        let text = text?;
        let bodies = from_json(Some(&text)).map(Box::new)?;
        Some((id, FoundBodies { bodies, bytes: text.len() }))
    };
    rows.into_iter().filter_map(read).collect()
}

async fn in_rows(database: &Database, records: &[LogRecord]) -> Result<HashMap<Uuid, FoundBodies>, StoreError> {
    let (sql, values) = wanted(records);
    let rows = database.rows(sql, values, |row| {
        let mut c = row.columns();
        Ok((c.uuid()?, c.opt_text()?.map(str::to_owned)))
    });
    Ok(found(rows.await?))
}

impl KeptBodies for DayFiles {
    fn bodies_of<'a>(&'a self, records: &'a [LogRecord]) -> Fut<'a, Result<HashMap<Uuid, FoundBodies>, StoreError>> {
        Box::pin(async move {
            let mut all = HashMap::new();
            let days: HashSet<Day> = records.iter().map(|record| Day::of(record.created_at)).collect();
            for day in days {
                if let Some(database) = self.present(day, Table::Bodies).await? {
                    all.extend(in_rows(&database, records).await?);
                }
            }
            Ok(all)
        })
    }
}

impl KeptBodies for Partitions {
    fn bodies_of<'a>(&'a self, records: &'a [LogRecord]) -> Fut<'a, Result<HashMap<Uuid, FoundBodies>, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            in_rows(&self.database, records).await
        })
    }
}

impl KeptBodies for ColumnStore {
    fn bodies_of<'a>(&'a self, records: &'a [LogRecord]) -> Fut<'a, Result<HashMap<Uuid, FoundBodies>, StoreError>> {
        Box::pin(async move {
            let (sql, values) = wanted(records);
            Ok(found(self.texts_by_id(&sql.replace("log_body", "log_body FINAL"), &values).await?))
        })
    }
}
