//! Objects that a provider keeps (files, batches, responses, …): which calls are about them, and the ids by which a
//! client finds them again where several providers could have been asked. Such an id holds the provider that keeps the
//! object, sealed; nothing is stored. Knows no seal and no provider.

mod json;
mod lists;

pub use json::{IdPlace, is_too_deep, rewrite};
pub use lists::{is_listed, listed_in_path, shown_in_part};

use crate::path::decoded;
use http::Method;
use uuid::Uuid;

/// Stands before what is sealed, in every bound id.
pub const MARK: &str = "gw1_";
/// Bytes of a provider's own id that is bound; longer ones stay as they are.
pub const LONGEST_ID: usize = 512;
/// Bytes of a bound id that is looked at.
pub const LONGEST_BOUND: usize = 1024;

/// What providers' ids begin with, by what they name. Ids that begin otherwise are bound without such a beginning.
const KINDS: &[&str] = &[
    "file-", "file_", "upload_", "part_", "batch_", "ftjob-", "ftckpt_", "vs_", "vsfb_", "resp_", "conv_", "cntr_",
    "asst_", "thread_", "msg_", "run_", "step_", "rs_", "rtc_",
];

/// The fields of bodies that name a kept object, in questions and answers alike.
const FIELDS: &[&str] = &[
    "id",
    "first_id",
    "last_id",
    "file_id",
    "file_ids",
    "input_file_id",
    "output_file_id",
    "error_file_id",
    "training_file",
    "validation_file",
    "fine_tuning_job_id",
    "result_files",
    "part_ids",
    "upload_id",
    "batch_id",
    "vector_store_id",
    "vector_store_ids",
    "previous_response_id",
    "response_id",
    "conversation",
    "container",
    "container_id",
    "assistant_id",
    "thread_id",
    "run_id",
    "message_id",
    "item_id",
];

/// Paths below `/v1` under which providers keep objects.
const ROOTS: &[&str] = &[
    "/files",
    "/uploads",
    "/batches",
    "/fine_tuning/jobs",
    "/vector_stores",
    "/assistants",
    "/threads",
    "/responses",
    "/conversations",
    "/containers",
    "/realtime/calls",
];

/// What a call has to do with objects that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    Nothing,
    /// Makes one, wherever it comes to.
    Makes,
    /// Asks for what one provider has.
    Asks,
}

/// `tail`: the path below `/v1`.
pub fn touches(method: &Method, tail: &str) -> Touches {
    let Some(rest) = ROOTS.iter().find_map(|root| tail.strip_prefix(root).filter(|rest| is_below(rest))) else {
        return Touches::Nothing;
    };
    let makes = matches!(rest, "" | "/") || tail == "/threads/runs";
    if makes && *method == Method::POST { Touches::Makes } else { Touches::Asks }
}

/// What stands in paths between ids and behind them.
const WORDS: &[&str] = &[
    "accept",
    "cancel",
    "checkpoints",
    "compact",
    "complete",
    "content",
    "events",
    "file_batches",
    "files",
    "hangup",
    "input_items",
    "input_tokens",
    "items",
    "messages",
    "output",
    "parts",
    "pause",
    "refer",
    "reject",
    "resume",
    "runs",
    "search",
    "steps",
    "submit_tool_outputs",
];

/// Texts in the fields of ids that name no object.
const NO_IDS: &[&str] = &["", "auto", "none"];

/// Whether a path names an object by the id that its provider gave it.
pub fn raw_in_path(tail: &str) -> bool {
    let below = ROOTS.iter().find_map(|root| tail.strip_prefix(root).filter(|rest| is_below(rest)));
    let mut segments = below.unwrap_or_default().split('/').filter(|segment| !segment.is_empty());
    segments.any(|segment| !WORDS.contains(&segment) && sealed_part(segment).is_none())
}

/// Whether the text in a field that may name an object is an id that its provider gave it. An `id` of no known kind is
/// the client's own.
pub fn is_raw(field: &str, text: &str) -> bool {
    !NO_IDS.contains(&text) && sealed_part(text).is_none() && (field != "id" || !kind_of(text).is_empty())
}

/// Whether the path is that of a list of all that a provider keeps of a kind.
pub fn is_list(tail: &str) -> bool {
    ROOTS.contains(&tail.trim_end_matches('/'))
}

/// The call that a realtime session is opened beside, by its query.
pub fn call_in_query(query: &str) -> Option<&str> {
    calls_in_query(query).next()
}

/// All that are named there. Which of several a provider would take nobody knows.
pub fn calls_in_query(query: &str) -> impl Iterator<Item = &str> {
    let named = query.split('&').filter_map(|pair| pair.split_once('='));
    named.filter(|(name, _)| decoded(name) == "call_id").map(|(_, id)| id).filter(|id| !id.is_empty())
}

