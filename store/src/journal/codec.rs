//! A record as bytes: what is kept of its messages, then its columns from left to right, numbers short, ids raw.
//! Columns that a newer program added stand at the end: an older one leaves them, and in older records they read as
//! absent.

use crate::logs::columns::{encode, read};
use crate::logs::field::{FieldSink, FieldSource, from_json, json};
use gateway_domain::record::LogRecord;
use sqlx::Error;
use uuid::Uuid;

pub(super) fn write(record: &LogRecord, into: &mut Vec<u8>) {
    let mut bytes = Bytes(into);
    bytes.made(record.bodies.as_deref().and_then(json));
    encode(record, &mut bytes);
}

pub(super) fn parse(bytes: &[u8]) -> Result<LogRecord, Error> {
    let mut fields = RecordFields(bytes);
    let bodies = from_json(fields.opt_text()?).map(Box::new);
    Ok(LogRecord { bodies, ..read(&mut fields)? })
}

struct Bytes<'b>(&'b mut Vec<u8>);

impl Bytes<'_> {
    /// One more than the length, so that absent and empty differ.
    fn opt(&mut self, text: Option<&str>) {
        let Some(text) = text else { return self.0.push(0) };
        self.number(text.len() as u64 + 1);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
}

impl<'r> FieldSink<'r> for Bytes<'_> {
    fn text(&mut self, text: Option<&'r str>) {
        self.opt(text);
    }

    fn made(&mut self, text: Option<String>) {
        self.opt(text.as_deref());
    }

    fn id(&mut self, id: Option<Uuid>) {
        self.0.push(id.is_some().into());
        self.0.extend_from_slice(id.as_ref().map_or(&[], |id| id.as_bytes()));
    }

    /// Zigzag, one more so that absent and zero differ. The smallest number of all comes back as its neighbour.
    fn int(&mut self, number: Option<i64>) {
        let Some(n) = number else { return self.0.push(0) };
        let zigzag = ((n << 1) ^ (n >> 63)).cast_unsigned();
        self.number(zigzag.saturating_add(1));
    }
}

struct RecordFields<'b>(&'b [u8]);

impl<'b> RecordFields<'b> {
    fn number(&mut self) -> Result<u64, Error> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.0.split_first() else {
                return if shift == 0 { Ok(0) } else { Err(short()) };
            };
            self.0 = rest;
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(short())
    }

    fn slice(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let (slice, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(slice)
    }
}

fn short() -> Error {
    Error::Decode("a journal record ends early".into())
}

impl FieldSource for RecordFields<'_> {
    fn text(&mut self) -> Result<&str, Error> {
        Ok(self.opt_text()?.unwrap_or_default())
    }

    fn opt_text(&mut self) -> Result<Option<&str>, Error> {
        let Some(length) = self.number()?.checked_sub(1) else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| short())?;
        std::str::from_utf8(self.slice(length)?).map(Some).map_err(|e| Error::Decode(e.into()))
    }

    fn int(&mut self) -> Result<i64, Error> {
        Ok(self.opt_int()?.unwrap_or_default())
    }

    fn opt_int(&mut self) -> Result<Option<i64>, Error> {
        let Some(zigzag) = self.number()?.checked_sub(1) else { return Ok(None) };
        Ok(Some((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed())))
    }

    fn opt_uuid(&mut self) -> Result<Option<Uuid>, Error> {
        match self.0.split_first() {
            Some((1, rest)) => {
                self.0 = rest;
                Uuid::from_slice(self.slice(16)?).map(Some).map_err(|e| Error::Decode(e.into()))
            }
            Some((_, rest)) => {
                self.0 = rest;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Usage;
    use gateway_domain::record::{BatchDetail, Detail, LlmDetail, RecordedOperation, ToolDetail};

    fn written(record: &LogRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(record, &mut bytes);
        bytes
    }

    fn of(operation: &'static str, detail: Detail) -> LogRecord {
        LogRecord { operation: RecordedOperation::new(operation, detail), ..LogRecord::blank() }
    }

    #[test]
    fn every_kind_comes_back() {
        let usage = Some(Usage { input: 3, ..Usage::default() });
        let batch = BatchDetail { lines: 3, ..BatchDetail::default() };
        for record in [
            of("messages", LlmDetail { usage, ..LlmDetail::NONE }.into()),
            of("mcp.tools/call", Detail::Tool(ToolDetail { task_state: Some("working".into()) })),
            of("batch", Detail::Batch(Some(Box::new(batch)))),
        ] {
            assert_eq!(parse(&written(&record)).expect("a record"), record);
        }
    }

    /// Older programs wrote no detail and ended before it.
    #[test]
    fn older_records_are_of_the_kind_that_their_operation_tells() {
        let usage = Some(Usage { input: 3, ..Usage::default() });
        for (operation, detail) in [
            ("messages", LlmDetail { usage, ..LlmDetail::NONE }.into()),
            ("mcp.tools/call", Detail::Tool(ToolDetail::default())),
            ("batch", Detail::Batch(None)),
        ] {
            let record = of(operation, detail);
            let mut bytes = written(&record);
            assert_eq!(bytes.pop(), Some(0), "nothing is the last column");
            assert_eq!(parse(&bytes).expect("a record"), record, "{operation}");
        }
    }
}
