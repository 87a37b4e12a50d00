//! Configs that requests bring with them: compiled once for each text, and kept with what they take, in bytes. What was
//! refused is kept as well, so that it is not compiled again to be refused again. Whatever takes longer than reading a
//! few keys is compiled away from the threads that serve, one text at a time for a workspace, so that nobody waits for
//! another tenant's configs. Knows nothing of how a config is chosen or used.

use gateway_domain::config::{self, Config, Context, INLINE_TEXT};
use gateway_domain::egress::Trusted;
use gateway_domain::{Fault, FaultKind, Secret, WorkspaceId};
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that compiled configs and refusals may take together.
const MOST_BYTES: u64 = 64 << 20;
/// A share of the whole holds many times the largest config.
const SHARES: usize = 8;
/// What is expected of a usual config, to size the table.
const USUAL_BYTES: u64 = 8 << 10;
/// Configs that are compiled at once, of all workspaces.
const AT_ONCE: usize = 2;
/// Different configs of one workspace that wait to be compiled; one more is refused.
const WAITING: usize = 64;
/// So short a text without patterns is compiled where it is met: handing it over would take longer.
const SHORT: usize = 2 << 10;
/// An entry of the table beside its text and config.
const ENTRY: usize = 160;

/// What came of a text.
#[derive(Clone, Debug)]
enum CompiledInline {
    Config(Arc<Config>),
    NotJson,
    /// The problems, as they are told.
    Refused(Arc<[String]>),
}

#[derive(Clone, Debug)]
struct InlineWeight;

impl Weighter<Arc<str>, CompiledInline> for InlineWeight {
    fn weight(&self, text: &Arc<str>, compiled: &CompiledInline) -> u64 {
        let held = match compiled {
            CompiledInline::Config(config) => config.memory(),
            CompiledInline::NotJson => 0,
            CompiledInline::Refused(lines) => lines.iter().map(|line| line.len() + size_of::<String>()).sum(),
        };
        (ENTRY + text.len() + held) as u64
    }
}

/// Configs of one workspace that are being compiled or wait for it.
#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    waiting: usize,
}

/// A place in the queue of a workspace, until dropped.
#[derive(Debug)]
struct CompilePlace {
    workspace: WorkspaceId,
    queues: Arc<Mutex<HashMap<WorkspaceId, Queue>>>,
    turn: Arc<Semaphore>,
}

