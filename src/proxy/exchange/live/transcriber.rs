//! The model that writes down what a client says in a session: as the provider tells it, or as the client asked for it
//! where the provider says nothing of that.

use std::sync::Arc;

/// A model that a client asked for, until the provider says which it is.
#[derive(Debug)]
struct AskedTranscriber {
    event: Option<String>,
    model: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct SessionTranscriber {
    asked: Option<AskedTranscriber>,
    told: Option<Arc<str>>,
}

impl SessionTranscriber {
    /// A client's event went up that asks for this model.
    pub(super) fn ask(&mut self, event: Option<&str>, model: &str) {
        self.asked = Some(AskedTranscriber { event: event.map(str::to_owned), model: model.into() });
    }

    /// What a client's event asked for came to nothing.
    pub(super) fn refuse(&mut self, event: Option<&str>) {
        self.asked.take_if(|asked| event.is_some() && asked.event.as_deref() == event);
    }

    /// The provider tells of the session. What it says as the session begins it says before it hears the client; and
    /// one that is switched off has still to tell what it heard until then.
    pub(super) fn confirm(&mut self, model: Option<&str>, is_changed: bool) {
        let Some(model) = model else { return };
        self.told = Some(model.into());
        if is_changed {
            self.asked = None;
        }
    }

    pub(super) fn in_force(&self) -> Option<Arc<str>> {
        self.asked.as_ref().map(|asked| &asked.model).or(self.told.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_that_was_named_is_in_force() {
        let mut heard = SessionTranscriber::default();
        let named = |heard: &SessionTranscriber| heard.in_force().map(|model| model.to_string());
        assert_eq!(named(&heard), None);
        heard.ask(Some("a"), "one");
        heard.confirm(Some("usual"), false);
        assert_eq!(named(&heard).as_deref(), Some("one"), "the session began before it was asked for");
        heard.confirm(Some("one-2026"), true);
        heard.confirm(None, true);
        assert_eq!(named(&heard).as_deref(), Some("one-2026"));
        heard.ask(Some("b"), "two");
        heard.refuse(None);
        assert_eq!(named(&heard).as_deref(), Some("two"));
        heard.refuse(Some("b"));
        assert_eq!(named(&heard).as_deref(), Some("one-2026"), "it was refused");
    }
}
