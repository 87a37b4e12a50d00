//! The registries of metrics as OTLP: counters and histograms are cumulative from the start of the process.
//! What the conventions name otherwise than Prometheus can is renamed here, by one table.

use super::{SCHEMA, scope, text};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus::proto::{MetricFamily, MetricType};

/// Name in the registry, name by the conventions, unit.
static NAMED: &[(&str, &str, &str)] = &[
    ("gen_ai_client_operation_duration_seconds", "gen_ai.client.operation.duration", "s"),
    ("gen_ai_client_token_usage", "gen_ai.client.token.usage", "{token}"),
    ("http_request_duration_seconds", "http_request_duration_seconds", "s"),
];

pub(super) fn request(
    families: &[MetricFamily],
    resource: &Resource,
    start: u64,
    now: u64,
) -> ExportMetricsServiceRequest {
    let metrics = families.iter().filter_map(|f| metric(f, start, now)).collect();
    let scoped = ScopeMetrics { scope: Some(scope()), metrics, schema_url: SCHEMA.into() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource.clone()),
            scope_metrics: vec![scoped],
            schema_url: SCHEMA.into(),
        }],
    }
}

fn metric(family: &MetricFamily, start: u64, now: u64) -> Option<Metric> {
    let named = NAMED.iter().find(|(name, ..)| *name == family.name());
    let conventional = named.is_some_and(|(_, name, _)| name.contains('.'));
    let numbers = |of: fn(&prometheus::proto::Metric) -> f64| {
        let point = |m: &prometheus::proto::Metric| NumberDataPoint {
            attributes: attributes(m, conventional),
            start_time_unix_nano: start,
            time_unix_nano: now,
            value: Some(Value::AsDouble(of(m))),
            ..NumberDataPoint::default()
        };
        family.get_metric().iter().map(point).collect::<Vec<_>>()
    };
    let data = match family.get_field_type() {
        MetricType::COUNTER => Data::Sum(Sum {
            data_points: numbers(|m| m.get_counter().get_value()),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        MetricType::GAUGE => Data::Gauge(Gauge { data_points: numbers(|m| m.get_gauge().get_value()) }),
        MetricType::HISTOGRAM => Data::Histogram(Histogram {
            data_points: family.get_metric().iter().map(|m| histogram(m, conventional, start, now)).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
        MetricType::SUMMARY | MetricType::UNTYPED => return None,
    };
    Some(Metric {
        name: named.map_or(family.name(), |(_, name, _)| name).to_owned(),
        description: family.help().to_owned(),
        unit: named.map_or("", |(.., unit)| unit).to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn histogram(m: &prometheus::proto::Metric, conventional: bool, start: u64, now: u64) -> HistogramDataPoint {
    let h = m.get_histogram();
    let mut before = 0;
    let mut counts: Vec<u64> = Vec::with_capacity(h.get_bucket().len() + 1);
    for bucket in h.get_bucket() {
        counts.push(bucket.cumulative_count().saturating_sub(before));
        before = bucket.cumulative_count();
    }
    counts.push(h.get_sample_count().saturating_sub(before));
    HistogramDataPoint {
        attributes: attributes(m, conventional),
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: h.get_sample_count(),
        sum: Some(h.get_sample_sum()),
        bucket_counts: counts,
        explicit_bounds: h.get_bucket().iter().map(prometheus::proto::Bucket::upper_bound).collect(),
        ..HistogramDataPoint::default()
    }
}

/// Labels of conventional metrics are written with underscores where the conventions have dots; an absent value is
/// an empty label.
fn attributes(m: &prometheus::proto::Metric, conventional: bool) -> Vec<KeyValue> {
    let named = m.get_label().iter().filter(|l| !l.value().is_empty());
    named
        .map(|l| match (conventional, l.name()) {
            (true, "gen_ai_operation_name") => text("gen_ai.operation.name", l.value()),
            (true, "gen_ai_provider_name") => text("gen_ai.provider.name", l.value()),
            (true, "gen_ai_request_model") => text("gen_ai.request.model", l.value()),
            (true, "gen_ai_token_type") => text("gen_ai.token.type", l.value()),
            (true, "error_type") => text("error.type", l.value()),
            (_, name) => text(name, l.value()),
        })
        .collect()
}
