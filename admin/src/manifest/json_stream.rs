//! The document as an answer of the Admin API: JSON, made while it is sent, so that none of it is held but the piece on
//! its way. What the document says is not known here.

use super::declare::Export;
use crate::problem::Problem;
use crate::reply::AdminReply;
use crate::route::AdminCall;
use axum::body::{Body, Bytes};
use futures_util::stream::unfold;

/// A piece is about as large, and by one declaration larger: to make one takes a fraction of a millisecond, whoever
/// waits.
const PIECE: usize = 16 * 1024;

/// Why an answer ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("the configuration could not be written on: {0}")]
struct BrokenExport(String);

#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerStage {
    Begins,
    GoesOn,
    Whole,
}

struct DocumentPieces {
    export: Export,
    call: AdminCall,
    stage: AnswerStage,
}

impl DocumentPieces {
    fn next(&mut self) -> Result<String, Problem> {
        let mut piece = String::with_capacity(PIECE + PIECE / 4);
        if self.stage == AnswerStage::Begins {
            piece.push_str(r#"{"object":"configuration","document":""#);
            self.stage = AnswerStage::GoesOn;
        }
        while piece.len() < PIECE {
            let Some(text) = self.export.next(&self.call)? else {
                let secrets = serde_json::Value::from(std::mem::take(&mut self.export.secrets));
                piece.push_str(&format!(r#"","secrets":{secrets},"resources":{}}}"#, self.export.resources));
                self.stage = AnswerStage::Whole;
                break;
            };
            let quoted = serde_json::Value::from(text).to_string();
            piece.push_str(&quoted[1..quoted.len() - 1]);
        }
        Ok(piece)
    }
}

/// Each piece is made when the one before is on its way.
pub(super) fn answer(export: Export, call: AdminCall) -> AdminReply {
    let pieces = DocumentPieces { export, call, stage: AnswerStage::Begins };
    let stream = unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces.filter(|pieces| pieces.stage != AnswerStage::Whole)?;
        Some(match pieces.next() {
            Ok(piece) => (Ok(Bytes::from(piece)), Some(pieces)),
            Err(problem) => (Err(BrokenExport(problem.message)), None),
        })
    });
    AdminReply::streamed(Body::from_stream(stream))
}
