//! New secrets for old keys: on request, and when a policy says so. The secret before opens until the transition
//! ends; id, scopes and counters stay. A secret that was made without anybody there to see it is kept sealed
//! until somebody who may rotate the key fetches it.

use super::scopes::ROTATE;
use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, audit, commit};
use crate::input::{Edit, WholeNumber};
use crate::problem::{Problem, bad, conflict, forbidden, internal};
use crate::resource::{Resource as _, ResourceRow, locate};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::KeyId;
use gateway_domain::keys::{KeyHash, mint};
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::rotation::{
    RotationPeriod, RotationPolicy, SHORTEST_TRANSITION_MS, Transition, check_transition, ends_at_once, midnight, next,
};
use gateway_domain::secret::mask;
use gateway_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotationPolicyEdit {
    #[serde(default)]
    rotation_period: Edit<RotationPeriod>,
    #[serde(default)]
    rotation_period_days: Edit<WholeNumber>,
    #[serde(default)]
    next_rotation_at: Edit<Timestamp>,
    #[serde(default)]
    key_transition_period_ms: Edit<WholeNumber>,
    /// Shown on reads, so clients send it back.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that it is not refused")]
    status: Edit<String>,
}

const FIELD: &str = "rotation_policy";

/// The cadence that every user key of its workspace keeps.
pub(crate) fn enforce(doc: &mut ApiKey, days: u16, now: Timestamp) {
    doc.rotation_policy = Some(RotationPolicy {
        rotation_period: None,
        rotation_period_days: days,
        next_rotation_at: next(now, days),
        key_transition_period_ms: SHORTEST_TRANSITION_MS,
        announced: None,
    });
}

/// What a client says about rotation, on top of what there is. `enforced`: the cadence that must be kept.
pub(crate) fn merge(
    doc: &mut ApiKey,
    given: Edit<RotationPolicyEdit>,
    enforced: Option<u16>,
    now: Timestamp,
) -> Result<(), Problem> {
    let given = match given {
        Edit::Keep => return Ok(()),
        Edit::Clear if enforced.is_some() => return Err(bad(FIELD, "cannot be removed while rotation is enforced")),
        Edit::Clear => {
            doc.rotation_policy = None;
            return Ok(());
        }
        Edit::Set(given) => given,
    };
    let before = doc.rotation_policy.take();
    let (period, days) = given.period(before.as_ref())?;
    if let Some(enforced) = enforced.filter(|e| *e != days) {
        let rule = format!("must match the enforced cadence of {enforced} days");
        return Err(bad(format_args!("{FIELD}.rotation_period_days"), rule));
    }
    let planned = before.as_ref().filter(|b| b.rotation_period_days == days).map(|b| b.next_rotation_at);
    let next_rotation_at = match given.next_rotation_at {
        Edit::Set(at) if planned == Some(at) => at,
        Edit::Set(_) if enforced.is_some() => {
            return Err(bad(format_args!("{FIELD}.next_rotation_at"), "cannot be set while rotation is enforced"));
        }
        Edit::Set(at) if at <= now => {
            return Err(bad(format_args!("{FIELD}.next_rotation_at"), "must be in the future"));
        }
        // Rotations fall on midnight; the one of today has passed.
        Edit::Set(at) if midnight(at) <= now => next(now, 1),
        Edit::Set(at) => midnight(at),
        Edit::Keep | Edit::Clear => planned.unwrap_or_else(|| next(now, days)),
    };
    let announced = before.as_ref().and_then(|b| b.announced);
    let transition = before.map_or(SHORTEST_TRANSITION_MS, |b| b.key_transition_period_ms);
    let key_transition_period_ms = match given.key_transition_period_ms {
        Edit::Keep => transition,
        Edit::Clear => SHORTEST_TRANSITION_MS,
        Edit::Set(ms) => ms.0,
    };
    let policy = RotationPolicy {
        rotation_period: period,
        rotation_period_days: days,
        next_rotation_at,
        key_transition_period_ms,
        announced,
    };
    policy.check()?;
    doc.rotation_policy = Some(policy);
    Ok(())
}

