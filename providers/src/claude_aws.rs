//! Anthropic's own API inside AWS: its Messages under AWS's signature or a key of AWS's console, and a header that says
//! which workspace is meant (<https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html>).
//! Signs nothing itself.

use crate::adapter::{Adapter, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::anthropic::Anthropic;
use crate::raw;
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use http::{HeaderName, HeaderValue};
use std::borrow::Cow;

static API: Anthropic = Anthropic {
    info: &ProviderInfo {
        slug: "claude-platform-aws",
        name: "Claude Platform on AWS",
        base_url: None,
        auth: AuthStyle::Header("x-api-key"),
        dialect: Dialect::Anthropic,
    },
};

/// What stands between the host and Anthropic's paths.
const PREFIX: &str = "/v1";
const WORKSPACE: &str = "anthropic_aws_workspace_id";

pub(crate) struct ClaudeOnAws;

/// The header without which nothing is answered.
fn workspace(call: &Call<'_>) -> Result<(HeaderName, HeaderValue), Fault> {
    let value = call.settings.get(WORKSPACE).and_then(|id| HeaderValue::from_str(id).ok());
    let value = value.ok_or_else(|| {
        Fault::new(FaultKind::Refused, format!("{WORKSPACE} is needed: it says which workspace is meant")).on(WORKSPACE)
    })?;
    Ok((HeaderName::from_static("anthropic-workspace-id"), value))
}

fn below(path: &str) -> String {
    [PREFIX, path].concat()
}

impl Adapter for ClaudeOnAws {
    fn info(&self) -> &'static ProviderInfo {
        API.info
    }

    fn translates(&self, operation: Operation, dialect: Dialect) -> bool {
        API.translates(operation, dialect)
    }

    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        let endpoint = API.endpoint(operation, dialect)?;
        let path = if operation == Operation::Proxy { endpoint.path } else { Cow::Owned(below(&endpoint.path)) };
        Some(Endpoint { path, ..endpoint })
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let workspace = workspace(call)?;
        let mut out = API.request(call)?;
        out.path = out.path.as_deref().map(below);
        out.headers.push(workspace);
        Ok(out)
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let workspace = workspace(call)?;
        let mut out = raw::request(call);
        out.headers.push(workspace);
        Ok(out)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        API.response(call, body)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        API.failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        API.stream(call)
    }
}
