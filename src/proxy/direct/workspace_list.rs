//! A list of what one workspace has at a provider whose credential it shares with others: the provider's list, read
//! page by page by its own cursor, without what others made. An answer that cannot be read so is shown to nobody.

use super::batches::FoundBatch;
use super::service::{ServiceCall, Services};
use super::{DirectStop, own_objects};
use crate::proxy::call::raw_call;
use crate::proxy::objects::Binder;
use bytes::Bytes;
use gateway_domain::cloud::CloudService;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use gateway_providers::Call;
use gateway_providers::kept_lists::{ListAsk, ListPages, UnreadableList};
use gateway_providers::native_batches::{OPENAI_BATCHES, passed_batches};
use http::{HeaderName, HeaderValue, Method};

/// Bytes of a page.
const MOST_PAGE: usize = 8 << 20;

pub(super) async fn listed(
    services: &Services<'_>,
    root: &'static str,
    binder: Option<&Binder>,
) -> Result<Bytes, DirectStop> {
    let (request, slug) = (services.request, services.slug());
    let Some(binder) = binder else { return Err(own_objects::unknown().into()) };
    let told = &request.ask.headers.provider_headers;
    let is_anthropics = slug == "anthropic" && told.iter().any(|(name, _)| *name == "anthropic-version");
    let query = request.ask.route.query.as_deref().unwrap_or_default();
    let mut pages = ListPages::of(ListAsk { slug, root, query, is_anthropics })?;
    loop {
        let body = services.fetch(page(services, root, &pages), MOST_PAGE).await?;
        let body = if is_anthropics { body } else { in_openais_form(services, body)? };
        pages.read(&body).map_err(|UnreadableList(why)| {
            let why = format!("The list that {slug} answers with {why}, and cannot be shown in part (isolate_objects)");
            Fault::new(FaultKind::UpstreamBroken, why)
        })?;
        let own = services.own_among(&pages.ids()).await?;
        pages.keep(|id| own.as_ref().is_some_and(|own| own.contains(id)));
        if !pages.goes_on() {
            return Ok(pages.shown(|last| binder.cursor(last)).into());
        }
    }
}

/// Batches of the list whose results are there to be counted, as they are when they are looked at one by one.
pub(super) fn ended(list: &[u8]) -> Vec<FoundBatch> {
    let told = passed_batches(list).into_iter().filter(|told| told["object"] == "batch");
    told.filter_map(|told| FoundBatch::passed(OPENAI_BATCHES, &told)).filter(FoundBatch::has_results).collect()
}

/// The call for the page that is to be read now.
fn page(services: &Services<'_>, root: &str, pages: &ListPages) -> ServiceCall {
    let path = format!("{root}?{}", pages.query());
    let mut call = ServiceCall::bare(CloudService::Api, Method::GET, path);
    let aim = services.aim();
    if aim.adapter.reshapes(services.request.ask.route.operation) {
        let known = aim.adapter.endpoint(services.request.ask.route.operation, Dialect::OpenAi);
        let headers = known.map_or(&[] as &[_], |endpoint| endpoint.headers);
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        call.headers.extend(headers.iter().map(header));
    }
    call
}

/// A page of a family whose objects are of another shape.
fn in_openais_form(services: &Services<'_>, body: Bytes) -> Result<Bytes, DirectStop> {
    let (request, adapter) = (services.request, services.aim().adapter);
    let operation: Operation = request.ask.route.operation;
    if !adapter.reshapes(operation) {
        return Ok(body);
    }
    let settings = &*services.aim().settings;
    let call = Call { operation, settings, ..raw_call(request) };
    match adapter.response(&call, &body) {
        Ok(reply) => Ok(reply.body),
        Err(failure) => Err(DirectStop::Told(super::ProviderSaid { status: failure.status, body: failure.body })),
    }
}
