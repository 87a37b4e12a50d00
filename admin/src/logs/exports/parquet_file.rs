//! Records as columns of a Parquet file, a row group at a time: what is not written yet is bounded by how large a group
//! may grow, and of what is written only the places of its columns are kept. Writes to memory; where the bytes go is
//! known elsewhere.

use super::super::view::LogViewer;
use super::lines::shown_fields;
use gateway_domain::export::LogField;
use gateway_domain::record::LogRecord;
use gateway_domain::time::Timestamp;
use parking_lot::Mutex;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Rows and bytes of one row group, which stays in memory until it is written.
const MOST_ROWS: usize = 50_000;
const MOST_BYTES: usize = 16 << 20;

/// What the writer wrote and nobody has taken yet.
#[derive(Clone, Default)]
struct SheetBytes(Arc<Mutex<Vec<u8>>>);

impl io::Write for SheetBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The values of one field. What is not there has no value, and a 0 among the levels.
enum SheetColumn {
    Texts(Vec<ByteArray>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Flags(Vec<bool>),
    /// Microseconds.
    Times(Vec<i64>),
}

impl SheetColumn {
    const fn of(field: LogField) -> Self {
        match field {
            LogField::CreatedAt => Self::Times(Vec::new()),
            LogField::IsSuccess => Self::Flags(Vec::new()),
            LogField::Cost => Self::Real(Vec::new()),
            LogField::ReqUnits
            | LogField::ResUnits
            | LogField::TotalUnits
            | LogField::ResponseTime
            | LogField::ResponseStatusCode => Self::Whole(Vec::new()),
            _ => Self::Texts(Vec::new()),
        }
    }

    fn described(&self, name: &str) -> Result<Type, ParquetError> {
        let (kind, meaning) = match self {
            Self::Texts(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Whole(_) => (PhysicalType::INT64, None),
            Self::Real(_) => (PhysicalType::DOUBLE, None),
            Self::Flags(_) => (PhysicalType::BOOLEAN, None),
            Self::Times(_) => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let built = Type::primitive_type_builder(name, kind).with_repetition(Repetition::OPTIONAL);
        built.with_logical_type(meaning).build()
    }

    /// How many bytes it took, and whether there was anything to take.
    fn push(&mut self, value: Value) -> Option<usize> {
        match (self, value) {
            (_, Value::Null) => None,
            (Self::Texts(texts), value) => {
                let text = if let Value::String(text) = value { text } else { value.to_string() };
                let bytes = text.len();
                texts.push(ByteArray::from(text.into_bytes()));
                Some(bytes + 32)
            }
            (Self::Whole(numbers), value) => push(numbers, value.as_i64()),
            (Self::Real(numbers), value) => push(numbers, value.as_f64()),
            (Self::Flags(flags), value) => push(flags, value.as_bool()),
            (Self::Times(times), value) => {
                push(times, value.as_str().and_then(|text| text.parse::<Timestamp>().ok()).map(|at| at.micros()))
            }
        }
    }

    fn write(
        &mut self,
        levels: &[i16],
        group: &mut SerializedRowGroupWriter<'_, SheetBytes>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("there is no such column".to_owned());
        let mut column = group.next_column()?.ok_or_else(missing)?;
        match self {
            Self::Texts(texts) => {
                column.typed::<ByteArrayType>().write_batch(texts, Some(levels), None)?;
                texts.clear();
            }
            Self::Whole(numbers) | Self::Times(numbers) => {
                column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?;
                numbers.clear();
            }
            Self::Real(numbers) => {
                column.typed::<DoubleType>().write_batch(numbers, Some(levels), None)?;
                numbers.clear();
            }
            Self::Flags(flags) => {
                column.typed::<BoolType>().write_batch(flags, Some(levels), None)?;
                flags.clear();
            }
        }
        column.close()
    }
}

fn push<T>(values: &mut Vec<T>, value: Option<T>) -> Option<usize> {
    values.push(value?);
    Some(size_of::<T>())
}

pub(super) struct ParquetSheet {
    writer: SerializedFileWriter<SheetBytes>,
    written: SheetBytes,
    fields: Vec<LogField>,
    columns: Vec<SheetColumn>,
    /// The levels of each column: 1 for a row that has a value there, else 0.
    levels: Vec<Vec<i16>>,
    rows: usize,
    bytes: usize,
}

impl ParquetSheet {
    pub(super) fn new(fields: &[LogField]) -> Result<Self, ParquetError> {
        let columns: Vec<SheetColumn> = fields.iter().map(|field| SheetColumn::of(*field)).collect();
        let described = fields.iter().zip(&columns).map(|(field, column)| column.described(field.name()).map(Arc::new));
        let schema = Type::group_type_builder("log").with_fields(described.collect::<Result<_, _>>()?).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let written = SheetBytes::default();
        let writer = SerializedFileWriter::new(written.clone(), Arc::new(schema), Arc::new(properties))?;
        let levels = vec![Vec::new(); columns.len()];
        Ok(Self { writer, written, fields: fields.to_vec(), columns, levels, rows: 0, bytes: 0 })
    }

    pub(super) fn add(&mut self, record: &LogRecord, reader: &LogViewer<'_>) -> Result<(), ParquetError> {
        let shown = shown_fields(record, &self.fields, reader);
        for ((value, column), levels) in shown.into_iter().zip(&mut self.columns).zip(&mut self.levels) {
            let taken = column.push(value);
            levels.push(i16::from(taken.is_some()));
            self.bytes += taken.unwrap_or(0);
        }
        self.rows += 1;
        if self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES { self.close_group() } else { Ok(()) }
    }

    fn close_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (column, levels) in self.columns.iter_mut().zip(&mut self.levels) {
            column.write(levels, &mut group)?;
            levels.clear();
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// What was written since the last time.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.written.0.lock())
    }

    /// The rest, with what tells readers where everything is.
    pub(super) fn end(mut self) -> Result<Vec<u8>, ParquetError> {
        self.close_group()?;
        self.writer.finish()?;
        Ok(self.take())
    }
}
