//! The pump with scripted sources and a sink that remembers: which bytes go down, in which writes, and how it ends.

use super::*;
use crate::proxy::body::BufferBudget;
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::deliver::timers::Deadline;
use gateway_domain::FaultKind;
use pingora::{Error, ErrorType};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::sleep;

/// What a scripted source does next.
enum Act {
    Say(&'static str),
    /// The last piece.
    Last(&'static str),
    End,
    Break(Break),
    Wait(Duration),
}

#[derive(Default)]
struct Scripted {
    acts: VecDeque<Act>,
    until: Option<tokio::time::Instant>,
    tail: &'static str,
    /// Errors cannot be told in-band.
    cuts: bool,
    broke: Option<String>,
    asked_for_tokens: AtomicU32,
}

fn source(acts: impl IntoIterator<Item = Act>) -> Scripted {
    Scripted { acts: acts.into_iter().collect(), ..Scripted::default() }
}

impl Source for Scripted {
    async fn next(&mut self) -> SourceEvent {
        loop {
            let piece = |text: &'static str, last| {
                let bytes = Bytes::from_static(text.as_bytes());
                SourceEvent::Piece(Piece { received: bytes.clone(), bytes, last })
            };
            match self.acts.front() {
                Some(Act::Wait(wait)) => {
                    // Given up and asked again, it goes on waiting.
                    let until = *self.until.get_or_insert_with(|| tokio::time::Instant::now() + *wait);
                    tokio::time::sleep_until(until).await;
                    self.until = None;
                    self.acts.pop_front();
                    continue;
                }
                None => std::future::pending::<()>().await,
                Some(_) => {}
            }
            return match self.acts.pop_front() {
                Some(Act::Say(text)) => piece(text, false),
                Some(Act::Last(text)) => piece(text, true),
                Some(Act::Break(why)) => SourceEvent::Broke(why),
                _ => SourceEvent::End,
            };
        }
    }

    fn end(&mut self) -> Close {
        Close::Clean(Bytes::from_static(self.tail.as_bytes()))
    }

    fn broke(&mut self, why: Break) -> Close {
        self.broke = Some(format!("{why:?}"));
        match self.cuts {
            true => Close::Cut(Fault::new(FaultKind::UpstreamBroken, "broke")),
            false => Close::InBand(Bytes::from_static(b"!")),
        }
    }

    fn tokens(&self) -> u64 {
        self.asked_for_tokens.fetch_add(1, Ordering::Relaxed);
        7
    }
}

/// Remembers each write as its text, with `.` behind the last one.
#[derive(Default)]
struct Remembering {
    writes: Vec<String>,
    begun: bool,
    /// The client leaves when it has had so many writes.
    leaves_after: Option<usize>,
    /// The client leaves while it is waited for the source.
    leaves_waiting: bool,
    /// A write takes so long.
    slow: Duration,
}

fn left() -> ClientLeft {
    ClientLeft::Gone(Error::explain(ErrorType::ConnectionClosed, "left"))
}

impl Sink for Remembering {
    async fn during<T: Send>(&mut self, work: impl Future<Output = T> + Send) -> Result<T, ClientLeft> {
        if !self.leaves_waiting {
            return Ok(work.await);
        }
        tokio::select! { biased;
            done = work => Ok(done),
            () = std::future::ready(()) => Err(left()),
        }
    }

    async fn write(&mut self, bytes: Bytes, end: bool) -> Result<(), ClientLeft> {
        if !self.slow.is_zero() {
            sleep(self.slow).await;
        }
        if self.leaves_after == Some(self.writes.len()) {
            return Err(left());
        }
        self.begun = true;
        let mark = if end { "." } else { "" };
        self.writes.push(format!("{}{mark}", String::from_utf8_lossy(&bytes)));
        Ok(())
    }

