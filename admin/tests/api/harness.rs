//! A house of one or more nodes over a real database: requests go in as the ports hand them over, answers come
//! out parsed. Time stands still unless a test moves it.

mod asker;
mod stand_ins;

pub(crate) use asker::{Answer, Asker};

use crate::described::ToldAnswers;
use crate::standings::Counters;
use arc_swap::ArcSwap;
use axum::Router;
use axum::body::{Body, to_bytes};
use gateway_admin::{App, Bootstrapped, Counting, Quotas, bootstrap, router, system_random};
use gateway_domain::egress::Trusted;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{Batch, BlobBounds, LogStore, Vault};
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::scope::SCOPES;
use gateway_domain::snapshot::Org;
use gateway_domain::{IntegrationId, OrgId, Timestamp, WorkspaceId};
use gateway_store::{
    Database, DatabaseOptions, DatabaseUrl, DayFiles, KeyUseLog, MasterKey, RowBlobs, SealingVault, open,
};
use gateway_testing::Postgres;
use http::Request;
use serde_json::{Value, json};
use stand_ins::{AllGood, Issuer, Node, OneBatch, Process, Straight, Unheard, Unlimited, WordCounts};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tower::ServiceExt;
use uuid::Uuid;

/// Names the server in which each house gets a database; without it each gets a file.
pub(crate) const SERVER: &str = "GATEWAY_TEST_POSTGRES";

pub(crate) const ADMIN: &str = "test-admin-key-test-admin-key-0001";
pub(crate) const SERVICE: &str = "test-service-key-test-service-key-0001";
pub(crate) const DATA_SERVICE: &str = "test-data-service-token-0001-0001";
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

thread_local! {
    static AHEAD: Cell<i64> = const { Cell::new(0) };
}

/// Moves the clock of this test's nodes; the test runs on one thread.
pub(crate) fn pass_seconds(seconds: i64) {
    AHEAD.set(AHEAD.get() + seconds * 1_000_000);
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after the epoch");
    Timestamp(i64::try_from(since.as_micros()).expect("in range")).plus_micros(AHEAD.get())
}

pub(crate) fn in_seconds(seconds: i64) -> String {
    now().plus_micros(seconds * 1_000_000).to_string()
}

/// One node; `beside` opens another on the same store.
pub(crate) struct House {
    pub(crate) app: App,
    pub(crate) database: Database,
    pub(crate) process: Arc<Process>,
    pub(crate) counters: Arc<Counters>,
    /// The address of the database's server; `None` for a database in a file.
    server_url: Option<String>,
    records: Arc<dyn LogStore>,
    folder: Arc<TempDir>,
    pub(crate) router: Router,
}

impl House {
    /// Set up with [`ADMIN`] and [`SERVICE`].
    pub(crate) async fn new() -> Self {
        let house = Self::empty().await;
        house.bootstrap(Some(ADMIN), Some(SERVICE)).await.expect("an empty store");
        house
    }