fn is_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// Whether the answer is the object's own bytes, which nobody may change.
pub fn is_content(tail: &str) -> bool {
    tail.trim_end_matches('/').ends_with("/content") || tail.starts_with("/batches/") && tail.ends_with("/output")
}

/// Where an object is kept, as far as it can be told from any node and at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeptAt {
    /// A provider of the workspace, by its id.
    Provider(Uuid),
    /// A family with a credential and an address of the request's or the config's own: what tells them apart.
    Elsewhere([u8; 16]),
}

/// The bit of the tag that tells the place of a list from a bound id.
const CURSOR: u8 = 2;

/// What a bound id says once it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundId {
    pub workspace: Uuid,
    pub at: KeptAt,
    /// The id that the provider gave the object.
    pub native: String,
}

impl BoundId {
    /// What is sealed.
    pub fn plain(&self) -> Vec<u8> {
        self.tagged(0)
    }

    /// What is sealed where a list goes on behind this object: it names a place of the list, and opens no object.
    pub fn cursor(&self) -> Vec<u8> {
        self.tagged(CURSOR)
    }

    fn tagged(&self, purpose: u8) -> Vec<u8> {
        let (tag, at) = match &self.at {
            KeptAt::Provider(id) => (0, *id.as_bytes()),
            KeptAt::Elsewhere(mark) => (1, *mark),
        };
        [self.workspace.as_bytes(), [tag | purpose].as_slice(), &at, self.native.as_bytes()].concat()
    }

    pub fn read(plain: &[u8]) -> Option<Self> {
        Self::read_tagged(plain, 0)
    }

    pub fn read_cursor(plain: &[u8]) -> Option<Self> {
        Self::read_tagged(plain, CURSOR)
    }

    fn read_tagged(plain: &[u8], purpose: u8) -> Option<Self> {
        let (workspace, rest) = plain.split_first_chunk::<16>()?;
        let (tag, rest) = rest.split_first()?;
        let (at, native) = rest.split_first_chunk::<16>()?;
        let at = match tag ^ purpose {
            0 => KeptAt::Provider(Uuid::from_bytes(*at)),
            1 => KeptAt::Elsewhere(*at),
            _ => return None,
        };
        let native = String::from_utf8(native.to_vec()).ok()?;
        Some(Self { workspace: Uuid::from_bytes(*workspace), at, native })
    }
}

/// What an id begins with, where that says what it names; else nothing.
pub fn kind_of(id: &str) -> &'static str {
    KINDS.iter().copied().find(|kind| id.starts_with(kind)).unwrap_or("")
}

/// What lies sealed in an id that a client was given: kind and sealed text.
pub fn sealed_part(id: &str) -> Option<(&str, &str)> {
    let (kind, sealed) = id.split_once(MARK)?;
    let known = kind.is_empty() || KINDS.contains(&kind);
    (known && id.len() <= LONGEST_BOUND && !sealed.is_empty()).then_some((kind, sealed))
}

/// Whether a field of this name may be one of those. Cheap, and says so of many others too.
pub(crate) fn may_name_object(field: &[u8]) -> bool {
    match field.last() {
        Some(b'd') => field.ends_with(b"id"),
        Some(b's') => field.ends_with(b"ids") || field.ends_with(b"files"),
        Some(b'e') => field.ends_with(b"file"),
        Some(b'n') => field == b"conversation",
        Some(b'r') => field == b"container",
        _ => false,
    }
}

/// Whether the text at this place of a body may name a kept object.
pub fn names_object(place: &IdPlace<'_>) -> bool {
    FIELDS.contains(&place.field)
}

/// The field that the name of a form's part stands for: `file_ids[]` and `images[0][file_id]` are fields in brackets.
pub fn field_of_part(name: &str) -> &str {
    let pieces = name.rsplit('[').map(|piece| piece.trim_end_matches(']'));
    let named = |piece: &&str| !piece.is_empty() && !piece.bytes().all(|byte| byte.is_ascii_digit());
    pieces.into_iter().find(named).unwrap_or_default()
}

/// Whether the `id` at this place of an answer is that of the file that an upload became.
pub(crate) fn is_made_file(place: &IdPlace<'_>) -> bool {
    place.depth == 2 && place.object == "file"
}

