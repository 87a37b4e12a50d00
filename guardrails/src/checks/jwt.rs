//! `jwt`: a token in a header, signed by a key of a set that is published, written down or asked for. What cannot be
//! read, found or verified does not pass.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, Sign};
use crate::parameters::Parameters;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value, json};

const TIMEOUT_MS: u32 = 5_000;
const LONGEST_TOKEN: usize = 16 * 1024;
const MOST: usize = 100;
/// Signatures by a key that only the issuer has. A secret shared with the issuer could be taken from its public key.
const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Who says that a token is good.
#[derive(Debug)]
enum Issuer {
    Keys(Box<JwkSet>),
    Published { uri: String, max_age_secs: u64 },
    Introspection(String),
}

#[derive(Debug)]
struct ClaimRule {
    claim: String,
    values: Vec<String>,
    match_type: &'static str,
}

#[derive(Debug)]
struct Jwt {
    issuer: Issuer,
    header: HeaderName,
    algorithms: Vec<Algorithm>,
    tolerance_secs: i64,
    max_age_secs: i64,
    required: Vec<String>,
    claims: Vec<ClaimRule>,
    /// Members that the token's head and its claims must have alike.
    alike: Vec<String>,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let issuer = issuer(p);
    let name = p.text("headerKey").unwrap_or("Authorization");
    let Ok(header) = HeaderName::try_from(name) else {
        p.problem("headerKey", "must be the name of a header");
        return None;
    };
    let mut algorithms = Vec::new();
    for wanted in p.texts("algorithms", MOST).unwrap_or_else(|| vec!["RS256".to_owned()]) {
        match ALGORITHMS.iter().find(|(name, _)| *name == wanted) {
            Some((_, algorithm)) => algorithms.push(*algorithm),
            None => {
                let known: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
                p.problem("algorithms", format!("must not hold `{wanted}`; known are: {}", known.join(", ")));
            }
        }
    }
    let tolerance_secs = p.number("clockTolerance", 5, 0..=86_400) as i64;
    let max_age_secs = match p.value("maxTokenAge") {
        None => 86_400,
        Some(value) => duration(value).unwrap_or_else(|| {
            p.problem("maxTokenAge", "must be a time such as `1d`, `12h`, `30m` or a number of seconds");
            86_400
        }),
    };
    let required = p.texts("requiredClaims", MOST).unwrap_or_default();
    let claims = claim_rules(p);
    let alike = p.texts("headerPayloadMatch", MOST).unwrap_or_default();
    for key in ["extractClaims", "claimPrefix"] {
        if p.has(key) {
            p.problem(key, "is not served: claims are judged, and go into no header");
        }
    }
    let issuer = issuer?;
    Some(Box::new(Jwt { issuer, header, algorithms, tolerance_secs, max_age_secs, required, claims, alike }))
}

fn issuer(p: &Parameters<'_>) -> Option<Issuer> {
    let max_age_secs = p.number("cacheMaxAge", 86_400, 60..=604_800);
    match (p.has("jwks"), p.has("jwksUri"), p.has("introspectEndpoint")) {
        (true, false, false) => {
            let parsed = match p.value("jwks") {
                Some(Value::String(text)) => serde_json::from_str::<JwkSet>(text).ok(),
                Some(value) => serde_json::from_value::<JwkSet>(value.clone()).ok(),
                None => None,
            };
            match parsed.filter(|set| !set.keys.is_empty()) {
                Some(set) => Some(Issuer::Keys(Box::new(set))),
                None => {
                    p.problem("jwks", "must be a set of public keys (RFC 7517)");
                    None
                }
            }
        }
        (false, true, false) => p.address("jwksUri").map(|uri| Issuer::Published { uri, max_age_secs }),
        (false, false, true) => p.address("introspectEndpoint").map(Issuer::Introspection),
        _ => {
            p.problem("jwksUri", "or one of `jwks` and `introspectEndpoint` is required, and only one");
            None
        }
    }
}

fn duration(value: &Value) -> Option<i64> {
    if let Some(seconds) = value.as_i64() {
        return (1..=31_536_000).contains(&seconds).then_some(seconds);
    }
    let text = value.as_str()?.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match text[digits..].trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    let seconds = text[..digits].parse::<i64>().ok()?.checked_mul(unit)?;
    (1..=31_536_000).contains(&seconds).then_some(seconds)
}

