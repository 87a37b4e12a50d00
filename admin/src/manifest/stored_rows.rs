//! Everything that is stored of one organisation, as it stands at one revision.

use crate::app::App;
use crate::problem::{Problem, busy, internal};
use crate::resource::ResourceRow;
use gateway_domain::id::OrgId;
use gateway_domain::ports::Revision;
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::{Kind, Stored};

/// Whoever signed in holds it, for some hours.
fn is_session(row: &Stored) -> bool {
    row.kind == Kind::ApiKey.name()
        && row.doc.contains(ApiKey::SIGN_ON)
        && ResourceRow::<ApiKey>::read(row).is_ok_and(|key| key.doc.is_session())
}

pub(super) struct StoredRows {
    pub(super) revision: Revision,
    /// `None`: nothing was ever set up.
    pub(super) org: Option<OrgId>,
    pub(super) rows: Vec<Stored>,
}

impl StoredRows {
    /// `org` `None`: the one of the first start.
    pub(super) async fn load(app: &App, org: Option<OrgId>) -> Result<Self, Problem> {
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            // What is read and what this node goes by are the same state, so that a write can say what it has seen.
            app.live.publish(&app.store.since(app.live.snapshot().revision).await?);
            let all = app.store.load().await?;
            let snapshot = app.live.snapshot();
            if all.revision != snapshot.revision {
                continue;
            }
            let org = org.or_else(|| snapshot.first_org().map(|org| org.id));
            let mut rows = all.rows;
            // Invites are acts; groups and their mappings belong to the directory that tells of them, and a
            // sign-on to the place where its provider sends browsers back to.
            let apart = [Kind::Invite, Kind::DirectoryGroup, Kind::GroupMapping, Kind::SignOn].map(Kind::name);
            rows.retain(|row| Some(OrgId(row.org)) == org && !apart.contains(&row.kind.as_str()) && !is_session(row));
            if org.is_none() && !snapshot.is_empty() {
                return Err(internal("rows without an organisation"));
            }
            return Ok(Self { revision: all.revision, org, rows });
        }
        Err(busy("the configuration changes faster than it can be read, try again"))
    }
}
