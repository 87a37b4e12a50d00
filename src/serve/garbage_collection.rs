//! What jobs and blobs leave behind: looked at and counted every round, and removed when its time is over. Each node
//! that serves the Admin API does it; what one has done, the others find done. Knows no kind of either.

use crate::metrics::Metrics;
use gateway_domain::Timestamp;
use gateway_domain::ports::{
    ANSWERS_KEPT_MICROS, Blobs, Jobs, KeptAnswers, KeptObjects, McpAccountRows, McpAccounts, OauthRows, OauthStore,
    OwnedObjects, StoreError,
};
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts};
use std::sync::Arc;

/// How long a job that has ended can still be asked about.
const ENDED_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// A writer that has not finished for so long will not.
const ABANDONED_MICROS: i64 = 2 * 86_400 * 1_000_000;
/// Removals of one round: each takes some at a time, and others want the database as well.
const MOST_STEPS: usize = 20;

pub(super) struct Leftovers {
    jobs: Arc<dyn Jobs>,
    blobs: Arc<dyn Blobs>,
    owned: Arc<dyn OwnedObjects>,
    answers: Arc<dyn KeptAnswers>,
    kept_answers: IntGauge,
    open_jobs: IntGaugeVec,
    overdue: GaugeVec,
    blob_count: IntGauge,
    blob_bytes: IntGauge,
    fullest: IntGauge,
    unnamed: IntGauge,
    sign_ins: Option<SignInCount>,
    accounts: Option<AccountCount>,
    kept_objects: Option<KeptObjectCount>,
}

/// Counts the rows that say which workspace owns an object that a provider keeps.
struct KeptObjectCount {
    store: Arc<dyn KeptObjects>,
    rows: IntGauge,
}

/// Accounts of people at MCP servers.
struct AccountCount {
    store: Arc<dyn McpAccounts>,
    rows: IntGaugeVec,
}

/// Clients of MCP servers that registered, what people allowed them, and codes.
struct SignInCount {
    store: Arc<dyn OauthStore>,
    rows: IntGaugeVec,
}

impl Leftovers {
    pub(super) fn new(
        jobs: Arc<dyn Jobs>,
        blobs: Arc<dyn Blobs>,
        owned: Arc<dyn OwnedObjects>,
        answers: Arc<dyn KeptAnswers>,
        metrics: &Metrics,
    ) -> Result<Self, prometheus::Error> {
        let opts = |name: &str, help: &str| Opts::new(name, help);
        let kept = Self {
            jobs,
            blobs,
            owned,
            answers,
            kept_answers: IntGauge::new("gateway_kept_answers", "Answers to writes that may be sent again")?,
            open_jobs: IntGaugeVec::new(opts("gateway_jobs", "Jobs that have not ended"), &["kind", "state"])?,
            overdue: GaugeVec::new(
                opts("gateway_jobs_overdue_seconds", "For how long the oldest job could have been run already"),
                &["kind"],
            )?,
            blob_count: IntGauge::new("gateway_blobs", "Files and results that are kept")?,
            blob_bytes: IntGauge::new("gateway_blob_bytes", "Bytes that those take, before they are sealed")?,
            fullest: IntGauge::new(
                "gateway_file_store_bytes",
                "Bytes that the organisation keeps whose files and results take most, of --file-store-max",
            )?,
            unnamed: IntGauge::new(
                "gateway_blob_objects_unnamed",
                "Objects outside the database that are about to be written, or whose blob is gone and that wait to be removed",
            )?,
            sign_ins: None,
            accounts: None,
            kept_objects: None,
        };
        metrics.register(Box::new(kept.kept_answers.clone()))?;
        metrics.register(Box::new(kept.open_jobs.clone()))?;
        metrics.register(Box::new(kept.overdue.clone()))?;
        metrics.register(Box::new(kept.blob_count.clone()))?;
        metrics.register(Box::new(kept.blob_bytes.clone()))?;
        metrics.register(Box::new(kept.fullest.clone()))?;
        metrics.register(Box::new(kept.unnamed.clone()))?;
        Ok(kept)
    }