    pub(crate) async fn empty() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let server_url = database_of_its_own().await;
        Self::connect(server_url, folder).await
    }

    async fn connect(server_url: Option<String>, folder: Arc<TempDir>) -> Self {
        let url = match &server_url {
            Some(url) => DatabaseUrl::parse(url).expect("a URL"),
            None => DatabaseUrl::sqlite_file(folder.path().join("gateway.db")),
        };
        let database =
            open(&url, &DatabaseOptions { pool_size: 4, ..DatabaseOptions::default() }).await.expect("a database");
        Self::over(database, server_url, folder)
    }

    fn over(database: Database, server_url: Option<String>, folder: Arc<TempDir>) -> Self {
        let vault: Arc<dyn Vault> = Arc::new(SealingVault::new(&master_key()));
        let trusted = Arc::new(Trusted::parse(&["10.1.0.0/16"]).expect("a range"));
        let live = Arc::new(Node {
            snapshot: ArcSwap::default(),
            writing: Mutex::new(()),
            vault: vault.clone(),
            trusted: trusted.clone(),
        });
        let process = Arc::new(Process {
            ready: Mutex::new(Ok(())),
            trouble: Mutex::default(),
            counting: Mutex::new(Counting::Process),
        });
        let store = Arc::new(database.clone());
        let logs = DayFiles::open(&folder.path().join("logs"), &DatabaseOptions::default(), Some(live.clone()))
            .expect("a folder");
        let logs: Arc<dyn LogStore> = Arc::new(logs);
        let counters = Arc::new(Counters::default());
        let app = App {
            store: store.clone(),
            directory: store.clone(),
            history: store.clone(),
            logs: logs.clone(),
            sums: logs.clone(),
            feedbacks: Arc::new(database.clone()),
            repricing: logs.clone(),
            own_records: Some(Arc::new(Straight(logs.clone()))),
            claims: Arc::new(database.clone()),
            exports: Arc::new(database.clone()),
            jobs: Arc::new(database.clone()),
            blobs: Arc::new(RowBlobs::new(database.clone(), vault.clone(), BlobBounds::default())),
            export_max_rows: 50,
            log_retention_days: 90,
            hears_alerts: true,
            answers: Arc::new(database.clone()),
            live,
            roster: Arc::new(database.clone()),
            tokens: Arc::new(Issuer),
            vault,
            catalog: gateway_providers::catalog(),
            trusted,
            status: process.clone(),
            standings: counters.clone(),
            trials: None,
            credentials: Some(Arc::new(AllGood)),
            outside: None,
            mcp_lines: None,
            mcp_programs: Arc::new(["files".to_owned()].into()),
            alerts: Arc::new(database.clone()),
            key_limits: Some(Arc::new(Unlimited)),
            uses: Arc::new(KeyUseLog::new(database.clone(), 1_000)),
            secrets: None,
            openings: Arc::default(),
            mailer: None,
            explanations: None,
            batch_outputs: Some(Arc::new(OneBatch)),
            token_counts: Some(Arc::new(WordCounts)),
            quotas: Quotas {
                configs: 100,
                guardrails: 20,
                secret_references: 20,
                kept_answers: 20,
                ..Quotas::default()
            },
            door: Arc::new(Unheard),
            header_aliases: Arc::from(["x-acme-".to_owned()]),
            public_url: None,
            settings: Arc::from([]),
            oauth: None,
            accounts: Arc::new(database.clone()),
            kept_accounts: Arc::default(),
            client_documents: Arc::default(),
            wanted_syncs: None,
            data_service: Some(KeyHash::of(DATA_SERVICE)),
            clock: now,
            random: system_random,
        };
        Self { router: router(app.clone()), app, database, process, counters, server_url, records: logs, folder }
    }

    pub(crate) async fn bootstrap(&self, admin: Option<&str>, service: Option<&str>) -> Option<Bootstrapped> {
        bootstrap(&self.app, admin, service).await.expect("a first start")
    }

    /// Gives the node what most tests do without.
    pub(crate) fn equip(&mut self, change: impl FnOnce(&mut App)) {
        change(&mut self.app);
        self.router = router(self.app.clone());
    }

    /// Another node on the same store, which has read it once.
    pub(crate) async fn beside(&self) -> Self {
        let other = Self::over(self.database.clone(), self.server_url.clone(), self.folder.clone());
        other.catch_up().await;
        other
    }

    /// Another node with a connection of its own, which knows nothing but what it reads.
    pub(crate) async fn elsewhere(&self) -> Self {
        let other = Self::connect(self.server_url.clone(), self.folder.clone()).await;
        other.catch_up().await;
        other
    }

    /// Everything that the database keeps, byte for byte.
    pub(crate) async fn at_rest(&self) -> Vec<u8> {
        self.database.close().await;
        if let Some(url) = &self.server_url {
            return Postgres::dump(url);
        }
        let files = std::fs::read_dir(self.folder.path()).expect("a folder").map(|f| f.expect("an entry").path());
        files.filter(|path| path.is_file()).flat_map(|path| std::fs::read(path).expect("readable")).collect()
    }

    /// Puts a file that is no database where the records of a day would be.
    pub(crate) fn spoil_logs_of(&self, day: &str) {
        let file = self.folder.path().join("logs").join(format!("{day}.db"));
        std::fs::write(file, "no database, but long enough to be taken for one. ".repeat(200)).expect("written");
    }

    /// What the watcher does.
    pub(crate) async fn catch_up(&self) {
        let changes = self.app.store.since(self.app.live.snapshot().revision).await.expect("a readable store");
        assert_eq!(self.app.live.publish(&changes), []);
    }

    pub(crate) fn as_admin(&self) -> Asker<'_> {
        self.with(ADMIN)
    }

    pub(crate) fn as_service(&self) -> Asker<'_> {
        self.with(SERVICE)
    }

    pub(crate) fn with<'a>(&'a self, key: &'a str) -> Asker<'a> {
        Asker { key: Some(key), ..self.nobody() }
    }

    pub(crate) fn nobody(&self) -> Asker<'_> {
        Asker { house: self, key: None, under: "", headers: Vec::new(), media_type: None }
    }

    /// Another workspace of the organisation, stored directly, so that its slug is known.
    pub(crate) async fn workspace(&self, slug: &str) -> WorkspaceId {
        self.workspace_of(self.org().id, slug).await
    }

    pub(crate) async fn workspace_of(&self, org: OrgId, slug: &str) -> WorkspaceId {
        let id = Uuid::now_v7();
        self.store(vec![row(Kind::Workspace, id, org, slug, &json!({}))]).await;
        WorkspaceId(id)
    }

    /// Another organisation with a workspace and an Admin key, whose text is returned.
    pub(crate) async fn organisation(&self, slug: &str) -> String {
        let (org, workspace, key) = (OrgId(Uuid::now_v7()), Uuid::now_v7(), format!("admin-of-{slug}"));
        let scopes = SCOPES.iter().filter(|s| !s.starts_with("completions"));
        let doc = json!({"type": "organisation-service", "hash": KeyHash::of(&key).to_string(), "masked": "****",
            "scopes": scopes.collect::<Vec<_>>(), "creation_mode": "api"});
        self.store(vec![
            row(Kind::Organisation, org.0, org, slug, &json!({"default_workspace": workspace})),
            row(Kind::Workspace, workspace, org, "default", &json!({})),
            row(Kind::ApiKey, Uuid::now_v7(), org, "", &doc),
        ])
        .await;
        key
    }

    /// Somebody who was invited and accepted: the user's id and the key of the first seat, if scopes were given.
    pub(crate) async fn user(&self, email: &str, role: &str, seats: Value, scopes: Option<Value>) -> (String, String) {
        let mut body = json!({"email": email, "role": role, "workspaces": seats});
        if let Some(scopes) = scopes {
            merge(&mut body, json!({"workspace_api_key_details": {"scopes": scopes}}));
        }
        let made = self.as_admin().post("/admin/users/invites", body).await.expect(200);
        let body = json!({"token": token(&made["invite_link"]), "first_name": "Ann", "last_name": "Lee"});
        let user = self.nobody().post("/invites/accept", body).await.expect(200);
        (text(&user["id"]), user["api_keys"][0]["key"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn integration_id(&self, slug: &str) -> IntegrationId {
        let snapshot = self.app.live.snapshot();
        snapshot.upstreams().find(|u| &*u.slug == slug).expect("in force").integration
    }

    /// Rows as another node would have written them, read at once.
    pub(crate) async fn store(&self, rows: Vec<Stored>) {
        let batch = Batch { rows, ..Batch::default() };
        self.app.store.write(0, Box::new(|_| Ok(batch))).await.expect("written");
        self.catch_up().await;
    }

    /// A key made through the API, with its id; a user key of an admin of the organisation, unless told whose.
    pub(crate) async fn key(&self, kind: &str, fields: Value) -> (String, String) {
        let mut body = json!({"name": "a key"});
        if kind == "workspace/user" && fields.get("user_id").is_none() {
            let address = format!("{}@example.com", Uuid::now_v7().simple());
            body["user_id"] = self.user(&address, "admin", json!([]), None).await.0.into();
        }
        merge(&mut body, fields);
        let made = self.as_admin().post(&format!("/api-keys/{kind}"), body).await.expect(200);
        (text(&made["id"]), text(&made["key"]))
    }

    /// Whether a key would be let in on the proxy, by what the hot path reads.
    pub(crate) fn in_force(&self, key: &str) -> bool {
        self.app.live.snapshot().key(&KeyHash::of(key)).is_some_and(|k| k.active)
    }

    pub(crate) fn default_workspace(&self) -> WorkspaceId {
        self.org().default_workspace
    }

    /// The one of the first start.
    pub(crate) fn org(&self) -> Arc<Org> {
        let snapshot = self.app.live.snapshot();
        snapshot.orgs().find(|o| &*o.slug == "default").expect("an organisation").clone()
    }

    pub(crate) fn logs(&self) -> &dyn LogStore {
        &*self.records
    }

    /// Whatever comes is held to the description of the API.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = self.ask(request).await;
        if !ToldAnswers::is_there() {
            let document = self.ask(Request::get("/openapi.json").body(Body::empty()).expect("a request")).await;
            ToldAnswers::learn(document.expect(200));
        }
        ToldAnswers::check(&method, &path, &answer);
        answer
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a whole body");
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).expect("text") }
    }
}

