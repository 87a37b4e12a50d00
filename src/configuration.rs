//! The command line's way to the configuration as one document. Works on what is stored, whether a gateway runs on it
//! or not: one that does hears of the change as of any other.

use crate::serve::detached;
use crate::settings::{Settings, document_secrets};
use crate::telemetry;
use gateway_admin::{ConfigurationReport, Conversion, ForeignFile, ManifestAct, Problem};
use gateway_domain::egress::Trusted;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Larger documents are no configuration.
const LONGEST: u64 = 1 << 30;

/// `gateway export`.
pub(crate) fn export(settings: &Settings, to: Option<&Path>) -> Result<(), String> {
    let (runtime, app) = detached(settings)?;
    let export = |write: &mut (dyn FnMut(&str) + Send)| {
        runtime.block_on(gateway_admin::export_configuration(&app, write)).map(drop).map_err(describe_problem)
    };
    let Some(path) = to else { return export(&mut telemetry::print) };
    let mut file = PrivateFile::beside(path)?;
    let mut written = Ok(());
    export(&mut |text| {
        if written.is_ok() {
            written = file.add(text);
        }
    })?;
    written?;
    file.put(path)
}

/// `gateway import` and `gateway prune`.
pub(crate) fn apply(settings: &Settings, document: &Path, act: ManifestAct) -> Result<(), String> {
    let report = use_document(settings, document, act)?;
    telemetry::print(&report.to_string());
    Ok(())
}

/// `gateway diff`: whether there is no difference.
pub(crate) fn diff(settings: &Settings, document: &Path) -> Result<bool, String> {
    let report = use_document(settings, document, ManifestAct::Diff)?;
    telemetry::print(&report.to_string());
    Ok(report.is_clean())
}

/// `gateway convert`: what could not be carried is said on standard error, so that a document can be piped on.
pub(crate) fn convert(
    file: &Path,
    of: ForeignFile,
    to: Option<&Path>,
    (workspace, hosts): (&str, &[String]),
) -> Result<(), String> {
    let trusted = Trusted::parse(hosts).map_err(|why| format!("--trusted-custom-hosts: {why}"))?;
    let with = Conversion { catalog: gateway_providers::catalog(), trusted: &trusted, workspace };
    let converted = gateway_admin::convert_configuration(&read(file)?, of, &with).map_err(describe_problem)?;
    for note in &converted.notes {
        telemetry::complain(note);
    }
    match to {
        None => telemetry::print(&converted.document),
        Some(path) => write(path, &converted.document)?,
    }
    Ok(())
}

fn use_document(settings: &Settings, document: &Path, act: ManifestAct) -> Result<ConfigurationReport, String> {
    let text = read(document)?;
    let (runtime, app) = detached(settings)?;
    runtime.block_on(gateway_admin::use_configuration(&app, &text, document_secrets(), act)).map_err(describe_problem)
}

/// Every problem on a line of its own.
fn describe_problem(problem: Problem) -> String {
    if problem.errors.is_empty() { problem.message } else { problem.errors.join("\n") }
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    let cannot = |why: std::io::Error| format!("{}: cannot be read: {why}", path.display());
    let mut text = String::new();
    let length = if path.as_os_str() == "-" {
        std::io::stdin().take(LONGEST + 1).read_to_string(&mut text).map_err(cannot)?
    } else {
        std::fs::File::open(path).map_err(cannot)?.take(LONGEST + 1).read_to_string(&mut text).map_err(cannot)?
    };
    if length as u64 > LONGEST {
        return Err(format!("{}: is longer than {LONGEST} bytes", path.display()));
    }
    Ok(text)
}

/// A file that is there whole or not at all, and that nobody else reads: hashes of keys stand in it.
struct PrivateFile(BufWriter<tempfile::NamedTempFile>);

fn unwritten(path: &Path, why: &std::io::Error) -> String {
    format!("{}: cannot be written: {why}", path.display())
}

impl PrivateFile {
    fn beside(path: &Path) -> Result<Self, String> {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|why| unwritten(path, &why))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        self.0.write_all(text.as_bytes()).map_err(|why| unwritten(self.0.get_ref().path(), &why))
    }

    fn put(self, path: &Path) -> Result<(), String> {
        let file = self.0.into_inner().map_err(|why| unwritten(path, why.error()))?;
        file.persist(path).map_err(|why| unwritten(path, &why.error))?;
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut file = PrivateFile::beside(path)?;
    file.add(text)?;
    file.put(path)
}
