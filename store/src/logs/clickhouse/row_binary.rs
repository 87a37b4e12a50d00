//! Rows in ClickHouse's RowBinary format: numbers in little-endian order, texts behind their length as LEB128, and in
//! front of a value that may be absent one byte that says so. Knows no table but by the list of columns.

use super::super::append::without_zero;
use super::super::columns::{COLUMNS, read};
use super::super::field::{FieldSink, FieldSource};
use super::tables::is_key;
use gateway_domain::analytics::Sketch;
use gateway_domain::record::LogRecord;
use sqlx::Error;
use std::sync::LazyLock;
use uuid::Uuid;

/// Which columns of a record may be absent, in their order.
static MAY_BE_ABSENT: LazyLock<Vec<bool>> = LazyLock::new(|| COLUMNS.iter().map(|(name, _)| !is_key(name)).collect());

/// Rows on their way to the server.
#[derive(Default)]
pub(super) struct RowsOut(Vec<u8>);

impl RowsOut {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Takes the columns of a record from left to right; what is derived of it comes behind them.
    pub(super) const fn record(&mut self) -> RecordOut<'_> {
        RecordOut { bytes: &mut self.0, next: 0 }
    }

    /// What is told of a record beside its columns, so that sums need not take texts apart.
    pub(super) fn derived(&mut self, record: &LogRecord, version: u64) {
        put_text(&mut self.0, &without_zero(&user(&record.metadata)));
        let prompt = record.prompt_slug().map_or("", |slug| slug.as_str());
        put_text(&mut self.0, &without_zero(prompt));
        self.0.extend_from_slice(&Sketch::bin(record.timings.total_us).to_le_bytes());
        self.0.extend_from_slice(&version.to_le_bytes());
    }

    pub(super) fn touch(&mut self, hour: i64, mark: i64, at: u64) {
        self.0.extend_from_slice(&hour.to_le_bytes());
        put_text(&mut self.0, &Uuid::from_u128(rand::random()).to_string());
        self.0.extend_from_slice(&mark.to_le_bytes());
        self.0.extend_from_slice(&at.to_le_bytes());
    }

    /// Seals an hour whose sums are made, its margins too.
    pub(super) fn seal(&mut self, hour: i64, generation: i64) {
        self.0.extend_from_slice(&hour.to_le_bytes());
        self.0.push(1);
        self.0.extend_from_slice(&generation.to_le_bytes());
    }

    pub(super) fn body(&mut self, record: &LogRecord, text: &str, version: u64) {
        put_text(&mut self.0, &record.id.to_string());
        self.0.extend_from_slice(&record.created_at.micros().to_le_bytes());
        self.0.push(0);
        put_text(&mut self.0, text);
        self.0.extend_from_slice(&version.to_le_bytes());
    }
}

fn user(metadata: &str) -> String {
    if !metadata.contains(super::super::sums::USER) {
        return String::new();
    }
    super::super::sums::value_in(metadata, super::super::sums::USER).to_string()
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let mut length = text.len() as u64;
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(text.as_bytes());
}

pub(super) struct RecordOut<'o> {
    bytes: &'o mut Vec<u8>,
    next: usize,
}

impl RecordOut<'_> {
    /// Whether there is a value to write.
    fn begin(&mut self, is_there: bool) -> bool {
        let may_be_absent = MAY_BE_ABSENT.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        if may_be_absent {
            self.bytes.push(u8::from(!is_there));
        }
        is_there || !may_be_absent
    }

    fn put(&mut self, text: Option<&str>) {
        if self.begin(text.is_some()) {
            put_text(self.bytes, text.unwrap_or_default());
        }
    }
}

impl<'r> FieldSink<'r> for RecordOut<'_> {
    fn text(&mut self, text: Option<&'r str>) {
        self.put(text.map(without_zero).as_deref());
    }

    fn made(&mut self, text: Option<String>) {
        self.put(text.as_deref().map(without_zero).as_deref());
    }

    fn id(&mut self, id: Option<Uuid>) {
        let mut buffer = Uuid::encode_buffer();
        self.put(id.map(|id| &*id.hyphenated().encode_lower(&mut buffer)));
    }

    fn int(&mut self, number: Option<i64>) {
        if self.begin(number.is_some()) {
            self.bytes.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
        }
    }
}

