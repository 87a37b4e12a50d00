//! What OpenAI's usage means where the answer is no text.

use super::{OpenAiUsage, small};
use gateway_domain::Usage;

impl OpenAiUsage {
    /// Usage of pictures, whose makers tell what the output is of only where it is not all pictures. `None`: it counts
    /// nothing, and they are billed by the piece.
    pub(crate) fn of_pictures(&self) -> Option<Usage> {
        let mut usage = self.split().filter(|usage| usage.total() > 0 || usage.detail.told.is_some())?;
        if self.output_tokens_details.is_none() && self.completion_tokens_details.is_none() {
            usage.detail.image_out = small(Some(usage.output));
        }
        Some(usage)
    }
}

impl OpenAiUsage {
    /// Usage of speech, all of whose output is sound.
    pub(crate) fn of_speech(&self) -> Option<Usage> {
        let usage = self.split()?;
        Some(Usage { output: 0, audio_out: usage.audio_out + usage.output, ..usage })
    }
}
