//! AWS Secrets Manager
//! (<https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html>).

use super::{SecretReader, Unread, json, refusal};
use crate::credential::{Pass, later};
use crate::outbound::send;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::cloud::{Grant, Signing};
use gateway_providers::{BodyPieces, sigv4};
use http::{Method, header};
use serde_json::json;
use std::sync::Arc;

const ACTION: &str = "secretsmanager.GetSecretValue";
const CONTENT: &str = "application/x-amz-json-1.1";

pub(super) async fn read(reader: &SecretReader, grant: &Arc<Grant>, region: &str, id: &str) -> Result<String, Unread> {
    let pass = reader.credentials.token(grant).await?;
    let Pass::Keys(keys, ahead) = &pass else { return Err(Unread::new("needs keys that sign")) };
    let own = reader.places.aws.as_deref().map(|url| url.trim_end_matches('/').to_owned());
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let base = own.clone().unwrap_or_else(|| format!("https://secretsmanager.{region}.{domain}"));
    let host = base.split_once("://").map_or(base.as_str(), |(_, rest)| rest);
    let text = json!({ "SecretId": id }).to_string();
    let body = BodyPieces::One(text.clone().into());
    let headers = vec![("content-type", CONTENT), ("x-amz-target", ACTION)];
    let unsigned = sigv4::Unsigned { method: "POST", target: "/", host, headers, body: &body };
    let signing = Signing { region: region.to_owned(), service: "secretsmanager" };
    let signed = sigv4::headers(unsigned, keys, &signing, later(*ahead))
        .map_err(|why| Unread(format!("could not be asked for: the request cannot be signed: {why}")))?;
    let url = format!("{base}/");
    let request = match own {
        Some(_) => reader.outbound.operator_request(Method::POST, &url),
        None => reader.outbound.request(Method::POST, &url)?,
    };
    let request = request.header(header::CONTENT_TYPE, CONTENT).header("x-amz-target", ACTION);
    let answer = send(signed.into_iter().fold(request, |r, (n, v)| r.header(n, v)).body(text)).await?;
    let told = json(&answer);
    if answer.status != 200 {
        let told = told.unwrap_or_default();
        // `com.amazonaws…#ResourceNotFoundException`, or the bare name of it.
        let code = told["__type"].as_str().map(|kind| kind.rsplit('#').next().unwrap_or(kind));
        let expired = matches!(code, Some("ExpiredTokenException" | "UnrecognizedClientException"));
        if answer.status == 403 || expired || code.is_some_and(|c| c.contains("Signature")) {
            reader.credentials.refused(grant, &pass, Some(&answer.headers));
        }
        return Err(match code {
            Some("ResourceNotFoundException") => refusal(404, code),
            Some("AccessDeniedException") => refusal(403, code),
            _ => refusal(answer.status, code),
        });
    }
    let told = told?;
    if let Some(text) = told["SecretString"].as_str() {
        return Ok(text.to_owned());
    }
    let bytes = told["SecretBinary"].as_str().and_then(|text| STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Unread::new("is neither text nor bytes that are UTF-8"))
}
