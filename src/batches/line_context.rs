//! Who lines are when they come in by the door. The secret of the key that made the batch is nowhere known; for one
//! line a pass stands for it, which nobody outside can have. With it goes what the line is held to beside the request
//! itself, and back by it comes what it cost. Knows nothing of the way that lines take.

use super::pinned_config::PinnedConfig;
use ahash::AHashMap;
use bytes::Bytes;
use gateway_domain::Usage;
use gateway_domain::cloud::CloudService;
use gateway_domain::id::KeyId;
use gateway_domain::keys::KeyHash;
use gateway_guardrails::HookResult;
use parking_lot::Mutex;
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// After its answer a request is over at once: whoever was not told by then is not told at all.
const COST_WITHIN: Duration = Duration::from_secs(5);

/// Whom a pass stands for.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub(crate) key: KeyId,
    /// Its request is not to be made, but told.
    pub(crate) supposes: bool,
    /// What the request is held to, where it comes from a batch.
    pub(crate) line: Option<Arc<LineGuest>>,
}

/// What came of a line in a batch of a provider's.
#[derive(Clone, Debug)]
pub(crate) struct BookedAnswer {
    pub(crate) status: u16,
    /// The model that the line asked for.
    pub(crate) asked: Option<String>,
    /// The model that answered, by the provider's own name.
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// The answer in the provider's own words, where those are not the client's: it is to be translated, and tells
    /// usage and model itself.
    pub(crate) native: Option<Bytes>,
    /// Guardrails have their say of it before it is told.
    pub(crate) judged: Option<AnswerToJudge>,
    /// What a line that comes by the door is counted with. `None`: it is not, since an earlier run may have counted it
    /// and nobody can say. Who makes records without that door says nothing here.
    pub(crate) record: Option<LineRecord>,
}

/// The record of a line that a provider answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineRecord {
    pub(crate) id: Uuid,
    /// The record's time, in microseconds.
    pub(crate) at: i64,
    /// The id of a node that may have written it.
    pub(crate) doubted_by: Option<Arc<str>>,
}

/// An answer that guardrails judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerToJudge {
    /// The answer's body in the client's dialect. `None`: it is made from what the provider says in its own words.
    pub(crate) told: Option<Bytes>,
    /// What they said of the line before it went up.
    pub(crate) asked: Vec<HookResult>,
    pub(crate) was_soft: bool,
}

/// What is to become of a request that comes by the door.
#[derive(Debug)]
pub(crate) enum LineTask {
    /// It is asked, as any other.
    Asked,
    /// A provider answered to it in a batch of its own: that is counted, and nothing asked.
    Booked(Box<BookedAnswer>),
    /// It goes up in a batch of a provider's: how it would be asked is told, and nothing sent.
    Written,
    /// It goes up in a provider's batch as the client wrote it, but for what guardrails rewrite: what would go up is
    /// told, and nothing sent.
    Judged,
    /// It is about the batch of a provider's whose lines were all permitted, and asks this service of it; `streams`:
    /// its body is not held; `begins`: it makes the batch.
    Native { at: CloudService, streams: bool, begins: bool },
}

impl LineTask {
    /// What would go up is told, and nothing is sent.
    pub(crate) const fn is_written(&self) -> bool {
        matches!(self, Self::Written | Self::Judged)
    }
}

/// What a line is held to.
#[derive(Debug)]
pub(crate) struct LineGuest {
    pub(crate) config: PinnedConfig,
    pub(crate) task: LineTask,
    /// What the line cost, in billionths of a dollar; `None` until that is known.
    cost: watch::Sender<Option<i64>>,
}

impl LineGuest {
    pub(super) fn new(config: PinnedConfig, task: LineTask) -> Arc<Self> {
        Arc::new(Self { config, task, cost: watch::Sender::new(None) })
    }

    /// The service of the provider that is asked about a batch whose lines were permitted one by one.
    pub(crate) const fn native(&self) -> Option<CloudService> {
        match self.task {
            LineTask::Native { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The request is over, and its records say this.
    pub(crate) fn report_cost(&self, nanos: i64) {
        self.cost.send_replace(Some(nanos));
    }

    /// What the request came to; nothing where nobody says so in time.
    pub(super) async fn cost(&self) -> i64 {
        let mut told = self.cost.subscribe();
        match tokio::time::timeout(COST_WITHIN, told.wait_for(Option::is_some)).await {
            Ok(Ok(cost)) => cost.unwrap_or_default(),
            _ => 0,
        }
    }
}

/// Passes of the lines that are under way.
#[derive(Debug, Default)]
pub(crate) struct LineCallers(Mutex<AHashMap<KeyHash, Guest>>);

impl LineCallers {
    /// Whom a pass stands for.
    pub(crate) fn guest(&self, pass: &KeyHash) -> Option<Guest> {
        self.0.lock().get(pass).cloned()
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.0.lock().values().filter(|guest| !guest.supposes).count() as u64
    }

    pub(super) fn admit(self: &Arc<Self>, guest: Guest) -> LinePass {
        let mut secret = [0_u8; 32];
        let mut text = String::from("line-");
        // Without randomness of the system there is no pass, and the line is refused as any unknown key is.
        if OsRng.try_fill_bytes(&mut secret).is_ok() {
            for byte in secret {
                let _ = write!(text, "{byte:02x}");
            }
            self.0.lock().insert(KeyHash::of(&text), guest);
        }
        LinePass { callers: self.clone(), text }
    }
}

/// Good until it is dropped.
pub(super) struct LinePass {
    callers: Arc<LineCallers>,
    pub(super) text: String,
}

impl Drop for LinePass {
    fn drop(&mut self) {
        self.callers.0.lock().remove(&KeyHash::of(&self.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_good_for_one_line() {
        let callers = Arc::<LineCallers>::default();
        let key = KeyId(Uuid::from_u128(7));
        let guest = Guest { key, supposes: false, line: None };
        let (one, other) = (callers.admit(guest.clone()), callers.admit(Guest { supposes: true, ..guest }));
        assert_ne!(one.text, other.text);
        let found = callers.guest(&KeyHash::of(&one.text)).expect("it is known");
        assert_eq!((found.key, found.supposes, callers.under_way()), (key, false, 1));
        let text = one.text.clone();
        drop(one);
        assert!(callers.guest(&KeyHash::of(&text)).is_none());
        assert_eq!(callers.under_way(), 0);
        assert!(callers.guest(&KeyHash::of(&other.text)).is_some_and(|guest| guest.supposes));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cost_of_a_line_is_waited_for_and_not_for_ever() {
        let line = LineGuest::new(PinnedConfig::Request, LineTask::Asked);
        let telling = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            line.report_cost(7);
        };
        assert_eq!(tokio::join!(line.cost(), telling).0, 7);
        assert_eq!(LineGuest::new(PinnedConfig::Request, LineTask::Asked).cost().await, 0, "nobody says");
    }
}
