//! What a picture is where neither the request nor the answer says: steps and size that a provider gives by itself, for
//! those that bill by the step or the tile. A model that is not among them stays untold.

use crate::adapter::Call;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UsualPicture {
    pub(super) steps: u32,
    /// Empty: not told.
    pub(super) size: &'static str,
}

struct UsualEntry {
    provider: &'static str,
    /// Stands in the names of the models that are meant.
    name: &'static str,
    usual: UsualPicture,
}

const fn known(provider: &'static str, name: &'static str, steps: u32, size: &'static str) -> UsualEntry {
    UsualEntry { provider, name, usual: UsualPicture { steps, size } }
}

/// The first that fits. Fireworks' page of prices tells steps and price of one picture
/// (<https://fireworks.ai/pricing>); Cloudflare's are in the schema of each model
/// (<https://developers.cloudflare.com/workers-ai/models/>), but for the size of FLUX schnell, which takes none and
/// gives squares.
static KNOWN: &[UsualEntry] = &[
    known("fireworks-ai", "schnell", 4, ""),
    known("fireworks-ai", "flux-1-dev", 28, ""),
    known("fireworks-ai", "stable-diffusion", 30, ""),
    known("fireworks-ai", "playground-v2", 30, ""),
    known("workers-ai", "flux-1-schnell", 4, "1024x1024"),
    known("workers-ai", "phoenix-1.0", 25, "1024x1024"),
    known("workers-ai", "lucid-origin", 0, "1120x1120"),
    known("workers-ai", "stable-diffusion-xl-base", 20, ""),
];

pub(super) fn usual(slug: &str, call: &Call<'_>) -> &'static UsualPicture {
    static UNTOLD: UsualPicture = UsualPicture { steps: 0, size: "" };
    let model = call.model.unwrap_or_default();
    let found = KNOWN.iter().find(|known| known.provider == slug && model.contains(known.name));
    found.map_or(&UNTOLD, |known| &known.usual)
}
