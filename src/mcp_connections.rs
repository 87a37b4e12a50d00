//! Connections that stay open while the gateway asks an MCP server by itself what it offers: the backend of the port
//! [`McpLines`]. Calls of clients have connections of their own, and share none with this.

use crate::upstream::http1::Response;
use crate::upstream::{CheckedCalls, Program, Programs, sse_endpoint};
use gateway_domain::egress::BaseUrl;
use gateway_domain::ports::{Fut, McpLine, McpLineTo, McpLines, Outside as _, OutsideCall};
use gateway_mcp::sse::McpEvents;
use http::{HeaderName, HeaderValue, Method, header};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most bytes of the HTTP answer to a posted message; what the server says to it comes over the stream.
const MOST_REPLY: usize = 64 << 10;

pub(crate) struct OpenLines {
    calls: Arc<CheckedCalls>,
    programs: Arc<Programs>,
}

impl OpenLines {
    pub(crate) const fn new(calls: Arc<CheckedCalls>, programs: Arc<Programs>) -> Self {
        Self { calls, programs }
    }
}

impl McpLines for OpenLines {
    fn open(&self, to: McpLineTo, within: Duration) -> Fut<'_, Result<Box<dyn McpLine>, String>> {
        Box::pin(async move {
            match to {
                McpLineTo::Program(name) => {
                    let program = self.programs.start(&name).map_err(|e| e.to_string())?;
                    Ok(Box::new(ProgramLine(program)) as Box<dyn McpLine>)
                }
                McpLineTo::Sse { url, headers } => {
                    let opening = SseLine::open(self.calls.clone(), (url, headers), within);
                    let opened = pingora_timeout::timeout(within, opening).await;
                    let line = opened.map_err(|_| format!("no endpoint within {} s", within.as_secs()))??;
                    Ok(Box::new(line) as Box<dyn McpLine>)
                }
            }
        })
    }
}

struct ProgramLine(Program);

impl McpLine for ProgramLine {
    fn send(&mut self, message: String) -> Fut<'_, Result<(), String>> {
        Box::pin(async move {
            if self.0.input.send(message).await { Ok(()) } else { Err("its program has ended".to_owned()) }
        })
    }

    fn until<'a>(
        &'a mut self,
        within: Duration,
        is_wanted: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Fut<'a, Result<String, String>> {
        Box::pin(async move {
            let reading = async {
                loop {
                    match self.0.output.next().await {
                        Some(Ok(line)) if is_wanted(&line) => return Ok(line),
                        Some(Ok(_)) => {}
                        Some(Err(why)) => return Err(format!("its program {why}")),
                        None => return Err("its program has ended".to_owned()),
                    }
                }
            };
            in_time(within, reading).await
        })
    }
}

struct SseLine {
    calls: Arc<CheckedCalls>,
    endpoint: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    response: Box<Response>,
    events: McpEvents,
    within: Duration,
}

impl SseLine {
    async fn open(
        calls: Arc<CheckedCalls>,
        (url, headers): (String, Vec<(HeaderName, HeaderValue)>),
        within: Duration,
    ) -> Result<Self, String> {
        let mut sent = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
        sent.extend(headers.iter().cloned());
        let body = bytes::Bytes::new();
        let call = OutsideCall {
            method: Method::GET,
            url: url.clone(),
            headers: sent,
            body,
            within,
            most_reply: MOST_REPLY,
            redirects: 0,
        };
        let response = calls.open(&call, None).await.map_err(|e| e.to_string())?;
        let kind = response.head().headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
        if response.status() != 200 || !is_stream {
            return Err(format!("the server answered {} with no stream of events", response.status()));
        }
        let (response, events) = (Box::new(response), McpEvents::default());
        let mut line = Self { calls, endpoint: String::new(), headers, response, events, within };
        let told = line.event("endpoint").await?;
        line.endpoint = address(&url, &told).map_err(|why| format!("the server {why}"))?;
        Ok(line)
    }

    async fn event(&mut self, name: &str) -> Result<String, String> {
        loop {
            match self.events.next_event().map_err(|e| e.to_string())? {
                Some(event) if event.event == name => return Ok(event.data),
                Some(_) => {}
                None => match self.response.read().await.map_err(|e| format!("the server broke off: {e}"))? {
                    Some(piece) => self.events.push(&piece),
                    None => return Err("the server ended its stream".to_owned()),
                },
            }
        }
    }
}

/// Where messages go. `url`: of the stream.
fn address(url: &str, told: &str) -> Result<String, &'static str> {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let base = BaseUrl::parse(bare)?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let target = rest.find('/').map_or("/", |at| &rest[at..]);
    let scheme = if base.tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}{}", base.authority(), sse_endpoint(&base, target, told)?))
}

impl McpLine for SseLine {
    fn send(&mut self, message: String) -> Fut<'_, Result<(), String>> {
        Box::pin(async move {
            let accept = HeaderValue::from_static("application/json, text/event-stream");
            let json = HeaderValue::from_static("application/json");
            let mut headers = vec![(header::ACCEPT, accept), (header::CONTENT_TYPE, json)];
            headers.extend(self.headers.iter().cloned());
            let (url, body, within) = (self.endpoint.clone(), message.into(), self.within);
            let call =
                OutsideCall { method: Method::POST, url, headers, body, within, most_reply: MOST_REPLY, redirects: 0 };
            let reply = self.calls.call(call).await.map_err(|e| e.to_string())?;
            if (200..300).contains(&reply.status) {
                return Ok(());
            }
            Err(format!("the server answered {} to a message", reply.status))
        })
    }

    fn until<'a>(
        &'a mut self,
        within: Duration,
        is_wanted: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Fut<'a, Result<String, String>> {
        Box::pin(async move {
            let reading = async {
                loop {
                    let message = self.event("message").await?;
                    if is_wanted(&message) {
                        return Ok(message);
                    }
                }
            };
            in_time(within, reading).await
        })
    }
}

async fn in_time<T>(within: Duration, reading: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let began = Instant::now();
    let late = |_| format!("no answer within {} ms", began.elapsed().as_millis());
    pingora_timeout::timeout(within, reading).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn messages_go_where_the_stream_came_from() {
        let told = address("http://a.example:81/x/sse?k=1", "/m?s=1");
        assert_eq!(told.as_deref(), Ok("http://a.example:81/m?s=1"));
        assert!(address("http://a.example/sse", "http://b.example/m").is_err());
    }
}
