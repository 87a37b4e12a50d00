//! A look at a batch of a provider's that nobody asks for: what a client's look would find is counted, and no client,
//! no limit on requests and no record has to do with it. When it is due is not known here.

use super::batches::{DirectBatches, FoundBatch};
use super::results::BatchReader;
use super::service::{ServiceCall, Services};
use super::{DirectStop, objects, own_objects};
use crate::bookings::{BatchLook, BookingId};
use crate::proxy::exchange::CallParts;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target;
use gateway_domain::cloud::CloudService;
use gateway_domain::ports::StoreError;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::native_batches::{NativeState, OPENAI_BATCHES, ToldBatches, native_batches, passed_batches};
use http::Method;
use url::form_urlencoded;

/// The most bytes of the JSON that tells of a batch.
const MOST_TOLD: usize = 1 << 20;

/// `native`: the provider's name for it.
pub(crate) async fn look(calls: &CallParts, asked: (&Request, &Routing), native: &str) -> BatchLook {
    let (request, routing) = asked;
    let aim = match target::resolve_place(routing.plan.leaf(), routing.inline, request) {
        Ok(aim) => aim,
        Err(fault) => return BatchLook::Failed(fault.message().to_owned()),
    };
    let own = native_batches(aim.adapter.info().slug);
    let mut services = Services::new(calls, asked, aim);
    services.relays = own.is_none();
    let (services, told): (_, &'static dyn ToldBatches) = (&services, OPENAI_BATCHES);
    let found = match own {
        Some(family) => DirectBatches { calls, asked, services, family, client: None }.find_native(native).await,
        None => passed(services, native).await,
    };
    let family = own.map_or(told, |family| family);
    let found = match found {
        Ok(found) => found,
        Err(stop) => return stopped(stop),
    };
    if !found.standing.state.has_ended() {
        return BatchLook::Open(found.facts.expires);
    }
    if found.standing.state == NativeState::Failed {
        return BatchLook::Nothing;
    }
    if !found.has_results() {
        return BatchLook::Empty;
    }
    let reader = BatchReader { calls, asked, services, family };
    counted(reader, found).await.unwrap_or_else(|e| BatchLook::Failed(e.to_string()))
}

/// Looks a batch up at a family that speaks OpenAI's interface for batches.
async fn passed(services: &Services<'_>, native: &str) -> Result<FoundBatch, DirectStop> {
    let id: String = form_urlencoded::byte_serialize(native.as_bytes()).collect();
    let call = ServiceCall::bare(CloudService::Api, Method::GET, format!("/batches/{id}"));
    let told = services.fetch(call, MOST_TOLD).await?;
    let batch = passed_batches(&told).into_iter().next();
    let found = batch.and_then(|batch| FoundBatch::passed(OPENAI_BATCHES, &batch));
    found.ok_or_else(|| Fault::new(FaultKind::UpstreamBroken, "The provider tells of no batch").into())
}

/// Counts it, unless somebody did.
async fn counted(reader: BatchReader<'_>, found: FoundBatch) -> Result<BatchLook, StoreError> {
    let (bookings, owner) = (&reader.calls.bookings, own_objects::owner(reader.asked.0));
    let keeper = objects::keeper_of(reader.services.aim(), reader.asked.0);
    let native = found.standing.id.clone();
    let Some(made) = bookings.made(owner, (&keeper, &native)).await? else { return Ok(BatchLook::Nothing) };
    Box::pin(reader.count(found.made_with(made))).await;
    Ok(match bookings.is_counted(BookingId::of_batch(&keeper, &native), owner).await? {
        true => BatchLook::Counted,
        false => BatchLook::Failed("not all of its lines were counted, or another counts them".to_owned()),
    })
}

fn stopped(stop: DirectStop) -> BatchLook {
    match stop {
        DirectStop::Told(said) if matches!(said.status, 404 | 410) => BatchLook::Unknown,
        DirectStop::Told(said) => BatchLook::Failed(format!("the provider answers with status {}", said.status)),
        DirectStop::Refused(fault) if fault.kind() == FaultKind::UnknownObject => BatchLook::Unknown,
        DirectStop::Refused(fault) => BatchLook::Failed(fault.message().to_owned()),
    }
}
