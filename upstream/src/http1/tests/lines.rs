//! Answers that are read line by line.

use super::*;

/// What comes behind the head, and the lines that are read of it.
async fn lines_of(body: &str, most: usize) -> (Vec<String>, Option<LineError>) {
    let (connection, mut peer) = pipe();
    let sent = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (head, none) = (head(Method::GET), held(""));
    let talk = async {
        hear(&mut peer, "\r\n\r\n").await;
        // More than the pipe holds, so that it comes in pieces; a reader that gives up takes no more.
        let _ = peer.write_all(sent.as_bytes()).await;
    };
    let read = async {
        let response = over(connection, &head, RequestBody::Held(&none)).await.expect("an answer");
        let (mut lines, mut found) = (ResponseLines::new(response, most), Vec::new());
        loop {
            match lines.next().await {
                Ok(Some(line)) => found.push(String::from_utf8(line.to_vec()).expect("text")),
                Ok(None) => return (found, None),
                Err(e) => return (found, Some(e)),
            }
        }
    };
    tokio::select! {
        biased;
        told = read => told,
        () = async { talk.await; std::future::pending().await } => unreachable!("it waits"),
    }
}

#[tokio::test]
async fn lines_come_whole_however_the_answer_is_cut() {
    let long = "x".repeat(20_000);
    let (found, error) = lines_of(&format!("{long}\n\nab\n{long}"), 32_000).await;
    assert_eq!(found, [format!("{long}\n"), "\n".to_owned(), "ab\n".to_owned(), long]);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_it() {
    let (found, error) = lines_of(&format!("short\n{}\n", "x".repeat(100_000)), 32_000).await;
    assert_eq!(found, ["short\n"]);
    assert!(matches!(error, Some(LineError::TooLong(32_000))), "{error:?}");
}
