//! Endpoints of one's own at Amazon SageMaker. What a container speaks is its own affair, so its own path passes
//! through; behind `/openai/v1` it has OpenAI's chat, with the endpoint's name in the path where others name a model
//! (<https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-openai-compatible.html>). Signs nothing itself.

use crate::adapter::{Adapter, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::CompatRow;
use crate::model_place::{ModelPlace, Naming, Untouched};
use crate::raw;
use bytes::Bytes;
use gateway_domain::Operation::{ChatCompletions, Messages, Proxy, Responses};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use http::{HeaderName, HeaderValue};

const SLUG: &str = "sagemaker";

static OPEN: CompatRow = CompatRow {
    old_limit: true,
    naming: Naming::Invoked("endpoints"),
    ..CompatRow::speaking_chat(SLUG, "Amazon SageMaker", AuthStyle::Bearer)
};

/// Settings that ride on headers of the runtime
/// (<https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html>).
const HEADERS: &[(&str, &str)] = &[
    ("amzn_sagemaker_custom_attributes", "x-amzn-sagemaker-custom-attributes"),
    ("amzn_sagemaker_target_model", "x-amzn-sagemaker-target-model"),
    ("amzn_sagemaker_target_variant", "x-amzn-sagemaker-target-variant"),
    ("amzn_sagemaker_target_container_hostname", "x-amzn-sagemaker-target-container-hostname"),
    ("amzn_sagemaker_inference_id", "x-amzn-sagemaker-inference-id"),
    ("amzn_sagemaker_enable_explanations", "x-amzn-sagemaker-enable-explanations"),
    ("amzn_sagemaker_inference_component", "x-amzn-sagemaker-inference-component"),
    ("amzn_sagemaker_session_id", "x-amzn-sagemaker-session-id"),
];

pub(crate) struct SageMaker;

impl Adapter for SageMaker {
    fn info(&self) -> &'static ProviderInfo {
        &OPEN.info
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            ChatCompletions | Messages | Responses => "/endpoints/{model}/openai/v1/chat/completions",
            Proxy => "",
            _ => return None,
        };
        Some(Endpoint { path: path.into(), headers: &[] })
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        (&OPEN).translates(operation, dialect)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let name = endpoint(call)?;
        // What the container calls its model need not be what the endpoint is called; an empty name means whichever it
        // has.
        let inner = call.settings.get("amzn_sagemaker_model_name").unwrap_or_default();
        let out = (&OPEN).request(&Call { model: Some(inner), query: None, ..call.clone() })?;
        let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("/endpoints/{name}/openai/v1/chat/completions{query}");
        Ok(ProviderRequest { path: Some(path), headers: headers(call.settings), ..out })
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(ProviderRequest { headers: headers(call.settings), ..raw::request(call) })
    }

    fn relayed(&self, call: &Call<'_>) -> Result<Option<String>, Fault> {
        (&OPEN).relayed(call)
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        OPEN.naming.place(call)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        (&OPEN).response(call, body)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&OPEN).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        (&OPEN).stream(call)
    }
}

/// The name of an endpoint, which cannot leave its place in the path.
fn endpoint<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    let fits = |name: &&str| {
        let named = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (1..=63).contains(&name.len()) && named && !name.starts_with('-')
    };
    call.model.filter(fits).ok_or_else(|| {
        let rule = "model is the name of an endpoint at this provider: 1..63 letters, digits and hyphens";
        Fault::new(FaultKind::Refused, rule).on("model")
    })
}

fn headers(settings: &CloudSettings) -> Vec<(HeaderName, HeaderValue)> {
    let value = |name| settings.get(name).and_then(|text| HeaderValue::from_str(text).ok());
    HEADERS.iter().filter_map(|(name, header)| Some((HeaderName::from_static(header), value(name)?))).collect()
}
