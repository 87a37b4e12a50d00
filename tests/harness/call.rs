//! One HTTP call and its answer, read whole or as it comes.

use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::{Duration, Instant};

#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub(crate) struct Call {
    client: reqwest::Client,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<reqwest::Body>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The body ended as its framing promised.
    pub(crate) whole: bool,
    pub(crate) took: Duration,
}

impl Call {
    pub(crate) fn new(client: &reqwest::Client, method: &str, url: &str) -> Self {
        let (headers, body) = (Vec::new(), None);
        Self { client: client.clone(), method: method.to_owned(), url: url.to_owned(), headers, body }
    }

    /// Replaces a header of the same name.
    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        let mut call = self.without(name);
        call.headers.push((name.to_owned(), value.to_owned()));
        call
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("x-gateway-api-key", key)
    }

    pub(crate) fn provider(self, slug: &str) -> Self {
        self.header("x-gateway-provider", slug)
    }

    /// An inline config.
    pub(crate) fn config(self, config: &Value) -> Self {
        self.header("x-gateway-config", &config.to_string())
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.bytes(body.to_string())
    }

    /// JSON, byte for byte as given.
    pub(crate) fn bytes(self, body: impl Into<reqwest::Body>) -> Self {
        let mut call = self.header("content-type", "application/json");
        call.body = Some(body.into());
        call
    }

    pub(crate) fn body(mut self, content_type: &str, body: impl Into<reqwest::Body>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", content_type)
    }

    /// The answer's head; its body is still to come.
    pub(crate) async fn open(self) -> reqwest::Response {
        self.attempt().await.expect("an answer")
    }

    pub(crate) async fn attempt(self) -> reqwest::Result<reqwest::Response> {
        let method = reqwest::Method::from_bytes(self.method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, &self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = self.body {
            request = request.body(body);
        }
        request.send().await
    }

    pub(crate) async fn send(self) -> Answer {
        let started = Instant::now();
        Answer::read(self.open().await, started).await
    }
}

impl Answer {
    pub(crate) async fn read(mut response: reqwest::Response, started: Instant) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let (mut body, mut whole) = (Vec::new(), true);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => {
                    whole = false;
                    break;
                }
            }
        }
        Self { status, headers, body, whole, took: started.elapsed() }
    }

    /// Fails with the body, which says more than a status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// `data:` payloads.
    pub(crate) fn events(&self) -> Vec<String> {
        self.text().lines().filter_map(|l| l.strip_prefix("data: ")).map(ToOwned::to_owned).collect()
    }

    /// Text of a chat answer, streamed or not.
    pub(crate) fn said(&self) -> String {
        let is_stream = self.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        if !is_stream {
            return self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
        }
        let chunks = self.events().into_iter().filter_map(|e| serde_json::from_str::<Value>(&e).ok());
        chunks.filter_map(|c| c["choices"][0]["delta"]["content"].as_str().map(ToOwned::to_owned)).collect()
    }

    /// Message of an error in OpenAI's shape.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}
