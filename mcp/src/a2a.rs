//! The Agent2Agent protocol (A2A) in its versions 0.3 and 1.0: what a card of an agent says to clients of the gateway. Like
//! all of this crate it holds no socket, no clock and no configuration.

pub mod card;
