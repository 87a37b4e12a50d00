//! What this node is called: a name that lies in its data folder, so that a restart keeps it.

use crate::clock;
use std::io;
use std::path::Path;
use uuid::Uuid;

/// The name of a data folder, made at its first use: counters that are each node's own are found by it.
pub(crate) fn node_id(data_dir: &Path) -> Result<String, String> {
    let path = data_dir.join("node.id");
    let told = |e: io::Error| format!("{}: {e}", path.display());
    match std::fs::read_to_string(&path) {
        Ok(text) if Uuid::parse_str(text.trim()).is_ok() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(told(e)),
    }
    let id = crate::ids::next(clock::now()).to_string();
    std::fs::write(&path, &id).map_err(told)?;
    Ok(id)
}
