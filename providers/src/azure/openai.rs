//! Azure OpenAI: OpenAI's bodies below resources, deployments and versions, or below `/openai/v1`, which has neither.

use super::{OPENAIS, query};
use crate::adapter::{Adapter, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::{CompatRow, StreamUsage, safe};
use crate::model_place::{self, ModelPlace, Untouched};
use crate::raw;
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::cloud::azure::{addressed, spellings};
use gateway_domain::{Dialect, Fault, FaultKind, Operation};

const SLUG: &str = "azure-openai";

static OPEN: CompatRow = CompatRow {
    serves: OPENAIS,
    developer: true,
    ..CompatRow::speaking_chat(SLUG, "Azure OpenAI", AuthStyle::Header("api-key"))
};
/// Older versions answer 400 to `stream_options`.
static OLDER: CompatRow = CompatRow { stream_usage: StreamUsage::Refuses, ..OPEN };
/// The first version that takes them, by its date
/// (<https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle>).
const TAKES_OPTIONS: &str = "2024-09-01";

pub(crate) struct AzureOpenAi;

/// Where one call goes.
struct AzureTarget<'c> {
    path: String,
    /// Stands for the model in the body.
    deployment: Option<&'c str>,
    row: &'static CompatRow,
}

/// Served by a deployment of its own path in dated versions.
const fn is_deployed(operation: Operation) -> bool {
    use Operation::{
        ChatCompletions, Completions, Embeddings, ImagesEdit, ImagesGenerate, Messages, Speech, Transcription,
        Translation,
    };
    matches!(
        operation,
        ChatCompletions
            | Completions
            | Embeddings
            | ImagesEdit
            | ImagesGenerate
            | Messages
            | Speech
            | Transcription
            | Translation
    )
}

impl<'c> AzureTarget<'c> {
    fn of(call: &Call<'c>) -> Result<Self, Fault> {
        let named = || query::param(call.query, "model").or_else(|| query::param(call.query, "deployment"));
        let model = call.model.or_else(|| (call.operation == Operation::Realtime).then(named).flatten());
        let (deployment, version) = addressed(call.settings, model).map_err(|wrong| query::fault(&wrong))?;
        let version = query::version(version, call.query);
        let dated = query::is_dated(version);
        let tail = match call.operation {
            operation if operation.keeps_its_path() => call.tail,
            operation if operation.facts().about_kept_response => call.tail,
            Operation::Messages => Operation::ChatCompletions.facts().base,
            operation => operation.facts().base,
        };
        let mut path = if dated && is_deployed(call.operation) {
            format!("/deployments/{}{tail}", fitting(deployment)?)
        } else if dated {
            tail.to_owned()
        } else {
            ["/v1", tail].concat()
        };
        let more: &[(&str, &str)] = match (call.operation, deployment) {
            // The call has its model.
            (Operation::Realtime, _) if query::param(call.query, "call_id").is_some() => &[],
            (Operation::Realtime, Some(_)) if dated => &[("deployment", fitting(deployment)?)],
            (Operation::Realtime, Some(_)) => &[("model", fitting(deployment)?)],
            _ => &[],
        };
        query::append(&mut path, call.query, version, more);
        let row = if dated && version.is_some_and(|v| v < TAKES_OPTIONS) { &OLDER } else { &OPEN };
        Ok(Self { path, deployment, row })
    }
}

/// The call under the name of its deployment, by which it went up.
fn deployed<'c>(call: &Call<'c>) -> Call<'c> {
    let deployment = AzureTarget::of(call).ok().and_then(|target| target.deployment);
    Call { model: deployment, ..call.clone() }
}

fn fitting(deployment: Option<&str>) -> Result<&str, Fault> {
    let refused = |field: &'static str, rule: &str| Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field);
    let name = deployment
        .ok_or_else(|| refused("azure_deployment_id", "is needed: the deployment is part of this provider's path"))?;
    if safe(name) && !name.contains('/') {
        Ok(name)
    } else {
        Err(refused("model", "does not fit into a path: only letters, digits, `-`, `_`, `.` and `:`"))
    }
}

/// The client's own path, below `/v1` where that is the API in use. `/openai` is part of the address already: clients
/// made for Azure write it themselves.
fn raw_path(call: &Call<'_>) -> String {
    let version = call.settings.get("azure_api_version");
    let asked = query::version(query::param(call.query, "api-version"), None).or(version);
    let tail = call.tail.strip_prefix("/openai").filter(|rest| rest.starts_with('/'));
    let placed = tail.is_some() || call.tail.starts_with("/v1/") || call.tail.starts_with("/deployments/");
    let prefix = if placed || query::is_dated(asked) { "" } else { "/v1" };
    let mut path = [prefix, tail.unwrap_or(call.tail)].concat();
    query::append(&mut path, call.query, asked, &[]);
    path
}

impl Adapter for AzureOpenAi {
    fn info(&self) -> &'static ProviderInfo {
        &OPEN.info
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        (&OPEN).translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        (&OPEN).endpoint(operation, dialect)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let target = AzureTarget::of(call)?;
        let named = Call { model: target.deployment, query: None, ..call.clone() };
        Ok(ProviderRequest { path: Some(target.path), ..target.row.request(&named)? })
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(ProviderRequest { path: Some(raw_path(call)), ..raw::request(call) })
    }

    fn relayed(&self, call: &Call<'_>) -> Result<Option<String>, Fault> {
        AzureTarget::of(call).map(|target| Some(target.path))
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::azure(call)
    }

    fn spellings(&self, model: &str, settings: &CloudSettings) -> Vec<String> {
        spellings(settings, model).into_iter().map(str::to_owned).collect()
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        (&OPEN).response(call, body)
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        (&OPEN).media(&deployed(call))
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&OPEN).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        match call.operation {
            Operation::Speech => (&OPEN).stream(&deployed(call)),
            _ => (&OPEN).stream(call),
        }
    }
}
