//! What is told to a client whose head never was a request, in the form of every other refusal.

use super::head::MOST;
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, FaultKind};

pub(super) struct HeadRefusal {
    status: &'static str,
    fault: Fault,
}

impl HeadRefusal {
    pub(super) fn late() -> Self {
        let fault = Fault::new(FaultKind::SlowClient, "The head of the request did not arrive in time");
        Self { status: "408 Request Timeout", fault }
    }

    pub(super) fn too_large() -> Self {
        let fault = Fault::new(FaultKind::BadHeader, format!("The head of the request is larger than {MOST} bytes"));
        Self { status: "431 Request Header Fields Too Large", fault }
    }

    fn malformed() -> Self {
        let fault = Fault::new(FaultKind::BadHeader, "The head of the request is not valid HTTP");
        Self { status: "400 Bad Request", fault }
    }

    fn no_tunnel() -> Self {
        let fault = Fault::new(FaultKind::UnknownRoute, "The method CONNECT is not served");
        Self { status: "405 Method Not Allowed", fault }
    }

    /// The whole message, after which the connection ends.
    pub(super) fn message(&self) -> Vec<u8> {
        let (status, body) = (self.status, self.fault.body(Dialect::OpenAi));
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        [head.as_bytes(), &body].concat()
    }
}

/// What is said in place of a refusal of Pingora's own.
pub(super) fn refusal_of(theirs: &[u8]) -> Bytes {
    let tunnel = theirs.get(9..12) == Some(b"405");
    let refusal = if tunnel { HeadRefusal::no_tunnel() } else { HeadRefusal::malformed() };
    refusal.message().into()
}