#[expect(clippy::disallowed_methods, reason = "one run of this suite tells the next which database to use")]
async fn database_of_its_own() -> Option<String> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var(SERVER).ok()?;
    let name = format!("house_{}", MADE.fetch_add(1, Ordering::Relaxed));
    Some(tokio::task::spawn_blocking(move || Postgres::create_beside(&server, &name)).await.expect("no panic"))
}

pub(crate) fn row(kind: Kind, id: Uuid, org: OrgId, slug: &str, doc: &Value) -> Stored {
    Stored {
        kind: kind.name().into(),
        id,
        org: org.0,
        workspace: None,
        slug: slug.into(),
        name: slug.into(),
        status: "active".into(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 0,
        doc: doc.to_string(),
        created_at: now(),
        updated_at: now(),
        deleted_at: None,
    }
}

fn master_key() -> MasterKey {
    MasterKey::from_text(&"07".repeat(32)).expect("a key")
}

/// The secret part of an invite's link.
pub(crate) fn token(link: &Value) -> String {
    text(link).split_once('#').expect("a link with a token").1.to_owned()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

pub(crate) fn merge(base: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { panic!("not an object") };
    base.as_object_mut().expect("an object").extend(fields);
}

pub(crate) fn list(answer: &Value, field: &str) -> Vec<String> {
    let rows = answer["data"].as_array().unwrap_or_else(|| panic!("no list: {answer}"));
    rows.iter().map(|r| text(&r[field])).collect()
}
