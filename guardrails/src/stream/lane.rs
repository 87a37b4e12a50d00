//! The text of one choice and kind as it comes: what has been judged, and what takes its place. Positions count the
//! bytes that came; each piece of text belongs to the event that brought it.

use super::plan::{CheckAt, How, Judging, LanePlan};
use super::redactor::{Decision, MOST_HELD, Scanner};
use crate::check::{CheckError, TextUnit};
use crate::checks::Stepping;
use aho_corasick::automaton::StateID;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A check has failed on this lane.
#[derive(Clone, Debug)]
pub(super) struct LaneFailure {
    pub(super) at: CheckAt,
    pub(super) error: Option<CheckError>,
}

/// A piece of text on its way, with the position where it came in.
#[derive(Clone, Debug)]
struct TextStretch {
    origin: usize,
    /// Bytes of it that are undecided in the stage that holds it.
    text: String,
    /// A replacement has one origin; what came as it is has as many positions as bytes.
    is_replacement: bool,
}

/// Which characters were counted so far.
#[derive(Debug, Default)]
struct TextCount {
    count: u64,
    in_word: bool,
}

/// How far a text was read that is forbidden words.
#[derive(Debug)]
struct Reading {
    words: Arc<Stepping>,
    state: StateID,
    /// Bytes at its end that have not passed.
    held: usize,
}

impl Reading {
    /// How many bytes pass now; `None`: a word was found.
    fn read(&mut self, text: &str, is_end: bool) -> Option<usize> {
        self.state = self.words.step(self.state, text)?;
        let waits = self.held + text.len();
        self.held = if is_end { 0 } else { self.words.held(self.state).min(waits) };
        Some(waits - self.held)
    }
}

#[derive(Debug)]
enum LaneWork {
    Scan(Box<Scanner>),
    Read(Reading),
    Count(TextCount),
    Look,
    /// Text that is to be asked about, beginning with what was asked about before.
    Ask(Asking),
}

#[derive(Debug, Default)]
struct Asking {
    text: String,
    /// Bytes of `text` that were asked about and passed.
    passed: usize,
    /// Bytes of `text` that are being asked about.
    asked: Option<usize>,
    /// When the oldest text came that was not asked about.
    since_ms: Option<i64>,
}

#[derive(Debug)]
struct LaneStage {
    judging: Judging,
    work: LaneWork,
    /// It failed without denying, or was told to stop: everything passes.
    is_off: bool,
    /// The text that a stage of the chain has not decided.
    waiting: VecDeque<TextStretch>,
    /// The position up to which a stage beside the chain has passed.
    cursor: usize,
    has_redacted: bool,
}

impl LaneStage {
    fn new(judging: &Judging, overlap: usize) -> Self {
        let work = match &judging.how {
            How::Forbid(finder) => match finder.stepping() {
                Some(words) => LaneWork::Read(Reading { state: words.start(), words, held: 0 }),
                None => LaneWork::Scan(Box::new(Scanner::new(Arc::clone(finder), overlap, true))),
            },
            How::Redact(finder) => LaneWork::Scan(Box::new(Scanner::new(Arc::clone(finder), overlap, false))),
            How::AtMost { .. } => LaneWork::Count(TextCount::default()),
            How::Cased { .. } => LaneWork::Look,
            How::Outside => LaneWork::Ask(Asking::default()),
        };
        Self { judging: judging.clone(), work, is_off: false, waiting: VecDeque::new(), cursor: 0, has_redacted: false }
    }

    fn fail(&self, error: Option<CheckError>) -> LaneFailure {
        LaneFailure { at: self.judging.at, error }
    }

    /// Takes text and says what of it, and of what waited, is decided now.
    fn feed(&mut self, text: &str, is_end: bool, now_ms: i64) -> Result<Vec<Decision>, LaneFailure> {
        if self.is_off {
            return Ok(if text.is_empty() { Vec::new() } else { vec![Decision::Pass(text.len())] });
        }
        match (&mut self.work, &self.judging.how) {
            (LaneWork::Scan(scanner), How::Redact(_)) => {
                scanner.push(text);
                scanner.decide(is_end).map_err(|limit| LaneFailure { at: self.judging.at, error: Some(limit.into()) })
            }
            _ => {
                let passed = self.feed_judge(text, is_end, now_ms)?;
                Ok(if passed == 0 { Vec::new() } else { vec![Decision::Pass(passed)] })
            }
        }
    }

