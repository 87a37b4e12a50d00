//! A list of objects that a provider keeps, in OpenAI's form, read page by page until so many of one workspace's own
//! are among what was read. Whose an object is, is for others to say; what is nobody's to see here is dropped as soon
//! as they did. Pure: who reads the pages asks for them.

mod numbered;

use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind};
use numbered::NumberedPages;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::fmt::Write;

/// Pages that are read for one list.
pub const MOST_LIST_PAGES: usize = 10;
/// No further page is read behind so many bytes.
const MOST_READ: usize = 16 << 20;
/// Files that are asked for per page at providers that say that they allow more of them than of other objects.
const FILES_AT_ONCE: usize = 1_000;
const AT_ONCE: usize = 100;
/// What OpenAI gives where nobody says how many, and at most.
const USUAL: usize = 20;
const MOST: usize = 100;
const MOST_FILES: usize = 10_000;
/// The family whose files go on by numbers of pages.
const NUMBERED: &str = "mistral-ai";

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ListAsk<'a> {
    /// The family that is asked.
    pub slug: &'a str,
    /// Where the list is, below `/v1`.
    pub root: &'a str,
    pub query: &'a str,
    /// The client speaks Anthropic's dialect, and so do the pages.
    pub is_anthropics: bool,
}

/// Why a page cannot be shown in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableList(pub &'static str);

#[derive(Debug)]
pub struct ListPages {
    /// How the provider is told where a page begins.
    cursor: &'static str,
    /// Own ones that are asked for.
    most: usize,
    /// What else is asked for, as it came.
    passing: String,
    /// Objects of one page.
    at_once: usize,
    next: Option<String>,
    own: Vec<ListedObject>,
    unjudged: Vec<ListedObject>,
    /// The provider has no more.
    is_over: bool,
    pages: usize,
    bytes: usize,
    /// What the provider calls a list.
    object: Option<String>,
    numbered: Option<NumberedPages>,
}

#[derive(Debug)]
struct ListedObject {
    id: String,
    /// The object's JSON, spelled as the provider wrote it.
    text: String,
}

#[derive(Deserialize)]
struct ObjectListPage<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    #[serde(default)]
    has_more: Option<bool>,
    #[serde(default)]
    object: Option<String>,
    #[serde(default)]
    total: Option<usize>,
    #[serde(default)]
    pagination_token: Option<IgnoredAny>,
    #[serde(default)]
    next_page_token: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ObjectListItem {
    id: String,
}

