//! Whoever asks the Admin API, and what is answered. It knows the form of requests and answers, and no resource.

use super::{CLIENT, House, text};
use axum::body::Body;
use gateway_admin::ClientAddr;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use serde_json::Value;

/// Whoever asks the Admin API in a test: the one place where its requests are made.
pub(crate) struct Asker<'a> {
    pub(super) house: &'a House,
    pub(super) key: Option<&'a str>,
    /// What stands in front of every path.
    pub(super) under: &'static str,
    /// Headers that every request has.
    pub(super) headers: Vec<(HeaderName, String)>,
    /// The media type that every answer with content must have; `None`: the one that each route names.
    pub(super) media_type: Option<&'static str>,
}

impl Asker<'_> {
    /// Asks like another client: below a path, with headers of its own, and with one media type for all answers.
    pub(crate) fn speaking(
        self,
        under: &'static str,
        headers: Vec<(HeaderName, String)>,
        media_type: &'static str,
    ) -> Self {
        Self { under, headers, media_type: Some(media_type), ..self }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, None).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        self.ask_with(method, path, body, &[]).await
    }

    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        headers: &[(HeaderName, &str)],
    ) -> Answer {
        let path = format!("{}{path}", self.under);
        let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { path } else { format!("/v1{path}") };
        let mut request = Request::builder().method(method).uri(path).extension(ClientAddr(CLIENT));
        request = request.header("user-agent", "suite");
        if let Some(key) = self.key {
            request = request.header("x-gateway-api-key", key);
        }
        for (name, value) in self.headers.iter().map(|(name, value)| (name, value.as_str())) {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let body = body.map_or_else(Body::empty, |b| Body::from(b.to_string()));
        let answer = self.house.send(request.body(body).expect("a request")).await;
        if let Some(media_type) = self.media_type.filter(|_| !answer.text.is_empty()) {
            assert_eq!(answer.headers[header::CONTENT_TYPE], media_type, "{}", answer.text);
        }
        answer
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// A refusal in its documented form; returns the message.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let body = self.expect(status);
        // SCIM has a form of its own, with no room for our codes.
        if body["schemas"][0] == "urn:ietf:params:scim:api:messages:2.0:Error" {
            assert_eq!(body["status"], status.to_string(), "{body}");
            return text(&body["detail"]);
        }
        assert_eq!(body["success"], false, "{body}");
        assert_eq!(body["data"]["errorCode"], code, "{body}");
        assert!(body["request_id"].is_string(), "{body}");
        text(&body["data"]["message"])
    }
}