    /// Feeds a stage that changes nothing, and says how many bytes pass now.
    fn feed_judge(&mut self, text: &str, is_end: bool, now_ms: i64) -> Result<usize, LaneFailure> {
        if self.is_off {
            return Ok(text.len());
        }
        let passes = match (&mut self.work, &self.judging.how) {
            (LaneWork::Scan(scanner), _) => {
                let limit = |limit| LaneFailure { at: self.judging.at, error: Some(CheckError::from(limit)) };
                return scanner.forbid(text, is_end).map_err(limit)?.ok_or_else(|| self.fail(None));
            }
            (LaneWork::Read(reading), _) => return reading.read(text, is_end).ok_or_else(|| self.fail(None)),
            (LaneWork::Count(counting), How::AtMost { unit, most }) => {
                counting.add(*unit, text);
                counting.count <= *most
            }
            (LaneWork::Look, How::Cased { upper }) => crate::checks::is_cased(text, *upper),
            (LaneWork::Ask(asking), _) => {
                asking.text.push_str(text);
                if !text.is_empty() {
                    asking.since_ms.get_or_insert(now_ms);
                }
                return Ok(0);
            }
            _ => true,
        };
        if passes { Ok(text.len()) } else { Err(self.fail(None)) }
    }
}

impl TextCount {
    fn add(&mut self, unit: TextUnit, text: &str) {
        match unit {
            TextUnit::Sentences | TextUnit::Characters => self.count += crate::checks::count(unit, text),
            TextUnit::Words => {
                for c in text.chars() {
                    let is_word = !c.is_whitespace();
                    self.count += u64::from(is_word && !self.in_word);
                    self.in_word = is_word;
                }
            }
        }
    }
}

/// A piece of text as an event brought it.
#[derive(Clone, Debug)]
struct ArrivedText {
    range: Range<usize>,
    /// What takes its place; `None`: nothing is rewritten here, and it stays as it came.
    out: Option<String>,
    is_touched: bool,
}

#[derive(Debug)]
pub(super) struct StreamLane {
    overlap: usize,
    window: usize,
    max_wait_ms: u32,
    beside: Vec<LaneStage>,
    chain: Vec<LaneStage>,
    /// Pieces that were not taken yet; the first one's number is `first`.
    pieces: VecDeque<ArrivedText>,
    first: usize,
    came: usize,
    pub(super) is_ended: bool,
}

/// What is to be asked about next.
pub(super) struct LaneWindow {
    pub(super) at: CheckAt,
    pub(super) text: String,
}

/// A piece that waits, and what failed on it.
pub(super) struct PushedPiece {
    pub(super) number: usize,
    pub(super) failed: Vec<LaneFailure>,
}

/// A piece of which nothing is kept here, and what failed on it.
pub(super) struct FlowingPiece {
    pub(super) range: Range<usize>,
    pub(super) failed: Vec<LaneFailure>,
}

/// What takes the place of a piece; `None`: it stays as it came.
pub(super) struct Taken {
    pub(super) text: Option<String>,
    pub(super) is_touched: bool,
}

impl StreamLane {
    pub(super) fn new(plan: &LanePlan) -> Self {
        let stages = |list: &[Judging]| list.iter().map(|j| LaneStage::new(j, plan.overlap)).collect();
        Self {
            overlap: plan.overlap,
            window: plan.window,
            max_wait_ms: plan.max_wait_ms,
            beside: stages(&plan.beside),
            chain: stages(&plan.chain),
            pieces: VecDeque::new(),
            first: 0,
            came: 0,
            is_ended: false,
        }
    }

    /// Takes a piece and gives its number. What fails is told; what failed without denying is to be switched off.
    pub(super) fn push(&mut self, text: &str, now_ms: i64) -> (usize, Vec<LaneFailure>) {
        let range = self.came..self.came + text.len();
        self.came = range.end;
        self.pieces.push_back(ArrivedText { range: range.clone(), out: Some(String::new()), is_touched: false });
        let mut failed = self.feed_beside(text, false, now_ms);
        let stretch = TextStretch { origin: range.start, text: text.to_owned(), is_replacement: false };
        self.flow(0, vec![stretch], false, now_ms, &mut failed);
        (self.first + self.pieces.len() - 1, failed)
    }

    /// Takes a piece like [`Self::push`], but makes no copy of what nothing rewrites. `None`: nothing waits here nor,
    /// as the caller says, before it, so that the piece has passed and is taken already.
    pub(super) fn pass(&mut self, text: &str, is_first: bool, now_ms: i64) -> Option<PushedPiece> {
        if !self.chain.is_empty() {
            let (number, failed) = self.push(text, now_ms);
            return Some(PushedPiece { number, failed });
        }
        let range = self.came..self.came + text.len();
        self.came = range.end;
        let failed = self.feed_beside(text, false, now_ms);
        if is_first && self.pieces.is_empty() && failed.is_empty() && self.progress() == self.came {
            self.first += 1;
            return None;
        }
        self.pieces.push_back(ArrivedText { range, out: None, is_touched: false });
        Some(PushedPiece { number: self.first + self.pieces.len() - 1, failed })
    }

