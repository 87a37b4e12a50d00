//! Tokens of people's accounts at MCP servers as a node has them at hand: for some seconds without asking anybody, and
//! one at a time asks for an account. Asks nobody; see [`crate::mcp_account`].

use crate::scope_challenges::AskedScope;
use gateway_domain::ports::{McpAccount, McpAccountId};
use gateway_domain::time::Timestamp;
use http::HeaderValue;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How long a row that was read is good before it is read again.
const FRESH_MICROS: i64 = 5 * 1_000_000;
/// How long before its end a token is renewed; where a fifth of its life is shorter, that long.
const AHEAD_MICROS: i64 = 300 * 1_000_000;
const MOST: usize = 8_192;

/// What opens a server for one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountToken {
    pub header: HeaderValue,
    /// Names it where it is refused.
    pub version: i64,
    /// Set where its person was asked for scopes in vain.
    pub(crate) vain: Option<Arc<VainScope>>,
}

/// A token for the server at this address.
pub(crate) struct TokenSent<'a> {
    pub(crate) server: &'a str,
    pub(crate) access: &'a str,
    pub(crate) asked: &'a AskedScope,
}

/// Scopes that nobody is sent for again until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VainScope {
    pub(crate) asked: AskedScope,
    pub(crate) until: Timestamp,
}

impl AccountToken {
    /// Whether sending the person for what a call lacks would be one time too many.
    pub fn was_asked_in_vain(&self, lacked: &str, now: Timestamp) -> bool {
        self.vain.as_ref().is_some_and(|vain| now < vain.until && vain.asked.covers(lacked))
    }
}

#[derive(Clone)]
struct KeptAccount {
    token: AccountToken,
    server: Arc<str>,
    read_at: Timestamp,
    due: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// A renewal that brought nothing, though another time it may.
#[derive(Debug)]
pub(crate) struct FailedRenewal {
    pub(crate) version: i64,
    pub(crate) at: Timestamp,
    /// The rest of a sentence, for the operator.
    pub(crate) why: String,
}

/// Whoever has it asks for the account, and finds what became of the renewal before.
type AccountTurn = Arc<futures_util::lock::Mutex<Option<FailedRenewal>>>;

/// How often which came of it.
#[derive(Debug, Default)]
pub struct RenewalCounts {
    pub renewed: AtomicU64,
    pub denied: AtomicU64,
    pub failed: AtomicU64,
}

/// One value for a process.
#[derive(Default)]
pub struct KeptAccounts {
    kept: Mutex<HashMap<McpAccountId, KeptAccount>>,
    /// One at a time asks for an account; others find what it brought.
    turns: Mutex<HashMap<McpAccountId, AccountTurn>>,
    /// Where the walk through all accounts stands, on this node.
    pub(crate) walked: Mutex<Option<McpAccountId>>,
    pub renewals: RenewalCounts,
}

impl std::fmt::Debug for KeptAccounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptAccounts").field("kept", &self.len()).finish_non_exhaustive()
    }
}

/// The time from which on the token of a row is to be renewed; `None`: the row does not say when it ends.
pub(crate) fn due(row: &McpAccount) -> Option<Timestamp> {
    let until = Some(row.expires_at).filter(|until| until.micros() > 0)?;
    let lives = until.micros().saturating_sub(row.updated_at.micros()).max(0);
    Some(until.plus_micros(-AHEAD_MICROS.min(lives / 5)))
}

