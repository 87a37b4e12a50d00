//! The configuration of an organisation as one document: written from what is stored, compared with it, and put in
//! force in one write. What each resource says in it is its own business; what is here is the order of things, their
//! names, and that all of a document holds or none of it does. Values of secrets are never in it.

mod apply;
mod author;
mod convert;
mod declare;
mod difference;
mod item;
mod json_stream;
mod kinds;
mod naming;
mod operator;
mod plan;
mod prune;
mod report;
mod routes;
mod stored_rows;
mod text;

pub use convert::{Conversion, ConvertedFile, ForeignFile, convert_configuration};
pub use difference::FieldChange;
pub use report::{ConfigurationReport, ExportedConfiguration, ItemChange, ManifestAct, NewSecret};
pub(crate) use routes::routes;

use crate::app::App;
use crate::problem::{Problem, missing};
use crate::resource::declared::secrets::SecretValues;
use author::Author;
use declare::Export;
use std::collections::BTreeMap;
use stored_rows::StoredRows;
use text::DocumentBounds;

/// The configuration of the organisation `default`, or of the oldest one: a local act of the operator. `write` is given
/// the document piece by piece; whatever could be wrong with what is stored is known before the first.
pub async fn export_configuration(
    app: &App,
    write: &mut (dyn FnMut(&str) + Send),
) -> Result<ExportedConfiguration, Problem> {
    let stored = StoredRows::load(app, None).await?;
    let org = stored.org.ok_or_else(|| missing("organisation"))?;
    let call = operator::call(app, org)?;
    let mut export = Export::new(stored, &call)?;
    while let Some(text) = export.next(&call)? {
        write(&text);
    }
    Ok(ExportedConfiguration { secrets: export.secrets, resources: export.resources })
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
