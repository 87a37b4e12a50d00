//! What goes up and what comes down.

use super::*;

#[tokio::test]
async fn head_and_body_come_as_they_were_given() {
    let (connection, mut peer) = pipe();
    let (head, body) = (post(), BodyPieces::Three([Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(b"bc")]));
    let talk = async {
        let heard = hear(&mut peer, "\r\n\r\nabc").await;
        peer.write_all(OK).await.expect("written");
        heard
    };
    let (heard, response) = tokio::join!(talk, over(connection, &head, RequestBody::Held(&body)));
    assert_eq!(heard, "POST /v1/x?y=z HTTP/1.1\r\nhost: a.example\r\ncontent-length: 3\r\n\r\nabc");
    let mut response = response.expect("an answer");
    assert_eq!((response.status(), response.is_done()), (200, false));
    assert_eq!(whole(&mut response).await.expect("read"), "ok");
    assert!(response.is_done() && response.is_sent());
}

#[tokio::test]
async fn a_post_without_a_body_says_so_and_a_get_says_nothing() {
    for (head, end) in [
        (post().framing(Framing::Length(0)), "content-length: 0\r\n\r\n"),
        (head(Method::GET), "host: a.example\r\n\r\n"),
    ] {
        let (connection, mut peer) = pipe();
        let body = held("");
        let talk = async {
            let heard = hear(&mut peer, "\r\n\r\n").await;
            peer.write_all(OK).await.expect("written");
            heard
        };
        let (heard, response) = tokio::join!(talk, over(connection, &head, RequestBody::Held(&body)));
        assert!(heard.ends_with(end), "{heard}");
        assert_eq!(response.expect("an answer").status(), 200);
    }
}

#[tokio::test]
async fn a_large_body_goes_up_whole_however_slowly_it_is_taken() {
    let (connection, mut peer) = pipe();
    let part = "0123456789".repeat(5000);
    let pieces = [part.clone(), "x".into(), part].map(Bytes::from);
    let (head, body) = (post(), BodyPieces::Three(pieces));
    let talk = async {
        let heard = hear(&mut peer, "\r\n\r\n").await;
        assert!(heard.contains("content-length: 100001\r\n"), "{heard}");
        let mut all = vec![0; body.len()];
        peer.read_exact(&mut all).await.expect("all of it");
        assert!(all == body.join());
        peer.write_all(OK).await.expect("written");
    };
    let ((), response) = tokio::join!(talk, over(connection, &head, RequestBody::Held(&body)));
    assert_eq!(whole(&mut response.expect("an answer")).await.expect("read"), "ok");
}

#[tokio::test]
async fn chunks_of_one_read_come_as_one_piece() {
    let (connection, mut peer) = pipe();
    let (head, body) = (head(Method::GET), held(""));
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n";
    peer.write_all(answer).await.expect("written");
    let mut response = over(connection, &head, RequestBody::Held(&body)).await.expect("an answer");
    assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"onetwothree"[..]));
    peer.write_all(b"4\r\nfo").await.expect("written");
    assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"fo"[..]));
    peer.write_all(b"ur\r\n0\r\n\r\n").await.expect("written");
    assert_eq!(whole(&mut response).await.expect("read"), "ur");
    assert!(response.is_done());
}

#[tokio::test]
async fn a_large_answer_comes_whole_with_and_without_chunks() {
    let text = "0123456789abcdef".repeat(20_000);
    let chunked: String =
        text.as_bytes().chunks(1000).map(|c| format!("{:x}\r\n{}\r\n", c.len(), c.escape_ascii())).collect();
    for answer in [
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunked}0\r\n\r\n"),
    ] {
        let (connection, mut peer) = pipe();
        let (head, body) = (post(), held("hello"));
        let talk = async {
            hear(&mut peer, "hello").await;
            peer.write_all(answer.as_bytes()).await.expect("written");
        };
        let ask = async {
            let mut response = over(connection, &head, RequestBody::Held(&body)).await.expect("an answer");
            // Pieces that are kept must not be written over by what comes later.
            let mut pieces = Vec::new();
            while let Some(piece) = response.read().await.expect("read") {
                pieces.push(piece);
            }
            assert!(pieces.concat() == text.as_bytes());
        };
        tokio::join!(talk, ask);
    }
}

#[tokio::test]
async fn a_body_streams_up_in_its_framing() {
    let script = Script::default();
    script.say("hello ");
    script.say("");
    script.say("world, it is nice");
    script.end();
    for (framing, expected) in [
        (Framing::Length(23), "content-length: 23\r\n\r\nhello world, it is nice"),
        (Framing::Chunked, "transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n11\r\nworld, it is nice\r\n0\r\n\r\n"),
    ] {
        let script = script.copy();
        let (connection, mut peer) = pipe();
        let head = post().framing(framing);
        let talk = async {
            let heard =
                hear(&mut peer, expected.rsplit_once("\r\n\r\n").map_or("", |_| &expected[expected.len() - 5..])).await;
            assert!(heard.ends_with(expected), "{heard}");
            peer.write_all(OK).await.expect("written");
        };
        let ((), response) = tokio::join!(talk, over(connection, &head, script.body()));
        assert!(response.expect("an answer").is_sent());
    }
}

