//! Guardrails as they are written: saved ones, raw hooks, and the short form of configs. Everything that is wrong is
//! told at once, by check and field; what is right is compiled.

mod members;

use crate::Direction;
use crate::checks::{self, CheckLookup};
use crate::guardrail::{
    Actions, Check, FeedbackRule, Guardrail, HookType, MOST_CHECKS, MOST_GUARDRAILS, StreamMode, StreamPolicy,
};
use crate::parameters::Parameters;
use crate::partners;
use crate::problem::{GuardrailProblem, Problems};
use gateway_domain::config::hooks::{HookKey, HookList, HookSide};
use gateway_domain::egress::Trusted;
use members::ObjectMembers;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

/// Bytes of one check's parameters; a schema may have more.
const LARGEST_PARAMETERS: usize = 64 * 1024;
const LARGEST_WITH_SCHEMA: usize = 320 * 1024;
const LONGEST_ID: usize = 255;
/// Lists of words become automata, and schemas trees: so many bytes for each byte of text.
const WEIGHT_OF_TEXT: usize = 16;

/// What compiling needs to know of the organisation whose guardrail it is, and of the gateway.
pub struct CompileContext<'a> {
    /// The saved credentials of a partner, by the namespace of its checks in lower case.
    pub credentials: &'a dyn Fn(&str) -> Option<Map<String, Value>>,
    /// Hosts of private networks that checks may call.
    pub trusted: &'a Trusted,
}

impl fmt::Debug for CompileContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompileContext")
    }
}

/// One entry of a list of guardrails.
#[derive(Clone, Debug)]
pub enum ListedGuardrail {
    /// A saved one, by slug or id.
    Saved(String),
    Inline(Arc<Guardrail>),
}

/// A saved guardrail: `{checks, actions}`. `id` is what results call it.
pub fn saved(
    id: &str,
    checks: &Value,
    actions: &Value,
    setup: &CompileContext<'_>,
) -> Result<Guardrail, Vec<GuardrailProblem>> {
    let compiler = DefinitionCompiler::new(setup);
    let empty = Map::new();
    let map = match actions {
        Value::Null => &empty,
        Value::Object(map) => map,
        _ => {
            compiler.problem("", "actions", "must be an object");
            &empty
        }
    };
    let members = ObjectMembers::read(map, &compiler.problems, "actions.");
    let actions = compiler.actions(&members);
    members.finish();
    let checks = compiler.checks(checks, "checks");
    compiler.finish(id.to_owned(), HookType::Guardrail, actions, checks)
}

/// A list of raw hooks: `before_request_hooks` and `after_request_hooks`.
pub fn raw_hooks(
    list: &Value,
    direction: Direction,
    setup: &CompileContext<'_>,
) -> Result<Vec<ListedGuardrail>, Vec<GuardrailProblem>> {
    entries(list, |position, value| {
        let Value::Object(map) = value else {
            return Err(vec![problem(&format!("[{position}]"), "must be an object")]);
        };
        let compiler = DefinitionCompiler::new(setup);
        let members = ObjectMembers::read(map, &compiler.problems, "");
        let id = compiler.id(&members);
        if members.keys().all(|k| k == "id")
            && let Some(id) = &id
        {
            return Ok(ListedGuardrail::Saved(id.clone()));
        }
        let hook_type = compiler.hook_type(&members);
        let mut actions = compiler.actions(&members);
        // Saved ones have it among their actions, hooks beside their id.
        if let Some(inner) = members.object("actions") {
            let inner = ObjectMembers::read(inner, &compiler.problems, "actions.");
            actions = compiler.actions(&inner);
            inner.finish();
        }
        let checks = members.value("checks").unwrap_or(&Value::Null);
        let checks = compiler.checks(checks, "checks");
        members.ignore("guardrail_version_id");
        members.finish();
        let id = id.unwrap_or_else(|| generated(direction, position));
        compiler.finish(id, hook_type, actions, checks).map(|g| ListedGuardrail::Inline(Arc::new(g)))
    })
}

