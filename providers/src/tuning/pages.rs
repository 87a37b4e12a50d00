//! A list of a family's jobs, read page by page by the family's own cursors until what a client of OpenAI's asks for
//! (`limit`, `after`) is among what was read, or until so much was read that nobody goes on. Nothing is kept between
//! two lists: `after` is the id of a job, and is looked for from the beginning. Pure: who reads the pages asks for
//! them.

use super::job::TuningJob;
use super::job_request::refused;
use super::{TuningFamily, family, list_with, url_pairs};
use crate::adapter::{Call, Failure};
use crate::failure::{self, ProviderError};
use gateway_domain::{Dialect, Fault};
use serde_json::Value;

/// Jobs that OpenAI tells at once where nobody says how many.
const USUAL: usize = 20;
const MOST_LISTED: usize = 100;
/// Pages that are read for one list.
const MOST_PAGES: usize = 10;
/// Bytes of a cursor.
const LONGEST_CURSOR: usize = 4_096;

pub struct JobPages<'a> {
    slug: &'static str,
    family: &'static dyn TuningFamily,
    call: &'a Call<'a>,
    most: usize,
    after: Option<String>,
    jobs: Vec<TuningJob>,
    /// The place in `jobs` of the first job of the page that was read last.
    fresh: usize,
    /// Where the next page begins.
    next: Option<String>,
    pages: usize,
}

impl std::fmt::Debug for JobPages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobPages").field("slug", &self.slug).field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl<'a> JobPages<'a> {
    /// Whether lists of this family are read so.
    pub fn are_of(slug: &str) -> bool {
        family(slug).is_some()
    }

    /// `call` asks for the list.
    pub fn of(slug: &'static str, call: &'a Call<'a>) -> Result<Self, Fault> {
        let family = family(slug).ok_or_else(|| refused("model", "is of a family without fine-tuning jobs"))?;
        Self::read_by(slug, family, call)
    }

    pub(super) fn read_by(
        slug: &'static str,
        family: &'static dyn TuningFamily,
        call: &'a Call<'a>,
    ) -> Result<Self, Fault> {
        let (most, after) = part(call)?;
        Ok(Self { slug, family, call, most, after, jobs: Vec::new(), fresh: 0, next: None, pages: 0 })
    }

    /// The path of the page that is to be read now, below the family's address.
    pub fn path(&self) -> Result<String, Fault> {
        let path = self.family.look(self.call, "")?.path;
        let Some((cursor, next)) = self.family.cursor().zip(self.next.as_deref()) else { return Ok(path) };
        let mark = if path.contains('?') { '&' } else { '?' };
        Ok(format!("{path}{mark}{}={}", cursor.asked, escaped(next)))
    }

    /// Takes the page that was read.
    pub fn read(&mut self, body: &[u8]) -> Result<(), Failure> {
        let unreadable = || failure::unreadable(self.slug, "the answer", body, Dialect::OpenAi);
        let told: Value = match body.trim_ascii() {
            b"" => Value::Null,
            body => serde_json::from_slice(body).map_err(|_| unreadable())?,
        };
        let jobs = self.family.listed(&told).map(Vec::as_slice).unwrap_or_default();
        let jobs: Option<Vec<TuningJob>> = jobs.iter().map(|job| self.family.job(job)).collect();
        let jobs = jobs.ok_or_else(unreadable)?;
        let cursor = self.family.cursor();
        let next = cursor.and_then(|cursor| told[cursor.told].as_str());
        if next.is_some_and(|next| next.len() > LONGEST_CURSOR) {
            // A list that went on without it would end too early.
            return Err(unreadable());
        }
        let next = next.filter(|next| !next.is_empty()).map(str::to_owned);
        // One that leads back to where it was told would lead there for ever.
        self.next = next.filter(|next| self.next.as_ref() != Some(next));
        self.fresh = self.jobs.len();
        self.jobs.extend(jobs);
        self.pages += 1;
        Ok(())
    }

    /// The jobs of the page that was read last.
    pub fn fresh_ids(&self) -> Vec<&str> {
        self.jobs[self.fresh..].iter().map(|job| job.id.as_str()).collect()
    }

    /// Drops those of them that are not to be shown.
    pub fn keep_fresh(&mut self, is_shown: impl Fn(&str) -> bool) {
        let fresh = self.jobs.split_off(self.fresh);
        self.jobs.extend(fresh.into_iter().filter(|job| is_shown(&job.id)));
    }

    /// Whether another page is to be read.
    pub fn goes_on(&self) -> bool {
        let is_enough = self.family.cursor().is_some_and(|cursor| cursor.newest_first) && self.is_there();
        self.next.is_some() && self.pages < MOST_PAGES && !is_enough
    }

    /// All that is asked for was read.
    fn is_there(&self) -> bool {
        self.first().is_some_and(|first| self.jobs.len() - first >= self.most)
    }

    /// The place of the first that is asked for.
    fn first(&self) -> Option<usize> {
        match &self.after {
            None => Some(0),
            Some(id) => self.jobs.iter().position(|job| job.id == *id).map(|place| place + 1),
        }
    }

    /// The part of it that is asked for, newest first.
    pub fn shown(mut self) -> Result<Value, Failure> {
        self.jobs.sort_by_key(|job| std::cmp::Reverse(job.created));
        let Some(first) = self.first() else {
            let id = self.after.as_deref().unwrap_or_default();
            let told = ProviderError::new(format!("after: no job {id} is among those that the provider lists"));
            return Err(told.render(self.slug, 400, Dialect::OpenAi));
        };
        let rest = &self.jobs[first..];
        let data: Vec<Value> = rest.iter().take(self.most).map(TuningJob::shown).collect();
        Ok(list_with(&data, rest.len() > self.most || self.next.is_some()))
    }
}

