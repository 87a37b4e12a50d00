//! Records made from their number. Few keys and models make most of the calls, as it is everywhere.

use gateway_domain::Timestamp;
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{LlmDetail, LogRecord, RecordedOperation, Timings};
use gateway_domain::usage::Usage;
use std::time::Duration;
use uuid::Uuid;

const MODELS: [(&str, &str); 10] = [
    ("openai", "gpt-4o-mini"),
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "text-embedding-3-small"),
    ("google", "gemini-2.5-flash"),
    ("anthropic", "claude-haiku-4-5"),
    ("azure-openai", "gpt-4.1"),
    ("bedrock", "anthropic.claude-3-5-sonnet-20241022-v2:0"),
    ("mistral-ai", "mistral-large-latest"),
    ("groq", "llama-3.3-70b-versatile"),
];
const KEYS: u64 = 50;
/// An application asks few models, for people of its own.
const MODELS_OF_KEY: u64 = 3;
const USERS_OF_KEY: u64 = 4;

/// The organisation and the workspaces that have the records.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) org: Uuid,
    pub(crate) workspaces: Vec<Uuid>,
}

#[derive(Debug)]
pub(crate) struct Maker {
    tenancy: Tenancy,
    /// Microseconds of the first record, and from one to the next.
    first: i64,
    step: f64,
}

impl Maker {
    /// So many records, evenly over the `span` that ends at `now`.
    pub(crate) fn new(tenancy: Tenancy, now: Timestamp, span: Duration, records: u64) -> Self {
        let span = span.as_micros() as f64;
        Self { tenancy, first: now.micros() - span as i64, step: span / records as f64 }
    }

    pub(crate) fn record(&self, number: u64) -> LogRecord {
        let mut chance = Chance(number);
        let created_at = Timestamp(self.first + (number as f64 * self.step) as i64);
        let key = chance.skewed(KEYS);
        let workspace = self.tenancy.workspaces[key as usize % self.tenancy.workspaces.len()];
        let (provider, model) = MODELS[(key + chance.skewed(MODELS_OF_KEY)) as usize % MODELS.len()];
        let status = match chance.below(200) {
            0..=190 => 200,
            191..=196 => 429,
            _ => 500,
        };
        let id = id(created_at, &mut chance);
        let waited = 80_000 + chance.skewed(4_000_000);
        LogRecord {
            id,
            created_at,
            trace_id: id.to_string().into(),
            attempt: 1,
            last: true,
            org: OrgId(self.tenancy.org),
            workspace: WorkspaceId(workspace),
            workspace_slug: "workspace".into(),
            key: Some(KeyId(Uuid::from_u128(u128::from(key + 1)))),
            virtual_key: provider.into(),
            provider: provider.into(),
            model: model.into(),
            method: "POST".into(),
            path: "/v1/chat/completions".into(),
            status,
            stream: chance.below(2) == 0,
            strategy: "single",
            operation: RecordedOperation::new(
                "chatCompletions",
                LlmDetail {
                    usage: (status == 200).then(|| Usage {
                        input: 20 + chance.skewed(4_000),
                        output: 1 + chance.skewed(1_000),
                        ..Usage::default()
                    }),
                    ..LlmDetail::NONE
                },
            ),
            cost: Some(NanoUsd(if status == 200 { 1_000 + chance.below(1_000_000) as i64 } else { 0 })),
            timings: Timings {
                total_us: waited + 300,
                upstream_us: waited,
                first_byte_us: waited / 2,
                gateway_us: 300,
            },
            request_bytes: 400 + chance.skewed(16_000),
            response_bytes: 500 + chance.skewed(4_000),
            metadata: format!(r#"{{"_user":"user-{key}-{}"}}"#, chance.skewed(USERS_OF_KEY)).into(),
            ..LogRecord::blank()
        }
    }
}

/// An id of version 7, in the millisecond of its record.
fn id(created_at: Timestamp, chance: &mut Chance) -> Uuid {
    let random = (u128::from(chance.next()) << 64 | u128::from(chance.next())).to_be_bytes();
    let mut tail = [0; 10];
    tail.copy_from_slice(&random[..10]);
    uuid::Builder::from_unix_timestamp_millis((created_at.micros() / 1_000).unsigned_abs(), &tail).into_uuid()
}

/// Numbers that look random and are the same each time: SplitMix64, as its author published it.
struct Chance(u64);

impl Chance {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number that is below `end` too, small ones far more often.
    const fn skewed(&mut self, end: u64) -> u64 {
        let (a, b) = (self.below(end), self.below(end));
        a * b / end
    }
}
