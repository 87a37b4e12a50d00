//! One call to one checked address: names, connections and a pool of them per thread, tokens of clouds, and the client
//! for what is fetched beside requests. Knows no client of the gateway, no configuration and nothing of what a request
//! means; TLS, verification and dialling are Pingora's.

mod credential;
mod dial;
mod dns;
mod external_http;
pub mod http1;
mod lazy_timer;
mod mail;
pub mod outbound;
mod peer;
mod pool;
mod program;
mod secret_reader;
mod sse_endpoint;

pub use credential::{Credentials, Pass, Places, Platform, later};
pub use dial::{DialError, Dialer, InProcess, ResolvedOrigin};
pub use dns::Dns;
pub use external_http::{AfterErrors, CheckedCalls, StreamedBody};
pub use lazy_timer::LazyTimer;
pub use mail::SmtpMailer;
pub use pool::{idle, sweep};
pub use program::{NoProgram, Program, ProgramInput, ProgramOutput, ProgramSpec, ProgramUser, Programs};
pub use secret_reader::{SecretPlaces, SecretReader, Unread};
pub use sse_endpoint::sse_endpoint;
