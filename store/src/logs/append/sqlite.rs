//! Records of one day into its SQLite file: many rows per statement, few texts of statements. What all rows of a
//! statement say alike is bound once: binding texts cost more than storing the rows did. Knows nothing of the sums of
//! records.

use super::without_zero;
use crate::logs::batch_sizes::next_chunk;
use crate::logs::columns::{COLUMNS, encode};
use crate::logs::field::FieldSink;
use gateway_domain::record::LogRecord;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Error};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// Largest statement: 2^8 rows. Larger ones are fewer turns between this thread and SQLite's, each of which takes the
/// caches from whoever serves requests.
const LARGEST: usize = 8;
/// Records that are made rows at a time, for the same reason: they stay in a processor's second cache.
const WINDOW: usize = 512;
/// Rows that say the same are worth a statement of their own from 2^3 on: the others go together.
const FEWEST: usize = 3;

/// Columns that calls of one key, config and model mostly say alike. A column that is not named here is bound for each
/// row, which is right for all and only slower.
const ALIKE: [&str; 34] = [
    "attempt",
    "last",
    "org",
    "workspace",
    "workspace_slug",
    "key_id",
    "owner",
    "config",
    "virtual_key",
    "provider",
    "model",
    "response_model",
    "operation",
    "method",
    "path",
    "status",
    "fault",
    "stream",
    "retries",
    "option_index",
    "strategy",
    "audio_in_tokens",
    "audio_out_tokens",
    "images",
    "estimated",
    "adjusted",
    "cache_status",
    "config_id",
    "config_version",
    "client",
    "prompt",
    "saved",
    "realtime",
    "detail",
];
const OWN: usize = COLUMNS.len() - ALIKE.len();

/// Whether each column is one of [`ALIKE`].
static IS_ALIKE: LazyLock<[bool; COLUMNS.len()]> =
    LazyLock::new(|| std::array::from_fn(|at| ALIKE.contains(&COLUMNS[at].0)));

/// Columns as statements name them: those of each row, then those that rows say alike.
static NAMES: LazyLock<String> = LazyLock::new(|| {
    let of =
        |alike: bool| COLUMNS.iter().zip(*IS_ALIKE).filter(move |(_, is)| *is == alike).map(|((name, _), _)| *name);
    of(false).chain(of(true)).collect::<Vec<_>>().join(",")
});

fn rows(power: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(","));
    vec![row.as_str(); 1 << power].join(",")
}

/// Each row with all that it says. A row whose id is there already is passed over; `OR IGNORE` says so of everything
/// that a row could break, so that SQLite keeps no copies of pages for taking a statement back.
static EACH: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| {
    std::array::from_fn(|power| {
        let rows = rows(power, COLUMNS.len());
        format!("INSERT OR IGNORE INTO log_entry ({}) VALUES {rows}", *NAMES).into()
    })
});

/// What all rows say alike stands first and once.
static TOGETHER: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| {
    let alike = vec!["?"; ALIKE.len()].join(",");
    let own = (1..=OWN).map(|at| format!("column{at}")).collect::<Vec<_>>().join(",");
    std::array::from_fn(|power| {
        let rows = rows(power, OWN);
        format!("INSERT OR IGNORE INTO log_entry ({}) SELECT {own},{alike} FROM (VALUES {rows})", *NAMES).into()
    })
});

/// How many were not there.
pub(super) async fn insert(connection: &mut SqliteConnection, batch: &[&LogRecord]) -> Result<u64, Error> {
    let mut inserted = 0;
    for records in batch.chunks(WINDOW) {
        inserted += Rows::of(records).insert(connection).await?;
    }
    Ok(inserted)
}

async fn run(connection: &mut SqliteConnection, sql: &Arc<str>, arguments: SqliteArguments) -> Result<u64, Error> {
    let insert = sqlx::query_with(AssertSqlSafe(Arc::clone(sql)), arguments);
    Ok(insert.execute(connection).await?.rows_affected())
}

/// What a record says in one column.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Cell<'r> {
    Absent,
    Text(&'r str),
    Made(String),
    Id(Uuid),
    Int(i64),
}

/// Records as rows, each in two pieces: what it says for itself, and what others may say as well.
#[derive(Debug)]
struct Rows<'r> {
    own: Vec<Cell<'r>>,
    alike: Vec<Cell<'r>>,
    /// The column whose value comes next.
    next: usize,
}

