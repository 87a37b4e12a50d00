//! Azure AI: what its URL leads to says which API is spoken there. `…/models` and the endpoints of single models have
//! Azure's inference API, `…/openai` has OpenAI's, `…/anthropic` Anthropic's.

use super::{OPENAIS, query};
use crate::adapter::{Adapter, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::anthropic::Anthropic;
use crate::compat::{CompatRow, Serves, StreamUsage};
use crate::model_place::{self, ModelPlace, Untouched};
use crate::raw;
use crate::shapes::{self, NativeShape};
use bytes::Bytes;
use gateway_domain::Operation::{
    ChatCompletions, Completions, CreateBatch, CreateFinetune, Embeddings, ImagesEdit, ImagesGenerate, ListModels, Ocr,
    Realtime, RealtimeCall, RealtimeCallControl, Rerank, Speech, Transcription, Translation, UploadFile,
};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::cloud::azure::foundry_path;
use gateway_domain::{Dialect, Fault, Operation};
use http::{HeaderName, HeaderValue};

const SLUG: &str = "azure-ai";
const NAME: &str = "Azure AI Foundry";

/// The version that a foundry's inference API wants to be named
/// (<https://learn.microsoft.com/rest/api/aifoundry/modelinference/>).
const VERSION: &str = "2024-05-01-preview";

/// What makers of models serve in a foundry at paths of their own.
const SHAPES: &[(Operation, &dyn NativeShape)] = &[(Rerank, &shapes::COHERE_RERANK), (Ocr, &shapes::OCR)];

/// Azure's inference API: chat and embeddings in OpenAI's form, with the older name of the limit.
static INFERENCE: CompatRow = CompatRow {
    serves: Serves::of(&[
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
        UploadFile,
        CreateBatch,
        CreateFinetune,
        ListModels,
    ]),
    shapes: SHAPES,
    old_limit: true,
    ..CompatRow::speaking_chat(SLUG, NAME, AuthStyle::Bearer)
};
/// Told to refuse what the model does not know, it would refuse `stream_options`.
static STRICT: CompatRow = CompatRow { stream_usage: StreamUsage::Unasked, ..INFERENCE };
static OPENAI: CompatRow = CompatRow {
    serves: OPENAIS,
    shapes: SHAPES,
    developer: true,
    ..CompatRow::speaking_chat(SLUG, NAME, AuthStyle::Bearer)
};

static CLAUDE: ProviderInfo = ProviderInfo {
    slug: SLUG,
    name: NAME,
    base_url: None,
    auth: AuthStyle::Header("x-api-key"),
    dialect: Dialect::Anthropic,
};

/// Azure's inference API, which is what a foundry has unless its URL says otherwise.
pub(crate) struct AzureAi;

/// OpenAI's API in a foundry; also where the client asked for its Responses to be left to the provider.
struct OpenAis;

struct Claude {
    api: Anthropic,
}

static OPENAIS_HERE: OpenAis = OpenAis;
static CLAUDE_HERE: Claude = Claude { api: Anthropic { info: &CLAUDE } };

fn is_openais(settings: &CloudSettings) -> bool {
    foundry_path(settings).starts_with("/openai")
}

/// What is not inference lies beside the models: `<origin>/openai`.
const fn is_aside(operation: Operation) -> bool {
    matches!(operation, UploadFile | CreateBatch | CreateFinetune)
}

fn version<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    let version = query::version(call.settings.get("azure_api_version"), call.query);
    let wanted = !is_openais(call.settings) && foundry_path(call.settings).starts_with("/models");
    version.or_else(|| wanted.then_some(VERSION))
}

fn path(call: &Call<'_>) -> String {
    let tail = match call.operation {
        operation if operation.keeps_its_path() => call.tail,
        operation if operation.facts().about_kept_response => call.tail,
        operation => operation.facts().base,
    };
    path_to(call, tail)
}

/// <https://learn.microsoft.com/azure/ai-foundry/foundry-models/how-to/use-foundry-models-mistral>; endpoints of single models
/// have the maker's own path.
fn path_of_maker(call: &Call<'_>) -> Option<String> {
    let is_foundry = !foundry_path(call.settings).is_empty();
    Some(match call.operation {
        Ocr => "/providers/mistral/azure/ocr".to_owned(),
        Rerank if is_foundry => "/providers/cohere/v2/rerank".to_owned(),
        Rerank => "/v2/rerank".to_owned(),
        _ => return None,
    })
}

