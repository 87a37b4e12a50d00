//! The tables' shape, step by step. Every step is one SQL text for both engines, embedded in the program,
//! and all that are missing run in one transaction under a lock: several nodes may start at once.

use crate::database::{Database, Side};
use crate::session::{Session, failure};
use gateway_domain::ports::StoreError;
use sqlx::Error;
use std::time::Duration;
use tokio::time::timeout;

/// Never edit a step that was released: add one.
const STEPS: &[(&str, &str)] = &[
    ("resource", include_str!("../migrations/0001_resource.sql")),
    ("log_record", include_str!("../migrations/0002_log_record.sql")),
    ("cache_status", include_str!("../migrations/0003_cache_status.sql")),
    ("bodies", include_str!("../migrations/0004_bodies.sql")),
    ("node", include_str!("../migrations/0005_node.sql")),
    ("counter", include_str!("../migrations/0006_counter.sql")),
    ("audit_status", include_str!("../migrations/0007_audit_status.sql")),
    ("job", include_str!("../migrations/0008_job.sql")),
    ("blob", include_str!("../migrations/0009_blob.sql")),
    ("feedback", include_str!("../migrations/0010_feedback.sql")),
    ("record_claim", include_str!("../migrations/0011_record_claim.sql")),
    ("log_export", include_str!("../migrations/0012_log_export.sql")),
    ("owned_object", include_str!("../migrations/0013_owned_object.sql")),
    ("alert_standing", include_str!("../migrations/0014_alert_standing.sql")),
    ("kept_answer", include_str!("../migrations/0015_kept_answer.sql")),
    ("audit_key", include_str!("../migrations/0016_audit_key.sql")),
    ("blob_object", include_str!("../migrations/0017_blob_object.sql")),
    ("alert_over", include_str!("../migrations/0018_alert_over.sql")),
    ("key_use", include_str!("../migrations/0019_key_use.sql")),
    ("node_deployment", include_str!("../migrations/0020_node_deployment.sql")),
    ("oauth", include_str!("../migrations/0021_oauth.sql")),
    ("mcp_account", include_str!("../migrations/0022_mcp_account.sql")),
    ("kept_object", include_str!("../migrations/0023_kept_object.sql")),
    ("job_part", include_str!("../migrations/0024_job_part.sql")),
];

const TRACK: &str = "CREATE TABLE IF NOT EXISTS migration (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)";

/// Any number will do, as long as all nodes use the same: "gatewaym" read as bytes.
const LOCK: i64 = i64::from_be_bytes(*b"gatewaym");

/// Steps over millions of rows take longer than calls may.
const LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error(
        "was written by a newer program (its shape is {database}, this program knows {program}): upgrade this node"
    )]
    Newer { database: i64, program: i64 },
    #[error("has an older shape ({database}, this program needs {program}): run 'gateway migrate'")]
    Older { database: i64, program: i64 },
    #[error("step {step} failed: {why}")]
    Step { step: &'static str, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Error> for MigrateError {
    fn from(error: Error) -> Self {
        Self::Store(failure(&error))
    }
}

fn newest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Runs the steps that the database lacks; none is fine.
pub async fn migrate(database: &Database) -> Result<(), MigrateError> {
    let mut lease = database.lease(Side::Write).await?;
    let outcome = timeout(LIMIT, run(lease.session())).await;
    lease.finish(outcome)
}

async fn run(mut session: Session<'_>) -> Result<(), MigrateError> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    if let Session::Postgres(_) = inside {
        // Held until the transaction ends, so it also works behind a pooler that shares connections.
        inside.fetch("SELECT pg_advisory_xact_lock($1)", vec![LOCK.into()], |_| Ok(())).await?;
    }
    inside.script(TRACK).await?;
    let have = version(&mut inside).await?;
    if have > newest() {
        return Err(MigrateError::Newer { database: have, program: newest() });
    }
    for (number, (name, sql)) in (1i64..).zip(STEPS).skip_while(|(number, _)| *number <= have) {
        let step = |e: Error| MigrateError::Step { step: name, why: e.to_string() };
        inside.script(sql).await.map_err(step)?;
        let track = "INSERT INTO migration (version, name) VALUES ($1, $2)";
        inside.run(track, vec![number.into(), (*name).into()]).await.map_err(step)?;
        tracing::info!(step = name, "database migrated");
    }
    Ok(transaction.commit().await?)
}

/// Checks that the database has this program's steps, for programs that must not change it.
pub(crate) async fn verify(database: &Database) -> Result<(), MigrateError> {
    let program = newest();
    let mut lease = database.lease(Side::Read).await?;
    let outcome = timeout(database.call_timeout(), async {
        // A missing table is a database that no step has run on.
        version(&mut lease.session()).await.or_else(|e| match e {
            Error::Database(_) => Ok(0),
            other => Err(MigrateError::from(other)),
        })
    });
    let outcome = outcome.await;
    match lease.finish(outcome)? {
        have if have > program => Err(MigrateError::Newer { database: have, program }),
        have if have < program => Err(MigrateError::Older { database: have, program }),
        _ => Ok(()),
    }
}

async fn version(session: &mut Session<'_>) -> Result<i64, Error> {
    session.fetch_int("SELECT COALESCE(MAX(version), 0) FROM migration", vec![]).await
}
