//! What would become of a request: answered in the place of the exchange, from the plan that the exchange would have
//! had. Only requests that the gateway supposes itself come here, by a pass that nobody outside can have.

use crate::price_list;
use crate::proxy::client::answer_early;
use crate::proxy::content;
use crate::proxy::deliver::json_answer;
use crate::proxy::exchange::{CallParts, limits};
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::refusal::Refused;
use crate::proxy::request::{DefaultGuardrail, Request};
use crate::proxy::routing::Routing;
use crate::proxy::{body::BodyError, estimate};
use crate::proxy::{catalogue, own_objects, param_overrides, prompt_calls, prompt_target, target};
use gateway_domain::config::Leaf;
use gateway_domain::config::candidates::Prospect;
use gateway_domain::price::price;
use gateway_domain::{Fault, Operation, Usage};
use gateway_guardrails::definition::ListedGuardrail;
use pingora::proxy::Session;
use serde_json::{Value, json};

impl Gateway {
    /// Goes as far as the exchange does up to the plan, and tells the plan where that would follow it.
    pub(in crate::proxy) async fn explain(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        if matches!(request.ask.route.operation, Operation::McpSession | Operation::A2aCard)
            || own_objects::asked(&request).is_some()
        {
            let told = json!({ "request": asked(&request), "served_by": "gateway" });
            return self.send_explanation(session, &request, told).await;
        }
        let read = match request.ask.prompt {
            None => {
                content::read_content(session, &request.ask.route, self.settings.body_limits(), &mut ctx.held).await
            }
            Some(_) => {
                Box::pin(prompt_calls::read_content(session, &mut request, self.settings.body_limits(), &mut ctx.held))
                    .await
            }
        };
        match read {
            Ok(content) => request.ask.content = content,
            Err(BodyError::Gone(e)) => return Err(e.into_down()),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
        }
        request.look();
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        match explanation(&self.calls, &mut request, &routing).await {
            Ok(told) => self.send_explanation(session, &request, told).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    async fn send_explanation(&self, session: &mut Session, request: &Request, told: Value) -> pingora::Result<bool> {
        answer_early(session, json_answer(&self.names, request, told.to_string().into())).await.map(|()| true)
    }
}

fn asked(request: &Request) -> Value {
    json!({
        "operation": request.ask.route.operation.name(),
        "path": &*request.ask.route.path,
        "model": request.asked_model(),
        "stream": request.ask.content.stream,
    })
}

async fn explanation(parts: &CallParts, request: &mut Request, routing: &Routing) -> Result<Value, Fault> {
    price_list::opened().await;
    let (told, caller) = (asked(request), limits(parts, request, routing, None).await);
    let catalogued = catalogue::catalogued(request, routing).await.is_some();
    let prospects = if catalogued { Vec::new() } else { routing.prospects(request)? };
    let mut targets = Vec::with_capacity(prospects.len());
    let mut own = None;
    for prospect in prospects {
        let becomes = prompt_target::ask(&mut own, request, &prospect.leaf, &parts.delivery.budget).await;
        targets.push(target_of(parts, request, routing, (prospect, becomes.err())).await);
    }
    let tenant = &request.caller.tenant;
    Ok(json!({
        "key": { "id": tenant.key.id.0, "name": &*tenant.key.name },
        "workspace": &*tenant.workspace.slug,
        "request": told,
        "served_by": if catalogued { "gateway" } else { "target" },
        "config": config_of(request, routing),
        "limits": caller,
        "targets": targets,
    }))
}

/// Which config it is, and what said so.
fn config_of(request: &Request, routing: &Routing) -> Value {
    let tenant = &request.caller.tenant;
    let by_key = tenant.key.defaults.as_ref().is_some_and(|defaults| defaults.config.is_some());
    let chosen_by = match () {
        () if request.ask.headers.config.is_some() => "request",
        () if routing.saved.is_none() => "none",
        () if by_key => "key",
        () => "workspace",
    };
    let (id, version) = (routing.saved.map(|saved| saved.id.0), routing.saved.map(|saved| saved.version));
    json!({
        "chosen_by": chosen_by, "slug": Some(&*routing.config).filter(|name| !name.is_empty()), "id": id,
        "version_id": version, "strategy": routing.plan.config().strategy(),
    })
}

/// `becomes`: why a prompt that the target names makes no request of it.
async fn target_of(
    parts: &CallParts,
    request: &Request,
    routing: &Routing,
    (prospect, becomes): (Prospect, Option<Fault>),
) -> Value {
    let Prospect { leaf, chance, later, why } = prospect;
    let mut told = json!({
        "path": &*leaf.path, "chance": (chance * 1e6).round() / 1e6, "after_failure": later, "why": why,
        "guardrails": guards(request, routing, &leaf), "cached": leaf.cache.is_some(),
    });
    if let (Some(name), found) = (&leaf.prompt, request.prompt()) {
        let found = found.filter(|_| becomes.is_none());
        let (slug, version) = (found.map(|found| &*found.slug), found.map(|found| found.number));
        told["prompt"] = json!({ "asked_for": &**name, "slug": slug, "version": version });
    }
    let aim = match becomes.map_or_else(|| target::resolve(&leaf, routing.inline, request), Err) {
        Ok(aim) => aim,
        Err(fault) => {
            told["refused"] = refused(&fault);
            return told;
        }
    };
    told["provider"] = aim.adapter.info().slug.into();
    told["virtual_key"] = Some(&*aim.virtual_key).filter(|slug| !slug.is_empty()).into();
    told["model"] = aim.model.as_deref().into();
    let scheme = if aim.base.tls { "https" } else { "http" };
    told["address"] = format!("{scheme}://{}{}", aim.base.authority(), aim.base.path).into();
    let mut limited = limits(parts, request, routing, Some(&aim)).await;
    if leaf.prompt.is_some() {
        // Which of the caller's limits are asked depends on the prompt.
        limited.extend(limits(parts, request, routing, None).await);
    }
    told["limits"] = limited.into();
    let content = match param_overrides::content(request, &leaf) {
        Ok(content) => content,
        Err(fault) => {
            told["refused"] = refused(&fault);
            return told;
        }
    };
    if let Some(most) = estimate::of(request, &content, std::iter::once(&*leaf)) {
        let card = aim.prices(request).of(aim.model.as_deref());
        let usage = most.output.map(|output| Usage { input: most.prompt, output, ..Usage::default() });
        let cost = usage.and_then(|usage| price(&usage, card.as_ref(), request.caller.at));
        told["estimate"] = json!({
            "input_tokens": most.prompt, "output_tokens_at_most": most.output, "is_priced": card.is_some(),
            "cost_at_most": cost.map(|cost| cents(cost.0)),
        });
    }
    told
}

/// The amount in cents; records have it in nanodollars.
#[expect(clippy::cast_precision_loss, reason = "shown to people")]
fn cents(nanos: i64) -> f64 {
    nanos as f64 / 1e7
}

fn refused(fault: &Fault) -> Value {
    json!({ "status": fault.status(), "message": fault.message() })
}

/// What would judge the request to this target and its answer; nothing is asked of it.
fn guards(request: &Request, routing: &Routing, leaf: &Leaf) -> Value {
    let side = |place: Option<usize>, defaults: Option<&[DefaultGuardrail]>| {
        let list = place.and_then(|place| routing.guards.as_ref()?.at(place));
        let own = list.into_iter().flat_map(|list| &list.entries).map(|entry| match entry {
            ListedGuardrail::Saved(name) => json!({ "guardrail": name, "by": "config" }),
            ListedGuardrail::Inline(inline) => {
                let checks: Vec<&str> = inline.checks().iter().map(|check| check.id()).collect();
                json!({ "checks": checks, "by": "config" })
            }
        });
        let common =
            defaults.into_iter().flatten().map(|default| json!({ "guardrail": default.slug, "by": "default" }));
        own.chain(common).collect::<Vec<_>>()
    };
    let defaults = request.caller.tenant.guardrails.as_deref();
    json!({
        "input": side(leaf.hooks.input, defaults.map(|defaults| &defaults.input[..])),
        "output": side(leaf.hooks.output, defaults.map(|defaults| &defaults.output[..])),
    })
}