#[tokio::test]
async fn the_answer_and_the_body_pass_each_other() {
    let (connection, mut peer) = pipe();
    let (script, head) = (Script::default(), post().framing(Framing::Chunked));
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let talk = async {
        hear(&mut peer, "chunked\r\n\r\n").await;
        peer.write_all(answer).await.expect("written");
        hear(&mut peer, "3\r\none\r\n").await;
        peer.write_all(b"3\r\nuno\r\n").await.expect("written");
        hear(&mut peer, "3\r\ntwo\r\n0\r\n\r\n").await;
        peer.write_all(b"3\r\ndue\r\n0\r\n\r\n").await.expect("written");
    };
    let ask = async {
        let mut response = over(connection, &head, script.body()).await.expect("an answer before any of the body");
        assert!(!response.is_sent());
        script.say("one");
        assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"uno"[..]));
        script.say("two");
        script.end();
        assert_eq!(whole(&mut response).await.expect("read"), "due");
        assert!(response.is_sent());
    };
    tokio::join!(talk, ask);
}

#[tokio::test]
async fn a_source_that_gives_other_than_was_announced_is_cut_off() {
    for (text, length) in [("short", 9), ("much too long", 4)] {
        let (connection, mut peer) = pipe();
        let (script, head) = (Script::default(), post().framing(Framing::Length(length)));
        script.say(text);
        script.end();
        let talk = async {
            let heard = hear(&mut peer, "\r\n\r\n").await;
            peer.write_all(OK).await.expect("written");
            drop(heard);
            let mut rest = String::new();
            peer.read_to_string(&mut rest).await.expect("text");
            assert!(rest.len() <= length, "no byte more than was announced: {rest}");
        };
        let ask = async {
            let mut response = over(connection, &head, script.body()).await.expect("an answer");
            assert_eq!(whole(&mut response).await.expect("read"), "ok");
            assert!(!response.is_sent() && !response.connection.can_be_kept());
        };
        tokio::join!(talk, ask);
    }
}

#[tokio::test]
async fn an_open_web_socket_carries_bytes_both_ways_and_ends_once_all_was_said() {
    let (connection, mut peer) = pipe();
    let (script, head) = (Script::default(), head(Method::GET).framing(Framing::WebSocket));
    script.say("early");
    let talk = async {
        let heard = hear(&mut peer, "\r\n\r\n").await;
        assert!(heard.ends_with("upgrade: websocket\r\nconnection: Upgrade\r\n\r\n"), "{heard}");
        let open = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhi";
        peer.write_all(open).await.expect("written");
        assert_eq!(hear(&mut peer, "early").await, "early");
        peer.write_all(b"echo").await.expect("written");
        assert_eq!(hear(&mut peer, "bye").await, "bye");
    };
    let ask = async {
        let mut response = over(connection, &head, script.body()).await.expect("an answer");
        assert!(response.is_upgraded() && response.status() == 101);
        assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"hi"[..]));
        assert_eq!(response.read().await.expect("read").as_deref(), Some(&b"echo"[..]));
        script.say("bye");
        script.0.lock().is_closing = true;
        script.end();
        assert_eq!(response.read().await.expect("read"), None);
        assert!(response.is_sent() && !response.connection.can_be_kept());
    };
    tokio::join!(talk, ask);
}

#[tokio::test]
async fn an_open_web_socket_ends_with_its_peer() {
    let (connection, mut peer) = pipe();
    let (script, head) = (Script::default(), head(Method::GET).framing(Framing::WebSocket));
    let open = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    peer.write_all(open).await.expect("written");
    let mut response = over(connection, &head, script.body()).await.expect("an answer");
    drop(peer);
    assert_eq!(response.read().await.expect("read"), None);
}

#[tokio::test]
async fn a_web_socket_that_is_refused_says_nothing_and_keeps_its_connection() {
    let (connection, mut peer) = pipe();
    let (script, head) = (Script::default(), head(Method::GET).framing(Framing::WebSocket));
    script.say("never");
    let talk = async {
        hear(&mut peer, "\r\n\r\n").await;
        peer.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno").await.expect("written");
    };
    let ask = async {
        let mut response = over(connection, &head, script.body()).await.expect("an answer");
        assert_eq!((response.status(), response.is_upgraded()), (401, false));
        assert_eq!(whole(&mut response).await.expect("read"), "no");
        assert!(response.connection.can_be_kept());
    };
    tokio::join!(talk, ask);
}

impl Script {
    /// Another one that says the same.
    fn copy(&self) -> Self {
        let played = self.0.lock();
        let (parts, has_ended) = (played.parts.clone(), played.has_ended);
        Self(Arc::new(parking_lot::Mutex::new(Played { parts, has_ended, ..Played::default() })))
    }
}
