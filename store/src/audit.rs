//! What only admins read: versions of documents, and who did what.

use crate::configs::{narrow, workspace, workspace_value};
use crate::database::{Database, PageAsked};
use crate::filter::Filter;
use crate::session::DatabaseRow;
use gateway_domain::ports::{Fut, History, StoreError};
use gateway_domain::record::Page;
use gateway_domain::resource::{Audit, AuditQuery, StoredVersion};
use sqlx::Error;
use uuid::Uuid;

const VERSIONS: &str = "SELECT kind, id, version, version_id, author, doc, created_at FROM resource_version \
    WHERE kind = $1 AND id = $2 ORDER BY version DESC";

const AUDIT: &str = "SELECT id, at, org, workspace, actor, actor_kind, action, resource_kind, resource_id, method, \
    uri, client_ip, status, details, api_key FROM audit";

impl History for Database {
    /// Newest first.
    fn versions(&self, kind: &'static str, id: Uuid) -> Fut<'_, Result<Vec<StoredVersion>, StoreError>> {
        Box::pin(self.rows(VERSIONS, vec![kind.into(), id.into()], version))
    }

    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Fut<'a, Result<Page<Audit>, StoreError>> {
        let mut filter = Filter::default();
        filter
            .and_if("org = ?", query.org)
            .and_if("workspace = ?", query.workspace.map(|id| workspace_value(Some(id))))
            .and_if("at >= ?", query.from)
            .and_if("at <= ?", query.to)
            .and_if("? IN (actor, api_key)", query.actor.as_deref())
            .and_if("actor_kind = ?", query.actor_kind.as_deref())
            .and_if("action = ?", query.action.as_deref())
            .and_if("resource_kind = ?", query.resource_kind.as_deref())
            .and_if("method = ?", query.method.as_deref())
            .and_if("uri = ?", query.uri.as_deref())
            .and_if("client_ip = ?", query.client_ip.as_deref())
            .and_if("status = ?", query.status.map(i64::from))
            // What tells of a request begins with its id.
            .and_if("details LIKE ?", query.request_id.map(|id| format!("{{\"request_id\":\"{id}\"%")));
        let (select, order) = (AUDIT, "at DESC, id DESC");
        let page = PageAsked { table: "audit", select, order, page: query.page, size: query.page_size };
        Box::pin(self.page(page, filter, entry))
    }
}

fn version(row: &DatabaseRow) -> Result<StoredVersion, Error> {
    let mut columns = row.columns();
    Ok(StoredVersion {
        kind: columns.text()?.to_owned(),
        id: columns.uuid()?,
        version: columns.int()?,
        version_id: columns.uuid()?,
        author: columns.opt_uuid()?,
        doc: columns.text()?.to_owned(),
        created_at: columns.time()?,
    })
}

fn entry(row: &DatabaseRow) -> Result<Audit, Error> {
    let mut columns = row.columns();
    Ok(Audit {
        id: columns.uuid()?,
        at: columns.time()?,
        org: columns.uuid()?,
        workspace: workspace(&mut columns)?,
        actor: columns.text()?.to_owned(),
        actor_kind: columns.text()?.to_owned(),
        action: columns.text()?.to_owned(),
        resource_kind: columns.text()?.to_owned(),
        resource_id: columns.text()?.to_owned(),
        method: columns.text()?.to_owned(),
        uri: columns.text()?.to_owned(),
        client_ip: columns.text()?.to_owned(),
        status: narrow(columns.int()?)?,
        details: columns.text()?.to_owned(),
        api_key: columns.text()?.to_owned(),
    })
}