    /// Judges a piece that the caller keeps, and says where it lies. `None`: it may be rewritten, so it is to be taken.
    pub(super) fn flow_past(&mut self, text: &str, now_ms: i64) -> Option<FlowingPiece> {
        if !self.chain.is_empty() {
            return None;
        }
        let range = self.came..self.came + text.len();
        self.came = range.end;
        let failed = self.feed_beside(text, false, now_ms);
        Some(FlowingPiece { range, failed })
    }

    /// Takes a piece that the caller kept so far, and gives its number.
    pub(super) fn hold(&mut self, range: Range<usize>) -> usize {
        self.pieces.push_back(ArrivedText { range, out: None, is_touched: false });
        self.first + self.pieces.len() - 1
    }

    fn feed_beside(&mut self, text: &str, is_end: bool, now_ms: i64) -> Vec<LaneFailure> {
        let mut failed = Vec::new();
        for stage in &mut self.beside {
            match stage.feed_judge(text, is_end, now_ms) {
                Ok(passed) => stage.cursor += passed,
                Err(failure) => failed.push(failure),
            }
        }
        failed
    }

    /// The text is whole: what still waits is decided.
    pub(super) fn end(&mut self, now_ms: i64) -> Vec<LaneFailure> {
        if self.is_ended {
            return Vec::new();
        }
        self.is_ended = true;
        let mut failed = self.feed_beside("", true, now_ms);
        self.flow(0, Vec::new(), true, now_ms, &mut failed);
        failed
    }

    /// Lets text run through the chain from a stage on.
    fn flow(
        &mut self,
        from: usize,
        mut text: Vec<TextStretch>,
        mut is_end: bool,
        now_ms: i64,
        failed: &mut Vec<LaneFailure>,
    ) {
        for stage in &mut self.chain[from..] {
            let joined: String = text.iter().map(|s| s.text.as_str()).collect();
            stage.waiting.extend(text.into_iter().filter(|s| !s.text.is_empty()));
            match stage.feed(&joined, is_end, now_ms) {
                Ok(decided) => {
                    stage.has_redacted |= decided.iter().any(|d| matches!(d, Decision::Hit { .. }));
                    text = take(&mut stage.waiting, decided);
                }
                Err(failure) => {
                    failed.push(failure);
                    return;
                }
            }
            // What waits for somebody's answer is not over yet.
            is_end &= stage.waiting.is_empty();
        }
        for stretch in text {
            self.put(&stretch);
        }
    }

