//! Where a path that no row of the table names leads in truth, as far as that is realtime: to sessions that are
//! watched, or round them. Providers answer at more spellings of a path than the table has: below their own prefix,
//! with a version twice, in capitals, percent-encoded. Knows neither who asks nor whether it is a WebSocket.

use crate::operation::Operation;
use crate::path::decoded;

/// What a chain of gateways decodes at most before a provider reads it.
const DECODED: usize = 3;
/// What follows `/realtime` in paths at which a provider starts calls and makes keys: their sessions would bypass the
/// gateway.
const ASIDE: &[&str] = &["calls", "client_secrets", "sessions", "transcription_sessions"];

/// The session that a WebSocket to this path opens, if it is one of OpenAI's.
pub fn session(tail: &str) -> Option<Operation> {
    let segments = segments(tail);
    let (last, before) = segments.split_last()?;
    let (last, before) = match before.split_last() {
        Some((live, before)) if live == "live" && last == "sessions" => (live, before),
        _ => (last, before),
    };
    let operation = match last.as_str() {
        "realtime" => Operation::Realtime,
        "responses" => Operation::ResponsesSession,
        "live" if segments.last() != Some(last) => Operation::LiveSession,
        _ => return None,
    };
    // Others end in the same word and speak otherwise (`/speech-to-text/realtime`).
    let is_root = |segment: &String| is_version(segment) || matches!(segment.as_str(), "openai" | "proxy" | "api");
    let is_deployments = before.iter().rev().nth(1).is_some_and(|segment| segment == "deployments");
    (before.last().is_none_or(is_root) || is_deployments).then_some(operation)
}

/// Whether a path leads to what gives a client a session that nobody here hears.
pub fn leads_aside(tail: &str) -> bool {
    let segments = segments(tail);
    let at = segments.iter().rposition(|segment| segment == "realtime" || segment == "realtimeapi");
    at.is_some_and(|at| segments.get(at + 1).is_none_or(|next| ASIDE.contains(&next.as_str())))
}

/// Whether a POST to this path begins a session of the Live API, or another beside one, whose sound does not come by
/// here.
pub fn begins_live(tail: &str) -> bool {
    let segments = segments(tail);
    segments.windows(2).any(|pair| pair[0] == "live" && pair[1] == "sessions")
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The segments of a path, as the most generous of servers reads them: decoded, in small letters, without parameters.
fn segments(tail: &str) -> Vec<String> {
    let mut path = tail.to_owned();
    for _ in 0..DECODED {
        path = decoded(&path).into_owned();
    }
    let path = path.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let bare = path.split(['/', '\\']).map(|segment| segment.split(';').next().unwrap_or_default().trim());
    bare.filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_one_by_whatever_spelling() {
        for (tail, operation) in [
            ("/realtime", Some(Operation::Realtime)),
            ("/v1/realtime/", Some(Operation::Realtime)),
            ("/V1/Realtime", Some(Operation::Realtime)),
            ("/v1%2Frealtime", Some(Operation::Realtime)),
            ("/v1/%2572ealtime", Some(Operation::Realtime)),
            ("/v1/realtime;a=1", Some(Operation::Realtime)),
            ("/openai/v1/realtime", Some(Operation::Realtime)),
            ("/openai/deployments/gpt-realtime/realtime", Some(Operation::Realtime)),
            ("/v1/v1/responses", Some(Operation::ResponsesSession)),
            ("/api/v1/RESPONSES/", Some(Operation::ResponsesSession)),
            ("/v1/speech-to-text/realtime", None),
            ("/live", None),
            ("/live/sessions", Some(Operation::LiveSession)),
            ("/openai/v1/Live%2Fsessions/", Some(Operation::LiveSession)),
            ("/live/sessions/live_1/attach", None),
            ("/realtime/calls", None),
            ("/", None),
        ] {
            assert_eq!(session(tail), operation, "{tail}");
        }
    }

    #[test]
    fn sessions_of_the_live_api_are_known_by_whatever_spelling() {
        for (tail, begins) in [
            ("/v1/live/sessions", true),
            ("/openai/v1/Live%2Fsessions/", true),
            ("/v1/live/sessions/live_1/fork", true),
            ("/v1/live", false),
            ("/v1/sessions/live", false),
            ("/v1/chat/completions", false),
        ] {
            assert_eq!(begins_live(tail), begins, "{tail}");
        }
    }

    #[test]
    fn calls_and_keys_are_known_by_whatever_spelling() {
        for (tail, aside) in [
            ("/v1/realtime/calls", true),
            ("/v1/realtime/calls/rtc_1/accept", true),
            ("/v1/Realtime/Client_Secrets/", true),
            ("/v1/realtime%2Fsessions", true),
            ("/openai/realtimeapi/sessions", true),
            ("/v1/realtime", true),
            ("/v1/realtime/translations", false),
            ("/v1/chat/completions", false),
        ] {
            assert_eq!(leads_aside(tail), aside, "{tail}");
        }
    }
}
