//! Records as lines of a file: the fields that were asked for, as the API shows them.

use super::super::view::{self, LogViewer};
use gateway_domain::export::LogField;
use gateway_domain::record::LogRecord;
use serde_json::{Map, Value, json};

/// Adds a line of JSON.
pub(super) fn add(out: &mut Vec<u8>, record: &LogRecord, fields: &[LogField], reader: &LogViewer<'_>) {
    let names = fields.iter().map(|field| field.name().to_owned());
    let line: Map<String, Value> = names.zip(shown_fields(record, fields, reader)).collect();
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &line);
    out.push(b'\n');
}

/// The values of these fields, in their order.
pub(super) fn shown_fields(record: &LogRecord, fields: &[LogField], reader: &LogViewer<'_>) -> Vec<Value> {
    let mut shown = view::record(record, reader);
    fields.iter().map(|field| value(&mut shown, (record, reader), *field)).collect()
}

fn value(shown: &mut Value, (record, reader): (&LogRecord, &LogViewer<'_>), field: LogField) -> Value {
    match field {
        _ if reader.hidden.contains(field) => Value::Null,
        LogField::Request | LogField::Response => shown[field.name()].take(),
        LogField::Metadata => serde_json::from_str(&record.metadata).unwrap_or_else(|_| json!({})),
        _ => shown["metrics"][field.name()].take(),
    }
}