fn refused(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

impl ListPages {
    pub fn of(ask: ListAsk<'_>) -> Result<Self, Fault> {
        let is_files = ask.root == "/files";
        let (usual, bound) = if is_files { (MOST_FILES, MOST_FILES) } else { (USUAL, MOST) };
        let (mut most, mut next, mut passing) = (usual, None, String::new());
        let asked = if ask.is_anthropics { "after_id" } else { "after" };
        let is_numbered = is_files && ask.slug == NUMBERED;
        let mut page = 0_usize;
        for pair in ask.query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match &*decoded(name) {
                // Its own clients page in its own words.
                "page" if is_numbered => {
                    page = value.parse().map_err(|_| refused("page", "must be a whole number"))?;
                }
                name if name == "limit" || (is_numbered && name == "page_size") => {
                    let told = value.parse::<usize>().ok().filter(|told| (1..=bound).contains(told));
                    most = told.ok_or_else(|| refused(name, &format!("must be a whole number from 1 to {bound}")))?;
                }
                name if name == asked => next = Some(decoded(value).into_owned()).filter(|id| !id.is_empty()),
                "before" | "before_id" => {
                    let why = format!("cannot be gone by in lists of an integration with isolate_objects: use {asked}");
                    return Err(refused(&decoded(name), &why));
                }
                _ => {
                    passing.push('&');
                    passing.push_str(pair);
                }
            }
        }
        let numbered = is_numbered.then(|| NumberedPages::of(next.take(), page.saturating_mul(most)));
        let takes_many = is_files && matches!(ask.slug, "openai" | "azure-openai" | "anthropic");
        let is_told_so = ask.is_anthropics || ask.slug == "anthropic";
        Ok(Self {
            cursor: if is_told_so { "after_id" } else { "after" },
            most,
            passing,
            at_once: if takes_many { FILES_AT_ONCE } else { AT_ONCE },
            next,
            own: Vec::new(),
            unjudged: Vec::new(),
            is_over: false,
            pages: 0,
            bytes: 0,
            object: None,
            numbered,
        })
    }

    /// The query by which the page is asked for that is to be read now.
    pub fn query(&self) -> String {
        if let Some(numbered) = &self.numbered {
            return format!("page={}&page_size={}{}", numbered.page(), self.at_once, self.passing);
        }
        let mut query = format!("limit={}{}", self.at_once, self.passing);
        if let Some(next) = &self.next {
            let _ = write!(query, "&{}={}", self.cursor, crate::stored_files::encoded(next, b""));
        }
        query
    }

    pub fn read(&mut self, body: &[u8]) -> Result<(), UnreadableList> {
        let Ok(page) = serde_json::from_slice::<ObjectListPage<'_>>(body) else {
            return Err(UnreadableList("is no list in OpenAI's form"));
        };
        if page.has_more.is_none() && (page.pagination_token.is_some() || page.next_page_token.is_some()) {
            return Err(UnreadableList("goes on by a way of its own"));
        }
        let objects = page.data.iter().map(|object| {
            let ObjectListItem { id } = serde_json::from_str(object.get()).ok()?;
            Some(ListedObject { id, text: object.get().to_owned() })
        });
        let objects: Option<Vec<ListedObject>> = objects.collect();
        self.unjudged = objects.ok_or(UnreadableList("has objects without an id"))?;
        self.object = page.object;
        if let Some(numbered) = &mut self.numbered {
            self.is_over = numbered.read(self.unjudged.len(), page.total, self.at_once);
            self.next = Some(numbered.place());
            if numbered.searches_in_vain() {
                return Err(UnreadableList("has too much in front of the object that it is to go on behind"));
            }
            if !numbered.is_searching() {
                self.pages += 1;
                self.bytes += body.len();
            }
            return Ok(());
        }
        self.pages += 1;
        self.bytes += body.len();
        self.is_over = page.has_more != Some(true);
        if !self.is_over {
            let last = self.unjudged.last().map(|object| object.id.clone());
            // One that does not get on would never end.
            if last.is_none() || last == self.next {
                return Err(UnreadableList("says that there is more, and does not go on"));
            }
            self.next = last;
        }
        Ok(())
    }

    /// Ids of the objects on the page that was read.
    pub fn ids(&self) -> Vec<&str> {
        self.unjudged.iter().map(|object| object.id.as_str()).collect()
    }

    /// Drops what is not the workspace's own.
    pub fn keep(&mut self, is_own: impl Fn(&str) -> bool) {
        let Self { own, unjudged, numbered, .. } = self;
        own.extend(unjudged.drain(..).filter(|object| {
            let is_own = is_own(&object.id);
            numbered.as_mut().map_or(is_own, |numbered| numbered.shows(&object.id, is_own))
        }));
    }

    /// Whether another page is to be read: one own object more than asked for says that there are more.
    pub fn goes_on(&self) -> bool {
        !self.is_over && self.own.len() <= self.most && self.pages < MOST_LIST_PAGES && self.bytes < MOST_READ
    }

    /// The part that is asked for. A list that was not read to its end, and has fewer than asked for, tells the place
    /// from where it goes on as `cursor` writes it.
    pub fn shown(self, cursor: impl FnOnce(&str) -> String) -> String {
        let Self { most, next, own, is_over, object, numbered, .. } = self;
        let total = numbered.filter(|_| is_over).and_then(|numbered| numbered.total());
        let total = total.map_or(String::new(), |total| format!(",\"total\":{total}"));
        let has_more = own.len() > most || !is_over;
        let shown = &own[..own.len().min(most)];
        let quoted = |id: &str| serde_json::Value::from(id).to_string();
        let end = |object: Option<&ListedObject>| object.map_or("null".to_owned(), |object| quoted(&object.id));
        let last = match next {
            Some(next) if has_more && shown.len() < most => quoted(&cursor(&next)),
            _ => end(shown.last()),
        };
        let object = object.map_or(String::new(), |object| format!("\"object\":{},", quoted(&object)));
        let data: Vec<&str> = shown.iter().map(|object| object.text.as_str()).collect();
        let (first, data) = (end(shown.first()), data.join(","));
        format!("{{{object}\"data\":[{data}],\"first_id\":{first},\"last_id\":{last},\"has_more\":{has_more}{total}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pages(root: &str, query: &str) -> ListPages {
        let ask = ListAsk { slug: "openai", root, query, is_anthropics: false };
        ListPages::of(ask).expect("it is asked for well")
    }

    /// A list of so many batches, of which every tenth is own, `page` to a page; how many pages were read, and what is
    /// told.
    fn list(query: &str, (page, all): (usize, usize)) -> (usize, Value) {
        let (mut pages, mut read) = (pages("/batches", query), 0);
        loop {
            let from =
                pages.query().rsplit_once("&after=b").map_or(0, |(_, id)| id.parse::<usize>().expect("a number") + 1);
            let to = (from + page).min(all);
            let data: Vec<Value> = (from..to).map(|number| json!({ "id": format!("b{number}"), "n": 1.50 })).collect();
            let body = json!({ "object": "list", "data": data, "has_more": to < all }).to_string();
            pages.read(body.as_bytes()).expect("a page");
            pages.keep(|id| id.ends_with('0'));
            read += 1;
            if !pages.goes_on() {
                let told = pages.shown(|id| format!("behind {id}"));
                return (read, serde_json::from_str(&told).expect("JSON"));
            }
        }
    }

    fn page_parts(list: &Value) -> (Vec<&str>, &Value, bool) {
        let ids = list["data"].as_array().expect("objects").iter().filter_map(|object| object["id"].as_str()).collect();
        (ids, &list["last_id"], list["has_more"].as_bool().expect("a word"))
    }

    #[test]
    fn pages_are_read_until_what_is_asked_for_is_there() {
        let (read, shown) = list("limit=2", (7, 100));
        assert_eq!((read, page_parts(&shown)), (3, (vec!["b0", "b10"], &json!("b10"), true)));
        assert_eq!((&shown["first_id"], &shown["object"]), (&json!("b0"), &json!("list")));
        let (_, shown) = list("limit=2&after=b10", (7, 31));
        assert_eq!(page_parts(&shown), (vec!["b20", "b30"], &json!("b30"), false));
        let (_, shown) = list("after=b30", (7, 35));
        assert_eq!(page_parts(&shown), (vec![], &json!(null), false));
    }

    #[test]
    fn no_more_pages_are_read_than_are_allowed_and_the_list_goes_on_from_there() {
        let (read, shown) = list("limit=5", (2, 100));
        assert_eq!((read, page_parts(&shown)), (MOST_LIST_PAGES, (vec!["b0", "b10"], &json!("behind b19"), true)));
        let (read, shown) = list("limit=5&after=b19", (2, 24));
        assert_eq!((read, page_parts(&shown)), (2, (vec!["b20"], &json!("b20"), false)));
        let (_, shown) = list("after=b0", (1, 100));
        assert_eq!(page_parts(&shown), (vec!["b10"], &json!("behind b10"), true));
    }

    /// A list of so many files by numbers of pages, each tenth of them own.
    fn numbered(query: &str, all: usize) -> (usize, Value) {
        let ask = ListAsk { slug: NUMBERED, root: "/files", query, is_anthropics: false };
        let (mut pages, mut read) = (ListPages::of(ask).expect("asked well"), 0);
        loop {
            let query = pages.query();
            let page = query.strip_prefix("page=").and_then(|rest| rest.split('&').next());
            let from = page.and_then(|page| page.parse::<usize>().ok()).expect("a page") * AT_ONCE;
            let data: Vec<Value> =
                (from..(from + AT_ONCE).min(all)).map(|number| json!({ "id": format!("b{number}") })).collect();
            pages.read(json!({ "data": data, "total": all }).to_string().as_bytes()).expect("a page");
            pages.keep(|id| id.ends_with('0'));
            read += 1;
            if !pages.goes_on() {
                return (read, serde_json::from_str(&pages.shown(str::to_owned)).expect("JSON"));
            }
        }
    }

    #[test]
    fn pages_with_numbers_are_read_from_the_object_on_that_is_asked_for() {
        let (read, shown) = numbered("limit=2", 250);
        assert_eq!((read, page_parts(&shown)), (1, (vec!["b0", "b10"], &json!("b10"), true)));
        let (read, shown) = numbered("limit=3&after=b190", 221);
        assert_eq!((read, page_parts(&shown)), (3, (vec!["b200", "b210", "b220"], &json!("b220"), false)));
        let (_, shown) = numbered("page=1&page_size=20", 250);
        assert_eq!(
            (shown["data"][0]["id"].as_str(), &shown["has_more"], &shown["total"]),
            (Some("b200"), &json!(false), &json!(25))
        );
        let (read, shown) = numbered("limit=500", 2_000);
        assert_eq!((read, &shown["last_id"], &shown["has_more"]), (MOST_LIST_PAGES, &json!("page:10"), &json!(true)));
        let (read, shown) = numbered("limit=500&after=page:10", 1_020);
        assert_eq!((read, page_parts(&shown)), (2, (vec!["b1000", "b1010"], &json!("b1010"), false)));
        assert_eq!(numbered("after=b7777", 50).1["data"], json!([]), "it is not there any more");
        let ask = ListAsk { slug: NUMBERED, root: "/files", query: "page=x", is_anthropics: false };
        assert!(ListPages::of(ask).is_err());
    }

    #[test]
    fn what_else_is_asked_for_passes_and_what_cannot_be_is_refused() {
        let files = pages("/files", "purpose=batch&limit=3&after=file-a%2Fb&order=asc");
        assert_eq!(files.query(), "limit=1000&purpose=batch&order=asc&after=file-a%2Fb");
        let theirs = ListAsk { slug: "anthropic", root: "/files", query: "after_id=f", is_anthropics: true };
        assert_eq!(ListPages::of(theirs).expect("asked well").query(), "limit=1000&after_id=f");
        let read = ListAsk { query: "after=f", is_anthropics: false, ..theirs };
        assert_eq!(ListPages::of(read).expect("asked well").query(), "limit=1000&after_id=f");
        for query in ["limit=0", "limit=101", "limit=x", "before=b1", "%62efore=b1"] {
            let ask = ListAsk { slug: "openai", root: "/batches", query, is_anthropics: false };
            assert!(ListPages::of(ask).is_err(), "{query}");
        }
    }

    #[test]
    fn what_is_no_list_is_not_shown() {
        let endless = json!({ "data": [{ "id": "b1" }], "has_more": true });
        let mut again = pages("/batches", "after=b1");
        assert!(again.read(endless.to_string().as_bytes()).is_err(), "it does not go on");
        for body in [
            json!([]),
            json!({ "data": {} }),
            json!({ "data": [{ "name": "n" }] }),
            json!({ "data": [{ "id": 1 }] }),
            json!({ "data": [], "has_more": "yes" }),
            json!({ "data": [], "has_more": true }),
            json!({ "data": [{ "id": "a" }], "pagination_token": "t" }),
            json!("text"),
        ] {
            assert!(pages("/batches", "").read(body.to_string().as_bytes()).is_err(), "{body}");
        }
        assert!(pages("/batches", "").read(b"<html>").is_err());
    }

    #[test]
    fn objects_are_told_as_the_provider_wrote_them() {
        let mut files = pages("/files", "");
        files.read(br#"{"data":[{"id":"f0","size":1.50,"name":"a  b"}, {"id":"f1"}]}"#).expect("a page");
        assert_eq!(files.ids(), ["f0", "f1"]);
        files.keep(|id| id == "f0");
        let told = files.shown(str::to_owned);
        let expected =
            r#"{"data":[{"id":"f0","size":1.50,"name":"a  b"}],"first_id":"f0","last_id":"f0","has_more":false}"#;
        assert_eq!(told, expected);
    }
}
