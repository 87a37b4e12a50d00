//! The one order of a record's columns: for the tables' text, for writing and for reading.
//! Adding a field: a line in each of the three lists here. Tables are made from them and given what they lack, so there is
//! no migration to write.

use super::label::label;
use crate::configs::narrow;
use crate::session::{Columns, Row};
use gateway_domain::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use gateway_domain::record::{CacheStatus, LogRecord, Steps, Timings};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use sqlx::Error;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int,
}

use Kind::{Int, Text};

pub(crate) const COLUMNS: [(&str, Kind); 54] = [
    ("id", Text),
    ("created_at", Int),
    ("trace_id", Text),
    ("attempt", Int),
    ("last", Int),
    ("org", Text),
    ("workspace", Text),
    ("workspace_slug", Text),
    ("key_id", Text),
    ("owner", Text),
    ("config", Text),
    ("virtual_key", Text),
    ("provider", Text),
    ("model", Text),
    ("response_model", Text),
    ("operation", Text),
    ("method", Text),
    ("path", Text),
    ("status", Int),
    ("fault", Text),
    ("stream", Int),
    ("retries", Int),
    ("option_index", Text),
    ("strategy", Text),
    ("total_tokens", Int),
    ("input_tokens", Int),
    ("cache_read_tokens", Int),
    ("cache_write_tokens", Int),
    ("output_tokens", Int),
    ("reasoning_tokens", Int),
    ("audio_in_tokens", Int),
    ("audio_out_tokens", Int),
    ("images", Int),
    ("estimated", Int),
    ("cost", Int),
    ("total_us", Int),
    ("upstream_us", Int),
    ("first_byte_us", Int),
    ("gateway_us", Int),
    ("request_bytes", Int),
    ("response_bytes", Int),
    ("client_ip", Text),
    ("metadata", Text),
    ("adjusted", Text),
    ("cache_status", Text),
    ("trace", Text),
    ("charges", Text),
    ("config_id", Text),
    ("config_version", Text),
    ("client", Text),
    ("parse_us", Int),
    ("before_us", Int),
    ("cache_us", Int),
    ("after_us", Int),
];

/// Takes a record's values from left to right.
pub(crate) trait Sink<'r> {
    fn text(&mut self, text: Option<&'r str>);
    fn made(&mut self, text: Option<String>);
    fn id(&mut self, id: Option<Uuid>);
    fn int(&mut self, number: Option<i64>);
}

/// All but what is kept of messages, which lies elsewhere.
pub(crate) fn encode<'r>(record: &'r LogRecord, sink: &mut impl Sink<'r>) {
    sink.id(Some(record.id));
    sink.int(Some(record.created_at.micros()));
    sink.text(Some(clipped(&record.trace_id)));
    sink.int(Some(record.attempt.into()));
    sink.int(Some(record.last.into()));
    sink.id(Some(record.org.0));
    sink.id(Some(record.workspace.0));
    sink.text(Some(&record.workspace_slug));
    sink.id(record.key.map(|key| key.0));
    sink.id(record.owner);
    sink.text(Some(&record.config));
    sink.text(Some(&record.virtual_key));
    sink.text(Some(&record.provider));
    sink.text(Some(&record.model));
    sink.text(record.response_model.as_deref());
    sink.text(Some(record.operation));
    sink.text(Some(&record.method));
    sink.text(Some(&record.path));
    sink.int(Some(record.status.into()));
    sink.text(record.fault);
    sink.int(Some(record.stream.into()));
    sink.int(Some(record.retries.into()));
    sink.text(Some(&record.option_index));
    sink.text(Some(record.strategy));
    encode_usage(record.usage.as_ref(), sink);
    sink.int(record.cost.map(|cost| cost.0));
    let Timings { total_us, upstream_us, first_byte_us, gateway_us } = record.timings;
    for number in [total_us, upstream_us, first_byte_us, gateway_us, record.request_bytes, record.response_bytes] {
        sink.int(Some(whole(number)));
    }
    sink.made(Some(record.client_text()));
    sink.text(Some(&record.metadata));
    sink.text(Some(&record.adjusted));
    sink.text(Some(record.cache.name()));
    sink.made(record.trace.as_deref().and_then(json));
    sink.made(Some(&record.charges).filter(|c| !c.is_empty()).and_then(json));
    sink.id(record.config_id.map(|id| id.0));
    sink.id(record.config_version);
    sink.made(record.client.as_deref().and_then(json));
    let Steps { parse_us, before_us, cache_us, after_us, .. } = record.steps;
    for number in [parse_us, before_us, cache_us, after_us] {
        sink.int(Some(whole(number)));
    }
}

pub(crate) fn json<T: Serialize>(value: &T) -> Option<String> {
    serde_json::to_string(value).ok()
}

/// What a newer node wrote and this one cannot read is left out, not the whole record.
pub(crate) fn from_json<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

fn encode_usage<'r>(usage: Option<&Usage>, sink: &mut impl Sink<'r>) {
    let count = |of: fn(&Usage) -> u64| usage.map(|u| whole(of(u)));
    sink.int(count(|u| u.total()));
    sink.int(count(|u| u.input));
    sink.int(count(|u| u.cache_read));
    sink.int(count(|u| u.cache_write));
    sink.int(count(|u| u.output));
    sink.int(count(|u| u.reasoning));
    sink.int(count(|u| u.audio_in));
    sink.int(count(|u| u.audio_out));
    sink.int(count(|u| u.images));
    sink.int(usage.map(|u| u.estimated.into()));
}