fn claim_rules(p: &Parameters<'_>) -> Vec<ClaimRule> {
    let mut rules = Vec::new();
    for (claim, rule) in p.map("claimValues").into_iter().flatten() {
        let field = format!("claimValues.{claim}");
        let values = match rule.get("values").unwrap_or(rule) {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(list) if list.len() <= MOST => list.iter().map(plain).collect::<Option<Vec<_>>>(),
            other => plain(other).map(|v| vec![v]),
        };
        let match_type = match rule.get("matchType").and_then(Value::as_str).unwrap_or("exact") {
            "exact" => "exact",
            "contains" => "contains",
            "containsAll" => "containsAll",
            _ => {
                p.problem(&format!("{field}.matchType"), "must be one of: exact, contains, containsAll");
                continue;
            }
        };
        match values.filter(|v| !v.is_empty()) {
            Some(values) => rules.push(ClaimRule { claim: claim.clone(), values, match_type }),
            None => p.problem(&format!("{field}.values"), "must be a list of values"),
        }
    }
    rules
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

impl ClaimRule {
    /// A claim may be one value or a list; scopes are a text of words.
    fn is_met(&self, claims: &Map<String, Value>) -> bool {
        let held: Vec<String> = match claims.get(&self.claim) {
            Some(Value::Array(list)) => list.iter().filter_map(plain).collect(),
            Some(value) => plain(value).into_iter().collect(),
            None => return false,
        };
        let words = || held.iter().flat_map(|h| h.split_whitespace());
        let has = |wanted: &String| held.contains(wanted) || words().any(|w| w == wanted);
        match self.match_type {
            "contains" => self.values.iter().any(has),
            "containsAll" => self.values.iter().all(has),
            _ => self.values.iter().any(|v| held.len() == 1 && held.contains(v)),
        }
    }
}

fn outcome_of(verdict: bool, explanation: &str) -> CheckOutcome {
    CheckOutcome::new(verdict, json!({"verdict": verdict, "explanation": explanation}))
}

/// The keys of one set that carry the token's `kid`.
enum Verified {
    Claims(Map<String, Value>),
    NoKey,
    Bad(&'static str),
}

impl Jwt {
    fn token<'a>(&self, case: &Case<'a>) -> Option<&'a str> {
        let value = case.facts.headers.get(&self.header)?.to_str().ok()?.trim();
        let is_bearer = value.get(..7).is_some_and(|s| s.eq_ignore_ascii_case("bearer "));
        let token = if is_bearer { value[7..].trim() } else { value };
        (!token.is_empty() && token.len() <= LONGEST_TOKEN).then_some(token)
    }

    fn verify(&self, token: &str, set: &JwkSet) -> Verified {
        let Ok(head) = jsonwebtoken::decode_header(token) else { return Verified::Bad("The token cannot be read") };
        if !self.algorithms.contains(&head.alg) {
            return Verified::Bad("The token is signed in a way that is not allowed");
        }
        let Some(kid) = head.kid else { return Verified::Bad("The token names no key") };
        let Some(jwk) = set.find(&kid) else { return Verified::NoKey };
        if matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)) {
            return Verified::Bad("The token's key is no public key");
        }
        let Ok(key) = DecodingKey::from_jwk(jwk) else { return Verified::Bad("The token's key cannot be read") };
        // Times are judged by the clock that the caller brings.
        let mut validation = Validation::new(head.alg);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        match jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation) {
            Ok(decoded) => Verified::Claims(decoded.claims),
            Err(_) => Verified::Bad("The token's signature does not fit"),
        }
    }

    fn judged(&self, case: &Case<'_>, token: &str, claims: &Map<String, Value>) -> CheckOutcome {
        let now = case.now.secs();
        let time = |key: &str| claims.get(key).and_then(|v| v.as_i64().or_else(|| v.as_f64().map(|f| f as i64)));
        if claims.contains_key("exp") && time("exp").is_none_or(|exp| now > exp.saturating_add(self.tolerance_secs)) {
            return outcome_of(false, "The token is over");
        }
        if claims.contains_key("nbf") && time("nbf").is_none_or(|nbf| now < nbf.saturating_sub(self.tolerance_secs)) {
            return outcome_of(false, "The token is not good yet");
        }
        let Some(issued) = time("iat") else { return outcome_of(false, "The token does not tell when it was issued") };
        if issued > now.saturating_add(self.tolerance_secs) {
            return outcome_of(false, "The token was issued in the future");
        }
        if now.saturating_sub(issued) > self.max_age_secs.saturating_add(self.tolerance_secs) {
            return outcome_of(false, "The token is too old");
        }
        if let Some(missing) = self.required.iter().find(|c| !claims.contains_key(c.as_str())) {
            return outcome_of(false, &format!("The token lacks the claim `{missing}`"));
        }
        if let Some(rule) = self.claims.iter().find(|r| !r.is_met(claims)) {
            return outcome_of(false, &format!("The claim `{}` of the token does not fit", rule.claim));
        }
        if !self.alike.is_empty() {
            let head = head_of(token).unwrap_or_default();
            if let Some(key) = self.alike.iter().find(|k| head.get(*k).is_none() || head.get(*k) != claims.get(*k)) {
                return outcome_of(false, &format!("The token's head and claims differ in `{key}`"));
            }
        }
        outcome_of(true, "The token is good")
    }

    fn with_set(&self, case: &Case<'_>, token: &str, set: &JwkSet) -> Option<CheckOutcome> {
        match self.verify(token, set) {
            Verified::Claims(claims) => Some(self.judged(case, token, &claims)),
            Verified::Bad(why) => Some(outcome_of(false, why)),
            Verified::NoKey => None,
        }
    }

    /// RFC 7662.
    fn introspected(&self, case: &Case<'_>, token: &str, answer: &CheckReply) -> CheckOutcome {
        let claims = match answer {
            CheckReply::Reply { status, body } if (200..300).contains(status) => {
                serde_json::from_slice::<Map<String, Value>>(body).ok()
            }
            _ => None,
        };
        match claims {
            None => closed("The token could not be asked about"),
            Some(claims) if claims.get("active") == Some(&Value::Bool(true)) => {
                // The issuer vouches for the token, so that its time of issue need not be told.
                let mut claims = claims;
                claims.entry("iat").or_insert_with(|| Value::from(case.now.secs()));
                self.judged(case, token, &claims)
            }
            Some(_) => outcome_of(false, "The token is not active"),
        }
    }
}

