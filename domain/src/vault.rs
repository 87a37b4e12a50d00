//! Secrets at rest.

use crate::secret::Secret;

/// Seals secrets for rest and opens them again.
pub trait Vault: Send + Sync {
    /// Text that may be stored: `sealed:v1:<base64>`.
    fn seal(&self, plain: &str) -> String;
    fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError>;
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("not a sealed value")]
    Malformed,
    #[error("sealed with another master key")]
    WrongKey,
}
