//! What single models of an integration have of their own: host and headers. Made with the snapshot, so that a request
//! finds each by one look-up.

use super::{Build, Upstream};
use crate::egress::check_custom_host;
use crate::id::WorkspaceId;
use crate::resource::integration::{Access, Integration};
use crate::resource::limits::ResourceLimits;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The integration as it is called for models with a host or headers of their own.
pub(super) fn tuned(
    plain: &Upstream,
    doc: &Integration,
    build: &Build<'_>,
) -> Result<HashMap<String, Arc<Upstream>>, String> {
    let mut out = HashMap::new();
    for (slug, model) in &doc.models.list {
        if model.custom_host.is_none() && model.custom_headers.is_empty() {
            continue;
        }
        let mut own = plain.clone();
        if let Some(url) = &model.custom_host {
            let base = check_custom_host(url, build.trusted).map_err(|why| format!("custom_host of {slug} {why}"))?;
            own.base = Some(Arc::new(base));
        }
        for (name, sealed) in &model.custom_headers {
            let value = build.vault.open(sealed).map_err(|e| format!("a header of {slug} cannot be opened: {e}"))?;
            own.headers.retain(|(n, _)| n != name);
            own.headers.push((name.clone(), value));
        }
        // Prepared heads and pools of one model are not those of another.
        own.generation = slug.bytes().fold(plain.generation, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        out.insert(slug.clone(), Arc::new(own));
    }
    Ok(out)
}

pub(super) fn limits(access: &Access) -> BTreeMap<WorkspaceId, Arc<ResourceLimits>> {
    access.workspace_limits.iter().map(|(id, limits)| (*id, Arc::new(limits.clone()))).collect()
}
