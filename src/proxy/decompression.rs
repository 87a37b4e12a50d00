//! Answers that a provider compressed though nobody asked it to: made what they would have been, within bounds, so that
//! they are translated, counted and read by clients that asked for none. What passes through untouched is never
//! unpacked. Knows bytes, and no dialect but for the errors of a stream.

use super::deliver::in_dialect;
use brotli::DecompressorWriter;
use bytes::{Bytes, BytesMut};
use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use gateway_domain::Dialect;
use gateway_providers::tap::TextPlace;
use gateway_providers::{Ending, Failure, Progress, StreamTranslator};
use http::{HeaderMap, header};
use std::io::{self, Write};
use zstd::stream::raw;
use zstd::stream::zio;

/// What one piece may become.
const MOST_OF_A_PIECE: usize = 8 << 20;
/// Largest window that a decoder of Zstandard has to have (RFC 8878, 3.1.1.1.2): 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
const BROTLI_BUFFER: usize = 4096;

/// A compression that can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// How an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Packed(Packing),
    /// It is packed in a way that nobody here knows, or in several.
    Unknown,
}

impl Encoding {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut all = headers.get_all(header::CONTENT_ENCODING).into_iter();
        let Some(first) = all.next() else { return Self::Plain };
        if all.next().is_some() {
            return Self::Unknown;
        }
        match first.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Self::Plain,
            b"gzip" | b"x-gzip" => Self::Packed(Packing::Gzip),
            b"deflate" => Self::Packed(Packing::Deflate),
            b"br" => Self::Packed(Packing::Brotli),
            b"zstd" => Self::Packed(Packing::Zstd),
            _ => Self::Unknown,
        }
    }
}

impl Encoding {
    /// `None`: it is plain.
    pub(crate) const fn packing(self) -> Result<Option<Packing>, &'static str> {
        match self {
            Self::Plain => Ok(None),
            Self::Packed(packing) => Ok(Some(packing)),
            Self::Unknown => Err("The provider encoded its answer in a way that nobody asked for"),
        }
    }
}

/// What comes out, as far as there is room for it.
#[derive(Debug)]
struct UnpackRoom {
    bytes: BytesMut,
    most: usize,
}

impl Write for UnpackRoom {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Deflate with a zlib head around it, or bare, as some servers send it under the same name. Neither of the library's
/// own writers tells a body that was cut off from a whole one.
struct Inflate {
    inflate: Decompress,
    room: UnpackRoom,
    ended: bool,
}

impl Inflate {
    fn new(first: u8, room: UnpackRoom) -> Self {
        // The method in the low bits of the first byte is 8 (RFC 1950, 2.2), which begins no block of bare deflate.
        Self { inflate: Decompress::new(first & 0x0f == 8), room, ended: false }
    }
}

impl Write for Inflate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        // What follows the end is nobody's.
        while !self.ended {
            let (mut out, before_in, before_out) = ([0; 8192], self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(&bytes[taken..], &mut out, FlushDecompress::None)?;
            let written = usize::try_from(self.inflate.total_out() - before_out).unwrap_or(out.len());
            taken += usize::try_from(self.inflate.total_in() - before_in).unwrap_or(bytes.len());
            self.room.write_all(&out[..written])?;
            self.ended = status == Status::StreamEnd;
            if taken == bytes.len() && written < out.len() {
                break;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Decoder {
    Gzip(Box<GzDecoder<UnpackRoom>>),
    Deflate(Box<Inflate>),
    Brotli(Box<DecompressorWriter<UnpackRoom>>),
    Zstd(Box<zio::Writer<UnpackRoom, raw::Decoder<'static>>>),
}

impl Decoder {
    fn new(packing: Packing, first: u8, room: UnpackRoom) -> io::Result<Self> {
        Ok(match packing {
            Packing::Gzip => Self::Gzip(Box::new(GzDecoder::new(room))),
            Packing::Deflate => Self::Deflate(Box::new(Inflate::new(first, room))),
            Packing::Brotli => Self::Brotli(Box::new(DecompressorWriter::new(room, BROTLI_BUFFER))),
            Packing::Zstd => {
                let mut decoder = raw::Decoder::new()?;
                decoder.set_parameter(raw::DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Self::Zstd(Box::new(zio::Writer::new(room, decoder)))
            }
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(decoder) => decoder,
            Self::Deflate(decoder) => decoder,
            Self::Brotli(decoder) => decoder,
            Self::Zstd(decoder) => decoder,
        }
    }

    fn room(&mut self) -> &mut UnpackRoom {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => &mut decoder.room,
            Self::Brotli(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.writer_mut(),
        }
    }

    /// Whether what came is whole.
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Deflate(decoder) if decoder.ended => Ok(()),
            Self::Deflate(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Brotli(decoder) => decoder.close(),
            Self::Zstd(decoder) => decoder.finish(),
        }
    }
}

/// Why an answer could not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unpackable {
    TooLarge,
    Garbled,
}

impl Unpackable {
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::TooLarge => "The provider compressed an answer that is larger than it may be",
            Self::Garbled => "The provider compressed an answer that cannot be unpacked",
        }
    }

    fn of(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::FileTooLarge { Self::TooLarge } else { Self::Garbled }
    }
}

/// Undoes a compression piece by piece.
pub(crate) struct Unpacker {
    packing: Packing,
    /// Made when the first byte comes.
    decoder: Option<Decoder>,
}

impl Unpacker {
    pub(crate) const fn new(packing: Packing) -> Self {
        Self { packing, decoder: None }
    }

    /// What these bytes add.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, Unpackable> {
        let Some(first) = bytes.first() else { return Ok(Bytes::new()) };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let room = UnpackRoom { bytes: BytesMut::new(), most: MOST_OF_A_PIECE };
                let decoder = Decoder::new(self.packing, *first, room).map_err(|_| Unpackable::Garbled)?;
                self.decoder.insert(decoder)
            }
        };
        let written = decoder.writer().write_all(bytes).and_then(|()| decoder.writer().flush());
        written.map_err(|e| Unpackable::of(&e))?;
        Ok(decoder.room().bytes.split().freeze())
    }

