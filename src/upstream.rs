//! The client half of the exchange: names to checked addresses, connections, and a pool of them per thread.
//! Knows nothing of requests' meaning; TLS, verification and dialling are Pingora's.

mod cork;
mod credential;
mod dial;
mod dns;
mod peer;
mod pool;

pub(crate) use cork::Gauge;
pub(crate) use credential::{Credentials, Pass, Places, Platform, later};
pub(crate) use dial::{DialError, Dialer, Origin};
pub(crate) use dns::Dns;
pub(crate) use pool::{check_in, check_out, idle};
