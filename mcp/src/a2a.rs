//! The Agent2Agent protocol (A2A) in its versions 0.3 and 1.0: what a card of an agent says to clients of the gateway,
//! what is asked of agents by either binding, where ids and texts stand in messages. Like all of this crate it holds no
//! socket, no clock and no configuration.

pub mod card;
pub mod ids;
pub mod method;
pub mod state;
pub mod texts;