    async fn comment(&mut self) -> Result<(), ClientLeft> {
        self.writes.push("#".to_owned());
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.begun
    }
}

#[derive(Default)]
struct CountingGrowth {
    bytes: usize,
    ask: bool,
}

impl Growth for CountingGrowth {
    fn saw(&mut self, bytes: usize, tokens: impl FnOnce() -> u64) {
        self.bytes += bytes;
        if self.ask {
            assert_eq!(tokens(), 7);
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What came of one run.
struct Ran {
    ended: Ended,
    writes: Vec<String>,
    written: u64,
    broke: Option<String>,
    grown: usize,
}

struct PumpSetup {
    source: Scripted,
    sink: Remembering,
    timers: StreamTimers,
    first: Option<Piece>,
}

impl PumpSetup {
    fn new(source: Scripted) -> Self {
        let timers = StreamTimers::new(Instant::now(), ms(60_000), None, None);
        Self { source, sink: Remembering::default(), timers, first: None }
    }

    fn first(mut self, text: &'static str, last: bool) -> Self {
        let bytes = Bytes::from_static(text.as_bytes());
        self.first = Some(Piece { bytes, last, ..Piece::default() });
        self
    }

    async fn run(self) -> Ran {
        let mut capture = BodyCapture::new(CapturePolicy::All, &BufferBudget::new(1 << 20, 1 << 20));
        let mut pump = Pump {
            source: self.source,
            sink: self.sink,
            growth: CountingGrowth::default(),
            timers: self.timers,
            capture: &mut capture,
            written: 0,
        };
        let ended = pump.run(self.first).await;
        let (written, grown, broke) = (pump.written, pump.growth.bytes, pump.source.broke.take());
        Ran { ended, writes: pump.sink.writes, written, broke, grown }
    }
}

async fn run(acts: impl IntoIterator<Item = Act>) -> Ran {
    PumpSetup::new(source(acts)).run().await
}

#[tokio::test]
async fn pieces_go_down_as_they_come() {
    let ran = run([Act::Say("a"), Act::Say("b"), Act::End]).await;
    assert!(matches!(ran.ended, Ended::Clean));
    assert_eq!(ran.writes, ["a", "b", "."]);
    assert_eq!((ran.written, ran.grown), (2, 2));
}

#[tokio::test]
async fn the_last_piece_and_the_end_are_one_write() {
    let ran = run([Act::Say("a"), Act::Last("b")]).await;
    assert_eq!(ran.writes, ["a", "b."]);
    let tailed = PumpSetup::new(Scripted { tail: "[DONE]", ..source([Act::Last("b")]) }).run().await;
    assert_eq!(tailed.writes, ["b[DONE]."]);
    assert_eq!(tailed.written, 7);
}

#[tokio::test]
async fn a_tail_behind_nothing_is_written_by_itself() {
    let ran = PumpSetup::new(Scripted { tail: "[DONE]", ..source([Act::End]) }).run().await;
    assert_eq!(ran.writes, ["[DONE]."]);
}

#[tokio::test]
async fn an_empty_answer_still_ends() {
    let ran = run([Act::End]).await;
    assert!(matches!(ran.ended, Ended::Clean));
    assert_eq!(ran.writes, ["."]);
}

#[tokio::test]
async fn pieces_that_say_nothing_write_nothing() {
    let ran = run([Act::Say(""), Act::Say("a"), Act::Say(""), Act::End]).await;
    assert_eq!(ran.writes, ["a", "."]);
}

#[tokio::test]
async fn what_was_held_goes_first_and_takes_the_head_with_it() {
    let ran = PumpSetup::new(source([Act::Say("b"), Act::End])).first("a", false).run().await;
    assert_eq!(ran.writes, ["a", "b", "."]);
    assert_eq!(ran.grown, 2);
}

#[tokio::test]
async fn a_head_goes_down_though_nothing_was_held() {
    let ran = PumpSetup::new(source([Act::Say("b"), Act::End])).first("", false).run().await;
    assert_eq!(ran.writes, ["", "b", "."]);
}

#[tokio::test]
async fn a_whole_answer_that_was_held_asks_the_source_for_nothing() {
    let ran = PumpSetup::new(source([Act::Break(Break::Lost)])).first("all", true).run().await;
    assert!(matches!(ran.ended, Ended::Clean));
    assert_eq!(ran.writes, ["all."]);
    assert_eq!(ran.broke, None);
}

#[tokio::test]
async fn a_break_is_told_in_band_and_completes_nothing() {
    let ran = run([Act::Say("a"), Act::Break(Break::Lost)]).await;
    assert!(matches!(ran.ended, Ended::InBand));
    assert_eq!(ran.writes, ["a", "!."]);
    assert_eq!(ran.broke.as_deref(), Some("Lost"));
}

#[tokio::test]
async fn what_cannot_be_told_in_band_is_cut_off() {
    let ran = PumpSetup::new(Scripted { cuts: true, ..source([Act::Say("a"), Act::Break(Break::Lost)]) }).run().await;
    assert!(matches!(ran.ended, Ended::Cut(_)));
    assert_eq!(ran.writes, ["a"], "no end that a client could take for one");
}

#[tokio::test]
async fn a_break_before_the_first_byte_leaves_room_for_another_answer() {
    let ran = PumpSetup::new(Scripted { cuts: true, ..source([Act::Break(Break::Silent)]) }).run().await;
    assert!(matches!(ran.ended, Ended::Unsent(_)));
    assert_eq!(ran.writes, [""; 0]);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_ends_it() {
    let mut setup = PumpSetup::new(source([Act::Say("a"), Act::Wait(ms(60_000)), Act::Say("b")]));
    setup.sink.leaves_waiting = true;
    let ran = setup.run().await;
    assert!(matches!(ran.ended, Ended::ClientLeft(ClientLeft::Gone(_))));
    assert_eq!(ran.writes, ["a"]);
}

#[tokio::test]
async fn a_client_that_cannot_be_written_to_ends_it() {
    for (after, writes) in [(0, vec![]), (1, vec!["a"]), (2, vec!["a", "b"])] {
        let mut setup = PumpSetup::new(source([Act::Say("a"), Act::Say("b"), Act::End]));
        setup.sink.leaves_after = Some(after);
        let ran = setup.run().await;
        assert!(matches!(ran.ended, Ended::ClientLeft(_)), "{after}");
        assert_eq!(ran.writes, writes);
    }
}

#[tokio::test]
async fn silence_breaks_it() {
    let mut setup = PumpSetup::new(source([Act::Say("a"), Act::Wait(ms(60_000))]));
    setup.timers = StreamTimers::new(Instant::now(), ms(30), None, None);
    let ran = setup.run().await;
    assert!(matches!(ran.ended, Ended::InBand));
    assert_eq!(ran.broke.as_deref(), Some("Silent"));
}

#[tokio::test]
async fn comments_fill_a_silence_between_events_and_are_no_part_of_the_answer() {
    let mut setup = PumpSetup::new(source([Act::Say("a\n\n"), Act::Wait(ms(100)), Act::Say("b\n\n"), Act::End]));
    setup.timers = StreamTimers::new(Instant::now(), ms(60_000), Some(ms(40)), None);
    let ran = setup.run().await;
    let comments = ran.writes.iter().filter(|write| *write == "#").count();
    assert!(comments > 0);
    let expected: Vec<&str> = ["a\n\n"].into_iter().chain(vec!["#"; comments]).chain(["b\n\n", "."]).collect();
    assert_eq!(ran.writes, expected, "only in the silence");
    assert_eq!(ran.written, 6 + (comments * COMMENT.len()) as u64);
    assert_eq!(ran.grown, 6);
}

#[tokio::test]
async fn no_comment_stands_inside_an_event() {
    let mut setup = PumpSetup::new(source([Act::Say("half"), Act::Wait(ms(100)), Act::Say("\n\n"), Act::End]));
    setup.timers = StreamTimers::new(Instant::now(), ms(60_000), Some(ms(20)), None);
    assert_eq!(setup.run().await.writes, ["half", "\n\n", "."]);
}

#[tokio::test]
async fn the_time_for_the_whole_ends_it_while_the_source_is_silent() {
    let mut setup = PumpSetup::new(source([Act::Say("a"), Act::Wait(ms(60_000))]));
    let deadline = Deadline { at: Instant::now() + ms(40), told: ms(1234) };
    setup.timers = StreamTimers::until(Instant::now(), Some(deadline));
    let ran = setup.run().await;
    assert!(matches!(ran.ended, Ended::InBand));
    assert_eq!(ran.broke.as_deref(), Some("Overdue(1.234s)"));
}

#[tokio::test]
async fn the_time_for_the_whole_ends_it_while_the_client_does_not_read() {
    let mut setup = PumpSetup::new(source([Act::Say("a"), Act::End]));
    setup.sink.slow = ms(60_000);
    let deadline = Deadline { at: Instant::now() + ms(40), told: ms(1234) };
    setup.timers = StreamTimers::until(Instant::now(), Some(deadline));
    let ran = setup.run().await;
    let Ended::Cut(fault) = ran.ended else { panic!("{:?}", ran.ended) };
    assert_eq!(fault.kind(), FaultKind::TimedOut);
    assert_eq!(ran.writes, [""; 0]);
}

#[tokio::test]
async fn nothing_is_asked_of_the_source_for_growth_that_nobody_wants() {
    let mut capture = BodyCapture::new(CapturePolicy::Nothing, &BufferBudget::new(1 << 20, 1 << 20));
    for ask in [false, true] {
        let mut pump = Pump {
            source: source([Act::Say("a"), Act::End]),
            sink: Remembering::default(),
            growth: CountingGrowth { ask, ..CountingGrowth::default() },
            timers: StreamTimers::until(Instant::now(), None),
            capture: &mut capture,
            written: 0,
        };
        assert!(matches!(pump.run(None).await, Ended::Clean));
        assert_eq!(pump.source.asked_for_tokens.load(Ordering::Relaxed) > 0, ask);
    }
}
