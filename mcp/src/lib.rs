//! The Model Context Protocol as bytes in and bytes out, and of A2A what is like it: JSON-RPC envelopes, the protocol's
//! versions in their two eras, event streams, names of merged servers, filters of lists, and sessions that any node can
//! open. Holds no socket, no clock and no configuration; what it does not know in a message stays as it came, byte for
//! byte.

pub mod a2a;
pub mod bridge;
pub mod challenge;
pub mod error;
pub mod filter;
pub mod header;
pub mod merge;
pub mod message;
pub mod multiplex;
pub mod names;
pub mod object;
pub mod session;
pub mod sse;
pub mod task;
pub mod texts;
pub mod version;

pub use error::RpcError;
pub use message::{BadMessage, RpcBody, RpcId, RpcMessage};
pub use object::RawObject;
pub use version::{Era, McpVersion};
