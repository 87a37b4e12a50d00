//! Texts that clients and browsers carry for the gateway: sealed, so that nobody reads, makes or changes one, each kind
//! for its own purpose alone. They stand in addresses, forms and cookies as they are.

use crate::app::App;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the vault puts before everything that it seals.
const SEALED: &str = "sealed:v1:";
const LONGEST: usize = 16 * 1024;

pub(crate) fn seal<T: Serialize>(app: &App, purpose: &str, value: &T) -> Option<String> {
    let plain = format!("{purpose}\n{}", serde_json::to_string(value).ok()?);
    let sealed = app.vault.seal(&plain);
    Some(sealed.strip_prefix(SEALED)?.replace('+', "-").replace('/', "_"))
}

pub(crate) fn open<T: DeserializeOwned>(app: &App, purpose: &str, text: &str) -> Option<T> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if text.len() > LONGEST || !text.bytes().all(plain) {
        return None;
    }
    let opened = app.vault.open(&format!("{SEALED}{}", text.replace('-', "+").replace('_', "/"))).ok()?;
    serde_json::from_str(opened.expose().strip_prefix(purpose)?.strip_prefix('\n')?).ok()
}
