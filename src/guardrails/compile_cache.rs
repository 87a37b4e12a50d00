//! Guardrails as they run, compiled once for each text that they were written in: lists of configs, and saved ones.
//! Kept with what they take, in bytes; what was refused is kept as well. They are compiled away from the threads that
//! serve, two at a time, and never while a request is judged by one that is known.

use gateway_domain::config::Config;
use gateway_domain::config::hooks::HookSet;
use gateway_domain::egress::Trusted;
use gateway_domain::id::GuardrailId;
use gateway_domain::snapshot::{Org, SavedGuardrail};
use gateway_domain::{Fault, FaultKind, OrgId};
use gateway_guardrails::definition::{self, CompileContext, ListedGuardrail};
use gateway_guardrails::{Guardrail, GuardrailProblem};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Bytes that compiled guardrails and refusals may take together.
const MOST_BYTES: u64 = 128 << 20;
const EXPECTED: usize = 8192;
/// What is compiled at once, for all workspaces, and what may wait for it; more is refused.
const AT_ONCE: usize = 2;
const WAITING: u64 = 1024;
/// Bytes that the guardrails of one config may take: of one that a request brings, and of a saved one.
const INLINE_BYTES: usize = 8 << 20;
const SAVED_BYTES: usize = 32 << 20;
/// An entry of the table beside what it holds.
const ENTRY: usize = 160;

/// What a text is known by. Credentials differ between organisations, and with them what a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum GuardName {
    Config { fingerprint: [u8; 16], org: OrgId, partners: u64 },
    Saved { id: GuardrailId, revision: i64, partners: u64 },
}

/// The lists of a config, each in its place.
#[derive(Debug)]
pub(crate) struct ConfigGuards(Box<[ListedGuards]>);

/// One list of a config.
#[derive(Debug)]
pub(crate) struct ListedGuards {
    pub(crate) entries: Box<[ListedGuardrail]>,
    /// Differs where the text does.
    pub(crate) digest: [u8; 16],
}

impl ConfigGuards {
    pub(crate) fn at(&self, place: usize) -> Option<&ListedGuards> {
        self.0.get(place)
    }

    /// Names of saved guardrails, by slug or id.
    pub(crate) fn saved(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|list| &list.entries).filter_map(|entry| match entry {
            ListedGuardrail::Saved(name) => Some(name.as_str()),
            ListedGuardrail::Inline(_) => None,
        })
    }
}

#[derive(Clone, Debug)]
enum KeptGuards {
    Config(Arc<ConfigGuards>),
    Saved(Arc<Guardrail>),
    Refused(Arc<[String]>),
}

#[derive(Clone, Debug)]
struct GuardWeight;

impl Weighter<GuardName, (KeptGuards, usize)> for GuardWeight {
    fn weight(&self, _: &GuardName, (_, bytes): &(KeptGuards, usize)) -> u64 {
        (ENTRY + bytes) as u64
    }
}

#[derive(Debug)]
pub(super) struct CompiledGuards {
    kept: Cache<GuardName, (KeptGuards, usize), GuardWeight>,
    at_once: Arc<Semaphore>,
    waiting: AtomicU64,
    compilations: AtomicU64,
    shed: AtomicU64,
    /// Where threads are that serve nobody.
    runtime: Handle,
    trusted: Arc<Trusted>,
}

/// Counts one that waits, until dropped.
struct WaitsToCompile<'a>(&'a AtomicU64);

