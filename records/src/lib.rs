//! The way of finished records: priced and put into the journal by one thread, taken to the store by another, and what
//! is made of them beside their rows: metrics that Prometheus scrapes, the access log, spans and metrics that go to a
//! collector over OTLP; and what limits have counted, kept over restarts. Knows records, the journal, the ports of
//! stores and the client for what the operator names. The clock is handed in; of requests, the proxy and the Admin API
//! it knows nothing.

mod degradation;
pub mod metrics;
pub mod otlp;
pub mod usage_checkpoint;
pub mod writer;

pub use degradation::Degraded;
