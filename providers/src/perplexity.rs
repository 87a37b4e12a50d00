//! Perplexity: its Agent API speaks OpenAI's Responses, its chat has ended
//! (<https://docs.perplexity.ai/docs/agent-api/migrate-from-sonar>). Names of Sonar lead to what took their place, and
//! answers name their sources where Sonar's did.

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::{CompatRow, Serves, answer_by_responses};
use crate::convert::chat::{self as chat_request};
use crate::convert::request::{self, refused};
use crate::convert::responses::from_chat::{self, ResponsesAsk, ResponsesRoom};
use crate::convert::steps::from_responses::ResponsesReader;
use crate::translate::Stream;
use crate::wire::tree::Tree;
use crate::wire::{JsonStr, chat};
use bytes::Bytes;
use gateway_domain::Operation::{ChatCompletions, Embeddings, Messages, Responses};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use serde::Deserialize;
use serde_json::value::RawValue;

const SLUG: &str = "perplexity-ai";
const NAME: &str = "Perplexity AI";

/// What it serves in OpenAI's form.
static OPEN: CompatRow = CompatRow {
    serves: Serves::of(&[Responses, Embeddings]),
    prefix: "/v1",
    ..CompatRow::at(SLUG, NAME, Some("https://api.perplexity.ai"), AuthStyle::Bearer)
};

const ROOM: ResponsesRoom = ResponsesRoom { provider: "Perplexity", tuning: false, files: false, text: false };

pub(crate) struct Perplexity;

impl Adapter for Perplexity {
    fn info(&self) -> &'static ProviderInfo {
        &OPEN.info
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        match operation {
            ChatCompletions | Messages => Some(Endpoint { path: "/v1/responses".into(), headers: &[] }),
            _ => (&OPEN).endpoint(operation, dialect),
        }
    }

    fn translates(&self, operation: Operation, _dialect: Dialect) -> bool {
        matches!(operation, ChatCompletions | Messages)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        match call.operation {
            ChatCompletions | Messages => by_responses(call),
            Responses => (&OPEN).request(&Call { model: call.model.map(|model| place(model).model), ..call.clone() }),
            _ => (&OPEN).request(call),
        }
    }

    fn spellings(&self, model: &str, _settings: &gateway_domain::cloud::CloudSettings) -> Vec<String> {
        let theirs = place(model).model;
        if theirs == model { Vec::new() } else { vec![theirs.to_owned()] }
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if !self.translates(call.operation, call.dialect) {
            return (&OPEN).response(call, body);
        }
        answer_by_responses(SLUG, call, body)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&OPEN).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        match call.operation {
            ChatCompletions | Messages => Box::new(Stream::new(call, SLUG, ResponsesReader::new(SLUG))),
            _ => (&OPEN).stream(call),
        }
    }
}

/// What took the place of a model of Sonar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SonarPlace<'m> {
    model: &'m str,
    /// Settings that Perplexity keeps. Alone it might pick a model of another vendor.
    preset: Option<&'static str>,
    /// Sonar searched unasked.
    searches: bool,
}

fn place(model: &str) -> SonarPlace<'_> {
    const OWN: &str = "perplexity/sonar";
    match model {
        "sonar" => SonarPlace { model: OWN, preset: None, searches: true },
        "sonar-pro" => SonarPlace { model: OWN, preset: Some("fast"), searches: true },
        "sonar-reasoning" | "sonar-reasoning-pro" => SonarPlace { model: OWN, preset: Some("low"), searches: true },
        other => SonarPlace { model: other, preset: None, searches: false },
    }
}

/// Fields of Sonar's chat beside OpenAI's.
#[derive(Deserialize)]
struct SonarFields<'a> {
    #[serde(borrow)]
    search_domain_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    search_recency_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    search_after_date_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    search_before_date_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    last_updated_after_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    last_updated_before_filter: Option<&'a RawValue>,
    #[serde(borrow)]
    web_search_options: Option<SearchOptions<'a>>,
    #[serde(borrow)]
    language_preference: Option<JsonStr<'a>>,
    disable_search: Option<bool>,
    return_images: Option<bool>,
    return_related_questions: Option<bool>,
}

