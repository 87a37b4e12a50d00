//! Which connections are kept, and what happens when a kept one has died.

use super::*;

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::new().await;
    let mut peer = server.first(OK).await;
    for _ in 0..3 {
        let (head, body) = (post(), held("again"));
        let talk = async {
            hear(&mut peer, "\r\n\r\nagain").await;
            peer.write_all(OK).await.expect("written");
        };
        let ask = async {
            let mut response = server.send(&head, RequestBody::Held(&body)).await.expect("an answer");
            assert_eq!(whole(&mut response).await.expect("read"), "ok");
            response.release(4);
        };
        tokio::join!(talk, ask);
    }
    assert!(server.keeps_one());
}

#[tokio::test]
async fn only_what_is_whole_and_quiet_is_kept() {
    for (answer, is_kept) in [
        (OK, true),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", true),
        (b"HTTP/1.1 204 No Content\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", false),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", false),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n", false),
    ] {
        let server = Server::new().await;
        let peer = server.first(answer).await;
        assert_eq!(server.keeps_one(), is_kept, "{}", answer.escape_ascii());
        drop(peer);
    }
}

#[tokio::test]
async fn what_spoke_or_closed_while_it_was_kept_is_seen() {
    for closes in [false, true] {
        let server = Server::new().await;
        let mut peer = server.first(OK).await;
        let mut connection =
            pool::take(server.dialer.address(&server.origin).1, Instant::now()).expect("a kept connection");
        if closes {
            peer.shutdown().await.expect("closed");
        } else {
            peer.write_all(OK).await.expect("written");
        }
        while connection.is_quiet() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_unheard_costs_no_request() {
    let server = Server::new().await;
    let mut peer = server.first(OK).await;
    let (head, body) = (post(), held("hello"));
    let talk = async {
        hear(&mut peer, "hello").await;
        drop(peer);
        let mut fresh = server.accept().await;
        let heard = hear(&mut fresh, "hello").await;
        fresh.write_all(OK).await.expect("written");
        heard
    };
    let (heard, response) = tokio::join!(talk, server.send(&head, RequestBody::Held(&body)));
    assert_eq!(heard, "POST /v1/x?y=z HTTP/1.1\r\nhost: a.example\r\ncontent-length: 5\r\n\r\nhello");
    assert_eq!(response.expect("an answer").status(), 200);
}

#[tokio::test]
async fn a_kept_connection_that_dies_heard_does() {
    let server = Server::new().await;
    let mut peer = server.first(OK).await;
    let (head, body) = (post(), held("hello"));
    let talk = async {
        hear(&mut peer, "hello").await;
        peer.write_all(b"HTTP/1.1 2").await.expect("written");
        drop(peer);
    };
    let ((), response) = tokio::join!(talk, server.send(&head, RequestBody::Held(&body)));
    assert!(matches!(response, Err(SendError::Broken(BrokenWhy::CutOff))), "{response:?}");
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_not_replaced() {
    let server = Server::new().await;
    let (head, body) = (post(), held("hello"));
    let talk = async {
        let mut peer = server.accept().await;
        hear(&mut peer, "hello").await;
        drop(peer);
    };
    let ((), response) = tokio::join!(talk, server.send(&head, RequestBody::Held(&body)));
    assert!(matches!(response, Err(SendError::Broken(BrokenWhy::NoAnswer))), "{response:?}");
}

#[tokio::test]
async fn what_streams_up_is_repeated_only_while_it_can_be() {
    for is_spilt in [false, true] {
        let server = Server::new().await;
        let mut peer = server.first(OK).await;
        let (script, head) = (Script::default(), post().framing(Framing::Length(5)));
        script.say("hello");
        script.end();
        script.0.lock().is_spilt = is_spilt;
        let talk = async {
            hear(&mut peer, "\r\n\r\nhello").await;
            // The script gives away what it says; a real source keeps it.
            script.0.lock().parts[0] = Bytes::from_static(b"hello");
            drop(peer);
            if !is_spilt {
                let mut fresh = server.accept().await;
                hear(&mut fresh, "\r\n\r\nhello").await;
                fresh.write_all(OK).await.expect("written");
            }
        };
        let ((), response) = tokio::join!(talk, server.send(&head, script.body()));
        assert_eq!(response.is_ok(), !is_spilt, "{response:?}");
        assert_eq!(script.0.lock().rewound, if is_spilt { 1 } else { 2 });
    }
}

#[tokio::test]
async fn an_early_answer_is_read_and_its_connection_dropped() {
    let server = Server::new().await;
    let (head, body) = (post(), BodyPieces::One(Bytes::from(vec![b'x'; 32 << 20])));
    let talk = async {
        let mut peer = server.accept().await;
        hear(&mut peer, "\r\n\r\n").await;
        peer.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await.expect("written");
        peer
    };
    let ask = async {
        let mut response = server.send(&head, RequestBody::Held(&body)).await.expect("an answer");
        assert_eq!(response.status(), 413);
        assert_eq!(whole(&mut response).await.expect("read"), "big");
        assert!(response.is_done() && !response.is_sent());
        response.release(4);
    };
    let (_peer, ()) = tokio::join!(talk, ask);
    assert!(!server.keeps_one());
}

#[tokio::test]
async fn an_answer_that_nobody_wants_is_read_within_reason() {
    for (length, is_kept) in [(60_000, true), (100_000, false)] {
        let server = Server::new().await;
        let (head, body) = (post(), held("hello"));
        let answer =
            format!("HTTP/1.1 429 Too Many Requests\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length));
        let talk = async {
            let mut peer = server.accept().await;
            hear(&mut peer, "hello").await;
            // The other side may close before it has taken all of it.
            let _ = peer.write_all(answer.as_bytes()).await;
            peer
        };
        let ask = async {
            let response = server.send(&head, RequestBody::Held(&body)).await.expect("an answer");
            response.discard(4).await;
        };
        let (_peer, ()) = tokio::join!(talk, ask);
        assert_eq!(server.keeps_one(), is_kept, "{length}");
    }
}

#[tokio::test]
async fn no_more_are_kept_than_the_pool_may_hold() {
    let server = Server::new().await;
    let (head, body) = (post(), held("hello"));
    let talk = async {
        let mut peers = Vec::new();
        for _ in 0..3 {
            let mut peer = server.accept().await;
            hear(&mut peer, "hello").await;
            peer.write_all(OK).await.expect("written");
            peers.push(peer);
        }
        peers
    };
    let ask = async {
        let asked = (0..3).map(|_| server.send(&head, RequestBody::Held(&body)));
        let mut responses = futures_util::future::try_join_all(asked).await.expect("answers");
        for response in &mut responses {
            assert_eq!(whole(response).await.expect("read"), "ok");
        }
        responses.into_iter().for_each(|response| response.release(2));
    };
    let (_peers, ()) = tokio::join!(talk, ask);
    assert!(server.keeps_one() && server.keeps_one() && !server.keeps_one());
}
