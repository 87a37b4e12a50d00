//! AWS event streams (`application/vnd.amazon.eventstream`) as bytes: finds where frames end, checks them, and says
//! what they are. Knows nothing of what an event means.
//!
//! The format: <https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html>, event stream encoding.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::{Buf, Bytes, BytesMut};

/// A frame that is not complete yet may be held up to this size. AWS makes none above 16 MiB.
const MAX_FRAME: usize = 16 << 20;
/// Length, length of the headers, checksum of both, checksum of all.
const LEAST: usize = 16;

/// The content type of such a stream.
pub const MEDIA_TYPE: &str = "application/vnd.amazon.eventstream";

/// Why bytes are no frames; what follows them cannot be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Above 16 MiB.
    TooLarge,
    /// A checksum does not fit, or the inside does not.
    Garbled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Event,
    /// A modelled error: its name is that of the exception, its payload JSON.
    Exception,
    /// An error of the protocol: its name is a code, its payload the message.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    /// `contentBlockDelta`, `throttlingException`; empty when the frame does not say.
    pub name: String,
    pub payload: Bytes,
}

/// Cuts chunks of any size into frames.
#[derive(Debug, Default)]
pub struct Frames {
    held: BytesMut,
}

impl Frames {
    pub fn push(&mut self, chunk: &[u8]) {
        self.held.extend_from_slice(chunk);
    }

    /// The next whole frame; `None` until more bytes have come. After an error there is no next one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        let Some(mut length) = self.held.get(..4) else { return Ok(None) };
        let length = usize::try_from(length.get_u32()).map_err(|_| Broken::TooLarge)?;
        if length > MAX_FRAME {
            return Err(Broken::TooLarge);
        }
        if length < LEAST {
            return Err(Broken::Garbled);
        }
        if self.held.len() < length {
            return Ok(None);
        }
        let whole = self.held.split_to(length).freeze();
        read_message_from(whole).map(|message| Some(Frame::of(&message))).map_err(|_| Broken::Garbled)
    }

    /// Bytes that wait for the rest of their frame.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether any do.
    pub fn is_open(&self) -> bool {
        !self.held.is_empty()
    }
}

impl Frame {
    fn of(message: &Message) -> Self {
        let said = |name: &str| {
            let header = message.headers().iter().find(|h| h.name().as_str() == name)?;
            header.value().as_string().ok().map(|s| s.as_str().to_owned())
        };
        let payload = message.payload().clone();
        match said(":message-type").as_deref() {
            Some("exception") => {
                Self { kind: FrameKind::Exception, name: said(":exception-type").unwrap_or_default(), payload }
            }
            Some("error") => {
                let payload = said(":error-message").map_or(payload, Bytes::from);
                Self { kind: FrameKind::Error, name: said(":error-code").unwrap_or_default(), payload }
            }
            _ => Self { kind: FrameKind::Event, name: said(":event-type").unwrap_or_default(), payload },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue};
    use proptest::prelude::*;

    /// A frame as AWS writes it.
    pub(crate) fn frame(kind: &str, name: &str, payload: &[u8]) -> Vec<u8> {
        let text = |value: &str| HeaderValue::String(value.to_owned().into());
        let about = if kind == "exception" { ":exception-type" } else { ":event-type" };
        let message = Message::new(Bytes::copy_from_slice(payload))
            .add_header(Header::new(about.to_owned(), text(name)))
            .add_header(Header::new(":content-type".to_owned(), text("application/json")))
            .add_header(Header::new(":message-type".to_owned(), text(kind)));
        let mut out = Vec::new();
        write_message_to(&message, &mut out).expect("a frame");
        out
    }

    fn all(chunks: &[&[u8]]) -> Result<Vec<Frame>, Broken> {
        let (mut frames, mut out) = (Frames::default(), Vec::new());
        for chunk in chunks {
            frames.push(chunk);
            while let Some(frame) = frames.next_frame()? {
                out.push(frame);
            }
        }
        Ok(out)
    }

    #[test]
    fn frames_end_where_they_say() {
        let bytes = [frame("event", "messageStart", b"{}"), frame("exception", "throttlingException", b"{\"m\":1}")];
        let expected = vec![
            Frame { kind: FrameKind::Event, name: "messageStart".into(), payload: Bytes::from_static(b"{}") },
            Frame {
                kind: FrameKind::Exception,
                name: "throttlingException".into(),
                payload: Bytes::from_static(b"{\"m\":1}"),
            },
        ];
        let bytes = bytes.concat();
        assert_eq!(all(&[&bytes]), Ok(expected.clone()));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(all(&single), Ok(expected));
    }

    #[test]
    fn errors_of_the_protocol_say_code_and_message() {
        let text = |value: &str| HeaderValue::String(value.to_owned().into());
        let message = Message::new(Bytes::new())
            .add_header(Header::new(":message-type", text("error")))
            .add_header(Header::new(":error-code", text("InternalError")))
            .add_header(Header::new(":error-message", text("An internal server error occurred")));
        let mut bytes = Vec::new();
        write_message_to(&message, &mut bytes).expect("a frame");
        let payload = Bytes::from_static(b"An internal server error occurred");
        assert_eq!(all(&[&bytes]), Ok(vec![Frame { kind: FrameKind::Error, name: "InternalError".into(), payload }]));
    }

    #[test]
    fn what_is_garbled_is_not_taken() {
        let good = frame("event", "messageStart", b"{\"role\":\"assistant\"}");
        for at in 4..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert_eq!(all(&[&bad]), Err(Broken::Garbled), "byte {at}");
        }
        assert_eq!(all(&[&[0xff; 16]]), Err(Broken::TooLarge));
        assert_eq!(all(&[&[0; 4]]), Err(Broken::Garbled));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let told = all(&[&bytes]);
            let split = all(&[&bytes[..cut], &bytes[cut..]]);
            prop_assert_eq!(told, split);
        }
    }
}