impl KeptAccounts {
    /// How many are at hand.
    pub fn len(&self) -> usize {
        self.kept.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A token that can be sent without asking anybody.
    pub fn ready(&self, id: McpAccountId, server: &str, now: Timestamp) -> Option<AccountToken> {
        let kept = self.kept.lock();
        let found = kept.get(&id).filter(|found| *found.server == *server)?;
        let age = now.micros().saturating_sub(found.read_at.micros());
        let fresh = (0..FRESH_MICROS).contains(&age) && found.due.is_none_or(|due| now < due);
        fresh.then(|| found.token.clone())
    }

    pub(crate) fn forget(&self, id: McpAccountId) {
        self.kept.lock().remove(&id);
    }

    /// The token of a row for the server at this address. `None`: no header can carry it.
    pub(crate) fn keep(&self, row: &McpAccount, sent: &TokenSent<'_>, now: Timestamp) -> Option<AccountToken> {
        let mut header = HeaderValue::from_str(&format!("Bearer {}", sent.access)).ok()?;
        header.set_sensitive(true);
        let vain = sent.asked.shut().map(|until| Arc::new(VainScope { asked: sent.asked.clone(), until }));
        let token = AccountToken { header, version: row.version, vain };
        let (until, server) = (Some(row.expires_at).filter(|until| until.micros() > 0), sent.server.into());
        let new = KeptAccount { token: token.clone(), server, read_at: now, due: due(row), until };
        let mut kept = self.kept.lock();
        if kept.len() >= MOST && !kept.contains_key(&row.id) {
            kept.retain(|_, old| now.micros().saturating_sub(old.read_at.micros()) < FRESH_MICROS);
            if kept.len() >= MOST {
                kept.clear();
            }
        }
        kept.insert(row.id, new);
        Some(token)
    }

    /// What was read last is used on while its row cannot be read.
    pub(crate) fn while_away(
        &self,
        id: McpAccountId,
        server: &str,
        now: Timestamp,
        refused: Option<i64>,
    ) -> Option<AccountToken> {
        let kept = self.kept.lock();
        let found = kept.get(&id).filter(|found| *found.server == *server)?;
        let is_good = found.until.is_none_or(|until| now < until) && refused != Some(found.token.version);
        is_good.then(|| found.token.clone())
    }

    pub(crate) fn turn(&self, id: McpAccountId) -> AccountTurn {
        let mut turns = self.turns.lock();
        if turns.len() >= MOST && !turns.contains_key(&id) {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            if turns.len() >= MOST {
                turns.clear();
            }
        }
        turns.entry(id).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::id::{McpIntegrationId, OrgId, UserId};
    use uuid::Uuid;

    const SERVER: &str = "https://mcp.example.com/mcp";

    fn row(n: u128, expires: i64) -> McpAccount {
        McpAccount {
            id: McpAccountId { integration: McpIntegrationId(Uuid::nil()), user: UserId(Uuid::from_u128(n)) },
            org: OrgId(Uuid::nil()),
            sealed: "x".to_owned(),
            version: 1,
            expires_at: Timestamp(expires),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    fn keep(kept: &KeptAccounts, row: &McpAccount) -> Option<AccountToken> {
        kept.keep(row, &TokenSent { server: SERVER, access: "token", asked: &AskedScope::default() }, Timestamp(0))
    }

    #[test]
    fn tokens_are_renewed_ahead_of_their_end() {
        let until = |seconds: i64| due(&row(1, seconds * 1_000_000)).map(|due| due.micros() / 1_000_000);
        assert_eq!(until(3_600), Some(3_300));
        assert_eq!(until(10), Some(8), "by a fifth of a short life");
        assert_eq!(until(0), None, "nobody said when it ends");
    }

    #[test]
    fn a_token_is_at_hand_for_its_server_and_for_a_while() {
        let (kept, one) = (KeptAccounts::default(), row(1, 100 * 1_000_000));
        let token = keep(&kept, &one).expect("kept");
        assert_eq!(token.header, "Bearer token");
        assert!(token.header.is_sensitive());
        assert_eq!(kept.ready(one.id, SERVER, Timestamp(FRESH_MICROS - 1)), Some(token.clone()));
        assert_eq!(kept.ready(one.id, SERVER, Timestamp(FRESH_MICROS)), None, "its row is read again");
        assert_eq!(kept.ready(one.id, "https://evil.example/mcp", Timestamp(0)), None);
        assert_eq!(kept.ready(row(2, 0).id, SERVER, Timestamp(0)), None, "another person's");
        let away = |at: i64, refused| kept.while_away(one.id, SERVER, Timestamp(at), refused);
        assert_eq!(away(99 * 1_000_000, None), Some(token));
        assert_eq!((away(99 * 1_000_000, Some(1)), away(100 * 1_000_000, None)), (None, None));
        kept.forget(one.id);
        assert!(kept.is_empty());
    }

    #[test]
    fn what_is_at_hand_is_bounded() {
        let kept = KeptAccounts::default();
        for n in 0..MOST as u128 + 10 {
            keep(&kept, &row(n, 0)).expect("kept");
            drop(kept.turn(row(n, 0).id));
        }
        assert!(kept.len() <= MOST && kept.turns.lock().len() <= MOST);
        let last = row(MOST as u128 + 9, 0).id;
        assert!(kept.ready(last, SERVER, Timestamp(0)).is_some(), "the newest is there");
    }
}
