//! What OpenAI's own models cannot do without, told before anybody is called. Of models of others nothing is asked: a
//! server that speaks like OpenAI may have a voice of its own, or find its sound elsewhere than in a file.
//!
//! Bounds are those of <https://platform.openai.com/docs/api-reference/images/createEdit> and of its neighbours.

use super::CompatRow;
use crate::adapter::Call;
use crate::wire::{read, speaks};
use gateway_domain::form::{ClientForm, FormPart};
use gateway_domain::{Fault, FaultKind, Operation};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What the names of OpenAI's models for sound and pictures begin with.
const OPENAIS: &[&str] = &["tts-1", "whisper-1", "gpt-4o", "gpt-image", "chatgpt-image", "dall-e"];
/// Those of models that change pictures.
const CHANGE_PICTURES: &[&str] = &["gpt-image", "chatgpt-image", "dall-e"];
const MOST_PICTURES: usize = 16;

#[derive(Deserialize)]
struct AskedParts<'a> {
    #[serde(borrow)]
    voice: Option<&'a RawValue>,
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    images: Option<&'a RawValue>,
}

fn refused(field: &'static str, why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {why}")).on(field)
}

fn is_named(call: &Call<'_>, names: &[&str]) -> bool {
    call.model.is_some_and(|model| names.iter().any(|name| model.starts_with(name)))
}

/// Deployments of Azure's have names of their own.
fn is_openais(row: &CompatRow, call: &Call<'_>) -> bool {
    row.info.slug == "azure-openai" || (row.info.slug == "openai" && is_named(call, OPENAIS))
}

/// A body of JSON.
pub(super) fn check(row: &CompatRow, call: &Call<'_>) -> Result<(), Fault> {
    if !is_openais(row, call) {
        return Ok(());
    }
    let Some(asked) = read::<AskedParts<'_>>(call.body) else { return Ok(()) };
    match call.operation {
        Operation::Speech if !speaks(asked.voice) => Err(refused("voice", "is needed by this model")),
        Operation::ImagesEdit if speaks(asked.image) => Ok(()),
        Operation::ImagesEdit => {
            let count = asked.images.map_or(Some(0), |raw| Some(read::<Vec<&RawValue>>(raw.get().as_bytes())?.len()));
            check_pictures(call, "images", count.unwrap_or(1))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_form(row: &CompatRow, call: &Call<'_>, form: &ClientForm) -> Result<(), Fault> {
    if !is_openais(row, call) {
        return Ok(());
    }
    match call.operation {
        Operation::ImagesEdit => {
            let named = |part: &&FormPart| part.name == "image" || part.name.starts_with("image[");
            let pictures = form.parts().iter().filter(named).count();
            // Whatever else is called so may lead to one.
            let others = form.parts().iter().any(|part| part.name.starts_with("image"));
            check_pictures(call, "image", pictures.max(others.into()))
        }
        Operation::Transcription | Operation::Translation if form.named("file").next().is_none() => {
            Err(refused("file", "is needed: the sound that is to be written down"))
        }
        _ => Ok(()),
    }
}

fn check_pictures(call: &Call<'_>, field: &'static str, count: usize) -> Result<(), Fault> {
    match count {
        0 => Err(refused(field, "is needed: the picture that is to be changed")),
        count if count > MOST_PICTURES && is_named(call, CHANGE_PICTURES) => {
            Err(refused(field, format_args!("may be {MOST_PICTURES} pictures, and {count} came")))
        }
        _ => Ok(()),
    }
}
