//! Stored rows as the Admin API lists and shows them, one page at a time.

use crate::configs::{stored, stored_columns, workspace_value};
use crate::database::{Database, PageAsked};
use crate::filter::Filter;
use crate::session::DatabaseRow;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{Directory, Fut, ResourceQuery, StoreError};
use gateway_domain::record::Page;
use gateway_domain::resource::{Kind, Stored};
use sqlx::Error;
use uuid::Uuid;

const SELECT: &str = concat!("SELECT ", stored_columns!(), " FROM resource r");
const NEWEST: &str = "r.created_at DESC, r.id DESC";

impl Directory for Database {
    fn get<'a>(
        &'a self,
        kind: Kind,
        org: OrgId,
        workspace: Option<WorkspaceId>,
        id_or_slug: &'a str,
    ) -> Fut<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let scoped = |test: &'static str| {
                let mut filter = live(kind, org);
                filter.and_if("r.workspace = ?", workspace.map(|w| workspace_value(Some(w.0)))).and(test, id_or_slug);
                filter
            };
            if let Ok(id) = Uuid::parse_str(id_or_slug) {
                let mut by_id = live(kind, org);
                by_id.and_if("r.workspace = ?", workspace.map(|w| workspace_value(Some(w.0)))).and("r.id = ?", id);
                if let Some(row) = self.first(by_id).await? {
                    return Ok(Some(row));
                }
            }
            self.first(scoped("r.slug = ?")).await
        })
    }

    fn list<'a>(&'a self, query: &'a ResourceQuery) -> Fut<'a, Result<Page<Stored>, StoreError>> {
        let mut filter = if query.deleted {
            rows("r.deleted_at IS NOT NULL", query.kind, query.org)
        } else {
            live(query.kind, query.org)
        };
        filter
            .and_if("r.workspace = ?", query.workspace.map(|w| workspace_value(w.map(|w| w.0))))
            .and_if("r.status = ?", query.status.as_deref())
            .and_if("r.name = ?", query.name.as_deref())
            .and_if("lower(r.name || ' ' || r.slug) LIKE lower(?) ESCAPE '\\'", query.search.as_deref().map(part))
            .and_in("r.id", query.ids.iter().copied());
        let (page, size) = (query.page, query.page_size);
        let page = PageAsked { table: "resource r", select: SELECT, order: NEWEST, page, size };
        Box::pin(self.page(page, filter, row))
    }
}

impl Database {
    async fn first(&self, filter: Filter<'_>) -> Result<Option<Stored>, StoreError> {
        let (sql, values) = filter.page(SELECT, NEWEST, 0, 1);
        Ok(self.rows(sql, values, row).await?.into_iter().next())
    }
}

/// A pattern for what holds `text`, whose own signs of patterns mean themselves. Its case is the database's business,
/// as that of the names is: SQLite knows that of ASCII only.
fn part(text: &str) -> String {
    let plain = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{plain}%")
}

fn live<'v>(kind: Kind, org: OrgId) -> Filter<'v> {
    rows("r.deleted_at IS NULL", kind, org)
}

fn rows<'v>(state: &'static str, kind: Kind, org: OrgId) -> Filter<'v> {
    let mut filter = Filter::default();
    filter.literal(state).and("r.kind = ?", kind.name()).and("r.org = ?", org.0);
    filter
}

fn row(row: &DatabaseRow) -> Result<Stored, Error> {
    let mut columns = row.columns();
    let kind = columns.text()?;
    stored(kind, &mut columns)
}
