//! HTTP for object storage: the client that its crate is given. Answers are read whole, within a bound and a deadline,
//! and no redirect is followed. The addresses are the operator's own: those of the URL that he gave and of his
//! platform.

use bytes::{Bytes, BytesMut};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::redirect::Policy;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(20);
/// Far more than a sealed piece, and than any answer about one.
const MOST_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct OwnConnector;

impl HttpConnector for OwnConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .redirect(Policy::none())
            .no_proxy()
            .user_agent(concat!("gateway/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|e| object_store::Error::Generic { store: "HTTP", source: Box::new(e) })?;
        Ok(HttpClient::new(OwnService(client)))
    }
}

#[derive(Debug)]
struct OwnService(reqwest::Client);

#[async_trait::async_trait]
impl HttpService for OwnService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let mut sent = self.0.request(head.method, head.uri.to_string()).headers(head.headers);
        if body.content_length() > 0 {
            sent = sent.body(reqwest::Body::wrap(body));
        }
        let mut answer = sent.send().await.map_err(failed)?;
        let mut read = BytesMut::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if read.len() + piece.len() > MOST_BYTES {
                let why = std::io::Error::other("the answer is larger than 4 MiB");
                return Err(HttpError::new(HttpErrorKind::Decode, why));
            }
            read.extend_from_slice(&piece);
        }
        let mut told = http::Response::new(Bytes::from(read).into());
        *told.status_mut() = answer.status();
        *told.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(told)
    }
}

/// What may be tried again: every request here is for one object of a name of its own, and may be sent twice.
fn failed(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_request() || error.is_body() {
        HttpErrorKind::Interrupted
    } else {
        HttpErrorKind::Unknown
    };
    HttpError::new(kind, error.without_url())
}
