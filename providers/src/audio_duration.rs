//! How long a sound is, by the container that it comes in: WAV, MP3, FLAC, Ogg and MP4. What is none of these has no
//! known length. Reads bytes of strangers: every step goes forward, and nothing is believed beyond the end of what is
//! there.

/// Thousandths of a second; `None`: nobody can tell.
pub(crate) fn millis(sound: &[u8]) -> Option<u32> {
    let found = match sound {
        [b'R', b'I', b'F', b'F', ..] => wav(sound),
        [b'f', b'L', b'a', b'C', ..] => flac(sound),
        [b'O', b'g', b'g', b'S', ..] => ogg(sound),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => mp4(sound),
        _ => mp3(sound),
    };
    found.and_then(|millis| u32::try_from(millis).ok()).filter(|millis| *millis > 0)
}

/// What of a sound is kept to learn its rate from.
const HEAD: usize = 64;
/// Bytes a millisecond of sound that speech is made in where no head tells: 24,000 samples of two bytes a second.
const PCM: u64 = 48;

/// How long a sound is that passes in pieces, of which only the beginning is kept.
#[derive(Clone, Debug, Default)]
pub struct PassingSound {
    head: Vec<u8>,
    bytes: u64,
}

impl PassingSound {
    pub fn push(&mut self, piece: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..room]);
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
    }

    /// So far, by the container or by what is usual for `media`: a guess that is rather long than short.
    pub fn millis(&self, media: &str) -> u32 {
        let head = &*self.head;
        let told = match head {
            [b'R', b'I', b'F', b'F', ..] => wav_rate(head).map(|rate| self.bytes.saturating_mul(1000) / rate),
            _ => mp3_rate(head).map(|rate| self.bytes.saturating_mul(8) / rate),
        };
        let usual = match media.split(';').next().unwrap_or_default().trim() {
            "audio/mpeg" | "audio/mp3" => 16,
            "audio/aac" | "audio/opus" | "audio/ogg" => 4,
            "audio/flac" => 24,
            _ => PCM,
        };
        u32::try_from(told.unwrap_or(self.bytes / usual)).unwrap_or(u32::MAX)
    }
}

/// Bytes a second, as a head tells them whose `fmt ` comes first, as it does where sound is made.
fn wav_rate(head: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(head, b"fmt ")?;
    little(head, at + 16).filter(|rate| *rate > 0)
}

