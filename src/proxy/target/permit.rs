//! Whether a target may be asked for a model: what the admin of its integration switched on, and what the caller's key
//! is held to. Both know the model by all its names, and refuse a call that names none where it could be any.

use crate::proxy::request::Request;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::snapshot::Upstream;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::Adapter;

/// A model at a target.
#[derive(Clone, Copy)]
pub(super) struct WantedModel<'a> {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) settings: &'a CloudSettings,
    /// Slug of the managed provider, or empty.
    pub(super) provider: &'a str,
    pub(super) model: Option<&'a str>,
}

impl<'a> WantedModel<'a> {
    /// What a batch asks for stands in its file.
    fn model_in(&self, request: &Request) -> Option<&'a str> {
        self.model.filter(|_| !request.ask.route.operation.facts().models_in_file)
    }

    fn others(&self, model: &str) -> Vec<String> {
        self.adapter.spellings(model, self.settings)
    }
}

/// Where models are switched on one by one, a call that names none is refused too: it could name any.
pub(super) fn by_integration(upstream: &Upstream, wanted: WantedModel<'_>, request: &Request) -> Result<(), Fault> {
    let (models, slug) = (&upstream.models, &upstream.slug);
    if models.allow_all && models.list.is_empty() {
        return Ok(());
    }
    let fault = |message: String| Err(Fault::new(FaultKind::NoProvider, message).on("model"));
    if request.ask.content.model_respelled && models.are_switched() {
        let why = "where models are switched on and off, no field but `model` may be spelled like it";
        return fault(format!(
            "The body has a field that is `model` but for its case: on the integration {slug}, {why}"
        ));
    }
    match wanted.model_in(request) {
        Some(model) => {
            let others = wanted.others(model);
            if models.allow_by(std::iter::once(model).chain(others.iter().map(String::as_str))) {
                return Ok(());
            }
            fault(format!("The model {model} is not enabled on the integration {slug}"))
        }
        None if could_name_one(request) && !models.allow_all => {
            fault(format!("The integration {slug} serves enabled models only, and the request names none"))
        }
        None => Ok(()),
    }
}

/// What the key may call, through whatever target.
pub(super) fn by_key(wanted: WantedModel<'_>, request: &Request) -> Result<(), Fault> {
    let Some(reach) = &request.caller.tenant.key.allowed_models else { return Ok(()) };
    let refused =
        |message: String| Err(Fault::new(FaultKind::Forbidden, message).code("model_not_permitted").on("model"));
    if request.ask.content.model_respelled {
        return refused(
            "The body has a field that is `model` but for its case: a key that is held to some models (allowed_models) \
             sends none"
                .to_owned(),
        );
    }
    match wanted.model_in(request) {
        Some(model) => {
            let others = wanted.others(model);
            if reach.allows(wanted.provider, std::iter::once(model).chain(others.iter().map(String::as_str))) {
                return Ok(());
            }
            refused(format!("The API key may not call the model {model} (allowed_models)"))
        }
        None if lists_models(request) => refused(
            "The provider's own list would show models that the API key may not call (allowed_models): GET /v1/models \
             lists those that it may"
                .to_owned(),
        ),
        None if could_name_one(request) => {
            refused("The API key may call some models only (allowed_models), and the request names none".to_owned())
        }
        None => Ok(()),
    }
}

/// Whether the provider would list its models on a path that passes through: OpenAI's and most others', Azure's,
/// Bedrock's.
fn lists_models(request: &Request) -> bool {
    const LISTS: &[&str] =
        &["deployments", "foundation-models", "inference-profiles", "models", "publisherModels", "tunedModels"];
    let path = request.ask.route.path.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    request.ask.method == http::Method::GET && LISTS.iter().any(|list| last.eq_ignore_ascii_case(list))
}

/// Reading and deleting what already is names no model; everything else may, in a body that was not understood.
fn could_name_one(request: &Request) -> bool {
    // Lines of a batch that a provider runs were looked at one by one.
    if request.caller.tenant.line.as_ref().is_some_and(|line| line.native().is_some()) {
        return false;
    }
    let operation = request.ask.route.operation;
    // A call has its model, which is looked at again when its session tells it.
    if operation == Operation::RealtimeCallControl || request.beside().is_some() {
        return false;
    }
    // What is said in it names one, and is looked at by itself.
    if matches!(operation, Operation::ResponsesSession | Operation::LiveSession) {
        return false;
    }
    let facts = operation.facts();
    let reads = matches!(request.ask.method, http::Method::GET | http::Method::DELETE) || facts.about_kept_response;
    !reads || request.ask.content.unread || facts.opens_session
}