    /// Text that left the chain goes into the pieces that it came in.
    fn put(&mut self, stretch: &TextStretch) {
        let mut at = stretch.origin;
        let mut rest = stretch.text.as_str();
        for piece in &mut self.pieces {
            if piece.range.end <= at {
                continue;
            }
            let out = piece.out.get_or_insert_default();
            if stretch.is_replacement {
                out.push_str(rest);
                piece.is_touched = true;
                return;
            }
            let share = rest.len().min(piece.range.end - at);
            out.push_str(&rest[..share]);
            (at, rest) = (at + share, &rest[share..]);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// The position below which all is decided.
    pub(super) fn progress(&self) -> usize {
        let beside = self.beside.iter().map(|s| if s.is_off { self.came } else { s.cursor });
        let chain = self.chain.iter().filter_map(|s| s.waiting.front()).map(|s| s.origin);
        beside.chain(chain).min().unwrap_or(self.came).min(self.came)
    }

    /// Whether a piece is decided.
    pub(super) fn is_ready(&self, number: usize) -> bool {
        let piece = number.checked_sub(self.first).and_then(|i| self.pieces.get(i));
        piece.is_none_or(|p| self.progress() >= p.range.end)
    }

    /// What takes the place of the first piece that was not taken.
    pub(super) fn take(&mut self) -> Taken {
        let Some(piece) = self.pieces.pop_front() else { return Taken { text: None, is_touched: false } };
        self.first += 1;
        let differs = piece.out.as_ref().is_some_and(|out| out.len() != piece.range.len());
        Taken { text: piece.out, is_touched: piece.is_touched || differs }
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.pieces.iter().map(|p| p.range.len()).sum()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting() > MOST_HELD
    }

    /// A check that failed and does not deny lets everything pass from here on.
    pub(super) fn switch_off(&mut self, at: CheckAt, now_ms: i64) -> Vec<LaneFailure> {
        for stage in self.beside.iter_mut().filter(|s| s.judging.at == at) {
            stage.is_off = true;
        }
        let mut failed = Vec::new();
        let Some(position) = self.chain.iter().position(|s| s.judging.at == at && !s.is_off) else { return failed };
        let stage = &mut self.chain[position];
        stage.is_off = true;
        let text: Vec<TextStretch> = stage.waiting.drain(..).collect();
        self.flow(position + 1, text, self.is_ended, now_ms, &mut failed);
        failed
    }

    /// Whether a check has put other text in some place.
    pub(super) fn has_redacted(&self, at: CheckAt) -> bool {
        self.chain.iter().any(|s| s.judging.at == at && s.has_redacted)
    }

    /// What outside checks are to be asked now.
    pub(super) fn windows(&mut self, now_ms: i64) -> Vec<LaneWindow> {
        let (overlap, is_ended) = (self.overlap, self.is_ended);
        let (window, max_wait_ms) = (self.window, i64::from(self.max_wait_ms));
        let mut out = Vec::new();
        for stage in self.beside.iter_mut().chain(&mut self.chain).filter(|s| !s.is_off) {
            let LaneWork::Ask(asking) = &mut stage.work else { continue };
            let new = asking.text[asking.passed..].chars().count();
            let is_late = asking.since_ms.is_some_and(|since| now_ms - since >= max_wait_ms);
            if asking.asked.is_some() || new == 0 || !(new >= window || is_late || is_ended) {
                continue;
            }
            let before = asking.text[..asking.passed].char_indices().rev().take(overlap).last().map_or(0, |(at, _)| at);
            asking.text.drain(..before);
            asking.passed -= before;
            asking.asked = Some(asking.text.len());
            asking.since_ms = None;
            out.push(LaneWindow { at: stage.judging.at, text: asking.text.clone() });
        }
        out
    }

    /// When an outside check becomes due by time alone.
    pub(super) fn due_ms(&self) -> Option<i64> {
        let stages = self.beside.iter().chain(&self.chain).filter(|s| !s.is_off);
        let since = stages.filter_map(|s| match &s.work {
            LaneWork::Ask(asking) if asking.asked.is_none() => asking.since_ms,
            _ => None,
        });
        since.min().map(|since| since + i64::from(self.max_wait_ms))
    }

    /// The window of a check passed.
    pub(super) fn passed(&mut self, at: CheckAt, now_ms: i64) -> Vec<LaneFailure> {
        let (overlap, is_ended) = (self.overlap, self.is_ended);
        // What passed, but for the end that the next window looks at again.
        let release = |asking: &mut Asking| {
            let Some(asked) = asking.asked.take() else { return };
            asking.passed = asked;
            if asking.text.len() > asked {
                asking.since_ms.get_or_insert(now_ms);
            }
        };
        let held = |asking: &Asking| {
            if is_ended && asking.passed == asking.text.len() {
                return 0;
            }
            let behind = &asking.text[asking.passed..];
            let last = asking.text[..asking.passed].chars().rev().take(overlap).map(char::len_utf8).sum::<usize>();
            behind.len() + last
        };
        for stage in self.beside.iter_mut().filter(|s| s.judging.at == at) {
            if let LaneWork::Ask(asking) = &mut stage.work {
                release(asking);
                stage.cursor = self.came - held(asking);
            }
        }
        let mut failed = Vec::new();
        let Some(position) = self.chain.iter().position(|s| s.judging.at == at) else { return failed };
        let stage = &mut self.chain[position];
        if let LaneWork::Ask(asking) = &mut stage.work {
            release(asking);
            let waits: usize = stage.waiting.iter().map(|s| s.text.len()).sum();
            let decided = waits.saturating_sub(held(asking));
            let text = take(&mut stage.waiting, vec![Decision::Pass(decided)]);
            let is_done = is_ended && stage.waiting.is_empty();
            self.flow(position + 1, text, is_done, now_ms, &mut failed);
        }
        failed
    }
}

/// Takes what was decided from what waits; a match leaves its replacement where it began.
fn take(waiting: &mut VecDeque<TextStretch>, decided: Vec<Decision>) -> Vec<TextStretch> {
    let mut out = Vec::new();
    for decision in decided {
        let (mut bytes, replacement) = match decision {
            Decision::Pass(bytes) => (bytes, None),
            Decision::Hit { bytes, replacement } => (bytes, Some(replacement)),
        };
        if let (Some(text), Some(first)) = (&replacement, waiting.front()) {
            out.push(TextStretch { origin: first.origin, text: text.clone(), is_replacement: true });
        }
        while bytes > 0 {
            let Some(mut first) = waiting.pop_front() else { break };
            let share = bytes.min(first.text.len());
            if share < first.text.len() {
                let rest = first.text.split_off(share);
                let origin = if first.is_replacement { first.origin } else { first.origin + share };
                waiting.push_front(TextStretch { origin, text: rest, is_replacement: first.is_replacement });
            }
            bytes -= share;
            if replacement.is_none() {
                out.push(first);
            }
        }
    }
    out.retain(|s| !s.text.is_empty());
    out
}
