//! `allowedRequestTypes`: which operations may be asked for. Lists stand in the parameters, else in the metadata.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::parameters::Parameters;
use serde_json::json;

const MOST: usize = 200;

#[derive(Debug)]
struct RequestTypes {
    allowed: Option<Vec<String>>,
    blocked: Option<Vec<String>>,
}

pub(super) fn allowed(p: &Parameters<'_>) -> BuiltJudge {
    let filled = |list: Option<Vec<String>>| list.filter(|l| !l.is_empty());
    let (allowed, blocked) = (filled(p.texts("allowedTypes", MOST)), filled(p.texts("blockedTypes", MOST)));
    if let (Some(a), Some(b)) = (&allowed, &blocked)
        && let Some(both) = a.iter().find(|t| b.contains(t))
    {
        p.problem("blockedTypes", format!("must not hold `{both}`, which is allowed too"));
    }
    Some(Box::new(RequestTypes { allowed, blocked }))
}

fn listed(text: Option<&str>) -> Option<Vec<String>> {
    let text = text?.trim().trim_start_matches('[').trim_end_matches(']');
    let types = text.split(',').map(|t| t.trim().trim_matches('"').to_owned()).filter(|t| !t.is_empty());
    let list: Vec<String> = types.collect();
    (!list.is_empty()).then_some(list)
}

/// `X` covers streams of X and others, `stream-X` the streams only.
fn covers(list: &[String], request_type: &str, streams: bool) -> bool {
    list.iter().any(|t| match t.strip_prefix("stream-") {
        Some(plain) => streams && plain == request_type,
        None => t == request_type || t == "all" || t == "*",
    })
}

impl Judge for RequestTypes {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let facts = case.facts;
        let (mut allowed, mut blocked, mut source) = (self.allowed.clone(), self.blocked.clone(), "parameters");
        if allowed.is_none() && blocked.is_none() {
            allowed = listed(facts.metadata("supported_endpoints"));
            blocked = listed(facts.metadata("blocked_endpoints"));
            source = "metadata";
        }
        let mode = match (&allowed, &blocked) {
            (None, None) => "unrestricted",
            (Some(_), None) => "allowlist",
            (None, Some(_)) => "blocklist",
            (Some(_), Some(_)) => "combined",
        };
        if mode == "unrestricted" {
            source = "default";
        }
        let (allow, block) = (allowed.unwrap_or_else(|| vec!["all".to_owned()]), blocked.unwrap_or_default());
        if let Some(both) = allow.iter().find(|t| block.contains(t)) {
            let message = format!("The type `{both}` is both allowed and blocked");
            return CheckError::open("Error", message).into();
        }
        let is_blocked = covers(&block, &facts.request_type, facts.streams);
        let verdict = !is_blocked && covers(&allow, &facts.request_type, facts.streams);
        let current = if facts.streams { format!("stream-{}", facts.request_type) } else { facts.request_type.clone() };
        let explanation = match (verdict, is_blocked) {
            (true, _) => format!("Requests of type `{current}` are allowed"),
            (false, true) => format!("Requests of type `{current}` are blocked"),
            (false, false) => format!("Requests of type `{current}` are not among the allowed ones"),
        };
        let data = json!({"currentRequestType": current, "allowedTypes": allow, "blockedTypes": block,
            "verdict": verdict, "source": source, "mode": mode, "explanation": explanation});
        CheckOutcome::new(verdict, data).into()
    }
}
