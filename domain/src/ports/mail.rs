//! A mail that leaves the house. Whose server takes it is the operator's choice.

use super::Fut;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The same mail sent again has the same id, by which servers and people know it.
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
