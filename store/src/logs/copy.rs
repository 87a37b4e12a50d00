//! Rows in the binary form of COPY (PostgreSQL manual, COPY, binary format): counts and lengths in network order,
//! -1 for an absent value.

use super::append::without_zero;
use super::columns::COLUMNS;
use super::field::FieldSink;
use uuid::Uuid;

pub(super) struct CopyRows(Vec<u8>);

impl CopyRows {
    pub(super) fn new() -> Self {
        let mut bytes = Vec::with_capacity(64 << 10);
        bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        // No flags, and no further head.
        bytes.extend_from_slice(&[0; 8]);
        Self(bytes)
    }

    pub(super) fn begin(&mut self) {
        let columns = COLUMNS.len() as i16;
        self.0.extend_from_slice(&columns.to_be_bytes());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&(-1i16).to_be_bytes());
        self.0
    }

    fn value(&mut self, bytes: Option<&[u8]>) {
        // Above a gigabyte the server refuses it anyway.
        let length = bytes.map_or(-1, |b| i32::try_from(b.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes.unwrap_or_default());
    }
}

impl<'r> FieldSink<'r> for CopyRows {
    fn text(&mut self, text: Option<&'r str>) {
        self.value(text.map(without_zero).as_deref().map(str::as_bytes));
    }

    fn made(&mut self, text: Option<String>) {
        self.value(text.as_deref().map(without_zero).as_deref().map(str::as_bytes));
    }

    fn id(&mut self, id: Option<Uuid>) {
        let mut buffer = Uuid::encode_buffer();
        self.value(id.map(|id| id.hyphenated().encode_lower(&mut buffer).as_bytes()));
    }

    fn int(&mut self, number: Option<i64>) {
        self.value(number.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }
}
