//! Translation between dialects: bytes in, bytes out. Floor 1: no I/O, no clock, no environment, no async.
//! A provider that speaks OpenAI is a row in `compat`; one with a dialect of its own is a file.

pub mod adapter;
#[cfg(test)]
mod agreement;
mod answer;
mod anthropic;
mod audio_duration;
mod azure;
mod bedrock;
mod claude_aws;
mod cohere;
mod compat;
mod convert;
pub mod edit;
mod failure;
pub mod forms;
pub mod frames;
mod gemini;
#[cfg(test)]
mod golden;
mod json_mode;
pub mod kept_files;
pub mod kept_lists;
mod model;
mod model_place;
pub mod native_batches;
pub mod oci;
mod opaque;
mod oracle;
mod passthrough;
mod perplexity;
mod raw;
mod registry;
mod runs;
mod sagemaker;
mod shapes;
pub mod sigv4;
mod sse;
pub mod stored_files;
pub mod tap;
pub mod tokens;
mod translate;
mod triton;
mod tuning;
mod vertex;
mod wire;

pub use adapter::{
    Adapter, BodyPieces, Call, Ending, Endpoint, Failure, Progress, ProviderRequest, Reply, ResponseKeeping,
    StreamTranslator,
};
pub use answer::{MadeId, in_band, made_events};
pub use audio_duration::PassingSound;
pub use compat::audio::{made, spoken};
pub use compat::response_usage;
pub use model_place::{ModelPlace, Untouched};
pub use raw::{Raw, at_batch_tier, batch_pictures, batch_usage, overheard, realtime_usage};
pub use registry::{adapter, catalog};
pub use runs::EndedRun;
pub use translate::streamed;
pub use tuning::JobPages;