impl Drop for CompilePlace {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&self.workspace) {
            queue.waiting -= 1;
            if queue.waiting == 0 {
                queues.remove(&self.workspace);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct InlineConfigs {
    kept: Cache<Arc<str>, CompiledInline, InlineWeight>,
    queues: Arc<Mutex<HashMap<WorkspaceId, Queue>>>,
    at_once: Arc<Semaphore>,
    trusted: Arc<Trusted>,
    /// Where threads are that serve nobody.
    runtime: Handle,
    compilations: AtomicU64,
    shed: AtomicU64,
}

impl InlineConfigs {
    pub(crate) fn new(trusted: Arc<Trusted>, runtime: Handle) -> Self {
        let items = usize::try_from(MOST_BYTES / USUAL_BYTES).unwrap_or(usize::MAX);
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(items).weight_capacity(MOST_BYTES).shards(SHARES);
        let kept = match options.build() {
            Ok(options) => {
                Cache::with_options(options, InlineWeight, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            Err(_) => Cache::with_weighter(items, MOST_BYTES, InlineWeight),
        };
        Self {
            kept,
            queues: Arc::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            trusted,
            runtime,
            compilations: AtomicU64::new(0),
            shed: AtomicU64::new(0),
        }
    }

    /// How many are kept, refusals among them.
    pub(crate) fn len(&self) -> u64 {
        self.kept.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// Texts that were compiled since the start.
    pub(crate) fn compilations(&self) -> u64 {
        self.compilations.load(Ordering::Relaxed)
    }

    /// Requests that were refused since too many configs of their workspace waited.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// The config that a text is. One already seen costs a look-up; another is compiled when its workspace has its
    /// turn.
    pub(crate) async fn find(&self, workspace: WorkspaceId, text: &str) -> Result<Arc<Config>, Fault> {
        if let Some(known) = self.kept.get(text) {
            return known.into_result();
        }
        if text.len() > INLINE_TEXT {
            let rule = format!("must be a config of at most {INLINE_TEXT} bytes; a larger one can be saved");
            return Err(Fault::new(FaultKind::BadConfig, format!("x-gateway-config {rule}")).on("x-gateway-config"));
        }
        if is_short(text) {
            self.compilations.fetch_add(1, Ordering::Relaxed);
            let compiled = compile(text, &self.trusted);
            self.kept.insert(text.into(), compiled.clone());
            return compiled.into_result();
        }
        let text: Arc<str> = text.into();
        match self.kept.get_value_or_guard_async(&text).await {
            Ok(known) => known.into_result(),
            Err(guard) => {
                let compiled = self.compile_elsewhere(workspace, text.clone()).await?;
                // Somebody may have made room at once: then the next who asks compiles it again.
                let _ = guard.insert(compiled.clone());
                compiled.into_result()
            }
        }
    }

    async fn compile_elsewhere(&self, workspace: WorkspaceId, text: Arc<str>) -> Result<CompiledInline, Fault> {
        let place = self.wait(workspace)?;
        let turn = place.turn.clone().acquire_owned().await;
        let seat = self.at_once.clone().acquire_owned().await;
        let held: (_, Option<OwnedSemaphorePermit>) = ((place, turn.ok()), seat.ok());
        self.compilations.fetch_add(1, Ordering::Relaxed);
        let trusted = self.trusted.clone();
        // A client that leaves gives up waiting, not the place of what is being compiled for it.
        let work = self.runtime.spawn_blocking(move || {
            let compiled = compile(&text, &trusted);
            drop(held);
            compiled
        });
        work.await.map_err(|_| Fault::new(FaultKind::Internal, "The config could not be compiled"))
    }

    fn wait(&self, workspace: WorkspaceId) -> Result<CompilePlace, Fault> {
        let mut queues = self.queues.lock();
        let queue = queues.entry(workspace).or_insert_with(|| Queue { turn: Arc::new(Semaphore::new(1)), waiting: 0 });
        if queue.waiting >= WAITING {
            self.shed.fetch_add(1, Ordering::Relaxed);
            let message = format!(
                "More than {WAITING} different configs of this workspace wait to be compiled: \
                 save them, or send fewer different ones"
            );
            return Err(Fault::new(FaultKind::Flooded, message).on("x-gateway-config").retry_after_ms(1000));
        }
        queue.waiting += 1;
        Ok(CompilePlace { workspace, queues: self.queues.clone(), turn: queue.turn.clone() })
    }
}

impl CompiledInline {
    fn into_result(self) -> Result<Arc<Config>, Fault> {
        match self {
            Self::Config(config) => Ok(config),
            Self::NotJson => Err(not_json()),
            Self::Refused(lines) => {
                let fault = Fault::new(FaultKind::BadConfig, "Invalid config passed").on("x-gateway-config");
                Err(fault.listing(lines.to_vec()))
            }
        }
    }
}

/// Whether a config is short and surely without patterns: one needs a `$`, which an escape behind a backslash may hide.
fn is_short(text: &str) -> bool {
    text.len() <= SHORT && !text.contains(['$', '\\'])
}

pub(super) fn not_json() -> Fault {
    Fault::new(FaultKind::BadConfig, "Invalid config passed. You need to pass a valid json").on("x-gateway-config")
}

fn compile(text: &str, trusted: &Trusted) -> CompiledInline {
    let Ok(value) = serde_json::from_str(text) else { return CompiledInline::NotJson };
    let known = |slug: &str| gateway_providers::adapter(slug).is_some();
    let open = |plain: &str| Some(Secret::new(plain.to_owned()));
    let context = Context { known_provider: &known, trusted, open: &open, saved: false };
    match config::compile(&value, &context) {
        Ok(config) => CompiledInline::Config(Arc::new(config)),
        Err(problems) => CompiledInline::Refused(problems.iter().map(config::ConfigProblem::line).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use uuid::Uuid;

    fn configs() -> InlineConfigs {
        InlineConfigs::new(Arc::default(), Handle::current())
    }

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId(Uuid::from_u128(number))
    }

    fn patterns(patterns: &[String]) -> Value {
        let conditions: Vec<Value> =
            patterns.iter().map(|p| json!({"query": {"metadata.u": {"$regex": p}}, "then": "a"})).collect();
        json!({"strategy": {"mode": "conditional", "conditions": conditions, "default": "a"},
               "targets": [{"name": "a", "provider": "openai", "api_key": "k"}]})
    }

    #[tokio::test]
    async fn a_text_is_compiled_once() {
        let configs = configs();
        let plain = r#"{"provider":"openai","api_key":"k"}"#.to_owned();
        for (number, text) in [plain, patterns(&["^gpt".to_owned()]).to_string()].iter().enumerate() {
            let compiled = configs.compilations();
            let first = configs.find(workspace(1), text).await.expect("valid");
            let again = configs.find(workspace(1), text).await.expect("valid");
            assert!(Arc::ptr_eq(&first, &again), "what was seen is not read again");
            let other = configs.find(workspace(2), text).await.expect("valid");
            assert!(Arc::ptr_eq(&first, &other), "how its targets fare is kept elsewhere, for each workspace");
            assert_eq!((configs.compilations() - compiled, configs.len()), (1, number as u64 + 1));
        }
    }

    #[tokio::test]
    async fn a_refusal_is_kept_and_told_again() {
        let configs = configs();
        let large = vec![r"\w{20}".to_owned()];
        for text in [patterns(&large).to_string(), r#"{"provider":"nobody"}"#.to_owned(), "{".to_owned()] {
            let before = configs.compilations();
            let first = configs.find(workspace(1), &text).await.expect_err("refused");
            let again = configs.find(workspace(1), &text).await.expect_err("refused");
            assert_eq!((first.status(), first.message()), (400, again.message()));
            assert_eq!(configs.compilations() - before, 1, "{text}");
        }
        let long = " ".repeat(INLINE_TEXT);
        let refused = configs.find(workspace(1), &format!("{{{long}}}")).await.expect_err("too long");
        assert!(refused.message().contains("at most 32768 bytes"), "{}", refused.message());
        assert_eq!((configs.compilations(), configs.len()), (3, 3), "what is too long is neither compiled nor kept");
    }

    #[tokio::test]
    async fn equal_texts_at_once_are_compiled_once() {
        let configs = Arc::new(configs());
        let text: Arc<str> = patterns(&[r"\w{5}".to_owned()]).to_string().into();
        let asking: Vec<_> = (0..300)
            .map(|_| {
                let (configs, text) = (configs.clone(), text.clone());
                Handle::current().spawn(async move { configs.find(workspace(1), &text).await.is_ok() })
            })
            .collect();
        for asked in asking {
            assert!(asked.await.expect("no panic"), "who waits for an equal one is not refused");
        }
        assert_eq!(configs.compilations(), 1);
    }

    #[tokio::test]
    async fn a_workspace_waits_for_itself_alone() {
        let configs = Arc::new(configs());
        let held = configs.wait(workspace(1)).expect("a place");
        let turn = held.turn.clone().acquire_owned().await.expect("a turn");
        let text = |n: usize| patterns(&[format!("^{n}$")]).to_string();
        let mut asking: Vec<_> = (1..WAITING)
            .map(|n| {
                let (configs, text) = (configs.clone(), text(n));
                Handle::current().spawn(async move { configs.find(workspace(1), &text).await.map(|_| ()) })
            })
            .collect();
        while configs.queues.lock().get(&workspace(1)).is_none_or(|queue| queue.waiting < WAITING) {
            tokio::task::yield_now().await;
        }
        let refused = configs.find(workspace(1), &text(0)).await.expect_err("the queue is full");
        assert_eq!((refused.status(), refused.retry_after(), configs.shed()), (429, Some(1000), 1));
        configs.find(workspace(2), &text(0)).await.expect("another workspace does not wait");
        // Those who leave give their places back.
        asking.split_off(10).iter().for_each(tokio::task::JoinHandle::abort);
        while configs.queues.lock().get(&workspace(1)).is_none_or(|queue| queue.waiting > 11) {
            tokio::task::yield_now().await;
        }
        drop((turn, held));
        for asked in asking {
            asked.await.expect("no panic").expect("valid");
        }
        assert!(configs.queues.lock().is_empty());
    }

    #[tokio::test]
    async fn what_is_kept_is_weighed() {
        let configs = configs();
        for n in 0..600 {
            let text = patterns(&[format!(r"\w{{5}}{n}"), format!(r"\w{{4}}{n}")]).to_string();
            configs.find(workspace(n % 3), &text).await.expect("valid");
        }
        let (bytes, kept) = (configs.bytes(), configs.len());
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES / 2, "{bytes}");
        assert!((200..500).contains(&kept), "{kept}");
    }
}