impl RotationPolicyEdit {
    /// Reads the period, which is given by name or in days, never both; what is left out stays.
    fn period(&self, before: Option<&RotationPolicy>) -> Result<(Option<RotationPeriod>, u16), Problem> {
        let named = before.and_then(|b| b.rotation_period);
        match (&self.rotation_period, &self.rotation_period_days) {
            // A read tells both, so what was read may be sent back.
            (Edit::Set(period), Edit::Set(days)) if Some(*period) == named && days.0 == u64::from(period.days()) => {
                Ok((named, period.days()))
            }
            (Edit::Set(_), Edit::Set(_)) => {
                Err(bad(format_args!("{FIELD}.rotation_period_days"), "cannot stand beside rotation_period"))
            }
            (Edit::Set(period), _) => Ok((Some(*period), period.days())),
            (_, Edit::Set(days)) => match u16::try_from(days.0).ok().filter(|d| (1..=365).contains(d)) {
                Some(days) => Ok((None, days)),
                None => Err(bad(format_args!("{FIELD}.rotation_period_days"), "must be in 1..365")),
            },
            _ => match before {
                Some(before) => Ok((before.rotation_period, before.rotation_period_days)),
                None => Err(bad(format_args!("{FIELD}.rotation_period"), "or rotation_period_days is required")),
            },
        }
    }
}

pub(super) fn view(doc: &ApiKey) -> Value {
    match &doc.rotation_policy {
        None => Value::Null,
        Some(p) => json!({
            "rotation_period": p.rotation_period,
            "rotation_period_days": p.rotation_period_days,
            "next_rotation_at": p.next_rotation_at,
            "key_transition_period_ms": p.key_transition_period_ms,
            "status": "active",
        }),
    }
}

/// The end of the transition that a key is in.
pub(super) fn ends(doc: &ApiKey, now: Timestamp) -> Option<Timestamp> {
    doc.transition.as_ref().map(|t| t.previous_until).filter(|until| *until > now)
}

/// Puts a new secret in the place of the one before.
fn replace(row: &mut ResourceRow<ApiKey>, secret: &str, ms: u64, now: Timestamp) {
    let until = now.plus_micros(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1000));
    row.doc.transition = Some(Transition {
        previous_hash: std::mem::replace(&mut row.doc.hash, KeyHash::of(secret).to_string()),
        previous_masked: std::mem::replace(&mut row.doc.masked, mask(secret)),
        previous_until: until,
        announced: ends_at_once(ms),
    });
    if let Some(policy) = &mut row.doc.rotation_policy {
        policy.next_rotation_at = next(now, policy.rotation_period_days);
    }
    row.touch(now);
}

fn audit_details(row: &ResourceRow<ApiKey>, mode: &str) -> Map<String, Value> {
    let transition = row.doc.transition.as_ref();
    let told = json!({
        "api_key_id": row.id,
        "rotation_mode": mode,
        "old_key_masked": transition.map(|t| &t.previous_masked),
        "transition_expires_at": transition.map(|t| t.previous_until),
    });
    told.as_object().cloned().unwrap_or_default()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateApiKey {
    key_transition_period_ms: Option<WholeNumber>,
}

pub(super) async fn rotate(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<ApiKey>(&call, call.query.text("workspace_id"), Action::Rotate).await?;
    let asked: RotateApiKey = call.body()?.read()?;
    let asked = asked.key_transition_period_ms.map(|w| w.0);
    if let Some(ms) = asked {
        check_transition("key_transition_period_ms", ms)?;
    }
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        ApiKey::allow(&row, &call.actor, Action::Rotate)?;
        // Who rotates a key holds its secret, and with it all that the key may do.
        if call.actor.mcp_access.as_ref().is_some_and(|own| row.doc.mcp_access != **own) {
            return Err(forbidden("the key to rotate is not held to the MCP servers that this API key is held to"));
        }
        if call.actor.allowed_models.is_some() && row.doc.allowed_models != call.actor.allowed_models {
            return Err(forbidden("the key to rotate is not held to the models that this API key is held to"));
        }
        if !row.doc.scopes.set().within(&call.actor.grantable()) {
            return Err(forbidden("the key to rotate has scopes that this API key does not have itself"));
        }
        let (secret, mode) = match row.doc.sealed_key.take() {
            Some(sealed) => {
                row.touch(call.now);
                (call.app.vault.open(&sealed).map_err(internal)?.expose().clone(), "fetched")
            }
            None if ends(&row.doc, call.now).is_some() => {
                return Err(conflict("the key is in transition from its last rotation; two secrets are the most"));
            }
            None => {
                let secret = mint(row.doc.kind.tag(), &call.app.bytes());
                let usual = row.doc.rotation_policy.as_ref().map(|p| p.key_transition_period_ms);
                replace(&mut row, &secret, asked.or(usual).unwrap_or(SHORTEST_TRANSITION_MS), call.now);
                (secret, "manual")
            }
        };
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Rotate, &stored, &audit_details(&row, mode))];
        let until = ends(&row.doc, call.now);
        let body = json!({"id": row.id, "key": secret, "key_transition_expires_at": until, "object": "api-key"});
        call.promise(|| body.clone());
        done = Some(body);
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    let body = done.ok_or_else(|| internal("a rotation made no secret"))?;
    Ok(AdminReply::json(body).at(revision))
}

