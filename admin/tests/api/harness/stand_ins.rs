//! What the program hands to the Admin API beside a store, in its simplest form: each stand-in does one thing, and what
//! it stands for is tested where it is made. None knows of houses.

use super::now;
use arc_swap::ArcSwap;
use bytes::Bytes;
use gateway_admin::{ComponentStatus, Counting, Status};
use gateway_domain::cloud::Grant;
use gateway_domain::denied_caller::TurnedAway;
use gateway_domain::egress::Trusted;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{
    BatchOutputs, Changes, CredentialTrial, CredentialTrials, CredentialUntried, CredentialVerdict, Doorkeeper, Fut,
    KeyLimit, KeyLimits, Live, LogStore, NamedMetadata, NewOutput, OutputStays, RecordIntake, StoreError, TokenCount,
    TokenCounts, TokenSubject, Tokens, ToldUsage, TooBusyToCount, Vault,
};
use gateway_domain::price::price;
use gateway_domain::record::{LogRecord, mask};
use gateway_domain::snapshot::{Build, Key, RowProblem, Snapshot};
use gateway_domain::token::{self, Claims, TokenError};
use gateway_domain::{Dialect, OrgId, Timestamp};
use http::HeaderValue;
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::sync::{Arc, LazyLock, Mutex};

pub(crate) struct Process {
    pub(crate) ready: Mutex<Result<(), String>>,
    /// Why the part `journal` does less than it should.
    pub(crate) trouble: Mutex<Option<String>>,
    pub(crate) counting: Mutex<Counting>,
}

impl Status for Process {
    fn counting(&self) -> Counting {
        *self.counting.lock().expect("unpoisoned")
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.lock().expect("unpoisoned").clone()
    }
    fn version(&self) -> &str {
        "9.9.9"
    }
    fn metrics(&self) -> String {
        "# TYPE request_count counter\nrequest_count 3\n".to_owned()
    }
    fn parts(&self) -> Vec<ComponentStatus> {
        let trouble = self.trouble.lock().expect("unpoisoned").clone();
        vec![
            ComponentStatus::new("proxy", json!({ "requests_in_flight": 2 })),
            ComponentStatus::new("journal", json!({})).troubled(trouble),
        ]
    }
}

/// The snapshot of one node, swapped as the program does it.
pub(super) struct Node {
    pub(super) snapshot: ArcSwap<Snapshot>,
    pub(super) writing: Mutex<()>,
    pub(super) vault: Arc<dyn Vault>,
    pub(super) trusted: Arc<Trusted>,
}

impl Live for Node {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    fn publish(&self, changes: &Changes) -> Vec<RowProblem> {
        let _one = self.writing.lock().expect("unpoisoned");
        let current = self.snapshot.load_full();
        if changes.revision <= current.revision {
            return Vec::new();
        }
        let catalog = gateway_providers::catalog();
        let build = Build { catalog, vault: &*self.vault, trusted: &self.trusted };
        let (next, problems) = current.apply(changes, &build);
        self.snapshot.store(Arc::new(next));
        problems
    }
}

impl NamedMetadata for Node {
    fn named(&self, org: OrgId) -> Arc<[SmolStr]> {
        self.snapshot().org(org).map_or_else(|| Arc::from([]), |org| org.analytics_metadata_keys.clone())
    }
}

/// Hears of refused callers, and keeps nothing: who hears of them is tested with the whole program.
pub(super) struct Unheard;

impl Doorkeeper for Unheard {
    fn note(&self, _caller: TurnedAway) {}
}

/// Puts records into the store at once, as the writer would in time.
pub(super) struct Straight(pub(super) Arc<dyn LogStore>);

