//! The one list of a record's columns: each row names a column and the field of the record that lies in it. The
//! journal's form, the tables of both engines, what is written and what is read are made from it. A new field is a row
//! at the end: tables are given what they lack, so there is no migration to write.

use super::detail::{detail_json, parse_detail};
use super::field::{Clipped, FieldSink, FieldSource, Json, StoredAs, StoredField, TokenTotal};
use crate::session::DatabaseRow;
use gateway_domain::record::{LogRecord, RecordedOperation};
use sqlx::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Text,
    Int,
}

const fn kind<T: StoredField>(_: fn(&LogRecord) -> &T) -> ColumnKind {
    T::KIND
}

const fn kind_in<T, F: StoredAs<T>>(_: fn(&LogRecord) -> &T) -> ColumnKind {
    F::KIND
}

/// A row is `name = field`, `name = field as Form` where the type alone does not say how it is stored, or `name =
/// usage? class` for a number that is there only when usage is known, `name = usage? class as Form` for a text. `name =
/// llm? field` is what only calls of models have: of other records it is what a call of a model says of which nothing
/// is known. What those have instead is `detail`. Of which kind a record is its `operation` says, which stands before
/// both.
macro_rules! columns {
    (@kind operation) => { ColumnKind::Text };
    (@kind detail) => { ColumnKind::Text };
    (@kind usage? $class:ident) => { ColumnKind::Int };
    (@kind usage? $class:ident as $form:ty) => { ColumnKind::Text };
    (@kind llm? $field:ident as $form:ty) => { kind_in::<_, $form>(|r| &r.llm_or_none().$field) };
    (@kind llm? $field:ident) => { kind(|r| &r.llm_or_none().$field) };
    (@kind $($field:ident).+ as $form:ty) => { kind_in::<_, $form>(|r| &r.$($field).+) };
    (@kind $($field:ident).+) => { kind(|r| &r.$($field).+) };
    (@put $record:ident $sink:ident operation) => { $sink.text(Some($record.operation.name())) };
    (@put $record:ident $sink:ident detail) => { $sink.made(detail_json($record.operation.detail())) };
    (@put $record:ident $sink:ident llm? $field:ident as $form:ty) => {
        <$form>::put(&$record.llm_or_none().$field, $sink)
    };
    (@put $record:ident $sink:ident llm? $field:ident) => { $record.llm_or_none().$field.put($sink) };
    (@put $record:ident $sink:ident usage? $class:ident) => {
        match $record.usage() {
            Some(usage) => usage.$class.put($sink),
            None => $sink.int(None),
        }
    };
    (@put $record:ident $sink:ident usage? $class:ident as $form:ty) => {
        match $record.usage() {
            Some(usage) => <$form>::put(&usage.$class, $sink),
            None => $sink.text(None),
        }
    };
    (@put $record:ident $sink:ident $($field:ident).+ as $form:ty) => { <$form>::put(&$record.$($field).+, $sink) };
    (@put $record:ident $sink:ident $($field:ident).+) => { $record.$($field).+.put($sink) };
    (@take $record:ident $source:ident operation) => { $record.operation.rename(StoredField::take($source)?) };
    (@take $record:ident $source:ident detail) => {
        let name = $record.operation.name();
        if let Some(detail) = parse_detail(name, $source.opt_text()?) {
            $record.operation = RecordedOperation::new(name, detail);
        }
    };
    (@take $record:ident $source:ident llm? $field:ident as $form:ty) => {{
        let field = <$form>::take($source)?;
        if let Some(llm) = $record.llm_mut() {
            llm.$field = field;
        }
    }};
    (@take $record:ident $source:ident llm? $field:ident) => {{
        let field = StoredField::take($source)?;
        if let Some(llm) = $record.llm_mut() {
            llm.$field = field;
        }
    }};
    (@take $record:ident $source:ident usage? $class:ident) => {{
        let class = StoredField::take($source)?;
        if let Some(usage) = $record.llm_mut().and_then(|llm| llm.usage.as_mut()) {
            usage.$class = class;
        }
    }};
    (@take $record:ident $source:ident usage? $class:ident as $form:ty) => {{
        let class = <$form>::take($source)?;
        if let Some(usage) = $record.llm_mut().and_then(|llm| llm.usage.as_mut()) {
            usage.$class = class;
        }
    }};
    (@take $record:ident $source:ident $($field:ident).+ as $form:ty) => {
        $record.$($field).+ = <$form>::take($source)?
    };
    (@take $record:ident $source:ident $($field:ident).+) => { $record.$($field).+ = StoredField::take($source)? };
    ($($name:literal = { $($row:tt)+ })+) => {
        pub(crate) const COLUMNS: &[(&str, ColumnKind)] = &[$(($name, columns!(@kind $($row)+))),+];

        /// All but what is kept of messages, which lies elsewhere.
        pub(crate) fn encode<'r>(record: &'r LogRecord, sink: &mut impl FieldSink<'r>) {
            $(columns!(@put record sink $($row)+);)+
        }

        pub(crate) fn read(source: &mut impl FieldSource) -> Result<LogRecord, Error> {
            let mut record = LogRecord::blank();
            $(columns!(@take record source $($row)+);)+
            Ok(record)
        }
    };
}

