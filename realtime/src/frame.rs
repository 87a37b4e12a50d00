//! Frames of one direction of a WebSocket (RFC 6455), as they come in pieces of any size: whole messages with the very
//! bytes that they came in, so that they can be passed on unchanged, and control frames at once. The form of a frame's
//! head is tungstenite's to know. What breaks a rule of the protocol ends the direction, with the close code that says
//! which.

use bytes::{BufMut, Bytes, BytesMut};
use std::io::Cursor;
use thiserror::Error;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// The most bytes of payload in a control frame (RFC 6455, 5.5).
const MOST_CONTROL: usize = 125;
/// A close frame's code stands before its reason.
const CODE: usize = 2;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Its frames are masked.
    Client,
    /// Its frames are not.
    Provider,
}

/// What was heard next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeardFrame {
    Message(WireMessage),
    /// A ping or a pong, as it came.
    Control(Bytes),
    Close(Closing),
}

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireMessage {
    /// All its frames as they came.
    pub raw: Bytes,
    /// What they say together, without masks.
    pub payload: Bytes,
    pub is_text: bool,
}

/// The end of a direction, as its peer says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    pub raw: Bytes,
    /// `None`: it says none.
    pub code: Option<u16>,
    pub reason: String,
}

/// A rule of the protocol was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Misframed {
    /// What the connection is to be closed with.
    pub code: u16,
    pub why: &'static str,
}

const fn broken(why: &'static str) -> Misframed {
    Misframed { code: 1002, why }
}

const TOO_LARGE: Misframed = Misframed { code: 1009, why: "a message is larger than the gateway takes" };

/// A frame as it came.
struct WholeFrame {
    header: FrameHeader,
    raw: Bytes,
    /// Bytes of it before its payload.
    head: usize,
}

/// A message that has begun and of which more frames have to come.
#[derive(Debug)]
struct Begun {
    raw: BytesMut,
    payload: BytesMut,
    is_text: bool,
}

/// Reads one direction.
#[derive(Debug)]
pub struct FrameReader {
    peer: Peer,
    /// The most bytes that the payload of one message may have.
    most: usize,
    /// What came and is no whole frame yet.
    buffer: BytesMut,
    begun: Option<Begun>,
}

