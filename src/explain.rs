//! `gateway explain`: asks a running gateway what would become of a request.

use crate::configuration;
use crate::telemetry;
use crate::upstream::{AfterErrors, CheckedCalls, Dialer, Dns};
use gateway_domain::egress::{BaseUrl, Trusted};
use gateway_domain::ports::{Outside, OutsideCall};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);
const MOST_ANSWER: usize = 16 << 20;

pub(crate) fn explain(request: &Path, url: &str, key: &str) -> Result<(), String> {
    let body = configuration::read(request)?;
    let url = url.trim_end_matches('/');
    let base = BaseUrl::parse(url).map_err(|why| format!("--url {why}"))?;
    let trusted = Arc::new(Trusted::parse(&[&base.host]).map_err(|why| format!("--url {why}"))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("cannot be asked: {why}"))?;
    let mut key = HeaderValue::from_str(key.trim()).map_err(|_| "--admin-key cannot stand in a header".to_owned())?;
    key.set_sensitive(true);
    let call = OutsideCall {
        method: Method::POST,
        url: format!("{url}/v1/configs/explain"),
        headers: vec![
            (HeaderName::from_static("x-gateway-api-key"), key),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ],
        body: body.into(),
        within: WITHIN,
        most_reply: MOST_ANSWER,
        redirects: 0,
    };
    let dns = Dns::new(trusted.clone(), runtime.handle().clone());
    let calls = CheckedCalls::new(Arc::new(Dialer::new(dns, WITHIN, None)), trusted, AfterErrors::GoOn);
    let reply = runtime.block_on(calls.call(call)).map_err(|why| format!("{url}: {why}"))?;
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if reply.status != 200 {
        let why = told["message"].as_str().unwrap_or("the answer is none of the Admin API");
        return Err(format!("{url} answers {}: {why}", reply.status));
    }
    telemetry::print(&format!("{told:#}\n"));
    Ok(())
}
