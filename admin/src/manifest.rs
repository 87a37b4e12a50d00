//! The configuration of an organisation as one document: written from what is stored, compared with it, and put in force
//! in one write. What each resource says in it is its own business; what is here is the order of things, their names, and
//! that all of a document holds or none of it does. Values of secrets are never in it.

mod apply;
mod author;
mod convert;
mod declare;
mod difference;
mod item;
mod kinds;
mod naming;
mod operator;
mod plan;
mod prune;
mod report;
mod routes;
mod stored;
mod text;

pub use convert::{Conversion, ConvertedFile, ForeignFile, convert_configuration};
pub use difference::FieldChange;
pub use report::{ConfigurationReport, ExportedConfiguration, ItemChange, ManifestAct, NewSecret};
pub(crate) use routes::routes;

use crate::app::App;
use crate::problem::{Problem, missing};
use crate::resource::declared::secrets::SecretValues;
use author::Author;
use std::collections::BTreeMap;
use stored::StoredRows;
use text::DocumentBounds;

/// The configuration of the organisation `default`, or of the oldest one: a local act of the operator.
pub async fn export_configuration(app: &App) -> Result<ExportedConfiguration, Problem> {
    let stored = StoredRows::load(app, None).await?;
    let org = stored.org.ok_or_else(|| missing("organisation"))?;
    declare::export(&stored, &operator::call(app, org)?)
}

/// Does with a document what is asked, as the operator. `secrets`: what the names in it stand for.
pub async fn use_configuration(
    app: &App,
    document: &str,
    secrets: BTreeMap<String, String>,
    act: ManifestAct,
) -> Result<ConfigurationReport, Problem> {
    let manifest = text::parse(document, DocumentBounds::Operator)?;
    let secrets = SecretValues::of(secrets)?;
    apply::run(app, &Author::Operator, &manifest, &secrets, act).await
}