/// Whether it does so in an answer. An `id` of no known kind is one of an object where it stands in front: other ids of
/// an answer, of calls of tools for one, are the client's business. So is one of the file that an upload became.
pub fn is_id_of_object(place: &IdPlace<'_>, text: &str) -> bool {
    if text.is_empty() || text.len() > LONGEST_ID || text.contains(MARK) || !names_object(place) {
        return false;
    }
    let front = place.depth == 1 || (place.depth == 3 && place.list == "data");
    place.field != "id" || front || is_made_file(place) || !kind_of(text).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_provider_gave_are_told_from_bound_ones() {
        for (tail, raw) in [
            ("/files", false),
            ("/files/file-1/content", true),
            ("/files/file-gw1_AAAA/content", false),
            ("/threads/thread_gw1_AAAA/messages/msg_1", true),
            ("/responses/input_tokens", false),
            ("/chat/completions", false),
        ] {
            assert_eq!(raw_in_path(tail), raw, "{tail}");
        }
        for (field, text, raw) in [
            ("file_id", "file-1", true),
            ("file_id", "0193", true),
            ("file_id", "file-gw1_AAAA", false),
            ("container", "auto", false),
            ("id", "call_1", false),
            ("id", "rs_1", true),
        ] {
            assert_eq!(is_raw(field, text), raw, "{field} {text}");
        }
        assert!(is_list("/files/") && is_list("/vector_stores") && !is_list("/files/file-1"));
    }

    #[test]
    fn paths_say_what_is_made_and_what_is_asked() {
        for (method, tail, touched) in [
            ("POST", "/files", Touches::Makes),
            ("GET", "/files", Touches::Asks),
            ("GET", "/files/file-1/content", Touches::Asks),
            ("POST", "/batches/batch_1/cancel", Touches::Asks),
            ("POST", "/threads/runs", Touches::Makes),
            ("POST", "/threads/thread_1/runs", Touches::Asks),
            ("POST", "/responses", Touches::Makes),
            ("DELETE", "/responses/resp_1", Touches::Asks),
            ("POST", "/chat/completions", Touches::Nothing),
            ("GET", "/filesystem", Touches::Nothing),
            ("POST", "/realtime/calls", Touches::Makes),
            ("POST", "/realtime/calls/rtc_1/hangup", Touches::Asks),
            ("POST", "/realtime/client_secrets", Touches::Nothing),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(touches(&method, tail), touched, "{method} {tail}");
        }
        assert!(is_content("/files/f/content") && is_content("/batches/b/output") && !is_content("/files/f"));
    }

    #[test]
    fn a_session_beside_a_call_names_it_in_its_query() {
        for (query, call) in [
            ("call_id=rtc_1", Some("rtc_1")),
            ("a=b&call_id=rtc_1", Some("rtc_1")),
            ("call%5Fid=rtc_1", Some("rtc_1")),
            ("call_id=", None),
            ("call_id", None),
            ("model=m", None),
        ] {
            assert_eq!(call_in_query(query), call, "{query}");
            assert_eq!(calls_in_query(query).count(), usize::from(call.is_some()), "{query}");
        }
        assert_eq!(calls_in_query("call_id=a&x=1&call%5Fid=b").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_is_sealed_reads_back() {
        let native = "file-äöü/1".to_owned();
        for at in [KeptAt::Provider(Uuid::from_u128(7)), KeptAt::Elsewhere([9; 16])] {
            let id = BoundId { workspace: Uuid::from_u128(3), at, native: native.clone() };
            assert_eq!(BoundId::read(&id.plain()), Some(id.clone()));
            let mut other = id.plain();
            other[16] = 4;
            assert_eq!(BoundId::read(&other), None);
            assert_eq!((BoundId::read_cursor(&id.cursor()), BoundId::read(&id.cursor())), (Some(id.clone()), None));
            assert_eq!(BoundId::read_cursor(&id.plain()), None);
        }
        assert_eq!(BoundId::read(&[0; 32]), None);
    }

    #[test]
    fn no_name_of_an_object_is_overlooked() {
        for field in FIELDS {
            assert!(may_name_object(field.as_bytes()), "{field}");
        }
        for field in ["model", "role", "content", "messages", "name", "stream", "", "s", "d"] {
            assert!(!may_name_object(field.as_bytes()), "{field}");
        }
    }

    #[test]
    fn ids_of_objects_stand_in_front_or_say_what_they_name() {
        let upload = r#"{"id":"0193","tool":{"id":"0194"},"file":{"id":"assistant-1","parts":[{"id":"0195"}]},
            "data":[{"id":"0196","inner":{"id":"file-2"}}]}"#;
        let mut found = Vec::new();
        let _ = rewrite(upload.as_bytes(), |place, text| {
            found.extend(is_id_of_object(place, text).then(|| text.to_owned()));
            None
        });
        assert_eq!(found, ["0193", "assistant-1", "0196", "file-2"]);
    }

    #[test]
    fn kinds_stay_in_front() {
        assert_eq!((kind_of("file-abc"), kind_of("batch_1"), kind_of("0193-uuid")), ("file-", "batch_", ""));
        assert_eq!(sealed_part("file-gw1_AAA"), Some(("file-", "AAA")));
        assert_eq!(sealed_part("gw1_AAA"), Some(("", "AAA")));
        for text in ["file-abc", "see gw1_AAA", "gw1_", "my-gw1_AAA"] {
            assert_eq!(sealed_part(text), None, "{text}");
        }
    }
}
