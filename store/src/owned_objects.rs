//! Objects that the gateway keeps, as rows beside the configuration. A change names the version that it changes.

use crate::database::{Database, Side};
use crate::session::DatabaseRow;
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{Fut, MOST_OWNED_LISTED, OwnedObject, OwnedObjects, OwnedPlace, StoreError};
use sqlx::Error;
use uuid::Uuid;

const ADD: &str = "INSERT INTO owned_object (id, org, workspace, kind, document, version, created_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, 1, $6, $7) ON CONFLICT (id) DO NOTHING RETURNING id";
const CHANGE: &str =
    "UPDATE owned_object SET document = $1, version = version + 1 WHERE id = $2 AND version = $3 RETURNING id";
const ONE: &str = "SELECT id, org, workspace, kind, document, version, created_at, expires_at FROM owned_object \
    WHERE id = $1 AND workspace = $2 AND kind = $3";
const LIST: &str = "SELECT id, org, workspace, kind, document, version, created_at, expires_at FROM owned_object \
    WHERE workspace = $1 AND kind = $2 AND id < $3 ORDER BY id DESC LIMIT $4";
const REMOVE: &str = "DELETE FROM owned_object WHERE id = $1 AND workspace = $2 AND kind = $3 RETURNING id";
const EXPIRE: &str = "DELETE FROM owned_object WHERE id IN \
    (SELECT id FROM owned_object WHERE expires_at <= $1 ORDER BY expires_at LIMIT 2000) RETURNING id";

impl OwnedObjects for Database {
    fn add<'a>(&'a self, object: &'a OwnedObject) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let OwnedObject { id, org, workspace, kind, document, created_at, expires_at, .. } = object;
            let names = [(*id).into(), org.0.into(), workspace.0.into(), kind.as_str().into()];
            let told = [document.as_str().into(), (*created_at).into(), (*expires_at).into()];
            let values = names.into_iter().chain(told).collect();
            Ok(!session.fetch(ADD, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn change<'a>(&'a self, id: Uuid, version: i64, document: &'a str) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let values = vec![document.into(), id.into(), version.into()];
            Ok(!session.fetch(CHANGE, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn owned<'a>(&'a self, place: OwnedPlace<'a>, id: Uuid) -> Fut<'a, Result<Option<OwnedObject>, StoreError>> {
        Box::pin(async move {
            let values = vec![id.into(), place.workspace.0.into(), place.kind.into()];
            Ok(self.rows(ONE, values, owned).await?.into_iter().next())
        })
    }

    fn list_owned<'a>(
        &'a self,
        place: OwnedPlace<'a>,
        after: Option<Uuid>,
        most: u32,
    ) -> Fut<'a, Result<Vec<OwnedObject>, StoreError>> {
        let most = i64::from(most.min(MOST_OWNED_LISTED));
        Box::pin(async move {
            let before = after.unwrap_or(Uuid::max());
            let values = vec![place.workspace.0.into(), place.kind.into(), before.into(), most.into()];
            self.rows(LIST, values, owned).await
        })
    }

    fn remove<'a>(&'a self, place: OwnedPlace<'a>, id: Uuid) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let values = vec![id.into(), place.workspace.0.into(), place.kind.into()];
            Ok(!session.fetch(REMOVE, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn expire_owned(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(EXPIRE, vec![now.into()], |_| Ok(())).await?.len() as u64)
        }))
    }
}

fn owned(row: &DatabaseRow) -> Result<OwnedObject, Error> {
    let mut columns = row.columns();
    Ok(OwnedObject {
        id: columns.uuid()?,
        org: OrgId(columns.uuid()?),
        workspace: WorkspaceId(columns.uuid()?),
        kind: columns.text()?.to_owned(),
        document: columns.text()?.to_owned(),
        version: columns.int()?,
        created_at: columns.time()?,
        expires_at: columns.time()?,
    })
}
