//! A list of a provider's fine-tuning jobs, page by page. What a page is and which is the next is the family's to know.

use super::service::{ServiceCall, Services};
use super::{DirectStop, ProviderSaid};
use crate::proxy::call::raw_call;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use gateway_providers::{Call, Failure, JobPages};
use http::Method;
use serde_json::Value;

/// Bytes of a page.
const MOST_PAGE: usize = 8 << 20;

pub(super) async fn listed(services: &Services<'_>) -> Result<Value, DirectStop> {
    let settings = &*services.aim().settings;
    let call = Call { operation: Operation::ListFinetunes, settings, ..raw_call(services.request) };
    let mut pages = JobPages::of(services.slug(), &call)?;
    loop {
        let page = ServiceCall::bare(CloudService::Control, Method::GET, pages.path()?);
        pages.read(&services.fetch(page, MOST_PAGE).await?).map_err(said)?;
        if let Some(own) = services.own_among(&pages.fresh_ids()).await? {
            pages.keep_fresh(|id| own.contains(id));
        }
        if !pages.goes_on() {
            return pages.shown().map_err(said);
        }
    }
}

fn said(failure: Failure) -> DirectStop {
    DirectStop::Told(ProviderSaid { status: failure.status, body: failure.body })
}
