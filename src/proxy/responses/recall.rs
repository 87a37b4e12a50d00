//! A request that goes on from responses which the gateway keeps: what they hold is written out in its place, so that
//! any provider can answer it. What is not found stays as it is, since a provider may know it.

use super::owner;
use crate::kept_responses::{KeptResponse, KeptResponses, ResponseOwner};
use crate::proxy::body::Permit;
use crate::proxy::content::look;
use crate::proxy::request::{Request, RequestContent};
use ahash::AHashMap;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Operation, Timestamp};
use gateway_providers::MadeId;
use gateway_providers::edit::set_top_level;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// What of the gateway that takes.
pub(crate) struct Recalled<'a> {
    pub(crate) kept: &'a Arc<KeptResponses>,
    /// Holds the bytes of the request.
    pub(crate) held: &'a mut Permit,
    /// Bytes of a body.
    pub(crate) most: usize,
}

/// Where it is looked for.
struct ResponseShelf<'a> {
    kept: &'a KeptResponses,
    owner: ResponseOwner,
}

#[derive(Deserialize)]
struct NamedResponses<'a> {
    #[serde(borrow, default)]
    previous_response_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// The fields of an item that tell whether it stands for another.
#[derive(Deserialize)]
struct ReferredItem<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl ReferredItem<'_> {
    /// The item that it stands for; its type may be left out.
    fn reference(&self) -> Option<MadeId<'_>> {
        let refers = match self.kind.as_deref() {
            Some(kind) => kind == "item_reference",
            None => self.role.is_none() && self.content.is_none(),
        };
        MadeId::read(self.id.as_deref().filter(|_| refers)?)
    }
}

#[derive(Deserialize)]
struct ToldOutput<'a> {
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

fn output(response: &KeptResponse) -> Vec<&RawValue> {
    serde_json::from_slice::<ToldOutput<'_>>(&response.response).map(|told| told.output).unwrap_or_default()
}

fn items(json: &[u8]) -> Vec<&RawValue> {
    serde_json::from_slice(json).unwrap_or_default()
}

/// Changes the body of a request that names kept responses or their items.
pub(crate) async fn recall(parts: Recalled<'_>, request: &mut Request) -> Result<(), Fault> {
    let Recalled { kept, held, most } = parts;
    let content = &request.ask.content;
    let asks = request.ask.route.asked() == Operation::Responses;
    if !asks || content.names_no_object || content.unread || !kept.is_on() {
        return Ok(());
    }
    let body = content.bytes.clone();
    // What cannot be read so is told of where it is translated, or by the provider.
    let Ok(named) = serde_json::from_slice::<NamedResponses<'_>>(&body) else { return Ok(()) };
    let shelf = ResponseShelf { kept, owner: owner(request) };
    let Some(found) = FoundResponses::look(&shelf, &named, request.now()).await else { return Ok(()) };
    let input = found.written(&named, most).ok_or_else(|| too_large(most))?;
    let goes_on = found.before.is_some();
    let before = named.previous_response_id.filter(|_| goes_on).map(|id| id.as_ref().into());
    let mut changes = vec![("input", Some(input.as_str()))];
    if goes_on {
        changes.push(("previous_response_id", None));
    }
    let written = set_top_level(&body, &changes);
    let bytes = written.map_err(|e| Fault::new(FaultKind::BadBody, format!("The request body is no JSON: {e}")))?;
    held.grow_to(body.len() + bytes.len())?;
    let found = look(&bytes, request.ask.route.asked()).await?;
    request.ask.content = RequestContent { unread: found.unread, waited_us: content.waited_us, bytes, ..found };
    request.ask.continues = before;
    Ok(())
}

fn too_large(most: usize) -> Fault {
    let why = format!("With what is kept of the responses that it names, the request body is larger than {most} bytes");
    Fault::new(FaultKind::TooLarge, why).on("input")
}

/// What a request names, as far as it is kept.
struct FoundResponses {
    before: Option<Arc<KeptResponse>>,
    /// The responses whose items the request refers to, by the stems of their ids.
    of_items: AHashMap<String, Arc<KeptResponse>>,
}

impl FoundResponses {
    /// `None`: nothing of it is kept.
    async fn look(shelf: &ResponseShelf<'_>, named: &NamedResponses<'_>, now: Timestamp) -> Option<Self> {
        let mut found = Self { before: None, of_items: AHashMap::new() };
        let before = named.previous_response_id.as_deref().and_then(MadeId::read);
        if let Some(before) = before.filter(|before| before.prefix == "resp") {
            found.before = shelf.kept.find(shelf.owner, before.stem, now).await;
        }
        let mut missing = Vec::new();
        for item in items(named.input.map_or(b"", |input| input.get().as_bytes())) {
            let Ok(item) = serde_json::from_str::<ReferredItem<'_>>(item.get()) else { continue };
            let Some(reference) = item.reference() else { continue };
            if found.of_items.contains_key(reference.stem) || missing.iter().any(|stem| stem == reference.stem) {
                continue;
            }
            match shelf.kept.find(shelf.owner, reference.stem, now).await {
                Some(response) => drop(found.of_items.insert(reference.stem.to_owned(), response)),
                None if missing.len() < MOST_MISSING => missing.push(reference.stem.to_owned()),
                None => break,
            }
        }
        (found.before.is_some() || !found.of_items.is_empty()).then_some(found)
    }

    fn referred(&self, item: &RawValue) -> Option<&RawValue> {
        let item: ReferredItem<'_> = serde_json::from_str(item.get()).ok()?;
        let reference = item.reference()?;
        let output = output(self.of_items.get(reference.stem)?);
        output.get(usize::try_from(reference.number).ok()?).copied()
    }

    /// The whole input: what the response before was asked and answered, then the request's own. `None`: it is longer
    /// than `most` bytes.
    fn written(&self, named: &NamedResponses<'_>, most: usize) -> Option<String> {
        let mut list = WrittenList::new(most);
        if let Some(before) = &self.before {
            items(&before.input).into_iter().chain(output(before)).try_for_each(|item| list.push(item.get()))?;
        }
        match named.input.map(RawValue::get) {
            None => {}
            Some(text) if text.starts_with('"') => {
                list.push(&format!(r#"{{"type":"message","role":"user","content":{text}}}"#))?;
            }
            Some(text) => {
                for item in items(text.as_bytes()) {
                    list.push(self.referred(item).unwrap_or(item).get())?;
                }
            }
        }
        Some(list.end())
    }
}

/// Ids that are looked for in vain; each may be a trip to Redis.
const MOST_MISSING: usize = 8;

/// An array of JSON that grows to a bound.
struct WrittenList {
    text: String,
    most: usize,
}

impl WrittenList {
    fn new(most: usize) -> Self {
        Self { text: "[".to_owned(), most }
    }

    fn push(&mut self, item: &str) -> Option<()> {
        if self.text.len() + item.len() + 2 > self.most {
            return None;
        }
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push_str(item);
        Some(())
    }

    fn end(mut self) -> String {
        self.text.push(']');
        self.text
    }
}

/// The items that a body asks with, as an array.
pub(super) fn asked_with(body: &[u8]) -> Option<Bytes> {
    let named: NamedResponses<'_> = serde_json::from_slice(body).ok()?;
    let found = FoundResponses { before: None, of_items: AHashMap::new() };
    found.written(&named, usize::MAX).map(Bytes::from)
}
