//! Lists of all that a provider keeps of a kind, which show what every workspace has there that shares the credential:
//! which of them can be shown in part, and which objects of an answer would stand in one.

use super::{IdPlace, is_made_file, kind_of};

/// Lists that are read page by page, and shown in part. Of the other roots no provider has a list that is documented.
const READ: &[&str] = &["/files", "/batches", "/fine_tuning/jobs", "/vector_stores", "/assistants", "/containers"];

/// What ids begin with that stand in such lists.
const LISTED: &[&str] = &["file-", "file_", "batch_", "ftjob-", "vs_", "cntr_", "asst_"];

/// The fields of an answer that name what a provider made beside what was asked for: results of a batch or a job, files
/// and containers of a run, stores of a thread.
const MADE_BESIDE: &[&str] = &[
    "output_file_id",
    "error_file_id",
    "result_files",
    "file_id",
    "file_ids",
    "container_id",
    "container",
    "vector_store_id",
    "vector_store_ids",
];

/// The list that the path of a `GET` asks for, if it can be shown in part.
pub fn shown_in_part(tail: &str) -> Option<&'static str> {
    let tail = tail.trim_end_matches('/');
    READ.iter().copied().find(|root| *root == tail)
}

/// The id in the path of one object that stands in such a list.
pub fn listed_in_path(tail: &str) -> Option<&str> {
    let of = |root: &&str| tail.strip_prefix(*root)?.strip_prefix('/');
    let id = READ.iter().find_map(of)?.trim_end_matches('/');
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Whether a list would show the object that an answer names here; `makes`: the answer tells of one that was made just
/// now; `posts`: the call changed something.
pub fn is_listed(place: &IdPlace<'_>, text: &str, makes: bool, posts: bool) -> bool {
    // What lies in a cloud's storage is kept apart by its folder.
    if text.contains("://") {
        return false;
    }
    match place.field {
        "id" if place.depth == 1 => makes,
        "id" => posts && (is_made_file(place) || LISTED.contains(&kind_of(text))),
        field => MADE_BESIDE.contains(&field) && !matches!(text, "" | "auto" | "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FIELDS, ROOTS};
    use super::*;

    const fn at(field: &'static str, depth: usize) -> IdPlace<'static> {
        IdPlace { field, depth, list: "", object: "" }
    }

    #[test]
    fn lists_are_those_of_all_objects_of_a_kind() {
        for (tail, shown) in [
            ("/files", Some("/files")),
            ("/fine_tuning/jobs/", Some("/fine_tuning/jobs")),
            ("/files/file-1", None),
            ("/responses", None),
            ("/vector_stores/vs_1/files", None),
        ] {
            assert_eq!(shown_in_part(tail), shown, "{tail}");
        }
        assert!(READ.iter().all(|root| ROOTS.contains(root)));
        assert!(MADE_BESIDE.iter().all(|field| FIELDS.contains(field)));
    }

    #[test]
    fn one_object_is_named_by_its_path() {
        for (tail, id) in [
            ("/files/file-1", Some("file-1")),
            ("/fine_tuning/jobs/ftjob-1", Some("ftjob-1")),
            ("/files", None),
            ("/files/", None),
            ("/files/file-1/content", None),
            ("/responses/resp_1", None),
            ("/filesystem/a", None),
        ] {
            assert_eq!(listed_in_path(tail), id, "{tail}");
        }
    }

    #[test]
    fn objects_of_an_answer_are_listed_by_what_names_them() {
        for (place, text, makes, posts, expected) in [
            (at("id", 1), "0193-uuid", true, true, true),
            (at("id", 1), "file-1", false, false, false),
            (at("id", 1), "s3://bucket/a", true, true, false),
            (at("id", 2), "file-1", false, true, true),
            (at("id", 2), "file-1", false, false, false),
            (at("id", 2), "msg_1", true, true, false),
            (IdPlace { object: "file", ..at("id", 2) }, "assistant-1", false, true, true),
            (IdPlace { object: "file", ..at("id", 2) }, "assistant-1", false, false, false),
            (at("output_file_id", 1), "file-2", false, false, true),
            (at("container", 3), "auto", false, true, false),
            (at("input_file_id", 1), "file-1", true, true, false),
            (at("thread_id", 1), "thread_1", false, false, false),
        ] {
            assert_eq!(is_listed(&place, text, makes, posts), expected, "{place:?} {text}");
        }
    }
}
