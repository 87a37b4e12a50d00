//! A mail that leaves the house. Whose server takes it is the operator's choice.

use super::Fut;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The id by which servers and people know the mail: it stays the same when the mail is sent again.
    pub id: Uuid,
    pub to: Vec<String>,
    pub subject: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// No later try does better.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

pub trait Mailer: Send + Sync {
    fn send<'a>(&'a self, mail: &'a Mail) -> Fut<'a, Result<(), MailError>>;
}