    /// The last bytes, of what was whole.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Unpackable> {
        let Some(decoder) = &mut self.decoder else { return Ok(Bytes::new()) };
        decoder.end().map_err(|e| Unpackable::of(&e))?;
        Ok(decoder.room().bytes.split().freeze())
    }
}

/// A translator of a stream that comes compressed.
pub(crate) struct UnpackedStream {
    unpacker: Unpacker,
    translator: Box<dyn StreamTranslator>,
    dialect: Dialect,
    /// What the stream ended with in place of its end.
    broken: Option<String>,
}

impl UnpackedStream {
    pub(crate) fn over(
        translator: Box<dyn StreamTranslator>,
        packing: Packing,
        dialect: Dialect,
    ) -> Box<dyn StreamTranslator> {
        Box::new(Self { unpacker: Unpacker::new(packing), translator, dialect, broken: None })
    }
}

impl StreamTranslator for UnpackedStream {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        let plain = self.unpacker.push(&chunk).map_err(|why| in_dialect(self.dialect, why.describe()))?;
        self.translator.push(plain)
    }

    fn progress(&self) -> Progress {
        self.translator.progress()
    }

    fn finish(&mut self) -> Bytes {
        // What its dialect calls whole is whole, however its compression ends.
        let rest = match self.unpacker.finish() {
            Ok(rest) => self.translator.push(rest),
            Err(_) if self.translator.progress() == Progress::Complete => return self.translator.finish(),
            Err(why) => Err(in_dialect(self.dialect, why.describe())),
        };
        match rest {
            Ok(rest) => [rest, self.translator.finish()].concat().into(),
            Err(failure) => {
                self.broken = Some(failure.message.clone());
                self.translator.abort(&failure)
            }
        }
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        self.translator.abort(failure)
    }

    fn ending(&self) -> Ending {
        let ending = self.translator.ending();
        match &self.broken {
            Some(why) => Ending { failed: Some(why.clone()), complete: false, ..ending },
            None => ending,
        }
    }

    fn has_error_events(&self) -> bool {
        self.translator.has_error_events()
    }

    fn said_chars(&self) -> u64 {
        self.translator.said_chars()
    }

    fn held(&self) -> usize {
        self.translator.held()
    }

    fn texts(&self) -> &[TextPlace] {
        self.translator.texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    fn packed(packing: Packing, raw: bool, text: &[u8]) -> Vec<u8> {
        match packing {
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
            }
            Packing::Deflate if raw => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
            }
            Packing::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
            }
            Packing::Brotli => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 9, 22).write_all(text).expect("memory");
                out
            }
            Packing::Zstd => zstd::encode_all(text, 19).expect("memory"),
        }
    }

    const ALL: [(Packing, bool); 5] = [
        (Packing::Gzip, false),
        (Packing::Deflate, false),
        (Packing::Deflate, true),
        (Packing::Brotli, false),
        (Packing::Zstd, false),
    ];

    /// A body that is there as a whole.
    fn unpacked(packing: Packing, body: &[u8]) -> Result<Bytes, Unpackable> {
        let mut unpacker = Unpacker::new(packing);
        let first = unpacker.push(body)?;
        Ok([first, unpacker.finish()?].concat().into())
    }

    #[test]
    fn each_packing_is_undone_however_it_is_cut() {
        let text = "{\"choices\":[{\"message\":\"hé\"}]} ".repeat(500);
        for (packing, raw) in ALL {
            let packed = packed(packing, raw, text.as_bytes());
            assert_eq!(unpacked(packing, &packed), Ok(Bytes::from(text.clone())), "{packing:?}");
            let (mut unpacker, mut out) = (Unpacker::new(packing), Vec::new());
            for byte in &packed {
                out.extend_from_slice(&unpacker.push(&[*byte]).expect("sound"));
            }
            out.extend_from_slice(&unpacker.finish().expect("whole"));
            assert_eq!(out, text.as_bytes(), "{packing:?} byte by byte");
        }
    }

    #[test]
    fn bombs_and_garbage_are_refused() {
        let bomb = vec![0; 64 << 20];
        for (packing, raw) in ALL {
            let packed = packed(packing, raw, &bomb);
            assert!(packed.len() < 1 << 20, "{packing:?}: {}", packed.len());
            assert_eq!(unpacked(packing, &packed), Err(Unpackable::TooLarge), "{packing:?}");
            let text = self::packed(packing, raw, "some text that is cut off".repeat(9).as_bytes());
            assert!(unpacked(packing, &text[..text.len() / 2]).is_err(), "{packing:?} cut off");
            assert_eq!(unpacked(packing, b"\xff\xfe{\"no\":1}"), Err(Unpackable::Garbled), "{packing:?}");
        }
    }

    #[test]
    fn encodings_are_told_by_name() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, value.parse().expect("a value"));
            }
            Encoding::of(&headers)
        };
        assert_eq!((of(&[]), of(&["identity"])), (Encoding::Plain, Encoding::Plain));
        assert_eq!((of(&["GZIP"]), of(&["br"])), (Encoding::Packed(Packing::Gzip), Encoding::Packed(Packing::Brotli)));
        for unknown in [&["gzip, br"][..], &["gzip", "br"], &["compress"]] {
            assert_eq!(of(unknown), Encoding::Unknown);
        }
    }
}
