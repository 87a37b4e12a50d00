//! How long a peer may be silent, and who else may be.

use super::*;
use std::time::Instant;

const SHORT: Duration = Duration::from_millis(150);
/// The time within which a clock of `SHORT` must have rung, on a busy machine as well.
const LATE: Duration = Duration::from_secs(3);

fn clocks(first_byte: Duration, idle: Duration) -> PeerTimeouts {
    PeerTimeouts { first_byte, idle }
}

async fn answer(
    connection: Box<Connection>,
    body: RequestBody<'_>,
    clocks: PeerTimeouts,
) -> Result<Response, SendError> {
    let head = post().framing(Framing::Chunked);
    Response::over(connection, &head, body, (clocks, Instant::now())).await.map_err(|failed| failed.error)
}

fn rang(outcome: &Result<impl std::fmt::Debug, SendError>, began: Instant) {
    assert!(matches!(outcome, Err(SendError::Silent)), "{outcome:?}");
    let took = began.elapsed();
    assert!((SHORT..LATE).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_silent() {
    let (connection, _peer) = pipe();
    let (body, began) = (held("hello"), Instant::now());
    rang(&answer(connection, RequestBody::Held(&body), clocks(SHORT, LATE)).await, began);
}

#[tokio::test]
async fn what_trickles_in_before_the_head_is_whole_wins_no_time() {
    for (first, then) in
        [("", "HTTP/1.1 102 Processing\r\n\r\n"), ("HTTP/1.1 200 OK\r\n", "x: y\r\n"), ("HTTP/1.1 200 OK\r\nx: ", "y")]
    {
        let (connection, mut peer) = pipe();
        let (body, began) = (held("hello"), Instant::now());
        let talk = async {
            peer.write_all(first.as_bytes()).await.expect("written");
            loop {
                peer.write_all(then.as_bytes()).await.expect("written");
                tokio::time::sleep(SHORT / 10).await;
            }
        };
        let outcome = tokio::select! {
            outcome = answer(connection, RequestBody::Held(&body), clocks(SHORT, LATE)) => outcome,
            () = talk => unreachable!("it goes on for ever"),
        };
        rang(&outcome, began);
    }
}

#[tokio::test]
async fn a_flood_of_interim_answers_ends_the_call_at_once() {
    let (connection, mut peer) = pipe();
    let body = held("hello");
    let talk = async { while peer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {} };
    let ask = async {
        let outcome = answer(connection, RequestBody::Held(&body), LONG).await;
        assert!(matches!(outcome, Err(SendError::Broken(BrokenWhy::TooManyInterim))), "{outcome:?}");
    };
    tokio::join!(talk, ask);
}

#[tokio::test]
async fn silence_within_an_answer_ends_it_also_where_reads_are_given_up() {
    let (connection, mut peer) = pipe();
    let body = held("");
    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab").await.expect("written");
    let mut response = answer(connection, RequestBody::Held(&body), clocks(LATE, SHORT)).await.expect("an answer");
    assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"ab"[..]));
    let began = Instant::now();
    let outcome = loop {
        if let Ok(outcome) = tokio::time::timeout(SHORT / 10, response.read()).await {
            break outcome;
        }
    };
    rang(&outcome, began);
}

#[tokio::test]
async fn a_caller_that_takes_its_time_between_pieces_costs_the_peer_none() {
    let (connection, mut peer) = pipe();
    let body = held("");
    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab").await.expect("written");
    let mut response = answer(connection, RequestBody::Held(&body), clocks(LATE, SHORT)).await.expect("an answer");
    assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"ab"[..]));
    tokio::time::sleep(SHORT * 2).await;
    let talk = async {
        tokio::time::sleep(SHORT / 5).await;
        peer.write_all(b"cd").await.expect("written");
    };
    let ((), text) = tokio::join!(talk, whole(&mut response));
    assert_eq!(text.expect("read"), "cd");
}

#[tokio::test]
async fn who_watches_the_silence_alone_is_not_disturbed() {
    let (connection, mut peer) = pipe();
    let body = held("");
    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.expect("written");
    let mut response = answer(connection, RequestBody::Held(&body), clocks(LATE, SHORT)).await.expect("an answer");
    response.without_idle_clock();
    assert!(tokio::time::timeout(SHORT * 3, response.read()).await.is_err());
    peer.write_all(b"ab").await.expect("written");
    assert_eq!(whole(&mut response).await.expect("read"), "ab");
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_silent() {
    let (connection, _peer) = pipe();
    let (body, began) = (BodyPieces::One(Bytes::from(vec![0; 1 << 20])), Instant::now());
    rang(&answer(connection, RequestBody::Held(&body), clocks(LATE, SHORT)).await, began);
}

#[tokio::test]
async fn a_peer_that_takes_slowly_is_not_silent() {
    let (connection, mut peer) = pipe();
    let body = BodyPieces::One(Bytes::from(vec![0; 32 << 10]));
    let talk = async {
        let mut space = vec![0; 2048];
        let mut taken = 0;
        while taken < 32 << 10 {
            tokio::time::sleep(SHORT / 6).await;
            taken += peer.read(&mut space).await.expect("bytes");
        }
        peer.write_all(OK).await.expect("written");
    };
    let began = Instant::now();
    let ((), response) = tokio::join!(talk, answer(connection, RequestBody::Held(&body), clocks(LATE, SHORT)));
    assert_eq!(response.expect("an answer").status(), 200);
    assert!(began.elapsed() > SHORT, "the whole took longer than any wait may");
}

#[tokio::test]
async fn who_waits_for_the_source_does_not_blame_the_peer() {
    let (connection, mut peer) = pipe();
    let script = Script::default();
    let talk = async {
        hear(&mut peer, "\r\n\r\n").await;
        tokio::time::sleep(SHORT * 3).await;
        script.say("late");
        script.end();
        hear(&mut peer, "0\r\n\r\n").await;
    };
    let began = Instant::now();
    let ((), outcome) = tokio::join!(talk, answer(connection, script.body(), clocks(SHORT, SHORT)));
    // Its own time began with the end of the body.
    assert!(matches!(outcome, Err(SendError::Silent)), "{outcome:?}");
    assert!(began.elapsed() >= SHORT * 4, "{:?}", began.elapsed());
}
