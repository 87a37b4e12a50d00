//! A translator whose unfinished event is taken from the byte budget: an event may be megabytes long before its end
//! comes, and as many of them may be open as there are streams. Knows no dialect; what is small is not counted.

use super::outcome::failure_of;
use crate::proxy::body::{BufferBudget, Permit};
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, FaultKind};
use gateway_providers::tap::TextPlace;
use gateway_providers::{Ending, Failure, Progress, StreamTranslator};
use std::sync::Arc;

/// Most events are far below.
const MOST_FREE: usize = 64 * 1024;

pub(crate) struct Accounted {
    translator: Box<dyn StreamTranslator>,
    budget: Arc<BufferBudget>,
    dialect: Dialect,
    held: Option<Permit>,
}

impl Accounted {
    pub(crate) fn new(
        translator: Box<dyn StreamTranslator>,
        budget: &Arc<BufferBudget>,
        dialect: Dialect,
    ) -> Box<Self> {
        Box::new(Self { translator, budget: budget.clone(), dialect, held: None })
    }
}

impl StreamTranslator for Accounted {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        let out = self.translator.push(chunk)?;
        let held = self.translator.held();
        if held <= MOST_FREE {
            self.held = None;
        } else if self.held.get_or_insert_with(|| Permit::new(&self.budget)).grow_to(held).is_err() {
            let why = "The gateway holds as many bytes as it may, and an event of the stream has not come to its end";
            return Err(failure_of(&Fault::new(FaultKind::Busy, why), self.dialect));
        }
        Ok(out)
    }

    fn progress(&self) -> Progress {
        self.translator.progress()
    }

    fn finish(&mut self) -> Bytes {
        self.translator.finish()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        self.translator.abort(failure)
    }

    fn ending(&self) -> Ending {
        self.translator.ending()
    }

    fn has_error_events(&self) -> bool {
        self.translator.has_error_events()
    }

    fn said_chars(&self) -> u64 {
        self.translator.said_chars()
    }

    fn held(&self) -> usize {
        self.translator.held()
    }

    fn texts(&self) -> &[TextPlace] {
        self.translator.texts()
    }
}