/// How many are asked for, and behind which one.
fn part(call: &Call<'_>) -> Result<(usize, Option<String>), Fault> {
    let (mut most, mut after) = (USUAL, None);
    for (name, value) in url_pairs(call.query.unwrap_or_default()) {
        match name {
            "limit" => {
                let limit = value.parse::<usize>().ok().filter(|limit| (1..=MOST_LISTED).contains(limit));
                most = limit.ok_or_else(|| refused("limit", "must be a whole number from 1 to 100"))?;
            }
            "after" => after = Some(value).filter(|id| !id.is_empty()),
            "metadata" => return Err(refused("metadata", "cannot be looked for at this family")),
            _ if name.starts_with("metadata[") => {
                return Err(refused("metadata", "cannot be looked for at this family"));
            }
            _ => {}
        }
    }
    Ok((most, after))
}

/// A cursor as a value in a query.
fn escaped(cursor: &str) -> String {
    let mut out = String::with_capacity(cursor.len() + 16);
    for byte in cursor.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Call;
    use bytes::Bytes;
    use gateway_domain::Operation;
    use gateway_domain::cloud::CloudSettings;
    use http::Method;
    use serde_json::json;

    fn asked<'a>(query: &'a str, body: &'a Bytes) -> Call<'a> {
        Call {
            operation: Operation::ListFinetunes,
            dialect: Dialect::OpenAi,
            method: &Method::GET,
            tail: "/fine_tuning/jobs",
            query: Some(query),
            body,
            form: None,
            sound_ms: None,
            model: None,
            model_span: None,
            stream: false,
            wants_usage: true,
            strict: false,
            now_ms: 0,
            dice: 0,
            origin: 0,
            settings: CloudSettings::none(),
            keeps: None,
        }
    }

    /// A list of Bedrock's, of so many jobs to a page, numbered from the newest; how many pages were read, and what is
    /// told.
    fn list(query: &str, (page, all): (usize, usize)) -> (Vec<String>, Result<Value, u16>) {
        let body = Bytes::new();
        let call = asked(query, &body);
        let mut pages = JobPages::of("bedrock", &call).expect("it is asked for well");
        let mut paths = Vec::new();
        loop {
            let path = pages.path().expect("a path");
            let from = path.rsplit_once("nextToken=t%2F").map_or(0, |(_, from)| from.parse().expect("a number"));
            let to = (from + page).min(all);
            let jobs = (from..to).map(|number| {
                let created = 1_000_000 - number;
                json!({ "jobArn": format!("arn:{number}"), "status": "Completed", "creationTime": created })
            });
            let next = (to < all).then(|| format!("t/{to}"));
            let told = json!({ "modelCustomizationJobSummaries": jobs.collect::<Vec<_>>(), "nextToken": next });
            paths.push(path);
            pages.read(told.to_string().as_bytes()).expect("a page");
            if !pages.goes_on() {
                break;
            }
        }
        (paths, pages.shown().map_err(|failure| failure.status))
    }

    fn ids(told: &Value) -> Vec<&str> {
        told["data"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_str()).collect()
    }

    #[test]
    fn pages_are_read_until_what_is_asked_for_is_there() {
        let (paths, told) = list("limit=2", (2, 6));
        let told = told.expect("a list");
        assert_eq!((paths.len(), ids(&told), &told["has_more"]), (1, vec!["arn:0", "arn:1"], &json!(true)));
        let (paths, told) = list("limit=2&after=arn:2", (2, 6));
        let told = told.expect("a list");
        assert_eq!((paths.len(), ids(&told), &told["has_more"]), (3, vec!["arn:3", "arn:4"], &json!(true)));
        assert!(paths[1].ends_with("&nextToken=t%2F2"), "{paths:?}");
        let (_, told) = list("limit=2&after=arn:3", (2, 6));
        let told = told.expect("a list");
        assert_eq!((ids(&told), &told["has_more"]), (vec!["arn:4", "arn:5"], &json!(false)));
    }

    #[test]
    fn no_more_pages_are_read_than_are_allowed() {
        let (paths, told) = list("after=arn:nobody", (2, 6));
        assert_eq!((paths.len(), told), (3, Err(400)), "it is looked for to the end");
        let (paths, told) = list("limit=100", (1, MOST_PAGES));
        assert_eq!((paths.len(), &told.expect("a list")["has_more"]), (MOST_PAGES, &json!(false)));
        let (paths, told) = list("limit=100", (1, MOST_PAGES + 1));
        let told = told.expect("a list");
        assert_eq!((paths.len(), ids(&told).len(), &told["has_more"]), (MOST_PAGES, MOST_PAGES, &json!(true)));
        assert_eq!(list(&format!("after=arn:{MOST_PAGES}"), (1, MOST_PAGES + 2)).1, Err(400));
    }

    #[test]
    fn pages_are_read_until_so_many_are_there_that_are_to_be_shown() {
        let (body, mut read) = (Bytes::new(), 0);
        let call = asked("limit=1", &body);
        let mut pages = JobPages::of("bedrock", &call).expect("it is asked for well");
        loop {
            let job = json!({ "jobArn": format!("arn:{read}"), "status": "Completed", "creationTime": 100 - read });
            let told = json!({ "modelCustomizationJobSummaries": [job], "nextToken": format!("t{read}") });
            pages.read(told.to_string().as_bytes()).expect("a page");
            assert_eq!(pages.fresh_ids(), [format!("arn:{read}")]);
            pages.keep_fresh(|id| id == "arn:3");
            read += 1;
            if !pages.goes_on() {
                break;
            }
        }
        let told = pages.shown().expect("a list");
        assert_eq!((read, ids(&told), &told["has_more"]), (4, vec!["arn:3"], &json!(true)));
    }

    #[test]
    fn a_cursor_has_a_bound_and_one_beyond_it_does_not_end_the_list_unseen() {
        for (length, expected) in [(LONGEST_CURSOR, Some(())), (LONGEST_CURSOR + 1, None)] {
            let (body, next) = (Bytes::new(), "t".repeat(length));
            let call = asked("limit=2", &body);
            let mut pages = JobPages::of("bedrock", &call).expect("it is asked for well");
            let told = json!({ "modelCustomizationJobSummaries": [], "nextToken": next });
            assert_eq!(pages.read(told.to_string().as_bytes()).ok(), expected, "{length}");
        }
    }
}