#[derive(Deserialize)]
struct SearchOptions<'a> {
    #[serde(borrow)]
    user_location: Option<&'a RawValue>,
    #[serde(borrow)]
    search_context_size: Option<&'a RawValue>,
}

fn by_responses(call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let asked = chat_request::asked(call, chat_request::ChatForm::Extended)?;
    let ask: chat::ChatRequest<'_> = request::parsed(&asked.body)?;
    let own: SonarFields<'_> = request::parsed(&asked.body)?;
    for (field, wanted) in
        [("return_images", own.return_images), ("return_related_questions", own.return_related_questions)]
    {
        if wanted == Some(true) {
            return Err(refused(field, "is not given by Perplexity's Agent API"));
        }
    }
    let model = call.model.ok_or_else(|| Fault::new(FaultKind::Refused, "model is needed").on("model"))?;
    let place = place(model);
    let mut made = from_chat::request(&ask, ROOM, call.stream)?;
    search(&own, place, &mut made);
    made.put("language_preference", own.language_preference.as_ref().map(|text| Tree::Text(text.0.clone())));
    made.put("preset", place.preset.map(Tree::text));
    let mut adjusted = std::mem::take(&mut made.adjusted);
    adjusted.extend(
        own.web_search_options.and_then(|o| o.search_context_size).map(|_| "web_search_options.search_context_size"),
    );
    adjusted.extend(asked.adjusted.iter().copied());
    let body = written(place.model, made)?;
    Ok(ProviderRequest { path: None, headers: Vec::new(), body: BodyPieces::One(body), adjusted })
}

/// The body with its model in front.
fn written(model: &str, made: ResponsesAsk<'_>) -> Result<Bytes, Fault> {
    let mut members = vec![("model", Tree::text(model))];
    members.extend(made.members);
    let body = serde_json::to_vec(&Tree::Map(members));
    body.map(Bytes::from).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))
}

/// Its search, as a tool beside those of the client.
fn search<'a>(own: &SonarFields<'a>, place: SonarPlace<'_>, made: &mut ResponsesAsk<'a>) {
    let filters: Vec<(&'static str, Tree<'a>)> = [
        ("search_domain_filter", own.search_domain_filter),
        ("search_recency_filter", own.search_recency_filter),
        ("search_after_date_filter", own.search_after_date_filter),
        ("search_before_date_filter", own.search_before_date_filter),
        ("last_updated_after_filter", own.last_updated_after_filter),
        ("last_updated_before_filter", own.last_updated_before_filter),
    ]
    .into_iter()
    .filter_map(|(name, raw)| Some((name, Tree::Raw(raw.filter(|raw| raw.get() != "null")?))))
    .collect();
    let location = own.web_search_options.as_ref().and_then(|options| options.user_location).map(Tree::Raw);
    let wanted = place.searches || !filters.is_empty() || own.web_search_options.is_some();
    if !wanted || own.disable_search == Some(true) {
        return;
    }
    let filters = (!filters.is_empty()).then_some(Tree::Map(filters));
    let tool = Tree::map([("type", Tree::text("web_search"))]).with("filters", filters).with("user_location", location);
    match made.members.iter_mut().find(|(key, _)| *key == "tools") {
        Some((_, Tree::List(tools))) => tools.push(tool),
        _ => made.members.push(("tools", Tree::List(vec![tool]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sonar_lead_to_its_model() {
        for (asked, model, preset) in [
            ("sonar", "perplexity/sonar", None),
            ("sonar-pro", "perplexity/sonar", Some("fast")),
            ("sonar-reasoning-pro", "perplexity/sonar", Some("low")),
            ("openai/gpt-5.5", "openai/gpt-5.5", None),
        ] {
            assert_eq!((place(asked).model, place(asked).preset), (model, preset), "{asked}");
        }
        assert_eq!(
            Perplexity.spellings("sonar-pro", gateway_domain::cloud::CloudSettings::none()),
            ["perplexity/sonar"]
        );
    }
}
