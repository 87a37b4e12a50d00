//! Messages on their way to one reader, who may be slower than the server: bounded, and what does not fit any more is
//! left out, but never the last one. Knows nothing of what they say.

use bytes::Bytes;
use gateway_mcp::sse;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Messages that wait, and their bytes.
const MOST: usize = 1_024;
const MOST_BYTES: usize = 8 << 20;

#[derive(Default)]
pub(super) struct Mailbox {
    held: Mutex<HeldMail>,
    news: Notify,
}

#[derive(Default)]
struct HeldMail {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    end: Option<MailEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MailEnd {
    Whole,
    Broken(String),
}

impl Mailbox {
    /// `false`: it was left out.
    pub(super) fn put(&self, message: &str) -> bool {
        let mut held = self.held.lock();
        if held.end.is_some() || held.waiting.len() >= MOST || held.bytes + message.len() > MOST_BYTES {
            return false;
        }
        held.add(message);
        drop(held);
        self.news.notify_one();
        true
    }

    /// Puts the last message: no other is accepted after it.
    pub(super) fn put_last(&self, message: &str) {
        let mut held = self.held.lock();
        if held.end.is_none() {
            held.add(message);
            held.end = Some(MailEnd::Whole);
        }
        drop(held);
        self.news.notify_one();
    }

    /// `Some`: why it ends, as the rest of a sentence.
    pub(super) fn end(&self, why: Option<&str>) {
        let mut held = self.held.lock();
        held.end.get_or_insert_with(|| why.map_or(MailEnd::Whole, |why| MailEnd::Broken(why.to_owned())));
        drop(held);
        self.news.notify_one();
    }

    /// The next message as an event; `None` behind the last one. Safe to drop.
    pub(super) async fn next(&self) -> Result<Option<Bytes>, String> {
        loop {
            {
                let mut held = self.held.lock();
                if let Some(message) = held.waiting.pop_front() {
                    held.bytes -= message.len();
                    return Ok(Some(message));
                }
                match &held.end {
                    Some(MailEnd::Whole) => return Ok(None),
                    Some(MailEnd::Broken(why)) => return Err(why.clone()),
                    None => {}
                }
            }
            self.news.notified().await;
        }
    }
}

impl HeldMail {
    fn add(&mut self, message: &str) {
        let event = Bytes::from(sse::message(message));
        self.bytes += event.len();
        self.waiting.push_back(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_left_out_and_the_last_one_never() {
        let mail = Mailbox::default();
        assert_eq!((0..MOST + 10).filter(|n| mail.put(&n.to_string())).count(), MOST);
        mail.put_last("last");
        assert!(!mail.put("behind it"));
        for n in 0..MOST {
            let event = mail.next().await.expect("whole").expect("a message");
            assert_eq!(event, sse::message(&n.to_string()));
        }
        assert_eq!(mail.next().await.expect("whole").expect("the last"), sse::message("last"));
        assert_eq!(mail.next().await, Ok(None));
        let (mail, large) = (Mailbox::default(), "x".repeat(3 << 20));
        assert_eq!((0..10).filter(|_| mail.put(&large)).count(), 2);
    }

    #[tokio::test]
    async fn what_came_before_a_break_is_read_first() {
        let mail = Mailbox::default();
        mail.put("one");
        mail.end(Some("broke"));
        mail.end(None);
        assert!(matches!(mail.next().await, Ok(Some(_))));
        assert_eq!(mail.next().await, Err("broke".to_owned()));
    }
}