/// The short form: `input_guardrails`, `output_guardrails`, `input_mutators`, `output_mutators`.
pub fn shorthand(
    list: &Value,
    direction: Direction,
    hook_type: HookType,
    setup: &CompileContext<'_>,
) -> Result<Vec<ListedGuardrail>, Vec<GuardrailProblem>> {
    const OWN: &[&str] = &[
        "deny",
        "on_fail",
        "on_success",
        "async",
        "id",
        "type",
        "guardrail_version_id",
        "sequential",
        "soft_deny_200",
        "stream",
    ];
    entries(list, |position, value| {
        let map = match value {
            Value::String(slug) if !slug.is_empty() && slug.len() <= LONGEST_ID => {
                return Ok(ListedGuardrail::Saved(slug.clone()));
            }
            Value::Object(map) => map,
            _ => return Err(vec![problem(&format!("[{position}]"), "must be a slug or an object of checks")]),
        };
        let compiler = DefinitionCompiler::new(setup);
        let (own, rest): (Map<String, Value>, Map<String, Value>) =
            map.clone().into_iter().partition(|(k, _)| OWN.contains(&members::snake(k).as_str()));
        let members = ObjectMembers::read(&own, &compiler.problems, "");
        let id = compiler.id(&members);
        if rest.is_empty()
            && own.len() == 1
            && let Some(id) = &id
        {
            return Ok(ListedGuardrail::Saved(id.clone()));
        }
        let hook_type = if members.has("type") { compiler.hook_type(&members) } else { hook_type };
        let actions = compiler.actions(&members);
        members.ignore("guardrail_version_id");
        members.finish();
        let mut checks = Vec::new();
        for (key, parameters) in &rest {
            checks.extend(compiler.short_check(key, parameters));
        }
        let id = id.unwrap_or_else(|| generated(direction, position));
        compiler.finish(id, hook_type, actions, checks).map(|g| ListedGuardrail::Inline(Arc::new(g)))
    })
}

/// A list of a config, by the key that it stands under.
pub fn of_config(list: &HookList, setup: &CompileContext<'_>) -> Result<Vec<ListedGuardrail>, Vec<GuardrailProblem>> {
    let direction = match list.key.side() {
        HookSide::Input => Direction::Input,
        HookSide::Output => Direction::Output,
    };
    let hook_type = match list.key {
        HookKey::InputMutators | HookKey::OutputMutators => HookType::Mutator,
        HookKey::InputGuardrails | HookKey::OutputGuardrails => HookType::Guardrail,
        HookKey::BeforeRequestHooks | HookKey::AfterRequestHooks => return raw_hooks(&list.value, direction, setup),
    };
    shorthand(&list.value, direction, hook_type, setup)
}

fn problem(field: &str, message: &str) -> GuardrailProblem {
    GuardrailProblem { check: String::new(), field: field.to_owned(), message: message.to_owned() }
}