/// An answer of the server, read from its beginning.
pub(super) struct Cells<'b> {
    rest: &'b [u8],
}

impl<'b> Cells<'b> {
    pub(super) const fn of(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| broken("it ends within a value"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    pub(super) fn i64(&mut self) -> Result<i64, Error> {
        let mut number = [0; 8];
        number.copy_from_slice(self.take(8)?);
        Ok(i64::from_le_bytes(number))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.i64().map(i64::cast_unsigned)
    }

    pub(super) fn text(&mut self) -> Result<&'b str, Error> {
        let mut length: u64 = 0;
        for place in 0..10 {
            let byte = self.byte()?;
            length |= u64::from(byte & 0x7f) << (7 * place).min(63);
            if byte < 0x80 {
                let length = usize::try_from(length).map_err(|_| broken("a text has no such length"))?;
                return std::str::from_utf8(self.take(length)?).map_err(|_| broken("a text is not UTF-8"));
            }
        }
        Err(broken("a length does not end"))
    }

    pub(super) fn opt_text(&mut self) -> Result<Option<&'b str>, Error> {
        if self.byte()? == 0 { self.text().map(Some) } else { Ok(None) }
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, Error> {
        parsed(self.text()?)
    }
}

fn broken(why: &str) -> Error {
    Error::Decode(format!("the answer cannot be read: {why}").into())
}

fn parsed(text: &str) -> Result<Uuid, Error> {
    text.parse().map_err(|_| broken("an id is none"))
}

/// One record, in the order of its columns.
pub(super) struct StoredRow<'c, 'b> {
    cells: &'c mut Cells<'b>,
    next: usize,
}

impl StoredRow<'_, '_> {
    pub(super) fn all(answer: &[u8]) -> Result<Vec<LogRecord>, Error> {
        let mut cells = Cells::of(answer);
        let mut records = Vec::new();
        while !cells.is_at_end() {
            records.push(read(&mut StoredRow { cells: &mut cells, next: 0 })?);
        }
        Ok(records)
    }

    fn is_there(&mut self) -> Result<bool, Error> {
        let may_be_absent = MAY_BE_ABSENT.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        Ok(!may_be_absent || self.cells.byte()? == 0)
    }
}

impl FieldSource for StoredRow<'_, '_> {
    fn text(&mut self) -> Result<&str, Error> {
        Ok(self.opt_text()?.unwrap_or_default())
    }

    fn opt_text(&mut self) -> Result<Option<&str>, Error> {
        if self.is_there()? { self.cells.text().map(Some) } else { Ok(None) }
    }

    fn int(&mut self) -> Result<i64, Error> {
        Ok(self.opt_int()?.unwrap_or_default())
    }

    fn opt_int(&mut self) -> Result<Option<i64>, Error> {
        if self.is_there()? { self.cells.i64().map(Some) } else { Ok(None) }
    }

    fn opt_uuid(&mut self) -> Result<Option<Uuid>, Error> {
        self.opt_text()?.map(parsed).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_back_and_what_is_cut_is_told() {
        for length in [0, 1, 127, 128, 300, 70_000] {
            let text = "x".repeat(length);
            let mut bytes = Vec::new();
            put_text(&mut bytes, &text);
            assert_eq!(Cells::of(&bytes).text().ok(), Some(text.as_str()));
            bytes.pop();
            assert!(Cells::of(&bytes).text().is_err(), "{length}");
        }
        assert!(Cells::of(&[0xff; 12]).text().is_err() && Cells::of(&[1, 0xff]).text().is_err());
        assert!(Cells::of(&[1]).opt_text().is_ok_and(|text| text.is_none()));
    }
}
