//! What a record of a realtime session tells beside what every record does: of the session as a whole, or of one
//! response or transcript in it. All of them share the session's trace id.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Fields that make no sense of a record are absent from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealtimeNote {
    /// The id of the response, or of the item whose transcript it is.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub id: SmolStr,
    /// How a response ended: `completed`, `cancelled`, `failed`, `incomplete`; `cut` where its provider never said.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub status: SmolStr,
    /// The call over WebRTC or SIP that it is about.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub call_id: SmolStr,
    /// Whether what is said in a call that begins is read and counted; absent from records of anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<bool>,
    /// Why a session ended.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub ended: SmolStr,
    /// Who ended it: `client`, `provider` or `gateway`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub closed_by: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_code: Option<u16>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub close_reason: SmolStr,
    /// What the whole session came to; absent from records of its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<RealtimeTotals>,
}

/// What a session came to. Its tokens are those of its responses and transcripts: they are counted there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealtimeTotals {
    pub responses: u32,
    pub transcripts: u32,
    /// Asked for and not let through.
    pub denied: u32,
    /// Messages of the client and of the provider.
    pub events_up: u64,
    pub events_down: u64,
    pub tokens: u64,
}
