//! How each type that a record is made of is written to a column and read back. Knows no column's name and no engine.

use super::columns::ColumnKind;
use super::label::label;
use crate::configs::narrow;
use crate::session::Columns;
use gateway_domain::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use gateway_domain::record::{CacheStatus, Hooked};
use gateway_domain::usage::UsageDetail;
use gateway_domain::{NanoUsd, Timestamp, Usage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use sqlx::Error;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// Takes a record's values from left to right.
pub(crate) trait FieldSink<'r> {
    fn text(&mut self, text: Option<&'r str>);
    fn made(&mut self, text: Option<String>);
    fn id(&mut self, id: Option<Uuid>);
    fn int(&mut self, number: Option<i64>);
}

/// Gives a record's values back from left to right.
pub(crate) trait FieldSource {
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
impl FieldSource for Columns<'_> {
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

/// A value that lies in one column. What is absent in an older row reads as the empty value of its type.
pub(crate) trait StoredField: Sized {
    const KIND: ColumnKind;
    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>);
    fn take(source: &mut impl FieldSource) -> Result<Self, Error>;
}

/// A way to store `T` that its type alone does not tell.
pub(crate) trait StoredAs<T> {
    const KIND: ColumnKind;
    fn put<'r>(value: &'r T, sink: &mut impl FieldSink<'r>);
    fn take(source: &mut impl FieldSource) -> Result<T, Error>;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl StoredField for $number {
            const KIND: ColumnKind = ColumnKind::Int;

            fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
                sink.int(Some(i64::try_from(*self).unwrap_or(i64::MAX)));
            }

            fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
                narrow(source.int()?)
            }
        }
    )+};
}

numbers!(u16, u32, u64, i32);

impl StoredField for bool {
    const KIND: ColumnKind = ColumnKind::Int;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.int(Some((*self).into()));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(source.int()? != 0)
    }
}

impl StoredField for Timestamp {
    const KIND: ColumnKind = ColumnKind::Int;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.int(Some(self.micros()));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        source.int().map(Self)
    }
}

impl StoredField for Option<NanoUsd> {
    const KIND: ColumnKind = ColumnKind::Int;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.int(self.map(|amount| amount.0));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(source.opt_int()?.map(NanoUsd))
    }
}

impl StoredField for Uuid {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.id(Some(*self));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        source.uuid()
    }
}

impl StoredField for Option<Uuid> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.id(*self);
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        source.opt_uuid()
    }
}

/// Their JSON alone: what of it is for metrics was counted when it was written.
impl StoredField for Option<Box<Hooked>> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(self.as_deref().map(|hooks| hooks.json.as_str()));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        let json = source.opt_text()?;
        Ok(json.map(|json| Box::new(Hooked { json: json.to_owned(), ..Hooked::default() })))
    }
}

macro_rules! ids {
    ($($id:ident),+) => {$(
        impl StoredField for $id {
            const KIND: ColumnKind = ColumnKind::Text;

            fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
                sink.id(Some(self.0));
            }

            fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
                source.uuid().map(Self)
            }
        }

        impl StoredField for Option<$id> {
            const KIND: ColumnKind = ColumnKind::Text;

            fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
                sink.id(self.map(|id| id.0));
            }

            fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
                Ok(source.opt_uuid()?.map($id))
            }
        }
    )+};
}

ids!(OrgId, WorkspaceId, KeyId, ConfigId);

impl StoredField for SmolStr {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(Some(self));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        source.text().map(Self::from)
    }
}

impl StoredField for Option<SmolStr> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(self.as_deref());
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(source.opt_text()?.map(SmolStr::from))
    }
}

/// One of the program's own words.
impl StoredField for &'static str {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(Some(self));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        source.text().map(label)
    }
}

impl StoredField for Option<&'static str> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(*self);
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(source.opt_text()?.map(label))
    }
}

/// Words of other versions read as the default.
impl StoredField for CacheStatus {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.text(Some(self.name()));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(Self::parse(source.text()?).unwrap_or_default())
    }
}

