//! Responses of the gateway's own making, which their clients name again: in a request that goes on from one, and in
//! calls about one. Knows where they lie, not how they are made; what providers keep themselves is theirs to answer.

mod keeper;
mod recall;

pub(crate) use keeper::{KeptFrom, ResponseKeeper};
pub(crate) use recall::{Recalled, recall};

use super::request::Request;
use crate::kept_responses::{KeptResponse, KeptResponses, ResponseOwner};
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::MadeId;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MOST_LISTED: usize = 100;

pub(super) fn owner(request: &Request) -> ResponseOwner {
    let tenant = &request.caller.tenant;
    ResponseOwner { workspace: tenant.workspace.id, key: tenant.key.id }
}

/// What is answered of a kept response. `None`: the request is not about one.
pub(crate) async fn answer(kept: &KeptResponses, request: &Request) -> Option<Result<Value, Fault>> {
    let route = &request.ask.route;
    let is_about_one =
        matches!(route.operation, Operation::GetResponse | Operation::DeleteResponse | Operation::ListInputItems);
    if !is_about_one || route.raw || !kept.is_on() {
        return None;
    }
    let id = route.tail().split('/').nth(2).unwrap_or_default();
    let made = MadeId::read(id).filter(|made| made.prefix == "resp")?;
    let found = kept.find(owner(request), made.stem, request.now()).await?;
    let told = read(&found.response)?;
    Some(match route.operation {
        Operation::GetResponse if asks_for_events(request) => {
            let why = "is not served: what is kept of a response made of another provider's answer is its end";
            Err(Fault::new(FaultKind::BadBody, format!("stream {why}")).on("stream"))
        }
        Operation::GetResponse => Ok(told),
        Operation::DeleteResponse => {
            kept.forget(owner(request), made.stem).await;
            Ok(json!({ "id": told["id"], "object": "response", "deleted": true }))
        }
        _ => ListedItems::read(request).map(|part| part.of(&found)),
    })
}

fn read(json: &[u8]) -> Option<Value> {
    serde_json::from_slice(json).ok()
}

fn asks_for_events(request: &Request) -> bool {
    pairs(request).any(|(name, value)| name == "stream" && value == "true")
}

fn pairs(request: &Request) -> impl Iterator<Item = (&str, &str)> {
    let query = request.ask.route.query.as_deref().unwrap_or_default();
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Which part of the list of input items.
struct ListedItems<'a> {
    after: Option<&'a str>,
    most: usize,
    ascending: bool,
}

impl<'a> ListedItems<'a> {
    fn read(request: &'a Request) -> Result<Self, Fault> {
        let bad = |name: &str, why: &str| Err(Fault::new(FaultKind::BadBody, format!("{name} {why}")).on(name));
        let mut part = Self { after: None, most: 20, ascending: false };
        for (name, value) in pairs(request) {
            match (name, value) {
                ("limit", value) => match value.parse() {
                    Ok(most) if (1..=MOST_LISTED).contains(&most) => part.most = most,
                    _ => return bad("limit", "must be a number of 1..100"),
                },
                ("after", id) => part.after = Some(id),
                ("order", "asc") => part.ascending = true,
                ("order", "desc") => part.ascending = false,
                ("order", _) => return bad("order", "must be asc or desc"),
                // What may be included is there already.
                ("include" | "include[]" | "include%5B%5D", _) => {}
                (other, _) => return bad(other, "is not known here"),
            }
        }
        Ok(part)
    }

    /// An item without an id is given one by its place, which stays.
    fn of(&self, found: &KeptResponse) -> Value {
        let items: Vec<&RawValue> = serde_json::from_slice(&found.input).unwrap_or_default();
        let shown = |(place, item): (usize, &&RawValue)| {
            let mut item: Value = serde_json::from_str(item.get()).unwrap_or_default();
            if let Value::Object(item) = &mut item {
                item.entry("id").or_insert_with(|| format!("item_{place}").into());
                item.entry("type").or_insert_with(|| "message".into());
            }
            item
        };
        let mut all: Vec<Value> = items.iter().enumerate().map(shown).collect();
        if !self.ascending {
            all.reverse();
        }
        let begun = self.after.and_then(|id| all.iter().position(|item| item["id"] == id));
        let rest = all.split_off(begun.map_or(0, |place| place + 1));
        let has_more = rest.len() > self.most;
        let data: Vec<Value> = rest.into_iter().take(self.most).collect();
        let end = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
        let (first, last) = (end(data.first()), end(data.last()));
        json!({ "object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more })
    }
}