impl<'r> Rows<'r> {
    fn of(batch: &[&'r LogRecord]) -> Self {
        let own = Vec::with_capacity(batch.len() * OWN);
        let mut rows = Self { own, alike: Vec::with_capacity(batch.len() * ALIKE.len()), next: 0 };
        for record in batch {
            encode(record, &mut rows);
        }
        rows
    }

    async fn insert(&self, connection: &mut SqliteConnection) -> Result<u64, Error> {
        let (mut inserted, mut rest) = (0, Vec::new());
        for group in self.groups() {
            let mut left = group.as_slice();
            while left.len() >= 1 << FEWEST {
                let (power, chunk) = next_chunk(&mut left, LARGEST);
                inserted += run(connection, &TOGETHER[power], self.bind_together(chunk)?).await?;
            }
            rest.extend_from_slice(left);
        }
        let mut left = rest.as_slice();
        while !left.is_empty() {
            let (power, chunk) = next_chunk(&mut left, LARGEST);
            inserted += run(connection, &EACH[power], self.bind_each(chunk)?).await?;
        }
        Ok(inserted)
    }

    fn own(&self, row: usize) -> &[Cell<'r>] {
        &self.own[row * OWN..][..OWN]
    }

    fn alike(&self, row: usize) -> &[Cell<'r>] {
        &self.alike[row * ALIKE.len()..][..ALIKE.len()]
    }

    /// Rows that say the same in all columns of [`ALIKE`], in the order in which the first of each group came.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: ahash::HashMap<&[Cell<'r>], usize> = ahash::HashMap::default();
        let mut last = None;
        for row in 0..self.alike.len() / ALIKE.len() {
            let says = self.alike(row);
            // Mostly it is what the row before said.
            let group = match last {
                Some((said, group)) if said == says => group,
                _ => *known.entry(says).or_insert(groups.len()),
            };
            last = Some((says, group));
            match groups.get_mut(group) {
                Some(rows) => rows.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups
    }

    /// Rows of one group.
    fn bind_together(&self, chunk: &[usize]) -> Result<SqliteArguments, Error> {
        let alike = chunk.first().into_iter().flat_map(|first| self.alike(*first));
        bind(alike.chain(chunk.iter().flat_map(|row| self.own(*row))), ALIKE.len() + chunk.len() * OWN)
    }

    fn bind_each(&self, chunk: &[usize]) -> Result<SqliteArguments, Error> {
        let cells = chunk.iter().flat_map(|row| self.own(*row).iter().chain(self.alike(*row)));
        bind(cells, chunk.len() * COLUMNS.len())
    }

    fn push(&mut self, cell: Cell<'r>) {
        let at = self.next;
        self.next = (at + 1) % COLUMNS.len();
        if IS_ALIKE[at] { &mut self.alike } else { &mut self.own }.push(cell);
    }
}

fn bind<'c, 'r: 'c>(cells: impl Iterator<Item = &'c Cell<'r>>, count: usize) -> Result<SqliteArguments, Error> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(count, 0);
    for cell in cells {
        let added = match cell {
            Cell::Absent => arguments.add(None::<i64>),
            Cell::Text(text) => arguments.add(Arc::<str>::from(&*without_zero(text))),
            Cell::Made(text) => arguments.add(Arc::<str>::from(text.as_str())),
            Cell::Id(id) => arguments.add(Arc::<str>::from(&*id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))),
            Cell::Int(number) => arguments.add(*number),
        };
        added.map_err(Error::Encode)?;
    }
    Ok(arguments)
}

impl<'r> FieldSink<'r> for Rows<'r> {
    fn text(&mut self, text: Option<&'r str>) {
        self.push(text.map_or(Cell::Absent, Cell::Text));
    }

    fn made(&mut self, text: Option<String>) {
        self.push(text.map_or(Cell::Absent, Cell::Made));
    }

    fn id(&mut self, id: Option<Uuid>) {
        self.push(id.map_or(Cell::Absent, Cell::Id));
    }

    fn int(&mut self, number: Option<i64>) {
        self.push(number.map_or(Cell::Absent, Cell::Int));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_column_is_bound_for_each_row_or_once() {
        let alike: HashSet<_> = ALIKE.into_iter().collect();
        assert_eq!(alike.len(), ALIKE.len(), "none is named twice");
        assert_eq!(COLUMNS.iter().filter(|(name, _)| alike.contains(name)).count(), ALIKE.len(), "all are columns");
        assert_eq!(NAMES.split(',').count(), COLUMNS.len());
    }

    #[test]
    fn rows_that_say_the_same_are_told_from_others() {
        let of = |model: &str| LogRecord { model: model.into(), ..LogRecord::blank() };
        let records = [of("a"), of("b"), of("a"), LogRecord { status: 500, ..of("a") }, of("b"), of("a")];
        let batch: Vec<&LogRecord> = records.iter().collect();
        assert_eq!(Rows::of(&batch).groups(), [vec![0, 2, 5], vec![1, 4], vec![3]]);
    }

    #[test]
    fn what_rows_say_alike_is_bound_once() {
        let records: Vec<LogRecord> = (0..8).map(|_| LogRecord { id: Uuid::now_v7(), ..LogRecord::blank() }).collect();
        let batch: Vec<&LogRecord> = records.iter().collect();
        let rows = Rows::of(&batch);
        assert_eq!(rows.groups().len(), 1);
        let chunk: Vec<usize> = (0..8).collect();
        assert_eq!(rows.bind_together(&chunk).expect("arguments").len(), ALIKE.len() + 8 * OWN);
        assert_eq!(rows.bind_each(&chunk).expect("arguments").len(), 8 * COLUMNS.len());
    }
}
