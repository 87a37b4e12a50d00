//! The checks that are built in, by id. Each file holds a family: parameters, what is judged, and the data that
//! results tell of it.

mod case;
mod code;
mod counts;
mod images;
mod json;
mod jwt;
mod language;
mod metadata;
mod models;
mod moderation;
mod parameters_check;
mod patterns;
mod pii;
mod prefix;
mod presence;
mod request_types;
mod urls;
mod webhook;
mod words;

pub(crate) use case::is_cased;
pub(crate) use counts::count;
pub(crate) use patterns::redact_parts;
pub(crate) use webhook::{forwarded, metadata_of};
pub(crate) use words::Stepping;

use crate::check::Judge;
use crate::content::{MessageScope, Selection};
use crate::parameters::Parameters;

pub(crate) type BuiltJudge = Option<Box<dyn Judge>>;
type Make = fn(&Parameters<'_>) -> BuiltJudge;

/// One built-in check.
struct BuiltIn {
    /// The name without its namespace; compared without regard to case.
    name: &'static str,
    make: Make,
    input: bool,
    output: bool,
}

const fn both(name: &'static str, make: Make) -> BuiltIn {
    BuiltIn { name, make, input: true, output: true }
}

/// About the request alone; on answers it judges the request once more.
const fn request(name: &'static str, make: Make) -> BuiltIn {
    BuiltIn { name, make, input: true, output: true }
}

const fn answers(name: &'static str, make: Make) -> BuiltIn {
    BuiltIn { name, make, input: false, output: true }
}

/// The checks of the namespace `default`.
static DEFAULT: &[BuiltIn] = &[
    both("regexMatch", patterns::regex_match),
    both("regexReplace", patterns::regex_replace),
    both("sentenceCount", counts::sentences),
    both("wordCount", counts::words),
    both("characterCount", counts::characters),
    both("contains", words::contains),
    both("endsWith", words::ends_with),
    both("alluppercase", case::uppercase),
    both("alllowercase", case::lowercase),
    both("jsonSchema", json::schema),
    both("jsonKeys", json::keys),
    both("containsCode", code::contains_code),
    both("validUrls", urls::valid_urls),
    both("notNull", presence::not_null),
    request("modelWhitelist", models::whitelist),
    request("modelRules", models::rules),
    request("allowedRequestTypes", request_types::allowed),
    request("requiredMetadataKeys", metadata::keys),
    request("requiredMetadataKeyPairs", metadata::pairs),
    request("requestParametersCheck", parameters_check::make),
    request("jwt", jwt::make),
    request("inlineImageUrls", images::make),
    request("addPrefix", prefix::make),
    both("webhook", webhook::webhook),
    answers("log", webhook::log),
];

/// The checks of the namespace `pro`, which Portkey's configs also call `portkey`.
static PRO: &[BuiltIn] =
    &[both("moderateContent", moderation::make), both("language", language::make), both("pii", pii::make)];

/// Checks that want a model of the gateway's own.
const UNSERVED: &[&str] = &["gibberish"];

/// What an id stands for.
pub(crate) enum CheckLookup {
    Check {
        make: Make,
        input: bool,
        output: bool,
    },
    /// It is known, and refused with this reason.
    Refused(&'static str),
    No,
}

/// Looks an id up, its namespace in front: `default.contains`.
pub(crate) fn find(id: &str) -> CheckLookup {
    let (space, name) = id.split_once('.').unwrap_or(("default", id));
    let table = match space.to_ascii_lowercase().as_str() {
        "default" => DEFAULT,
        "pro" | "portkey" => PRO,
        _ => return CheckLookup::No,
    };
    if let Some(found) = table.iter().find(|b| b.name.eq_ignore_ascii_case(name)) {
        return CheckLookup::Check { make: found.make, input: found.input, output: found.output };
    }
    if UNSERVED.iter().any(|u| u.eq_ignore_ascii_case(name)) && !std::ptr::eq(table, DEFAULT) {
        return CheckLookup::Refused("needs a model that this gateway does not serve");
    }
    CheckLookup::No
}

/// The texts that a check looks at, by its parameters.
pub(crate) fn selection(p: &Parameters<'_>, default: Selection) -> Selection {
    let scope = match p.choice("scan_scope", &["last_message", "last_user_message", "user_messages", "all_messages"]) {
        "last_user_message" => MessageScope::LastUserMessage,
        "user_messages" => MessageScope::UserMessages,
        "all_messages" => MessageScope::AllMessages,
        _ => MessageScope::LastMessage,
    };
    let Some(scans) = p.texts("scan", 3) else { return Selection { scope, ..default } };
    let mut chosen = Selection { scope, text: false, tool: false, reasoning: false };
    for scan in &scans {
        match scan.as_str() {
            "text" => chosen.text = true,
            "tool" => chosen.tool = true,
            "reasoning" => chosen.reasoning = true,
            _ => p.problem("scan", "must hold only `text`, `tool` and `reasoning`"),
        }
    }
    if scans.is_empty() {
        p.problem("scan", "must not be empty");
    }
    chosen
}

#[cfg(test)]
mod tests;