impl RecordIntake for Straight {
    fn take(&self, mut records: Vec<LogRecord>) -> Fut<'_, Result<(), StoreError>> {
        for record in &mut records {
            let told = record.llm().and_then(|llm| llm.usage.zip(llm.card.as_ref()));
            record.cost = told.and_then(|(usage, card)| price(&usage, Some(card), now()));
            record.bodies.iter_mut().for_each(|bodies| bodies.settle());
        }
        Box::pin(async move { self.0.append(&records).await })
    }

    fn overhear(&self, dialect: Dialect, answer: &Bytes) -> ToldUsage {
        let (usage, model) = gateway_providers::overheard(dialect, answer);
        ToldUsage { usage, model }
    }

    fn mask_rules(&self, _status: u16) -> Option<&mask::MaskRules> {
        static RULES: LazyLock<mask::MaskRules> = LazyLock::new(mask::MaskRules::default);
        Some(&RULES)
    }
}

/// Knows one form of token, `eyJ.<scopes with commas>.<workspace slug>`, and takes it for good: what makes a
/// token good is tested where it is decided.
pub(super) struct Issuer;

impl Tokens for Issuer {
    fn key(&self, snapshot: &Snapshot, token: &str, hash: &KeyHash, _now: Timestamp) -> Result<Arc<Key>, TokenError> {
        let org = snapshot.orgs().find(|o| &*o.slug == "default").expect("an organisation");
        let parts: Vec<&str> = token.split('.').collect();
        if parts[1] == "unknown" {
            return Err(TokenError::UnknownKey(org.id));
        }
        let scopes: Vec<&str> = parts[1].split(',').collect();
        let claims = json!({"exp": 4_000_000_000_u64, "scope": scopes, "gateway_workspace": parts[2], "sub": "ann"});
        let claims = Claims::read(claims.as_object().expect("an object"))?;
        let workspace = token::workspace(snapshot, org, &claims)?;
        Ok(Arc::new(token::key(org, workspace, &claims, hash)))
    }

    fn named(&self, snapshot: &Snapshot, _token: &str) -> Option<OrgId> {
        snapshot.orgs().find(|o| &*o.slug == "default").map(|o| o.id)
    }

    fn refresh(&self, _org: OrgId) -> Fut<'_, ()> {
        Box::pin(async {})
    }
}

/// Finds every credential good: who calls providers is tested with the whole program.
pub(super) struct AllGood;

impl CredentialTrials for AllGood {
    fn run<'a>(&'a self, _trial: &'a CredentialTrial) -> Fut<'a, Result<CredentialVerdict, CredentialUntried>> {
        let verdict = CredentialVerdict { asked: "models", status: Some(200), millis: 1, models: Some(2), error: None };
        Box::pin(async { Ok(verdict) })
    }

    fn header<'a>(&'a self, _grant: &'a Arc<Grant>) -> Fut<'a, Result<HeaderValue, String>> {
        Box::pin(async { Ok(HeaderValue::from_static("Bearer t")) })
    }
}

/// Counts nothing.
pub(super) struct Unlimited;

impl KeyLimits for Unlimited {
    fn limits_of<'a>(&'a self, _key: &'a Key) -> Fut<'a, Vec<KeyLimit>> {
        Box::pin(async { Vec::new() })
    }
}

/// Counts words, as no model does.
pub(super) struct WordCounts;

impl TokenCounts for WordCounts {
    fn count_tokens(&self, _: Option<String>, subject: TokenSubject) -> Fut<'_, Result<TokenCount, TooBusyToCount>> {
        let (TokenSubject::Text(text) | TokenSubject::Request(text)) = subject;
        let tokens = text.split_whitespace().count() as u64;
        Box::pin(async move { Ok(TokenCount { tokens, tokenizer: "words", is_exact: false }) })
    }
}

/// Keeps one batch for everybody, which is being judged.
pub(super) struct OneBatch;

impl BatchOutputs for OneBatch {
    fn replace_output<'a>(&'a self, new: NewOutput<'a>) -> Fut<'a, Result<Value, OutputStays>> {
        let NewOutput { batch, file, .. } = new;
        let told = json!({ "id": batch, "object": "batch", "status": "completed", "output_file_id": file });
        Box::pin(async move {
            match (batch, file) {
                ("batch", "file") => Ok(told),
                ("batch", _) => Err(OutputStays::NoFile),
                ("ended", _) => Err(OutputStays::NotJudged("failed")),
                _ => Err(OutputStays::NoBatch),
            }
        })
    }
}
