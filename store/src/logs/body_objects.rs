//! What is kept of messages, in objects beside the log store: of each batch and day one object of JSON lines, each line
//! compressed by itself, so that all together are a gzip file that any tool reads, and one is read alone. The log store
//! keeps where a line lies. Knows nothing of what a log store is over.

use super::day::Day;
use crate::blobs::{BlobPlaces, Lost, ObjectPlace};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{SumQuery, SumsFound};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, LogStore, RecordAppend, RecordQuery, RecordSums, Repricing, Retention, StoreError};
use gateway_domain::record::{Bodies, BodiesPlace, Costed, LogQuery, LogRecord, Page, Unpriced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error, Read as _, Write as _};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of a line, before it was compressed: more was never kept of four messages.
const MOST_LINE: u64 = 64 << 20;

/// A line of an object.
#[derive(Serialize, Deserialize)]
struct KeptLine {
    id: Uuid,
    created_at: i64,
    #[serde(flatten)]
    bodies: Box<Bodies>,
}

/// A log store whose messages lie elsewhere.
pub struct BodiesOutside {
    inner: Arc<dyn LogStore>,
    places: BlobPlaces,
}

impl BodiesOutside {
    pub fn new(inner: Arc<dyn LogStore>, places: BlobPlaces) -> Self {
        Self { inner, places }
    }

    /// Objects stand before the rows that name them. Should those never be written, the objects go with their day.
    async fn put(&self, place: &ObjectPlace, batch: &[LogRecord]) -> Result<Vec<LogRecord>, StoreError> {
        let mut batch = batch.to_vec();
        let mut days: BTreeMap<Day, Vec<&mut LogRecord>> = BTreeMap::new();
        for record in batch.iter_mut().filter(|record| record.bodies.is_some()) {
            days.entry(Day::of(record.created_at)).or_default().push(record);
        }
        for (day, records) in days {
            let name = place.object_of_day(&day.name(), Uuid::now_v7());
            let lines: Vec<KeptLine> = records
                .iter()
                .filter_map(|record| {
                    let (id, created_at) = (record.id, record.created_at.micros());
                    record.bodies.clone().map(|bodies| KeptLine { id, created_at, bodies })
                })
                .collect();
            let packed = tokio::task::spawn_blocking(move || pack(&lines)).await;
            let packed = packed.map_err(|e| broken(&e))?.map_err(|e| broken(&e))?;
            place.put(&name, packed.bytes).await?;
            for (record, (at, bytes)) in records.into_iter().zip(packed.lines) {
                let outside = Some(BodiesPlace { object: name.as_str().into(), at, bytes });
                record.bodies = Some(Box::new(Bodies { outside, ..Bodies::default() }));
            }
        }
        Ok(batch)
    }

    /// `None` where they are gone: somebody lets go of them sooner than the gateway does.
    async fn fetch(&self, at: &BodiesPlace) -> Result<Option<Box<Bodies>>, StoreError> {
        let place = self.places.of(&at.object)?;
        let line = match place.get_part(&at.object, at.at..at.at.saturating_add(at.bytes)).await {
            Ok(line) => line,
            Err(Lost::Missing) => return Ok(None),
            Err(Lost::Store(why)) => return Err(why),
        };
        let read = move || -> Result<KeptLine, Error> {
            let mut text = Vec::new();
            GzDecoder::new(&line[..]).take(MOST_LINE).read_to_end(&mut text)?;
            Ok(serde_json::from_slice(&text)?)
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|e| broken(&e))?;
        Ok(Some(read.map_err(|e| broken(&e))?.bodies))
    }

    async fn drop_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut dropped = 0;
        for place in self.places.all() {
            for day in place.days().await? {
                if Day::parse(&day).is_some_and(|day| day.is_over_at(before)) {
                    place.drop_day(&day).await?;
                    dropped += 1;
                }
            }
        }
        Ok(dropped)
    }
}

impl fmt::Debug for BodiesOutside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BodiesOutside").field(&self.places).finish()
    }
}

fn broken(error: &dyn fmt::Display) -> StoreError {
    StoreError::Broken(format!("messages of a record: {error}"))
}

struct PackedLines {
    bytes: Vec<u8>,
    /// Where each begins, and how long it is.
    lines: Vec<(u64, u64)>,
}

fn pack(lines: &[KeptLine]) -> Result<PackedLines, Error> {
    let mut packed = PackedLines { bytes: Vec::new(), lines: Vec::with_capacity(lines.len()) };
    for line in lines {
        let at = packed.bytes.len() as u64;
        let mut encoder = GzEncoder::new(&mut packed.bytes, Compression::fast());
        serde_json::to_writer(&mut encoder, line)?;
        encoder.write_all(b"\n")?;
        encoder.finish()?;
        packed.lines.push((at, packed.bytes.len() as u64 - at));
    }
    Ok(packed)
}

impl RecordAppend for BodiesOutside {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            match self.places.current() {
                Some(place) if batch.iter().any(|record| record.bodies.is_some()) => {
                    let named = self.put(place, batch).await?;
                    self.inner.append(&named).await
                }
                _ => self.inner.append(batch).await,
            }
        })
    }

    fn at_once(&self) -> usize {
        self.inner.at_once()
    }
}

impl RecordQuery for BodiesOutside {
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        self.inner.query(query)
    }

    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        Box::pin(async move {
            let Some(mut record) = self.inner.get(id, workspace).await? else { return Ok(None) };
            if let Some(at) = record.bodies.as_deref_mut().and_then(|bodies| bodies.outside.take()) {
                record.bodies = self.fetch(&at).await?;
            }
            Ok(Some(record))
        })
    }
}

impl RecordSums for BodiesOutside {
    fn sums<'a>(&'a self, query: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>> {
        self.inner.sums(query)
    }

    fn sums_begun(&self) -> u64 {
        self.inner.sums_begun()
    }

    fn sums_waiting(&self) -> u64 {
        self.inner.sums_waiting()
    }

    fn make_up(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        self.inner.make_up(ended_before)
    }
}

impl Repricing for BodiesOutside {
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>> {
        self.inner.unpriced()
    }

    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>> {
        self.inner.unpriced_of(group, after)
    }

    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>> {
        self.inner.set_costs(costs)
    }
}

impl Retention for BodiesOutside {
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let dropped = self.inner.expire(bodies, records).await?;
            Ok(dropped + self.drop_before(bodies.max(records)).await?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_alone_and_all_together() {
        let line = |n: u128| KeptLine { id: Uuid::from_u128(n), created_at: 7, bodies: Box::default() };
        let packed = pack(&[line(1), line(2), line(3)]).expect("packed");
        let (at, bytes) = packed.lines[1];
        let alone = &packed.bytes[at as usize..(at + bytes) as usize];
        let mut text = String::new();
        GzDecoder::new(alone).read_to_string(&mut text).expect("a gzip member");
        let read: KeptLine = serde_json::from_str(&text).expect("a line");
        assert_eq!((read.id, read.created_at), (Uuid::from_u128(2), 7));
        let mut all = String::new();
        flate2::read::MultiGzDecoder::new(&packed.bytes[..]).read_to_string(&mut all).expect("a gzip file");
        assert_eq!(all.lines().count(), 3);
    }
}
