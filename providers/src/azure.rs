//! Azure: OpenAI's models in resources and deployments, and the models of many makers in a foundry. Both speak OpenAI's
//! dialect at addresses of their own; Claude in a foundry speaks Anthropic's.

mod foundry;
mod openai;
mod query;

pub(crate) use foundry::AzureAi;
pub(crate) use openai::AzureOpenAi;

use crate::compat::Serves;
use gateway_domain::Operation::{
    ChatCompletions, Completions, CreateBatch, CreateFinetune, Embeddings, ImagesEdit, ImagesGenerate, ListModels,
    Realtime, RealtimeCall, RealtimeCallControl, Responses, Speech, Transcription, Translation, UploadFile,
};

/// What OpenAI's own API has, but for moderations.
const OPENAIS: Serves = Serves::of(&[
    ChatCompletions,
    Completions,
    Embeddings,
    ImagesGenerate,
    ImagesEdit,
    Speech,
    Transcription,
    Translation,
    Realtime,
    RealtimeCall,
    RealtimeCallControl,
    Responses,
    UploadFile,
    CreateBatch,
    CreateFinetune,
    ListModels,
]);
