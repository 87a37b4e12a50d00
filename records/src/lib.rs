//! What is made of finished records beside their rows: metrics that Prometheus scrapes, spans and metrics that go to a
//! collector over OTLP. Knows records, the depth of the journal and the client for what the operator names. The clock is
//! handed in; of requests, the proxy and the Admin API it knows nothing.

mod degraded;
pub mod metrics;
pub mod otlp;

pub use degraded::Degraded;
