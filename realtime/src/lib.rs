//! Realtime sessions as they pass: frames of a WebSocket in each direction, and the few fields of their events that say
//! what is asked, what was said and used, and how it ended. Floor 1: bytes in, facts out. Knows no socket, no clock, no
//! limit and no price, and changes nothing of what passes.

mod event;
mod frame;
mod texts;
mod usage_estimate;

pub use event::{ClientEvent, EventIds, ProviderEvent, SessionFacts, Unreadable, error_event};
pub use frame::{Closing, FrameReader, HeardFrame, Misframed, Peer, WireMessage, close_frame, pong_to, text_frame};
pub use texts::{call_texts, each_text, texts_alone};
pub use usage_estimate::{SpokenSoFar, Tally};
