//! What speech used where its provider did not tell: by the text that was to be said and by the sound that came, in the
//! unit that the model is billed by. Knows nothing of how sound is measured.

use crate::proxy::request::Request;
use gateway_domain::Usage;
use gateway_domain::price::{PriceBook, PriceQuery, UntoldSpeech};
use gateway_domain::record::LogRecord;

/// An answer that told its usage keeps it.
pub(super) fn count(record: &mut LogRecord, request: &Request) {
    let is_untold = |usage: Usage| usage.estimated && usage.total() == 0 && usage.detail.characters == 0;
    let LogRecord { provider, model, operation, .. } = record;
    let Some(llm) = operation.llm_mut() else { return };
    if !llm.usage.is_none_or(is_untold) {
        return;
    }
    let said = gateway_providers::spoken(&request.ask.content.bytes);
    let characters = said.map_or(0, |usage| usage.detail.characters);
    let millis = llm.usage.map_or(0, |usage| usage.detail.millis_out);
    if characters == 0 && millis == 0 {
        return;
    }
    let listed = || PriceBook::opened()?.card(PriceQuery { provider, model, region: "", at: request.caller.at });
    let card = llm.card.as_ref().or_else(listed);
    llm.usage = Some(UntoldSpeech { characters, millis }.usage(card));
}
