//! Chat of Oracle's own API
//! (<https://docs.oracle.com/en-us/iaas/api/#/en/generative-ai-inference/20231130/ChatResult/Chat>), which models on
//! dedicated clusters are reached by. It is spoken where a setting asks for it; else chat is OpenAI's, and everything
//! beside chat is the row's either way.

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::{CompatRow, row};
use crate::convert::chat::{self, ChatForm};
use crate::convert::oracle::{self, ApiFormat};
use crate::convert::steps::from_oracle::OracleReader;
use crate::failure;
use crate::model_place::{ModelPlace, Untouched};
use crate::shapes::Object;
use crate::translate::{self, EventError, Stream};
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use serde::Serialize;

const SLUG: &str = "oracle";

/// The version of the API that this speaks, unless a setting names another.
const VERSION: &str = "20231130";

const MODE: &str = "oracle_serving_mode";
const FORMAT: &str = "oracle_api_format";

/// What the identifier of an endpoint on a cluster of one's own begins with.
const ENDPOINT: &str = "ocid1.generativeaiendpoint.";

pub(crate) struct OracleChat;

pub(crate) static ORACLE_CHAT: OracleChat = OracleChat;

/// Whether chat is to be called in Oracle's own way.
pub(crate) fn is_asked_for(settings: &CloudSettings) -> bool {
    settings.get(MODE).or(settings.get(FORMAT)).is_some()
}

pub(crate) fn path(call: &Call<'_>, action: &str) -> String {
    let version = call.settings.get("oracle_api_version").unwrap_or(VERSION);
    format!("/{version}/actions/{action}")
}

/// A model that is shared and paid by use, or an endpoint that somebody keeps.
#[derive(Serialize)]
#[serde(tag = "servingType")]
enum ServingMode<'a> {
    #[serde(rename = "ON_DEMAND", rename_all = "camelCase")]
    OnDemand { model_id: &'a str },
    #[serde(rename = "DEDICATED", rename_all = "camelCase")]
    Dedicated { endpoint_id: &'a str },
}

/// A body with what every call says beside what it asks for.
pub(crate) fn begun(call: &Call<'_>) -> Result<Object, Fault> {
    const COMPARTMENT: &str = "oracle_compartment_id";
    let refused = |field: &'static str, rule: &str| Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field);
    let compartment =
        call.settings.get(COMPARTMENT).ok_or_else(|| refused(COMPARTMENT, "is needed for this operation"))?;
    let model = call.model.ok_or_else(|| refused("model", "is needed"))?;
    let dedicated = model.starts_with(ENDPOINT);
    let mode = match call.settings.get(MODE) {
        Some("ON_DEMAND") if dedicated => {
            return Err(refused("model", "names an endpoint, which oracle_serving_mode ON_DEMAND does not serve"));
        }
        Some("DEDICATED") if !dedicated => {
            return Err(refused("model", "must be the OCID of an endpoint for oracle_serving_mode DEDICATED"));
        }
        _ if dedicated => ServingMode::Dedicated { endpoint_id: model },
        _ => ServingMode::OnDemand { model_id: model },
    };
    let mut body = Object::new();
    body.put("compartmentId", &compartment);
    body.put("servingMode", &mode);
    Ok(body)
}

/// The form of the request. A setting says it, or else who made the model: Cohere's older models have their own.
fn format(call: &Call<'_>, model: &str) -> ApiFormat {
    match call.settings.get(FORMAT) {
        Some("COHERE") => ApiFormat::Cohere,
        None if model.starts_with("cohere.") => ApiFormat::Cohere,
        _ => ApiFormat::Generic,
    }
}

fn is_chat(operation: Operation) -> bool {
    matches!(operation, Operation::ChatCompletions | Operation::Messages | Operation::Responses)
}

impl OracleChat {
    fn row(&self) -> &'static &'static CompatRow {
        // Found by a name that the table has; the first row could stand there only if somebody took that name away.
        row(SLUG).unwrap_or(&crate::compat::ROWS[0])
    }
}

impl Adapter for OracleChat {
    fn info(&self) -> &'static ProviderInfo {
        self.row().info()
    }

    fn auth(&self, tail: Option<&str>) -> AuthStyle {
        self.row().auth(tail)
    }

    fn takes_header(&self, name: &str, model: Option<&str>) -> bool {
        self.row().takes_header(name, model)
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        self.row().model_place(call)
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        is_chat(operation) || self.row().translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        match operation {
            operation if is_chat(operation) => Some(Endpoint { path: "/20231130/actions/chat".into(), headers: &[] }),
            // Nobody keeps an answer that was given in this way.
            operation if operation.facts().about_kept_response => None,
            operation => self.row().endpoint(operation, dialect),
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if !is_chat(call.operation) {
            return self.row().request(call);
        }
        let mut body = begun(call)?;
        let model = call.model.unwrap_or_default();
        let asked = chat::asked(call, ChatForm::Extended)?;
        let mut made = oracle::request(format(call, model), &asked.body, model, call.stream)?;
        made.adjusted.extend(asked.adjusted);
        body.raw("chatRequest", &made.body);
        let body = BodyPieces::One(body.written());
        Ok(ProviderRequest { path: Some(path(call, "chat")), headers: Vec::new(), body, adjusted: made.adjusted })
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if !is_chat(call.operation) {
            return self.row().response(call, body);
        }
        let (mut reader, mut steps) = (OracleReader::new(call.model, call.dice), Vec::with_capacity(8));
        match reader.whole(body, &mut steps) {
            Ok(()) => Ok(translate::whole(call, SLUG, &reader, &steps)),
            Err(EventError::ProviderError(trouble)) => Err(trouble.render(SLUG, trouble.status(), call.dialect)),
            Err(EventError::Unreadable) => Err(failure::unreadable(SLUG, "the answer", body, call.dialect)),
        }
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        self.row().media(call)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        self.row().failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        if is_chat(call.operation) {
            Box::new(Stream::new(call, SLUG, OracleReader::new(call.model, call.dice)))
        } else {
            self.row().stream(call)
        }
    }
}
