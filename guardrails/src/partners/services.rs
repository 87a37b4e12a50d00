//! Partners that no row describes: one file each, in one list.

mod acuvity;
mod bedrock;
mod search;

use super::{CheckCredentials, MadePartner};
use crate::check::{CheckError, Judge};
use crate::external_call::CheckReply;
use crate::parameters::Parameters;
use serde_json::{Map, Value};

/// What makes the check of a service from its parameters and credentials.
type MakeService = fn(&Parameters<'_>, &CheckCredentials) -> Option<Box<dyn Judge>>;

pub(super) struct Service {
    pub(super) id: &'static str,
    pub(super) credentials: &'static [(&'static str, &'static str)],
    make: MakeService,
    input: bool,
    output: bool,
}

pub(super) static SERVICES: &[Service] = &[
    Service {
        id: "acuvity.scan",
        credentials: &[("apiKey", "secret*"), ("apexUrl", "url")],
        make: acuvity::make,
        input: true,
        output: true,
    },
    Service {
        id: "bedrock.guard",
        credentials: &[
            ("accessKeyId", "secret"),
            ("accessKeySecret", "secret"),
            ("awsAccessKeyId", "secret"),
            ("awsSecretAccessKey", "secret"),
            ("awsSessionToken", "secret"),
            ("awsAuthType", "text=accessKey"),
            ("awsRoleArn", "text"),
            ("awsExternalId", "text"),
            ("awsRegion", "label*"),
            ("customHost", "url"),
        ],
        make: bedrock::make,
        input: true,
        output: true,
    },
    Service { id: "exa.online", credentials: &[("apiKey", "secret*")], make: search::exa, input: true, output: false },
    Service {
        id: "tavily.online",
        credentials: &[("apiKey", "secret*")],
        make: search::tavily,
        input: true,
        output: false,
    },
];

pub(super) fn compile(id: &str, p: &Parameters<'_>, saved: Option<&Map<String, Value>>) -> Option<MadePartner> {
    let service = SERVICES.iter().find(|s| s.id.eq_ignore_ascii_case(id))?;
    let credentials = CheckCredentials::read(service.credentials.iter().copied(), p, saved);
    let judge = (service.make)(p, &credentials);
    Some(MadePartner { judge, input: service.input, output: service.output })
}

/// The JSON of a reply of status 2xx.
fn json_of(answer: Option<&CheckReply>) -> Result<Value, CheckError> {
    match answer {
        Some(CheckReply::Reply { status, body }) if (200..300).contains(status) => {
            serde_json::from_slice(body).map_err(|_| CheckError::open("InvalidReply", "The service's reply is no JSON"))
        }
        Some(CheckReply::Reply { status, .. }) => {
            Err(CheckError::open("HttpError", format!("The service answered with status {status}")))
        }
        Some(CheckReply::Failed(failure)) => Err(failure.into()),
        _ => Err(CheckError::open("Error", "The service gave no answer")),
    }
}