    /// Counts sign-ins of clients of MCP servers too.
    pub(super) fn with_sign_ins(
        mut self,
        store: Arc<dyn OauthStore>,
        metrics: &Metrics,
    ) -> Result<Self, prometheus::Error> {
        let help =
            "Clients of MCP servers that registered, grants of people to them, codes and what is remembered of those";
        let rows = IntGaugeVec::new(Opts::new("gateway_mcp_sign_ins", help), &["kind"])?;
        metrics.register(Box::new(rows.clone()))?;
        self.sign_ins = Some(SignInCount { store, rows });
        Ok(self)
    }

    /// Counts accounts of people at MCP servers too.
    pub(super) fn with_accounts(
        mut self,
        store: Arc<dyn McpAccounts>,
        metrics: &Metrics,
    ) -> Result<Self, prometheus::Error> {
        let help = "Accounts of people at MCP servers, 50,000 of an organisation at most, and where the gateway registered for them";
        let rows = IntGaugeVec::new(Opts::new("gateway_mcp_accounts", help), &["kind"])?;
        metrics.register(Box::new(rows.clone()))?;
        self.accounts = Some(AccountCount { store, rows });
        Ok(self)
    }

    /// Counts objects that providers keep for workspaces that share a credential too, and forgets those whose time is
    /// over.
    pub(super) fn with_kept_objects(
        mut self,
        store: Arc<dyn KeptObjects>,
        metrics: &Metrics,
    ) -> Result<Self, prometheus::Error> {
        let help = "Objects at providers of which it is noted whose they are, 100,000 of a workspace at most";
        let rows = IntGauge::new("gateway_kept_objects", help)?;
        metrics.register(Box::new(rows.clone()))?;
        self.kept_objects = Some(KeptObjectCount { store, rows });
        Ok(self)
    }

    pub(super) async fn round(&self, now: Timestamp) {
        let removed = self.remove(now).await;
        if let Err(e) = self.collect(now).await {
            tracing::warn!(error = %e, "objects of blobs that are gone have to wait");
        }
        if let Err(e) = removed.and(self.count().await) {
            tracing::warn!(error = %e, "jobs and blobs could not be looked at");
        }
    }

