//! The two histograms that the GenAI conventions ask of a client, for OTLP only: they are told by model, whose number
//! is bounded here, and Prometheus has its own names for what they say.

use super::labels::Label;
use crate::otlp::{operation, provider};
use gateway_domain::record::LogRecord;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, Registry};

const SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

#[derive(Debug)]
pub(super) struct Conventions {
    registry: Registry,
    duration: HistogramVec,
    tokens: HistogramVec,
    models: Label,
}

impl Conventions {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let labels = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
        let options =
            |name: &str, help: &str, buckets: &[f64]| HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let duration = HistogramVec::new(
            options("gen_ai_client_operation_duration_seconds", "Duration of calls of providers", SECONDS),
            &[&labels[..], &["error_type"]].concat(),
        )?;
        let tokens = HistogramVec::new(
            options("gen_ai_client_token_usage", "Tokens used by calls of providers", TOKENS),
            &[&labels[..], &["gen_ai_token_type"]].concat(),
        )?;
        let registry = Registry::new();
        registry.register(Box::new(duration.clone()))?;
        registry.register(Box::new(tokens.clone()))?;
        Ok(Self { registry, duration, tokens, models: Label::models() })
    }

    #[expect(clippy::cast_precision_loss, reason = "histograms for people")]
    pub(super) fn book(&self, r: &LogRecord) {
        if r.provider.is_empty() {
            return;
        }
        let (operation, provider, model) = (operation(r.operation.name()), provider(&r.provider), self.models.value(r));
        let failed = r.fault.unwrap_or(if r.status >= 400 { "upstream_error" } else { "" });
        let waited = match r.timings.first_byte_us {
            0 => r.timings.upstream_us,
            first => r.timings.total_us.saturating_sub(first) + r.timings.upstream_us,
        };
        self.duration.with_label_values(&[operation, provider, &model, failed]).observe(waited as f64 / 1e6);
        if let Some(usage) = r.usage() {
            for (kind, n) in [("input", usage.prompt()), ("output", usage.completion())] {
                self.tokens.with_label_values(&[operation, provider, &model, kind]).observe(n as f64);
            }
        }
    }

    pub(super) fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}
