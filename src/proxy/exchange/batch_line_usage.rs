//! Counts what a provider answered to a line in a batch of its own: limits are charged and a record is written, as if
//! the line had come by here. Nothing is asked for and nothing refused, since the provider has done its work.

use super::{AdmissionGate, CallParts};
use crate::batches::BookedAnswer;
use crate::price_list;
use crate::proxy::record::{self, AttemptInfo, Tried};
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target::{self, Aim};
use gateway_domain::Fault;
use gateway_domain::config::Leaf;
use gateway_domain::record::LogRecord;
use gateway_guardrails::DENIED_TYPE;

pub(crate) async fn book(
    parts: &CallParts,
    (request, routing): (&Request, &Routing),
    booked: &BookedAnswer,
) -> Result<Box<LogRecord>, Fault> {
    let leaf = routing.plan.leaf().clone();
    let mut aim = target::resolve(&leaf, routing.inline, request)?;
    if aim.model.is_none() {
        aim.model = booked.model.as_deref().map(Into::into);
    }
    price_list::opened().await;
    let prices = aim.prices(request);
    let (model, told) = (aim.model.as_deref(), booked.model.as_deref());
    let info = AttemptInfo { card: prices.own(model), ..info_of(&leaf, &aim) };
    let tried = Tried { info: &info, status: booked.status, fault: None };
    let mut record = record::of(request, &request.steps(), Some(routing), Some(tried), 1);
    if let Some(usage) = &booked.usage {
        let late = prices.of(model).is_none().then(|| prices.of(told)).flatten();
        let mut holds = AdmissionGate { parts, request, routing }.unasked(&aim).await;
        if let Some(card) = &late {
            holds.price_at(card.clone(), request.caller.at);
        }
        record.charges = holds.settle(booked.status, Some(usage));
        if let Some(llm) = record.llm_mut() {
            (llm.usage, llm.card) = (Some(*usage), late.or(llm.card.take()));
        }
    }
    let other = told.filter(|told| *told != record.model).map(Into::into);
    if let Some(llm) = record.llm_mut() {
        llm.response_model = other;
    }
    record::finish(&mut record, request);
    Ok(record)
}

/// The record of a line that guardrails kept from going up: nothing was used.
pub(crate) fn denied(request: &Request, routing: &Routing, status: u16) -> Result<Box<LogRecord>, Fault> {
    let leaf = routing.plan.leaf().clone();
    let info = info_of(&leaf, &target::resolve(&leaf, routing.inline, request)?);
    let tried = Tried { info: &info, status, fault: Some(DENIED_TYPE) };
    let mut record = record::of(request, &request.steps(), Some(routing), Some(tried), 1);
    record::finish(&mut record, request);
    Ok(record)
}

fn info_of(leaf: &Leaf, aim: &Aim) -> AttemptInfo {
    AttemptInfo {
        option_index: leaf.path.clone(),
        provider: aim.adapter.info().slug,
        virtual_key: aim.virtual_key.clone(),
        model: aim.model.clone(),
        ..AttemptInfo::default()
    }
}
