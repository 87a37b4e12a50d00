//! Marks of writes that may come again: one stands, with its change or by itself, until its time is over.

use crate::{House, batch, id, on_every_engine, row};
use gateway_domain::Timestamp;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{ANSWERS_KEPT_MICROS, AnswerMark, Batch, ConfigStore, KeptAnswers, WriteError};

on_every_engine!(one_mark_stands, a_mark_goes_with_its_change_or_not_at_all);

const NOW: Timestamp = Timestamp(2 * ANSWERS_KEPT_MICROS);

fn mark(name: &str) -> AnswerMark {
    AnswerMark { id: name.to_owned(), org: OrgId(id(1)), request: "r".to_owned(), answer: None, created_at: NOW }
}

async fn one_mark_stands(house: House) {
    let database = house.open().await;
    assert!(database.mark(&mark("a")).await.unwrap());
    assert!(!database.mark(&AnswerMark { request: "other".into(), ..mark("a") }).await.unwrap());
    database.keep_answer("a", "sealed").await.unwrap();
    let kept = AnswerMark { answer: Some("sealed".into()), ..mark("a") };
    assert_eq!(database.kept_answer("a", NOW).await.unwrap(), Some(kept));
    assert_eq!(database.kept_answer("a", NOW.plus_micros(1)).await.unwrap(), None, "its time is over");
    assert_eq!(database.kept_answer("b", NOW).await.unwrap(), None);
    // What has had its day makes room for the next of its name.
    let later = AnswerMark { created_at: NOW.plus_micros(ANSWERS_KEPT_MICROS + 1), ..mark("a") };
    assert!(database.mark(&later).await.unwrap());
    assert_eq!(database.kept_answer("a", NOW).await.unwrap(), Some(later));
    assert!(database.mark(&mark("b")).await.unwrap());
    let counted = async |org| database.kept_answers(org).await.unwrap();
    assert_eq!((counted(Some(OrgId(id(1)))).await, counted(Some(OrgId(id(2)))).await, counted(None).await), (2, 0, 2));
    database.unmark("a").await.unwrap();
    assert_eq!(database.forget_answers(NOW).await.unwrap(), 0);
    assert_eq!(database.forget_answers(NOW.plus_micros(1)).await.unwrap(), 1);
    assert_eq!(counted(None).await, 0);
}

async fn a_mark_goes_with_its_change_or_not_at_all(house: House) {
    let database = house.open().await;
    let marked = |n, slug: &str, name: &str| Batch { mark: Some(mark(name)), ..batch(vec![row(n, slug)]) };
    let (first, second, refused) = (marked(1, "a", "m"), marked(2, "b", "m"), marked(3, "a", "n"));
    let changes = database.write(0, Box::new(|_| Ok(first))).await.unwrap();
    let again = database.write(changes.revision, Box::new(|_| Ok(second))).await;
    assert!(matches!(again, Err(WriteError::Repeated)));
    // The slug is taken: neither the row nor its mark.
    database.write(changes.revision, Box::new(|_| Ok(refused))).await.unwrap_err();
    assert_eq!(database.kept_answer("n", NOW).await.unwrap(), None);
    let stored = database.load().await.unwrap();
    assert_eq!((stored.rows.len(), stored.revision), (1, changes.revision));
}