impl Drop for WaitsToCompile<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CompiledGuards {
    pub(super) fn new(runtime: Handle, trusted: Arc<Trusted>) -> Self {
        Self {
            kept: Cache::with_weighter(EXPECTED, MOST_BYTES, GuardWeight),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: AtomicU64::new(0),
            compilations: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            runtime,
            trusted,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.kept.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// Texts that were compiled since the start.
    pub(super) fn compilations(&self) -> u64 {
        self.compilations.load(Ordering::Relaxed)
    }

    pub(super) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// The lists of a config; all that is wrong with them is told at once.
    pub(super) async fn of_config(
        &self,
        config: &Arc<Config>,
        inline: bool,
        org: &Arc<Org>,
    ) -> Result<Arc<ConfigGuards>, Fault> {
        let (fingerprint, partners) = (config.fingerprint(), org.partners_generation());
        let name = GuardName::Config { fingerprint, org: org.id, partners };
        let (config, org, trusted) = (config.clone(), org.clone(), self.trusted.clone());
        let most = if inline { INLINE_BYTES } else { SAVED_BYTES };
        let compile = move || {
            let credentials = |namespace: &str| signed_in(&org, namespace);
            lists(&config.hooks, most, &CompileContext { credentials: &credentials, trusted: &trusted })
        };
        match self.find(name, compile).await? {
            KeptGuards::Config(guards) => Ok(guards),
            KeptGuards::Refused(lines) => {
                let fault = Fault::new(FaultKind::BadConfig, "Invalid config passed").on("x-gateway-config");
                Err(fault.listing(lines.to_vec()))
            }
            KeptGuards::Saved(_) => Err(mixed_up()),
        }
    }

    /// A saved guardrail. One that no longer compiles lets nothing through.
    pub(super) async fn of_saved(&self, saved: &Arc<SavedGuardrail>, org: &Arc<Org>) -> Result<Arc<Guardrail>, Fault> {
        let name = GuardName::Saved { id: saved.id, revision: saved.revision, partners: org.partners_generation() };
        let (meant, org, trusted) = (saved.clone(), org.clone(), self.trusted.clone());
        let compile = move || {
            let credentials = |namespace: &str| signed_in(&org, namespace);
            let setup = CompileContext { credentials: &credentials, trusted: &trusted };
            let null = Value::Null;
            let member = |key: &str| meant.definition.get(key).unwrap_or(&null);
            match definition::saved(&meant.slug, member("checks"), member("actions"), &setup) {
                Ok(guardrail) => {
                    let bytes = guardrail.memory();
                    (KeptGuards::Saved(Arc::new(guardrail)), bytes)
                }
                Err(problems) => refused(problems.iter().map(GuardrailProblem::to_string).collect()),
            }
        };
        match self.find(name, compile).await? {
            KeptGuards::Saved(guardrail) => Ok(guardrail),
            KeptGuards::Refused(lines) => {
                let message = format!("The guardrail `{}` cannot run as it is saved", saved.slug);
                Err(Fault::new(FaultKind::BadConfig, message).listing(lines.to_vec()))
            }
            KeptGuards::Config(_) => Err(mixed_up()),
        }
    }

    async fn find(
        &self,
        name: GuardName,
        compile: impl FnOnce() -> (KeptGuards, usize) + Send + 'static,
    ) -> Result<KeptGuards, Fault> {
        if let Some((known, _)) = self.kept.get(&name) {
            return Ok(known);
        }
        let guard = match self.kept.get_value_or_guard_async(&name).await {
            Ok((known, _)) => return Ok(known),
            Err(guard) => guard,
        };
        let waits = WaitsToCompile(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.shed.fetch_add(1, Ordering::Relaxed);
            let message = "Too many different guardrails wait to be compiled: try again shortly";
            return Err(Fault::new(FaultKind::Flooded, message).retry_after_ms(1000));
        }
        let seat = self.at_once.clone().acquire_owned().await.ok();
        self.compilations.fetch_add(1, Ordering::Relaxed);
        let work = self.runtime.spawn_blocking(move || {
            let compiled = compile();
            drop(seat);
            compiled
        });
        let compiled =
            work.await.map_err(|_| Fault::new(FaultKind::Internal, "The guardrails could not be compiled"))?;
        drop(waits);
        // Somebody may have made room at once: then the next who asks compiles it again.
        let _ = guard.insert(compiled.clone());
        Ok(compiled.0)
    }
}

fn mixed_up() -> Fault {
    Fault::new(FaultKind::Internal, "A guardrail was kept under a name of another kind")
}

fn refused(lines: Vec<String>) -> (KeptGuards, usize) {
    let bytes = lines.iter().map(|line| line.len() + size_of::<String>()).sum();
    (KeptGuards::Refused(lines.into()), bytes)
}

/// What the organisation has saved for a partner.
fn signed_in(org: &Org, namespace: &str) -> Option<Map<String, Value>> {
    org.partners().get(namespace).map(|saved| saved.plain())
}

fn lists(sets: &[HookSet], most: usize, setup: &CompileContext<'_>) -> (KeptGuards, usize) {
    let (mut out, mut problems, mut bytes) = (Vec::with_capacity(sets.len()), Vec::new(), 0);
    for set in sets {
        let (mut entries, mut hash) = (Vec::new(), Sha256::new());
        for list in &set.lists {
            hash.update(list.key.name());
            hash.update(list.value.to_string());
            match definition::of_config(list, setup) {
                Ok(found) => entries.extend(found),
                Err(found) => problems.extend(found.iter().map(|p| format!("path: {}, message: {p}", list.path))),
            }
        }
        bytes += entries.iter().map(weight).sum::<usize>();
        if bytes > most {
            let path = set.lists.first().map_or("config", |list| &list.path);
            problems.push(format!(
                "path: {path}, message: goes beyond the {most} bytes that guardrails of a config may take"
            ));
            break;
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        out.push(ListedGuards { entries: entries.into(), digest });
    }
    if problems.is_empty() {
        (KeptGuards::Config(Arc::new(ConfigGuards(out.into()))), bytes)
    } else {
        refused(problems)
    }
}

fn weight(entry: &ListedGuardrail) -> usize {
    match entry {
        ListedGuardrail::Saved(name) => name.len() + size_of::<ListedGuardrail>(),
        ListedGuardrail::Inline(guardrail) => guardrail.memory() + size_of::<ListedGuardrail>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::config::Context;
    use gateway_domain::ports::{Changes, Vault, VaultError};
    use gateway_domain::resource::{Kind, Stored};
    use gateway_domain::snapshot::{Build, Snapshot};
    use gateway_domain::{Secret, Timestamp};
    use serde_json::json;
    use uuid::Uuid;

    fn config(guardrails: &Value) -> Arc<Config> {
        let (known, open) = (|_: &str| true, |text: &str| Some(Secret::new(text.to_owned())));
        let trusted = Trusted::default();
        let context = Context { known_provider: &known, trusted: &trusted, open: &open, saved: false };
        let config = json!({"provider": "openai", "input_guardrails": guardrails});
        Arc::new(gateway_domain::config::compile(&config, &context).expect("a config"))
    }

    struct NoVault;

    impl Vault for NoVault {
        fn seal(&self, plain: &str) -> String {
            plain.to_owned()
        }
        fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError> {
            Ok(Secret::new(sealed.to_owned()))
        }
    }

    /// An organisation as the snapshot has it, which rows are the only way to.
    fn org(number: u128) -> Arc<Org> {
        let id = Uuid::from_u128(number);
        let row = Stored {
            kind: Kind::Organisation.name().into(),
            id,
            org: id,
            workspace: None,
            slug: "o".into(),
            name: "o".into(),
            status: "active".into(),
            owner: None,
            schema: 1,
            version: 1,
            revision: 1,
            doc: json!({"default_workspace": id}).to_string(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            deleted_at: None,
        };
        let trusted = Trusted::default();
        let build = Build { catalog: gateway_providers::catalog(), vault: &NoVault, trusted: &trusted };
        let (snapshot, problems) = Snapshot::default().apply(&Changes { revision: 1, rows: vec![row] }, &build);
        assert!(problems.is_empty(), "{problems:?}");
        snapshot.org(OrgId(id)).expect("an organisation").clone()
    }

    #[tokio::test]
    async fn a_text_is_compiled_once_for_an_organisation() {
        let compiled = CompiledGuards::new(Handle::current(), Arc::default());
        let config = config(&json!([{"contains": {"words": ["x"], "operator": "none"}}, "pg-1"]));
        let first = compiled.of_config(&config, true, &org(1)).await.expect("sound");
        let again = compiled.of_config(&config, true, &org(1)).await.expect("sound");
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!((compiled.compilations(), first.saved().collect::<Vec<_>>()), (1, vec!["pg-1"]));
        compiled.of_config(&config, true, &org(2)).await.expect("sound");
        assert_eq!((compiled.compilations(), compiled.len()), (2, 2), "another has credentials of its own");
    }

    #[tokio::test]
    async fn refusals_name_check_and_parameter_and_are_kept() {
        let compiled = CompiledGuards::new(Handle::current(), Arc::default());
        let config = config(&json!([{"contains": {}}, {"nonsense": {}}]));
        for _ in 0..2 {
            let refused = compiled.of_config(&config, true, &org(1)).await.expect_err("bad");
            let text = String::from_utf8_lossy(&refused.body(gateway_domain::Dialect::OpenAi)).into_owned();
            for told in ["path: input_guardrails", "default.contains", "words", "default.nonsense"] {
                assert!(text.contains(told), "{told} in {text}");
            }
        }
        assert_eq!(compiled.compilations(), 1);
    }

    #[tokio::test]
    async fn a_config_holds_no_more_patterns_than_it_may() {
        let compiled = CompiledGuards::new(Handle::current(), Arc::default());
        let pattern = json!({"id": "regexMatch", "rule": ".{500}", "not": true});
        let one: Map<String, Value> = (0..12).map(|n| (format!("p{n}"), pattern.clone())).collect();
        let many = config(&Value::Array(vec![Value::Object(one); 20]));
        let refused = compiled.of_config(&many, true, &org(1)).await.expect_err("too much");
        let text = String::from_utf8_lossy(&refused.body(gateway_domain::Dialect::OpenAi)).into_owned();
        assert!(text.contains("goes beyond"), "{text}");
    }
}