columns! {
    "id" = { id }
    "created_at" = { created_at }
    "trace_id" = { trace_id as Clipped }
    "attempt" = { attempt }
    "last" = { last }
    "org" = { org }
    "workspace" = { workspace }
    "workspace_slug" = { workspace_slug }
    "key_id" = { key }
    "owner" = { owner }
    "config" = { config }
    "virtual_key" = { virtual_key }
    "provider" = { provider }
    "model" = { model }
    "response_model" = { llm? response_model }
    "operation" = { operation }
    "method" = { method }
    "path" = { path }
    "status" = { status }
    "fault" = { fault }
    "stream" = { stream }
    "retries" = { llm? retries }
    "option_index" = { option_index }
    "strategy" = { strategy }
    "total_tokens" = { llm? usage as TokenTotal }
    "input_tokens" = { usage? input }
    "cache_read_tokens" = { usage? cache_read }
    "cache_write_tokens" = { usage? cache_write }
    "output_tokens" = { usage? output }
    "reasoning_tokens" = { usage? reasoning }
    "audio_in_tokens" = { usage? audio_in }
    "audio_out_tokens" = { usage? audio_out }
    "images" = { usage? images }
    "estimated" = { usage? estimated }
    "cost" = { cost }
    "total_us" = { timings.total_us }
    "upstream_us" = { timings.upstream_us }
    "first_byte_us" = { timings.first_byte_us }
    "gateway_us" = { timings.gateway_us }
    "request_bytes" = { request_bytes }
    "response_bytes" = { response_bytes }
    "client_ip" = { client_ip }
    "metadata" = { metadata }
    "adjusted" = { llm? adjusted }
    "cache_status" = { llm? cache }
    "trace" = { trace as Json }
    "charges" = { charges as Json }
    "config_id" = { config_id }
    "config_version" = { config_version }
    "client" = { client as Json }
    "parse_us" = { steps.parse_us }
    "before_us" = { steps.before_us }
    "cache_us" = { steps.cache_us }
    "after_us" = { steps.after_us }
    "hooks" = { hooks }
    "usage_more" = { usage? detail as Json }
    "prompt" = { llm? prompt as Json }
    "saved" = { llm? saved }
    "realtime" = { llm? realtime as Json }
    "detail" = { detail }
}

pub(super) fn decode(row: &DatabaseRow) -> Result<LogRecord, Error> {
    read(&mut row.columns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_column_stands_once() {
        let names: HashSet<_> = COLUMNS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), COLUMNS.len());
    }
}