    /// Apart from the rest: where blobs lie may be away while the database is not.
    async fn collect(&self, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..MOST_STEPS {
            if self.blobs.collect(now).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn remove(&self, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..MOST_STEPS {
            let jobs = self.jobs.forget(now.plus_micros(-ENDED_MICROS)).await?;
            let blobs = self.blobs.expire(now, now.plus_micros(-ABANDONED_MICROS)).await?;
            let owned = self.owned.expire_owned(now).await?;
            let answers = self.answers.forget_answers(now.plus_micros(-ANSWERS_KEPT_MICROS)).await?;
            let kept = match &self.kept_objects {
                Some(kept) => kept.store.expire_kept(now).await?,
                None => 0,
            };
            if jobs == 0 && blobs == 0 && owned == 0 && answers == 0 && kept == 0 {
                break;
            }
            tracing::debug!(jobs, blobs, owned, answers, kept, "removed, their time being over");
        }
        Ok(())
    }

    async fn count(&self) -> Result<(), StoreError> {
        let (backlog, blobs) = (self.jobs.backlog().await?, self.blobs.kept().await?);
        // A kind of which nothing is open any more is not told.
        self.open_jobs.reset();
        self.overdue.reset();
        for group in &backlog {
            let jobs = i64::try_from(group.jobs).unwrap_or(i64::MAX);
            self.open_jobs.with_label_values(&[group.kind.as_str(), group.state.as_str()]).set(jobs);
            let overdue = self.overdue.with_label_values(&[group.kind.as_str()]);
            overdue.set(overdue.get().max(group.overdue.as_secs_f64()));
        }
        self.kept_answers.set(i64::try_from(self.answers.kept_answers(None).await?).unwrap_or(i64::MAX));
        self.blob_count.set(i64::try_from(blobs.blobs).unwrap_or(i64::MAX));
        self.blob_bytes.set(i64::try_from(blobs.bytes).unwrap_or(i64::MAX));
        self.fullest.set(i64::try_from(blobs.most_of_org).unwrap_or(i64::MAX));
        self.unnamed.set(i64::try_from(blobs.unnamed).unwrap_or(i64::MAX));
        if let Some(KeptObjectCount { store, rows }) = &self.kept_objects {
            rows.set(i64::try_from(store.count_kept().await?).unwrap_or(i64::MAX));
        }
        if let Some(SignInCount { store, rows }) = &self.sign_ins {
            let OauthRows { clients, grants, codes } = store.oauth_rows().await?;
            for (kind, count) in [("client", clients), ("grant", grants), ("code", codes)] {
                rows.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        if let Some(AccountCount { store, rows }) = &self.accounts {
            let McpAccountRows { connected, lapsed, clients } = store.account_rows().await?;
            for (kind, count) in [("connected", connected), ("lapsed", lapsed), ("client", clients)] {
                rows.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsOptions, Readings};
    use gateway_domain::OrgId;
    use gateway_domain::ports::{AnswerMark, BlobBounds, JobBounds, JobEnd, NewBlob, NewJob, OauthClient};
    use gateway_store::{DatabaseOptions, DatabaseUrl, MasterKey, RowBlobs, SealingVault};
    use std::time::Duration;
    use uuid::Uuid;

    #[tokio::test]
    async fn what_is_open_is_counted_and_what_is_over_goes() {
        let url = DatabaseUrl::parse("sqlite::memory:").expect("a URL");
        let database = gateway_store::open(&url, &DatabaseOptions::default()).await.expect("opens");
        let vault = Arc::new(SealingVault::new(&MasterKey::generate()));
        let blobs = Arc::new(RowBlobs::new(database.clone(), vault, BlobBounds::default()));
        let metrics = Metrics::new(MetricsOptions::default()).expect("registers");
        let owned = Arc::new(database.clone());
        let leftovers = Leftovers::new(owned.clone(), blobs.clone(), owned.clone(), owned.clone(), &metrics);
        let leftovers = leftovers.expect("registers").with_sign_ins(owned.clone(), &metrics).expect("registers");
        let client = OauthClient { id: "c".to_owned(), metadata: "{}".to_owned(), created_at: crate::clock::now() };
        assert!(database.add_client(&client, 1, client.created_at).await.expect("added"));
        let mark = AnswerMark {
            id: "a".to_owned(),
            org: OrgId(Uuid::nil()),
            request: String::new(),
            answer: None,
            created_at: crate::clock::now(),
        };
        assert!(database.mark(&mark).await.expect("marked"));
        let (org, wait, bounds) = (OrgId(Uuid::nil()), Duration::ZERO, JobBounds::default());
        for n in 1..=2 {
            let (id, payload, progress) = (Uuid::from_u128(n), String::new(), String::new());
            let job = NewJob { id, kind: "batch", org, payload, progress, wait, most_tries: 1, most_open: 9, bounds };
            database.enqueue(&job).await.expect("queued");
        }
        let taken = database.take(&["batch"], wait).await.expect("taken").expect("one is due");
        database.end(taken.lease, &JobEnd::Done(String::new())).await.expect("ended");
        let now = crate::clock::now();
        let new = NewBlob { id: Uuid::from_u128(3), org, kind: "file", expires_at: Some(now.plus_micros(1_000_000)) };
        blobs.begin(&new).await.expect("begun");
        blobs.write(new.id, 0, b"12345").await.expect("written");
        let told = |name: &str| {
            let text = metrics.encode(&Readings::default());
            text.lines().find(|line| line.starts_with(name)).map(ToOwned::to_owned)
        };
        leftovers.round(now).await;
        assert_eq!(told("gateway_jobs{").as_deref(), Some(r#"gateway_jobs{kind="batch",state="waiting"} 1"#));
        assert_eq!(told("gateway_blob_bytes ").as_deref(), Some("gateway_blob_bytes 5"));
        assert_eq!(told("gateway_kept_answers ").as_deref(), Some("gateway_kept_answers 1"));
        let clients = told(r#"gateway_mcp_sign_ins{kind="client"}"#);
        assert_eq!(clients.as_deref(), Some(r#"gateway_mcp_sign_ins{kind="client"} 1"#));
        assert!(database.job(org, taken.job.id).await.expect("read").is_some(), "it ended just now");
        leftovers.round(now.plus_micros(40 * 86_400 * 1_000_000)).await;
        assert_eq!(told("gateway_blob_bytes ").as_deref(), Some("gateway_blob_bytes 0"));
        assert_eq!(told("gateway_kept_answers ").as_deref(), Some("gateway_kept_answers 0"));
        assert_eq!(database.job(org, taken.job.id).await.expect("read"), None);
        assert_eq!(told("gateway_jobs{").as_deref(), Some(r#"gateway_jobs{kind="batch",state="waiting"} 1"#));
    }
}