/// Gives a record's values back from left to right.
pub(crate) trait Source {
    fn text(&mut self) -> Result<&str, Error>;
    fn opt_text(&mut self) -> Result<Option<&str>, Error>;
    fn int(&mut self) -> Result<i64, Error>;
    fn opt_int(&mut self) -> Result<Option<i64>, Error>;
    fn opt_uuid(&mut self) -> Result<Option<Uuid>, Error>;

    fn uuid(&mut self) -> Result<Uuid, Error> {
        self.opt_uuid()?.ok_or_else(|| Error::Decode("a record without an id".into()))
    }
}

/// Columns that were added later are absent in older rows.
impl Source for Columns<'_> {
    fn text(&mut self) -> Result<&str, Error> {
        Ok(Columns::opt_text(self)?.unwrap_or_default())
    }

    fn opt_text(&mut self) -> Result<Option<&str>, Error> {
        Columns::opt_text(self)
    }

    fn int(&mut self) -> Result<i64, Error> {
        Ok(Columns::opt_int(self)?.unwrap_or_default())
    }

    fn opt_int(&mut self) -> Result<Option<i64>, Error> {
        Columns::opt_int(self)
    }

    fn opt_uuid(&mut self) -> Result<Option<Uuid>, Error> {
        Columns::opt_uuid(self)
    }
}

pub(super) fn decode(row: &Row) -> Result<LogRecord, Error> {
    read(&mut row.columns())
}

pub(crate) fn read(c: &mut impl Source) -> Result<LogRecord, Error> {
    let first = read_first(c)?;
    Ok(LogRecord {
        config_id: c.opt_uuid()?.map(ConfigId),
        config_version: c.opt_uuid()?,
        client: from_json(c.opt_text()?).map(Arc::new),
        steps: Steps {
            parse_us: narrow(c.int()?)?,
            before_us: narrow(c.int()?)?,
            cache_us: narrow(c.int()?)?,
            after_us: narrow(c.int()?)?,
            ..Steps::default()
        },
        ..first
    })
}

/// The columns that stand where a field of the record does.
fn read_first(c: &mut impl Source) -> Result<LogRecord, Error> {
    Ok(LogRecord {
        id: c.uuid()?,
        created_at: Timestamp(c.int()?),
        trace_id: c.text()?.into(),
        attempt: narrow(c.int()?)?,
        last: c.int()? != 0,
        org: OrgId(c.uuid()?),
        workspace: WorkspaceId(c.uuid()?),
        workspace_slug: c.text()?.into(),
        key: c.opt_uuid()?.map(KeyId),
        key_name: SmolStr::default(),
        owner: c.opt_uuid()?,
        config: c.text()?.into(),
        config_id: None,
        config_version: None,
        virtual_key: c.text()?.into(),
        provider: c.text()?.into(),
        model: c.text()?.into(),
        response_model: c.opt_text()?.map(SmolStr::from),
        operation: label(c.text()?),
        method: c.text()?.into(),
        path: c.text()?.into(),
        status: narrow(c.int()?)?,
        fault: c.opt_text()?.map(label),
        stream: c.int()? != 0,
        retries: narrow(c.int()?)?,
        option_index: c.text()?.into(),
        strategy: label(c.text()?),
        usage: read_usage(c)?,
        cost: c.opt_int()?.map(NanoUsd),
        card: None,
        timings: Timings {
            total_us: narrow(c.int()?)?,
            upstream_us: narrow(c.int()?)?,
            first_byte_us: narrow(c.int()?)?,
            gateway_us: narrow(c.int()?)?,
        },
        steps: Steps::default(),
        request_bytes: narrow(c.int()?)?,
        response_bytes: narrow(c.int()?)?,
        client_ip: c.text()?.parse().ok(),
        metadata: c.text()?.into(),
        adjusted: c.text()?.into(),
        cache: CacheStatus::parse(c.text()?).unwrap_or_default(),
        trace: from_json(c.opt_text()?).map(Arc::new),
        client: None,
        charges: from_json(c.opt_text()?).unwrap_or_default(),
        bodies: None,
    })
}

fn read_usage(c: &mut impl Source) -> Result<Option<Usage>, Error> {
    let known = c.opt_int()?.is_some();
    let mut count = || c.opt_int().and_then(|n| narrow::<u64>(n.unwrap_or_default()));
    let usage = Usage {
        input: count()?,
        cache_read: count()?,
        cache_write: count()?,
        output: count()?,
        reasoning: count()?,
        audio_in: count()?,
        audio_out: count()?,
        images: count()?,
        estimated: count()? != 0,
    };
    Ok(known.then_some(usage))
}

/// What both engines can count to.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Trace ids come from clients and are indexed: Postgres refuses entries above a few kilobytes, and one such
/// record would fail its whole batch.
pub(super) fn clipped(trace: &str) -> &str {
    const LONGEST: usize = 512;
    if trace.len() <= LONGEST {
        return trace;
    }
    let end = (0..=LONGEST).rev().find(|at| trace.is_char_boundary(*at)).unwrap_or_default();
    &trace[..end]
}