fn path_to(call: &Call<'_>, tail: &str) -> String {
    let set = foundry_path(call.settings);
    let version = version(call);
    let prefix = match set {
        _ if is_aside(call.operation) && !is_openais(call.settings) => "/openai/v1",
        // Dated versions of it have deployments in their paths: that is Azure OpenAI.
        "/openai" => "/openai/v1",
        set => set,
    };
    // The inference API's versions mean nothing to OpenAI's.
    let version = version.filter(|v| !(prefix.starts_with("/openai") && query::is_dated(Some(v))));
    let mut path = [prefix, tail].concat();
    query::append(&mut path, call.query, version, &[]);
    path
}

/// `model` in a path-less tail: a client of Messages or Responses is served by way of chat.
fn by_chat<'c>(row: &'static CompatRow, call: &Call<'c>) -> Call<'c> {
    let adapted = row.translates(call.operation, call.dialect);
    Call { operation: if adapted { ChatCompletions } else { call.operation }, ..call.clone() }
}

fn header(name: &'static str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
}

impl Adapter for AzureAi {
    fn info(&self) -> &'static ProviderInfo {
        &INFERENCE.info
    }

    fn at(&self, settings: &CloudSettings) -> Option<&'static dyn Adapter> {
        if settings.get("azure_foundry_url").is_some_and(|url| url.to_ascii_lowercase().contains("anthropic")) {
            return Some(&CLAUDE_HERE);
        }
        let asked = settings.get("provider_responses_proxy") == Some("true");
        (asked || is_openais(settings)).then_some(&OPENAIS_HERE)
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        (&INFERENCE).translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        (&INFERENCE).endpoint(operation, dialect)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        inference(if call.settings.get("azure_extra_params") == Some("error") { &STRICT } else { &INFERENCE }, call)
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(untouched(call))
    }

    fn relayed(&self, call: &Call<'_>) -> Result<Option<String>, Fault> {
        Ok(Some(path(call)))
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::azure(call)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        (&INFERENCE).response(call, body)
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        (&INFERENCE).media(call)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&INFERENCE).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        (&INFERENCE).stream(call)
    }
}

fn untouched(call: &Call<'_>) -> ProviderRequest {
    ProviderRequest { path: Some(path_to(call, call.tail)), ..raw::request(call) }
}

fn inference(row: &'static CompatRow, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let bare = call.model.and_then(|model| model.strip_prefix("cohere.")).filter(|_| call.operation == Rerank);
    let call = &Call { model: bare.or(call.model), ..call.clone() };
    let path = Some(path_of_maker(call).unwrap_or_else(|| path(&by_chat(row, call))));
    let mut out = row.request(&Call { query: None, ..call.clone() })?;
    if !is_openais(call.settings) && !is_aside(call.operation) {
        out.headers.extend(header("extra-parameters", call.settings.get("azure_extra_params").unwrap_or("drop")));
        let deployment = call.settings.get("azure_deployment_name");
        out.headers.extend(deployment.and_then(|name| header("azureml-model-deployment", name)));
    }
    Ok(ProviderRequest { path, ..out })
}

impl Adapter for OpenAis {
    fn info(&self) -> &'static ProviderInfo {
        &OPENAI.info
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        (&OPENAI).translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        (&OPENAI).endpoint(operation, dialect)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        inference(&OPENAI, call)
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(untouched(call))
    }

    fn relayed(&self, call: &Call<'_>) -> Result<Option<String>, Fault> {
        Ok(Some(path(call)))
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::azure(call)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        (&OPENAI).response(call, body)
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        (&OPENAI).media(call)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&OPENAI).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        (&OPENAI).stream(call)
    }
}

/// `/anthropic`, however much of the path below it the URL already has.
fn claude_path(call: &Call<'_>, below: &str) -> String {
    let set = foundry_path(call.settings);
    let set = set.strip_suffix("/messages").unwrap_or(set);
    let below = below.strip_prefix("/v1").unwrap_or(below);
    [set.strip_suffix("/v1").unwrap_or(set), "/v1", below].concat()
}

impl Adapter for Claude {
    fn info(&self) -> &'static ProviderInfo {
        self.api.info()
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        self.api.translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        // A foundry lists its models elsewhere.
        if operation == ListModels { None } else { self.api.endpoint(operation, dialect) }
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let out = self.api.request(call)?;
        let fixed = self.api.endpoint(call.operation, call.dialect).map(|endpoint| endpoint.path);
        let below = out.path.as_deref().or(fixed.as_deref()).unwrap_or_default();
        let path = Some(claude_path(call, below));
        Ok(ProviderRequest { path, ..out })
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let out = raw::request(call);
        let path = Some(claude_path(call, out.path.as_deref().unwrap_or_default()));
        Ok(ProviderRequest { path, ..out })
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        self.api.response(call, body)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        self.api.failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        self.api.stream(call)
    }
}
