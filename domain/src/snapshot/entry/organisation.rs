//! An organisation: what it forbids, keeps and trusts.

use super::{Build, Draft, Entry, doc, keep};
use crate::id::{OrgId, WorkspaceId};
use crate::resource::organisation::Organisation;
use crate::resource::security::Security;
use crate::resource::{Kind, Stored};
use crate::token::Trust;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct Org {
    pub id: OrgId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub default_workspace: WorkspaceId,
    pub block_inline_config: bool,
    pub security: Security,
    /// Sections of the security settings that workspaces may set for themselves.
    pub overridable: BTreeSet<String>,
    /// Days after which the secrets of user keys are replaced.
    pub rotation_days: Option<u16>,
    /// Whose tokens open it; `None`: nobody's.
    pub trust: Option<Arc<Trust>>,
    /// Records may keep headers and bodies, unless a request says otherwise.
    pub debug_log: bool,
    pub enforce_debug_log: bool,
    pub cache_max_age_s: Option<u32>,
}

impl Entry for Org {
    const KIND: Kind = Kind::Organisation;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        keep(&mut draft.next.orgs, OrgId(row.id), row, || read(row))
    }
}

fn read(row: &Stored) -> Result<Org, String> {
    let o: Organisation = doc(row)?;
    Ok(Org {
        trust: o.trust().map_err(|why| format!("jwks {why}"))?.map(Arc::new),
        id: OrgId(row.id),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        default_workspace: o.default_workspace,
        block_inline_config: o.blocks_inline(row.created_at),
        security: o.security_settings,
        overridable: o.overridable_sections,
        rotation_days: o.user_api_key_rotation_period,
        debug_log: o.debug_log.unwrap_or(true),
        enforce_debug_log: o.enforce_debug_log_setting,
        cache_max_age_s: o.cache_max_age,
    })
}