/// Thousands of bits a second of the first frame of MPEG's layer III (ISO/IEC 11172-3, 2.4.2.3; 13818-3 halves the
/// rates).
fn mp3_rate(head: &[u8]) -> Option<u64> {
    const OF_1: [u64; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const OF_2: [u64; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    let [0xff, second, third, ..] = head else { return None };
    if second & 0xe6 != 0xe2 {
        return None;
    }
    let rates = if second & 0x18 == 0x18 { OF_1 } else { OF_2 };
    rates.get(usize::from(third >> 4)).copied().filter(|rate| *rate > 0)
}

fn little(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn big(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

/// Milliseconds of the sound in `data`, at the bytes per second that `fmt ` tells.
fn wav(sound: &[u8]) -> Option<u64> {
    let (mut at, mut rate) = (12, None);
    while let Some(length) = little(sound, at + 4) {
        let start = at + 8;
        match sound.get(at..at + 4)? {
            b"fmt " => rate = little(sound, start + 8).filter(|rate| *rate > 0),
            b"data" => {
                // Recorders that stream leave the length open.
                let there = sound.len().saturating_sub(start) as u64;
                return Some(length.min(there) * 1000 / rate?);
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = start.checked_add(usize::try_from(length + length % 2).ok()?)?;
    }
    None
}

/// `STREAMINFO` comes first and tells rate and number of samples (RFC 9639, section 8.2).
fn flac(sound: &[u8]) -> Option<u64> {
    let info = sound.get(8..)?;
    let rate = big(info, 10)? >> 12;
    let samples = (u64::from(*info.get(13)? & 0x0f) << 32) | big(info, 14)?;
    (samples * 1000).checked_div(rate)
}

/// The position of the last page, in samples (RFC 3533; RFC 7845 for Opus, which counts 48,000 a second).
fn ogg(sound: &[u8]) -> Option<u64> {
    let head = sound.get(28..64)?;
    let rate = match memchr::memmem::find(head, b"\x01vorbis") {
        Some(at) => little(head, at + 12)?,
        None => memchr::memmem::find(head, b"OpusHead").map(|_| 48_000)?,
    };
    let mut last = None;
    for at in memchr::memmem::find_iter(sound, b"OggS") {
        let position = u64::from_le_bytes(*sound.get(at + 6..)?.first_chunk()?);
        // A page on which no packet ends has none.
        last = Some(position).filter(|position| *position != u64::MAX).or(last);
    }
    last?.checked_mul(1000)?.checked_div(rate)
}

/// `moov` holds `mvhd`, with a time scale and a duration in it (ISO/IEC 14496-12, 8.2.2).
fn mp4(sound: &[u8]) -> Option<u64> {
    let movie = inner(sound, b"moov")?;
    let head = inner(movie, b"mvhd")?;
    let (scale, length) = match head.first()? {
        0 => (big(head, 12)?, big(head, 16)?),
        _ => (big(head, 20)?, (big(head, 24)? << 32) | big(head, 28)?),
    };
    length.checked_mul(1000)?.checked_div(scale)
}

fn inner<'b>(mut boxes: &'b [u8], name: &[u8; 4]) -> Option<&'b [u8]> {
    loop {
        let (head, size) = match big(boxes, 0)? {
            0 => (8, boxes.len()),
            1 => (16, usize::try_from((big(boxes, 8)? << 32) | big(boxes, 12)?).ok()?),
            size => (8, usize::try_from(size).ok()?),
        };
        if boxes.get(4..8)? == name {
            return boxes.get(head..size.min(boxes.len()));
        }
        boxes = boxes.get(size.max(head)..)?;
    }
}

const MPEG1_KBITS: [u64; 16] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0];
const MPEG2_KBITS: [u64; 16] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0];

/// The sum of its frames of layer III, behind a tag where there is one (ISO/IEC 11172-3, 2.4.2.3).
fn mp3(sound: &[u8]) -> Option<u64> {
    let mut at = match sound {
        [b'I', b'D', b'3', _, _, _, a, b, c, d, ..] => {
            10 + [a, b, c, d].iter().fold(0, |size, byte| size << 7 | usize::from(**byte & 0x7f))
        }
        _ => 0,
    };
    // Thousandths of a thousandth, as frames are no whole ones.
    let mut micros = 0;
    while let Some(frame) = sound.get(at..).and_then(frame) {
        micros += frame.micros;
        at += frame.bytes;
    }
    // Bytes that happen to look like a frame are no sound.
    (micros > 100_000).then_some(micros / 1000)
}

struct Mp3Frame {
    bytes: usize,
    micros: u64,
}

fn frame(sound: &[u8]) -> Option<Mp3Frame> {
    let [0xff, second, third, _, ..] = *sound else { return None };
    let (version, layer) = ((second >> 3) & 3, (second >> 1) & 3);
    if second < 0xe0 || layer != 1 || version == 1 {
        return None;
    }
    let is_first = version == 3;
    let kbits = if is_first { MPEG1_KBITS } else { MPEG2_KBITS }[usize::from(third >> 4)];
    let rate = *[44_100_u64, 48_000, 32_000].get(usize::from((third >> 2) & 3))?;
    let rate = match version {
        3 => rate,
        2 => rate / 2,
        _ => rate / 4,
    };
    let samples: u64 = if is_first { 1152 } else { 576 };
    let bytes = usize::try_from(samples / 8 * kbits * 1000 / rate + u64::from((third >> 1) & 1)).ok()?;
    (kbits > 0).then_some(Mp3Frame { bytes, micros: samples * 1_000_000 / rate })
}

/// Where the last cue of subtitles ends: SRT's `00:01:02,500`, or VTT's `01:02.500`.
pub(crate) fn last_cue(subtitles: &str) -> Option<u32> {
    let line = subtitles.lines().rev().find(|line| line.contains("-->"))?;
    let (_, end) = line.split_once("-->")?;
    let end = end.split_whitespace().next()?.replace(',', ".");
    let mut millis = 0.0;
    for part in end.split(':') {
        millis = millis * 60.0 + part.parse::<f64>().ok()? * 1000.0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    (millis > 0.0).then_some(millis.round() as u32)
}

#[cfg(test)]
pub(crate) fn silence(seconds: u32) -> Vec<u8> {
    let bytes = 16_000 * seconds;
    let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    out.extend_from_slice(&8_000_u32.to_le_bytes());
    out.extend_from_slice(&16_000_u32.to_le_bytes());
    out.extend_from_slice(b"\x02\0\x10\0data");
    out.extend_from_slice(&bytes.to_le_bytes());
    out.resize(out.len() + bytes as usize, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_container_tells_its_length() {
        assert_eq!(millis(&silence(90)), Some(90_000));
        let mut open = silence(2);
        open[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(millis(&open), Some(2_000), "a length left open ends with the bytes");

        // 128 kbit/s at 44.1 kHz: 417 bytes and 1152 samples each.
        let mut frame = vec![0xff, 0xfb, 0x90, 0];
        frame.resize(417, 0);
        assert_eq!(millis(&frame.repeat(100)), Some(2_612));
        let tag = [b"ID3\x04\0\0\0\0\0\x05".to_vec(), vec![0; 5], frame.repeat(100)].concat();
        assert_eq!(millis(&tag), Some(2_612));

        let mut flac = b"fLaC\0\0\0\x22\0\0\0\0\0\0\0\0\0\0".to_vec();
        flac.extend_from_slice(&(44_100_u32 << 12).to_be_bytes());
        flac.extend_from_slice(&(441_000_u32).to_be_bytes());
        assert_eq!(millis(&flac), Some(10_000));

        let page = |position: u64, head: &[u8]| {
            let mut page = b"OggS\0\0".to_vec();
            page.extend_from_slice(&position.to_le_bytes());
            page.resize(28, 0);
            page.extend_from_slice(head);
            page.resize(80, 0);
            page
        };
        assert_eq!(millis(&[page(0, b"OpusHead"), page(144_000, b""), page(u64::MAX, b"")].concat()), Some(3_000));
        let vorbis = [b"\x01vorbis\0\0\0\0\x01".to_vec(), 16_000_u32.to_le_bytes().to_vec()].concat();
        assert_eq!(millis(&[page(0, &vorbis), page(32_000, b"")].concat()), Some(2_000));

        let boxed = |name: &[u8; 4], inner: &[u8]| {
            [&u32::try_from(inner.len() + 8).expect("small").to_be_bytes()[..], name, inner].concat()
        };
        let mut head = vec![0; 12];
        head.extend_from_slice(&600_u32.to_be_bytes());
        head.extend_from_slice(&1_500_u32.to_be_bytes());
        let movie = boxed(b"moov", &[boxed(b"free", b"x"), boxed(b"mvhd", &head)].concat());
        assert_eq!(millis(&[boxed(b"ftyp", b"M4A "), movie].concat()), Some(2_500));
    }

    #[test]
    fn what_is_none_has_no_length_and_no_cut_does_harm() {
        for none in [&b""[..], b"RIFF", b"fLaC", b"OggS", b"\0\0\0\x01ftyp", b"ID3", b"\xff\xfb\x90\0", b"no sound"] {
            assert_eq!(millis(none), None, "{none:?}");
        }
        let whole = silence(1);
        for end in 0..60 {
            let _ = millis(&whole[..end]);
        }
        for first in [
            &b"fLaC"[..],
            b"OggS",
            b"\0\0\0\0ftyp",
            b"\0\0\0\x01ftyp",
            b"ID3\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff",
        ] {
            for fill in [0_u8, 1, 0x7f, 0xff] {
                let mut odd = first.to_vec();
                odd.resize(300, fill);
                let _ = millis(&odd);
            }
        }
    }

    #[test]
    fn cues_end_where_they_say() {
        assert_eq!(
            last_cue("1\n00:00:00,000 --> 00:00:02,000\nA\n\n2\n00:00:02,000 --> 00:01:02,500\nB\n"),
            Some(62_500)
        );
        assert_eq!(last_cue("WEBVTT\n\n00:00.000 --> 00:03.250 align:start\nA\n"), Some(3_250));
        assert_eq!(last_cue("no cues"), None);
    }
}