/// What is due, as the snapshot knows it.
pub(crate) fn due(app: &App, now: Timestamp) -> Vec<KeyId> {
    let snapshot = app.live.snapshot();
    let due = snapshot.keys().filter(|k| {
        let Some(r) = &k.rotation else { return false };
        let ended = r.previous.is_some_and(|(_, until)| until <= now);
        let announced = r.announce_at.is_some_and(|at| at <= now);
        announced || ended || r.previous.is_none() && r.next_at.is_some_and(|at| at <= now)
    });
    due.map(|k| k.id).collect()
}

/// Tells what is near, ends the transition of a key or rotates it, whichever is due; another node may have done it
/// meanwhile.
pub(crate) async fn advance(app: &App, key: KeyId) -> Result<(), Problem> {
    let snapshot = app.live.snapshot();
    let Some(known) = snapshot.key_by_id(key) else { return Ok(()) };
    let found = app.directory.get(Kind::ApiKey, known.org, None, &key.to_string()).await?;
    let Some(stored) = found else { return Ok(()) };
    let row: ResourceRow<ApiKey> = ResourceRow::read(&stored)?;
    let mut idle = false;
    let decide = |around: &WriteView<'_>| {
        let now = app.now();
        let mut row = around.newest(row)?;
        let action = step(app, &mut row, now);
        let Some((action, told)) = action else {
            idle = true;
            return Err(conflict("nothing is due any more"));
        };
        let stored = row.stored()?;
        let audit = vec![ChangeOrigin::of_upkeep(app).audit(action, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    match commit(app, snapshot.revision, decide).await {
        Err(_) if idle => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

fn step(app: &App, row: &mut ResourceRow<ApiKey>, now: Timestamp) -> Option<(Action, Map<String, Value>)> {
    if row.doc.transition.is_some() {
        if ends(&row.doc, now).is_some() {
            return announce(row, now);
        }
        let told = audit_details(row, "ended");
        row.doc.transition = None;
        row.touch(now);
        return Some((Action::Update, told));
    }
    let Some(policy) = row.doc.rotation_policy.as_ref().filter(|p| p.next_rotation_at <= now) else {
        return announce(row, now);
    };
    let ms = policy.key_transition_period_ms;
    let secret = mint(row.doc.kind.tag(), &app.bytes());
    row.doc.sealed_key = Some(app.vault.seal(&secret));
    replace(row, &secret, ms, now);
    Some((Action::Rotate, audit_details(row, "auto")))
}

/// A day's notice of what will happen to the secrets of a key, once.
fn announce(row: &mut ResourceRow<ApiKey>, now: Timestamp) -> Option<(Action, Map<String, Value>)> {
    let is_near = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let what = match (&mut row.doc.transition, &mut row.doc.rotation_policy) {
        (Some(transition), _) if is_near(transition.announce_at()) => {
            transition.announced = true;
            "old_secret_ends_soon"
        }
        (_, Some(policy)) if is_near(policy.announce_at()) => {
            policy.announced = Some(policy.next_rotation_at);
            "rotation_is_near"
        }
        _ => return None,
    };
    let mut told = audit_details(row, "auto");
    told.insert("warning".into(), what.into());
    told.insert("next_rotation_at".into(), json!(row.doc.rotation_policy.as_ref().map(|p| p.next_rotation_at)));
    row.touch(now);
    tracing::warn!(key = %row.id, name = row.name, warning = what, "a day's notice of a rotation");
    Some((Action::Warn, told))
}

/// Whether an actor may fetch a secret that waits.
pub(super) fn waits(row: &ResourceRow<ApiKey>, call: &AdminCall) -> bool {
    row.doc.sealed_key.is_some() && ROTATE.iter().any(|s| call.actor.may(*s))
}
