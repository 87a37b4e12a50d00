//! Mail by SMTP, through the server that the operator names: the backend of the port [`Mailer`]. Each mail has a
//! connection of its own, since mails are few. Whether it is worth a mail is known elsewhere.

use gateway_domain::ports::{Fut, Mail, MailError, Mailer};
use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::Error;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::time::Duration;

/// The time that one mail may take as a whole.
const WHOLE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct SmtpMailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl SmtpMailer {
    /// `url`: `smtps://user:password@host`, `smtp://host:587?tls=required` or, in a network that is trusted,
    /// `smtp://host:25`. The error names neither user nor password.
    pub fn new(url: &str, from: &str) -> Result<Self, String> {
        if !url.starts_with("smtp://") && !url.starts_with("smtps://") {
            return Err("must be an smtp:// or smtps:// URL".to_owned());
        }
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url).map_err(|_| "cannot be read".to_owned())?;
        let from = from.parse().map_err(|_| "the sender must be a mail address".to_owned())?;
        Ok(Self { transport: builder.timeout(Some(WHOLE)).build(), from })
    }

    fn message(&self, mail: &Mail) -> Result<Message, MailError> {
        let refused = |why: &dyn std::fmt::Display| MailError::Refused(why.to_string());
        let host = self.from.email.domain();
        let mut message = Message::builder()
            .from(self.from.clone())
            .subject(mail.subject.as_str())
            .message_id(Some(format!("<{}@{host}>", mail.id)))
            .header(ContentType::TEXT_PLAIN);
        for to in &mail.to {
            message = message.to(to.parse().map_err(|e| refused(&e))?);
        }
        message.body(mail.text.clone()).map_err(|e| refused(&e))
    }
}

impl Mailer for SmtpMailer {
    fn send<'a>(&'a self, mail: &'a Mail) -> Fut<'a, Result<(), MailError>> {
        Box::pin(async move {
            let message = self.message(mail)?;
            match tokio::time::timeout(WHOLE, self.transport.send(message)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(to_mail_error(&error)),
                Err(_) => Err(MailError::Failed("the mail server did not take it in time".to_owned())),
            }
        })
    }
}

/// What the server says of a mail may hold addresses, never what signs in.
fn to_mail_error(error: &Error) -> MailError {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), |inner| format!("{error}: {inner}"));
    let why: String = why.chars().take(300).collect();
    if error.is_permanent() { MailError::Refused(why) } else { MailError::Failed(why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn urls_are_held_to_their_form_and_told_without_their_secrets() {
        for url in ["http://mail.example.com", "smtp://", "smtps://u:sesame@", "mail.example.com"] {
            let why = SmtpMailer::new(url, "gateway@example.com").expect_err("no mail server");
            assert!(!why.contains("sesame"), "{why}");
        }
        assert!(SmtpMailer::new("smtp://127.0.0.1:25", "nobody").is_err());
        assert!(SmtpMailer::new("smtps://u:p@mail.example.com", "Gateway <gateway@example.com>").is_ok());
    }

    #[test]
    fn no_text_breaks_out_of_its_header() {
        let mailer = SmtpMailer::new("smtp://127.0.0.1:25", "gateway@example.com").expect("a mailer");
        let mut mail = Mail {
            id: Uuid::nil(),
            to: vec!["a@example.com".to_owned()],
            subject: "x\r\nBcc: evil@example.com".to_owned(),
            text: "line\r\n.\r\nQUIT".to_owned(),
        };
        let bytes = mailer.message(&mail).expect("a message").formatted();
        let head = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(!head.contains("\r\nbcc:"), "{head}");
        mail.to = vec!["a@example.com\r\nBcc: evil@example.com".to_owned()];
        assert!(mailer.message(&mail).is_err());
    }
}