/// A key set or an issuer that cannot be asked lets nobody in.
fn closed(message: &str) -> CheckOutcome {
    let error = CheckError::closed("KeySetUnavailable", message);
    CheckOutcome::failed(error).with_data(json!({"verdict": false, "explanation": message}))
}

fn head_of(token: &str) -> Option<Map<String, Value>> {
    use base64::Engine as _;
    let head = token.split('.').next()?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(head).ok()?;
    serde_json::from_slice(&bytes).ok()
}

impl Judge for Jwt {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let Some(token) = self.token(case) else { return outcome_of(false, "There is no token").into() };
        match &self.issuer {
            Issuer::Keys(set) => {
                let outcome = self.with_set(case, token, set);
                outcome.unwrap_or_else(|| outcome_of(false, "The token's key is not in the set")).into()
            }
            Issuer::Published { uri, max_age_secs } => {
                // What cannot be read needs no key set.
                if jsonwebtoken::decode_header(token).is_err() {
                    return outcome_of(false, "The token cannot be read").into();
                }
                JudgeStep::Ask(vec![CheckQuery::KeySet { uri: uri.clone(), max_age_secs: *max_age_secs, fresh: false }])
            }
            Issuer::Introspection(url) => {
                let form: String =
                    url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token).finish();
                let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
                JudgeStep::Ask(vec![CheckQuery::Call(Box::new(CheckRequest {
                    method: Method::POST,
                    url: url.clone(),
                    headers: vec![(header::CONTENT_TYPE, content_type)],
                    body: Bytes::from(form),
                    timeout_ms: TIMEOUT_MS,
                    most_reply: REPLY,
                    redirects: 0,
                    sign: Sign::Nothing,
                }))])
            }
        }
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let (Some(token), Some(answer)) = (self.token(case), answers.last()) else {
            return outcome_of(false, "There is no token").into();
        };
        let (uri, max_age_secs) = match &self.issuer {
            Issuer::Introspection(_) => return self.introspected(case, token, answer).into(),
            Issuer::Published { uri, max_age_secs } => (uri.clone(), *max_age_secs),
            Issuer::Keys(_) => return outcome_of(false, "There is no token").into(),
        };
        let set = match answer {
            CheckReply::Reply { status: 200, body } => serde_json::from_slice::<JwkSet>(body).ok(),
            _ => None,
        };
        let Some(set) = set else { return closed("The key set could not be read").into() };
        match self.with_set(case, token, &set) {
            Some(outcome) => outcome.into(),
            // The issuer may have a key that is newer than the set that was held.
            None if answers.len() == 1 => JudgeStep::Ask(vec![CheckQuery::KeySet { uri, max_age_secs, fresh: true }]),
            None => outcome_of(false, "The token's key is not in the set").into(),
        }
    }
}