impl FrameReader {
    pub fn new(peer: Peer, most: usize) -> Self {
        Self { peer, most, buffer: BytesMut::new(), begun: None }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that wait for what belongs to them.
    pub fn held(&self) -> usize {
        self.buffer.len() + self.begun.as_ref().map_or(0, |begun| begun.raw.len() + begun.payload.len())
    }

    /// The next thing that is there whole; `None`: more has to come.
    pub fn read(&mut self) -> Result<Option<HeardFrame>, Misframed> {
        while let Some(WholeFrame { header, raw, head }) = self.frame()? {
            let payload = unmasked(&header, &raw, head);
            match header.opcode {
                OpCode::Control(Control::Close) => {
                    return closing(raw, &payload).map(|close| Some(HeardFrame::Close(close)));
                }
                OpCode::Control(_) => return Ok(Some(HeardFrame::Control(raw))),
                OpCode::Data(data) => {
                    if let Some(message) = self.gather(&header, data, raw, payload)? {
                        return Ok(Some(HeardFrame::Message(message)));
                    }
                }
            }
        }
        if self.buffer.is_empty() {
            // A silent session keeps no room.
            self.buffer = BytesMut::new();
        }
        Ok(None)
    }

    /// The next whole frame.
    fn frame(&mut self) -> Result<Option<WholeFrame>, Misframed> {
        let mut cursor = Cursor::new(&self.buffer[..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| broken("a frame is of no known kind"))?;
        let Some((header, length)) = parsed else { return Ok(None) };
        let head = usize::try_from(cursor.position()).map_err(|_| TOO_LARGE)?;
        let length = usize::try_from(length).map_err(|_| TOO_LARGE)?;
        self.check(&header, length)?;
        let whole = head + length;
        if self.buffer.len() < whole {
            return Ok(None);
        }
        Ok(Some(WholeFrame { header, raw: self.buffer.split_to(whole).freeze(), head }))
    }

    /// All that a head says, before a byte behind it is waited for.
    fn check(&self, header: &FrameHeader, length: usize) -> Result<(), Misframed> {
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(broken("a frame uses an extension that was not agreed on"));
        }
        match (self.peer, header.mask.is_some()) {
            (Peer::Client, false) => return Err(broken("a frame of the client is not masked")),
            (Peer::Provider, true) => return Err(broken("a frame of the provider is masked")),
            _ => {}
        }
        match (header.opcode, &self.begun) {
            (OpCode::Control(_), _) if !header.is_final => Err(broken("a control frame is in pieces")),
            (OpCode::Control(_), _) if length > MOST_CONTROL => Err(broken("a control frame is too long")),
            (OpCode::Control(_), _) => Ok(()),
            (OpCode::Data(Data::Continue), None) => Err(broken("a frame goes on with no message")),
            (OpCode::Data(Data::Text | Data::Binary), Some(_)) => Err(broken("a message begins within another")),
            (OpCode::Data(_), begun) => {
                let before = begun.as_ref().map_or(0, |begun| begun.payload.len());
                // Frames without content cost room as well.
                let frames = begun.as_ref().map_or(0, |begun| begun.raw.len());
                let fits = before + length <= self.most && frames <= self.most + self.most / 8 + 64;
                if fits { Ok(()) } else { Err(TOO_LARGE) }
            }
        }
    }

    /// `None`: more of the message has to come.
    fn gather(
        &mut self,
        header: &FrameHeader,
        data: Data,
        raw: Bytes,
        payload: Bytes,
    ) -> Result<Option<WireMessage>, Misframed> {
        match &mut self.begun {
            None if header.is_final => return Ok(Some(WireMessage { raw, payload, is_text: data == Data::Text })),
            None => {
                let is_text = data == Data::Text;
                self.begun = Some(Begun { raw: BytesMut::from(&*raw), payload: BytesMut::from(&*payload), is_text });
            }
            Some(begun) => {
                begun.raw.extend_from_slice(&raw);
                begun.payload.extend_from_slice(&payload);
            }
        }
        let whole = self.begun.take_if(|_| header.is_final);
        Ok(whole.map(|Begun { raw, payload, is_text }| WireMessage {
            raw: raw.freeze(),
            payload: payload.freeze(),
            is_text,
        }))
    }
}

fn unmasked(header: &FrameHeader, raw: &Bytes, head: usize) -> Bytes {
    let Some(mask) = header.mask else { return raw.slice(head..) };
    masked(mask, &raw[head..]).freeze()
}

/// A mask is put on and taken off in the same way.
fn masked(mask: [u8; 4], bytes: &[u8]) -> BytesMut {
    let mut out = BytesMut::from(bytes);
    for part in out.chunks_mut(mask.len()) {
        part.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    out
}

fn closing(raw: Bytes, payload: &[u8]) -> Result<Closing, Misframed> {
    let Some((code, reason)) = payload.split_first_chunk::<CODE>() else {
        return match payload {
            [] => Ok(Closing { raw, code: None, reason: String::new() }),
            _ => Err(broken("a close frame has half a code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !is_spoken(code) {
        return Err(broken("a close frame has a code that none may have"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Misframed { code: 1007, why: "a reason is not UTF-8" })?;
    Ok(Closing { raw, code: Some(code), reason: reason.to_owned() })
}

/// RFC 6455, 7.4: the others are reserved, or say that there was none.
const fn is_spoken(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A text message in one frame; towards a provider it has a mask.
pub fn text_frame(text: &str, mask: Option<[u8; 4]>) -> Bytes {
    frame(OpCode::Data(Data::Text), text.as_bytes(), mask)
}

/// The end, with a code and as much of the reason as fits.
pub fn close_frame(code: u16, reason: &str, mask: Option<[u8; 4]>) -> Bytes {
    let most = reason.len().min(MOST_CONTROL - CODE);
    let most = (0..=most).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or_default();
    let payload = [&code.to_be_bytes(), &reason.as_bytes()[..most]].concat();
    frame(OpCode::Control(Control::Close), &payload, mask)
}

/// The answer to a ping, as it came from a provider; `None`: it is none.
pub fn pong_to(raw: &[u8], mask: [u8; 4]) -> Option<Bytes> {
    // Frames of a provider's are not masked, and those of control have a length of one byte.
    let payload = raw.get(2..).filter(|_| raw[0] & 0x0f == 9)?;
    Some(frame(OpCode::Control(Control::Pong), payload, Some(mask)))
}

fn frame(opcode: OpCode, payload: &[u8], mask: Option<[u8; 4]>) -> Bytes {
    let header = FrameHeader { opcode, mask, ..FrameHeader::default() };
    let length = payload.len() as u64;
    let mut out = BytesMut::with_capacity(header.len(length) + payload.len()).writer();
    let written = header.format(length, &mut out);
    debug_assert!(written.is_ok(), "memory takes what is written");
    let mut out = out.into_inner();
    match mask {
        Some(mask) => out.extend_from_slice(&masked(mask, payload)),
        None => out.extend_from_slice(payload),
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MASK: [u8; 4] = [7, 99, 3, 200];

    fn reader(peer: Peer) -> FrameReader {
        FrameReader::new(peer, 1 << 20)
    }

    fn piece(opcode: u8, is_final: bool, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
        let mut frame = frame(OpCode::from(opcode), payload, mask).to_vec();
        if !is_final {
            frame[0] &= 0x7f;
        }
        frame
    }

    #[test]
    fn a_ping_is_answered_with_what_it_says() {
        let ping = piece(9, true, b"hello", None);
        let pong = pong_to(&ping, MASK).expect("a pong");
        assert_eq!((pong[0] & 0x0f, masked(MASK, &pong[6..]).as_ref()), (10, &b"hello"[..]));
        assert_eq!(pong_to(&piece(10, true, b"hello", None), MASK), None);
    }

    fn all(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<HeardFrame>, Misframed> {
        reader.push(bytes);
        let mut heard = Vec::new();
        while let Some(next) = reader.read()? {
            heard.push(next);
        }
        Ok(heard)
    }

    #[test]
    fn a_message_comes_with_its_own_bytes() {
        for (peer, mask) in [(Peer::Client, Some(MASK)), (Peer::Provider, None)] {
            let frame = text_frame("{\"type\":\"x\"}", mask);
            let heard = all(&mut reader(peer), &frame).expect("good");
            let message = WireMessage { raw: frame, payload: Bytes::from_static(b"{\"type\":\"x\"}"), is_text: true };
            assert_eq!(heard, [HeardFrame::Message(message)]);
        }
    }

    #[test]
    fn pieces_are_one_message_and_control_frames_pass_between_them() {
        let [one, ping, two, end] = [
            piece(1, false, b"he", Some(MASK)),
            piece(9, true, b"p", Some(MASK)),
            piece(0, false, b"ll", Some(MASK)),
            piece(0, true, b"o", Some(MASK)),
        ];
        let heard = all(&mut reader(Peer::Client), &[&*one, &ping, &two, &end].concat()).expect("good");
        let raw = [one, two, end].concat();
        let message = WireMessage { raw: raw.into(), payload: Bytes::from_static(b"hello"), is_text: true };
        assert_eq!(heard, [HeardFrame::Control(ping.into()), HeardFrame::Message(message)]);
    }

    #[test]
    fn broken_rules_have_their_codes() {
        let masked = Some(MASK);
        let reserved = {
            let mut frame = piece(1, true, b"x", masked);
            frame[0] |= 0x40;
            frame
        };
        let cases: [(&str, Vec<u8>, u16); 11] = [
            ("unmasked", piece(1, true, b"x", None), 1002),
            ("an extension", reserved, 1002),
            ("unknown kind", piece(3, true, b"x", masked), 1002),
            ("a ping in pieces", piece(9, false, b"x", masked), 1002),
            ("a long ping", piece(9, true, &[0; 126], masked), 1002),
            ("goes on with nothing", piece(0, true, b"x", masked), 1002),
            ("begins twice", [piece(1, false, b"x", masked), piece(1, true, b"x", masked)].concat(), 1002),
            ("half a code", piece(8, true, &[3], masked), 1002),
            ("code 1005", piece(8, true, &1005_u16.to_be_bytes(), masked), 1002),
            ("a reason of other bytes", piece(8, true, &[3, 232, 255], masked), 1007),
            ("too large", piece(2, true, &vec![0; (1 << 20) + 1], masked), 1009),
        ];
        for (what, bytes, code) in cases {
            let refused = all(&mut reader(Peer::Client), &bytes).expect_err(what);
            assert_eq!(refused.code, code, "{what}");
        }
        let refused = all(&mut reader(Peer::Provider), &piece(1, true, b"x", masked)).expect_err("masked");
        assert_eq!(refused.code, 1002);
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_head() {
        let mut huge = FrameReader::new(Peer::Client, 1000);
        let announced = piece(1, true, &[0; 1001], Some(MASK));
        assert_eq!(all(&mut huge, &announced[..8]).map_err(|e| e.code), Err(1009));
        let mut pieces = FrameReader::new(Peer::Client, 1000);
        assert_eq!(all(&mut pieces, &piece(1, false, &[0; 900], Some(MASK))), Ok(Vec::new()));
        assert_eq!(all(&mut pieces, &piece(0, true, &[0; 101], Some(MASK))).map_err(|e| e.code), Err(1009));
        let mut empty = FrameReader::new(Peer::Client, 1000);
        let nothing = [piece(1, false, b"", Some(MASK)), piece(0, false, b"", Some(MASK)).repeat(300)].concat();
        assert_eq!(all(&mut empty, &nothing).map_err(|e| e.code), Err(1009), "frames of nothing have no end");
    }

    #[test]
    fn ends_are_read_and_written() {
        let close = close_frame(4001, "done", Some(MASK));
        let heard = all(&mut reader(Peer::Client), &close).expect("good");
        assert_eq!(heard, [HeardFrame::Close(Closing { raw: close, code: Some(4001), reason: "done".to_owned() })]);
        let bare = piece(8, true, b"", None);
        let heard = all(&mut reader(Peer::Provider), &bare).expect("good");
        assert_eq!(heard, [HeardFrame::Close(Closing { raw: bare.into(), code: None, reason: String::new() })]);
        assert_eq!(close_frame(1008, &"ü".repeat(200), None).len(), 2 + CODE + 122);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_bytes_are_cut(texts in prop::collection::vec(".{0,300}", 1..6), cut in 1usize..40) {
            let stream: Vec<u8> = texts.iter().flat_map(|text| text_frame(text, Some(MASK)).to_vec()).collect();
            let mut reader = reader(Peer::Client);
            let mut heard = Vec::new();
            for part in stream.chunks(cut) {
                heard.extend(all(&mut reader, part).expect("good"));
            }
            let said: Vec<String> = heard.iter().map(|heard| match heard {
                HeardFrame::Message(message) => String::from_utf8_lossy(&message.payload).into_owned(),
                other => format!("{other:?}"),
            }).collect();
            prop_assert_eq!(said, texts);
            prop_assert_eq!(reader.held(), 0);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), client in any::<bool>()) {
            let _ = all(&mut reader(if client { Peer::Client } else { Peer::Provider }), &bytes);
        }
    }
}