/// An address as text, empty where nobody knows it.
impl StoredField for Option<IpAddr> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(&'r self, sink: &mut impl FieldSink<'r>) {
        sink.made(Some(self.map_or_else(String::new, address)));
    }

    fn take(source: &mut impl FieldSource) -> Result<Self, Error> {
        Ok(source.text()?.parse().ok())
    }
}

/// Writes an address like the standard library, whose formatting costs half of what all other columns cost together.
fn address(ip: IpAddr) -> String {
    let IpAddr::V4(ip) = ip else { return ip.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for octet in ip.octets() {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(itoa::Buffer::new().format(octet));
    }
    text
}

/// Stores a value as JSON, absent where there is nothing. What a newer node wrote and this one cannot read is left out,
/// not the whole record.
#[derive(Debug)]
pub(crate) struct Json;

impl<T: Serialize + DeserializeOwned> StoredAs<Option<Arc<T>>> for Json {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(value: &'r Option<Arc<T>>, sink: &mut impl FieldSink<'r>) {
        sink.made(value.as_deref().and_then(json));
    }

    fn take(source: &mut impl FieldSource) -> Result<Option<Arc<T>>, Error> {
        Ok(from_json(source.opt_text()?).map(Arc::new))
    }
}

impl<T: Serialize + DeserializeOwned> StoredAs<Vec<T>> for Json {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(value: &'r Vec<T>, sink: &mut impl FieldSink<'r>) {
        sink.made(Some(value).filter(|list| !list.is_empty()).and_then(json));
    }

    fn take(source: &mut impl FieldSource) -> Result<Vec<T>, Error> {
        Ok(from_json(source.opt_text()?).unwrap_or_default())
    }
}

impl StoredAs<UsageDetail> for Json {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(value: &'r UsageDetail, sink: &mut impl FieldSink<'r>) {
        sink.made(Some(value).filter(|detail| !detail.is_plain()).and_then(json));
    }

    fn take(source: &mut impl FieldSource) -> Result<UsageDetail, Error> {
        Ok(from_json(source.opt_text()?).unwrap_or_default())
    }
}

/// The sum of all tokens, which also says whether usage is known: its classes stand in columns of their own.
#[derive(Debug)]
pub(crate) struct TokenTotal;

impl StoredAs<Option<Usage>> for TokenTotal {
    const KIND: ColumnKind = ColumnKind::Int;

    fn put<'r>(value: &'r Option<Usage>, sink: &mut impl FieldSink<'r>) {
        sink.int(value.as_ref().map(|usage| whole(usage.total())));
    }

    fn take(source: &mut impl FieldSource) -> Result<Option<Usage>, Error> {
        Ok(source.opt_int()?.map(|_| Usage::default()))
    }
}

/// Trace ids come from clients and are indexed: Postgres refuses entries above a few kilobytes, and one such record
/// would fail its whole batch.
#[derive(Debug)]
pub(crate) struct Clipped;

impl StoredAs<Arc<str>> for Clipped {
    const KIND: ColumnKind = ColumnKind::Text;

    fn put<'r>(value: &'r Arc<str>, sink: &mut impl FieldSink<'r>) {
        sink.text(Some(clipped(value)));
    }

    fn take(source: &mut impl FieldSource) -> Result<Arc<str>, Error> {
        source.text().map(Arc::from)
    }
}

pub(super) fn clipped(trace: &str) -> &str {
    const LONGEST: usize = 512;
    if trace.len() <= LONGEST {
        return trace;
    }
    let end = (0..=LONGEST).rev().find(|at| trace.is_char_boundary(*at)).unwrap_or_default();
    &trace[..end]
}

/// What both engines can count to.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn json<T: Serialize>(value: &T) -> Option<String> {
    serde_json::to_string(value).ok()
}

pub(crate) fn from_json<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_everywhere() {
        for text in ["127.0.0.1", "0.0.0.0", "255.255.255.255", "10.20.3.100", "::1", "2001:db8::7", "::ffff:1.2.3.4"] {
            assert_eq!(address(text.parse().expect("an address")), text);
        }
    }
}
