//! What a call used. Classes are disjoint: a token counted as a cache read is not in `input`,
//! a reasoning token is not in `output`. Providers report overlapping numbers; translators split them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    pub reasoning: u64,
    pub audio_in: u64,
    pub audio_out: u64,
    pub images: u64,
    /// Counted or guessed by the gateway, not reported by the provider.
    pub estimated: bool,
}

impl Usage {
    /// Tokens that went in, of every class.
    pub const fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write + self.audio_in
    }

    /// Tokens that came out, of every class.
    pub const fn completion(&self) -> u64 {
        self.output + self.reasoning + self.audio_out
    }

    pub const fn total(&self) -> u64 {
        self.prompt() + self.completion()
    }
}