fn entries(
    list: &Value,
    read: impl Fn(usize, &Value) -> Result<ListedGuardrail, Vec<GuardrailProblem>>,
) -> Result<Vec<ListedGuardrail>, Vec<GuardrailProblem>> {
    let Value::Array(list) = list else { return Err(vec![problem("", "must be a list")]) };
    if list.len() > MOST_GUARDRAILS {
        return Err(vec![problem("", &format!("must have at most {MOST_GUARDRAILS} entries"))]);
    }
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for (position, value) in list.iter().enumerate() {
        match read(position, value) {
            Ok(entry) => entries.push(entry),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

/// A name for a guardrail without one: the same for the same place, so that results of requests can be compared.
fn generated(direction: Direction, position: usize) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let digit = |n: usize| char::from(DIGITS[n % 36]);
    let side = if direction == Direction::Input { "input" } else { "output" };
    format!("{side}_guardrail_{}{}{}", digit(position / 1296), digit(position / 36), digit(position))
}

struct DefinitionCompiler<'a> {
    setup: &'a CompileContext<'a>,
    problems: RefCell<Problems>,
    /// About what its checks take beside their patterns.
    weight: Cell<usize>,
}

impl<'a> DefinitionCompiler<'a> {
    fn new(setup: &'a CompileContext<'a>) -> Self {
        Self { setup, problems: RefCell::default(), weight: Cell::new(size_of::<Guardrail>()) }
    }

    fn problem(&self, check: &str, field: &str, message: impl Into<String>) {
        self.problems.borrow_mut().add(check, field, message);
    }

    fn id(&self, members: &ObjectMembers<'_>) -> Option<String> {
        match members.value("id")? {
            Value::String(id) if !id.is_empty() && id.len() <= LONGEST_ID => Some(id.clone()),
            _ => {
                self.problem("", "id", format!("must be a string of 1..{LONGEST_ID} bytes"));
                None
            }
        }
    }

    fn hook_type(&self, members: &ObjectMembers<'_>) -> HookType {
        match members.value("type").map(Value::as_str) {
            None | Some(Some("guardrail")) => HookType::Guardrail,
            Some(Some("mutator")) => HookType::Mutator,
            Some(_) => {
                self.problem("", "type", "must be one of: guardrail, mutator");
                HookType::Guardrail
            }
        }
    }

    fn actions(&self, members: &ObjectMembers<'_>) -> Actions {
        Actions {
            deny: members.flag("deny"),
            is_async: members.flag("async"),
            sequential: members.flag("sequential"),
            soft_deny_200: members.flag("soft_deny_200"),
            on_success: self.feedback(members, "on_success"),
            on_fail: self.feedback(members, "on_fail"),
            stream: self.stream(members),
        }
    }

    fn feedback(&self, members: &ObjectMembers<'_>, key: &'static str) -> Option<FeedbackRule> {
        let outer = ObjectMembers::read(members.object(key)?, &self.problems, &format!("{key}."));
        let inner = outer.object("feedback");
        outer.ignore("deny");
        outer.finish();
        let inner = ObjectMembers::read(inner?, &self.problems, &format!("{key}.feedback."));
        let number = |name: &'static str| {
            let found = inner.value(name);
            if found.is_some_and(|v| !v.is_number()) {
                self.problem("", &format!("{key}.feedback.{name}"), "must be a number");
            }
            found.cloned()
        };
        let (value, weight) = (number("value"), number("weight"));
        let metadata = match inner.value("metadata") {
            // Some clients have it as text.
            Some(Value::String(text)) if text.is_empty() => Map::new(),
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| {
                self.problem("", &format!("{key}.feedback.metadata"), "must be an object, or the JSON text of one");
                Map::new()
            }),
            _ => inner.object("metadata").cloned().unwrap_or_default(),
        };
        inner.finish();
        Some(FeedbackRule { value, weight, metadata })
    }

    fn stream(&self, members: &ObjectMembers<'_>) -> StreamPolicy {
        let mut policy = StreamPolicy::default();
        let mode = |value: &Value| match value.as_str() {
            Some("auto") => StreamMode::Auto,
            Some("hold") => StreamMode::Hold,
            Some("window") => StreamMode::Window,
            Some("after") => StreamMode::After,
            _ => {
                self.problem("", "stream.mode", "must be one of: auto, hold, window, after");
                StreamMode::Auto
            }
        };
        let map = match members.value("stream") {
            None => return policy,
            Some(Value::Object(map)) => map,
            Some(value) => {
                policy.mode = mode(value);
                return policy;
            }
        };
        let inner = ObjectMembers::read(map, &self.problems, "stream.");
        policy.mode = inner.value("mode").map_or(StreamMode::Auto, mode);
        policy.window = inner.number("window", 512, 16..=16_384) as usize;
        policy.overlap = inner.number("overlap", 256, 1..=8_192) as usize;
        policy.max_wait_ms = inner.number("max_wait_ms", 1_000, 10..=60_000) as u32;
        inner.finish();
        policy
    }

    fn checks(&self, list: &Value, field: &str) -> Vec<Compiled> {
        let Value::Array(list) = list else {
            self.problem("", field, "must be a list of at least one check");
            return Vec::new();
        };
        let mut compiled = Vec::new();
        for (position, check) in list.iter().enumerate() {
            let field = format!("{field}[{position}]");
            let Value::Object(map) = check else {
                self.problem("", &field, "must be an object");
                continue;
            };
            let members = ObjectMembers::read(map, &self.problems, &format!("{field}."));
            let Some(id) = members.value("id").and_then(Value::as_str).filter(|id| !id.is_empty()) else {
                self.problem("", &format!("{field}.id"), "is required");
                continue;
            };
            let empty = Map::new();
            let parameters = match members.value("parameters") {
                None => &empty,
                Some(Value::Object(map)) => map,
                Some(_) => {
                    self.problem(id, "parameters", "must be an object");
                    continue;
                }
            };
            let enabled = members.value("is_enabled").is_none_or(|_| members.flag("is_enabled"));
            members.ignore("name");
            members.finish();
            compiled.extend(self.check(id, parameters, enabled));
        }
        compiled
    }

    /// A check of the short form: what is under the key are its parameters, and two of them are about the check.
    fn short_check(&self, key: &str, value: &Value) -> Option<Compiled> {
        let mut parameters = match value {
            Value::Object(map) => map.clone(),
            Value::Null => Map::new(),
            _ => {
                self.problem(key, "", "must be an object of parameters");
                return None;
            }
        };
        let enabled = match parameters.remove("is_enabled") {
            None | Some(Value::Bool(true) | Value::Null) => true,
            Some(Value::Bool(false)) => false,
            Some(_) => {
                self.problem(key, "is_enabled", "must be true or false");
                true
            }
        };
        let id = match parameters.remove("id") {
            Some(Value::String(id)) if !id.is_empty() => id,
            _ => key.to_owned(),
        };
        self.check(&id, &parameters, enabled)
    }

    fn check(&self, id: &str, parameters: &Map<String, Value>, enabled: bool) -> Option<Compiled> {
        let full = if id.contains('.') { id.to_owned() } else { format!("default.{id}") };
        let most =
            if full.eq_ignore_ascii_case("default.jsonSchema") { LARGEST_WITH_SCHEMA } else { LARGEST_PARAMETERS };
        let bytes = serde_json::to_string(parameters).map_or(0, |t| t.len());
        self.weight.set(self.weight.get() + size_of::<Check>() + WEIGHT_OF_TEXT * bytes);
        if bytes > most {
            self.problem(&full, "parameters", format!("must have at most {most} bytes"));
            return None;
        }
        let p = Parameters::new(&full, parameters, &self.problems, self.setup.trusted);
        let is_jwt = full.eq_ignore_ascii_case("default.jwt");
        let fail_on_error = p.flag("failOnError", is_jwt) | p.flag("fail_on_error", false);
        let before = self.problems.borrow().len();
        let (judge, input, output) = match checks::find(&full) {
            CheckLookup::Check { make, input, output } => (make(&p), input, output),
            CheckLookup::Refused(why) => {
                p.problem("", why);
                return None;
            }
            CheckLookup::No => {
                let space = full.split('.').next().unwrap_or_default().to_ascii_lowercase();
                let saved = (self.setup.credentials)(&space);
                match partners::compile(&full, &p, saved.as_ref()) {
                    Some(made) => (made.judge, made.input, made.output),
                    None => {
                        p.problem("", "is not a check that this gateway knows");
                        return None;
                    }
                }
            }
        };
        if judge.is_some() || self.problems.borrow().len() == before {
            p.finish();
        }
        let check = Check { id: full, judge: judge?, fail_on_error, input, output };
        Some(Compiled { check, enabled })
    }

    fn finish(
        self,
        id: String,
        hook_type: HookType,
        actions: Actions,
        checks: Vec<Compiled>,
    ) -> Result<Guardrail, Vec<GuardrailProblem>> {
        if checks.is_empty() && self.problems.borrow().len() == 0 {
            self.problem("", "checks", "must hold at least one check");
        }
        if checks.len() > MOST_CHECKS {
            self.problem("", "checks", format!("must have at most {MOST_CHECKS} entries"));
        }
        let checks = checks.into_iter().filter(|c| c.enabled).map(|c| Arc::new(c.check)).collect();
        let memory = self.weight.get() + self.problems.borrow().weight();
        let guardrail = Guardrail { id, hook_type, actions, checks, memory };
        match guardrail.actions.stream.mode {
            StreamMode::Window => {
                if let Some(check) = guardrail.not_stream_safe() {
                    self.problem(check, "stream.mode", "must not be `window`: this check needs the whole text");
                }
            }
            StreamMode::After => {
                if let Some(check) = guardrail.rewriting() {
                    self.problem(check, "stream.mode", "must not be `after`: this check rewrites");
                }
            }
            StreamMode::Auto | StreamMode::Hold => {}
        }
        self.problems.into_inner().into_result(guardrail)
    }
}

/// A check that was read; one that is switched off is checked all the same.
struct Compiled {
    check: Check,
    enabled: bool,
}

#[cfg(test)]
mod tests;
