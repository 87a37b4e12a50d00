//! The config that a batch was made with. Its lines go by this one, whatever becomes of the saved one meanwhile: the
//! batch keeps what stood in it, beside the headers that its lines are sent with, and each run reads it from there.

use super::KeepError;
use gateway_domain::Secret;
use gateway_domain::config::{self, ConfigProblem, Context};
use gateway_domain::egress::Trusted;
use gateway_domain::id::ConfigId;
use gateway_domain::ports::{History, Vault};
use gateway_domain::resource::Kind;
use gateway_domain::resource::config::SavedConfig as StoredConfig;
use gateway_domain::snapshot::ConfigEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

/// Which config the request had that made a batch, as it is kept with the batch.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConfigOfBatch {
    /// What the headers of the lines say.
    #[default]
    Request,
    /// There was none, nor will there be.
    None,
    Saved {
        id: Uuid,
        version: Uuid,
        slug: String,
        /// What stands in it, with its secrets as they are: it is kept as sealed as those of the headers.
        #[serde(default)]
        document: Value,
    },
}

/// Its secrets are not printed.
impl std::fmt::Debug for ConfigOfBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request => f.write_str("Request"),
            Self::None => f.write_str("None"),
            Self::Saved { slug, .. } => f.debug_struct("Saved").field("slug", slug).finish_non_exhaustive(),
        }
    }
}

/// Which config a batch was made with, with a saved one compiled, for a request to go by.
#[derive(Clone, Debug)]
pub(crate) enum PinnedConfig {
    Request,
    None,
    Saved(Arc<ConfigEntry>),
}

/// Reads configs as they were.
pub(crate) struct PinnedConfigs {
    pub(crate) history: Arc<dyn History>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) trusted: Arc<Trusted>,
}

impl PinnedConfigs {
    /// Fills in what stands in a saved config's version, with its secrets opened.
    pub(super) async fn written_out(&self, config: ConfigOfBatch) -> Result<ConfigOfBatch, KeepError> {
        let ConfigOfBatch::Saved { id, version, slug, .. } = config else { return Ok(config) };
        let versions = self.history.versions(Kind::Config.name(), id).await?;
        let found = versions.into_iter().find(|found| found.version_id == version).ok_or(KeepError::NoConfig)?;
        let stored: StoredConfig = serde_json::from_str(&found.doc).map_err(|e| broken(&slug, &e.to_string()))?;
        let mut document = stored.config;
        self.open(&mut document);
        Ok(ConfigOfBatch::Saved { id, version, slug, document })
    }

    /// The config at the version that it had when something began which goes on now.
    pub(crate) async fn as_it_was(&self, config: ConfigOfBatch) -> Result<PinnedConfig, KeepError> {
        self.read(&self.written_out(config).await?)
    }

    fn open(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Ok(opened) = self.vault.open(text) {
                    text.clone_from(opened.expose());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.open(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.open(field)),
            _ => {}
        }
    }

    pub(super) fn read(&self, config: &ConfigOfBatch) -> Result<PinnedConfig, KeepError> {
        let (id, version, slug, document) = match config {
            ConfigOfBatch::Request => return Ok(PinnedConfig::Request),
            ConfigOfBatch::None => return Ok(PinnedConfig::None),
            ConfigOfBatch::Saved { id, version, slug, document } => (*id, *version, slug, document),
        };
        let known = |slug: &str| gateway_providers::catalog().provider(slug).is_some();
        let open = |text: &str| Some(Secret::new(text.to_owned()));
        let context = Context { known_provider: &known, trusted: &self.trusted, open: &open, saved: true };
        let compiled = config::compile(document, &context).map_err(|problems| {
            broken(slug, &problems.iter().map(ConfigProblem::line).collect::<Vec<_>>().join("; "))
        })?;
        Ok(PinnedConfig::Saved(Arc::new(ConfigEntry {
            id: ConfigId(id),
            slug: slug.as_str().into(),
            is_default: false,
            version_id: version,
            config: Arc::new(compiled),
        })))
    }
}

fn broken(slug: &str, why: &str) -> KeepError {
    KeepError::Store(format!("the config {slug} of a batch cannot be read: {why}"))
}
