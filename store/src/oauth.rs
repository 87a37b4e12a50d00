//! Clients, spent codes and the numbers of refresh tokens, as rows. What only one may do is one statement that counts.

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session};
use gateway_domain::Timestamp;
use gateway_domain::id::{GrantId, OrgId};
use gateway_domain::ports::{
    EndedGrant, Fut, OauthClient, OauthCode, OauthRows, OauthStore, RefreshTurn, SpentCode, StoreError,
};
use sqlx::Error;

const NEW_GRANT: &str = "INSERT INTO oauth_grant (id, org, number, expires_at) VALUES ($1, $2, 0, $3)";
const NEW_CODE: &str =
    "INSERT INTO oauth_code (id, grant_id, org, asked, expires_at, uses) VALUES ($1, $2, $3, $4, $5, 0)";
const SPEND: &str = "UPDATE oauth_code SET uses = uses + 1 WHERE id = $1 \
    RETURNING id, grant_id, org, asked, expires_at, uses";
const TURN: &str = "UPDATE oauth_grant SET number = number + 1, expires_at = $1 \
    WHERE id = $2 AND number = $3 AND expires_at > $4 RETURNING number";
const STANDING: &str = "SELECT number FROM oauth_grant WHERE id = $1 AND expires_at > $2";
const END: &str = "DELETE FROM oauth_grant WHERE id = $1 RETURNING id";
const ENDED: &str = "SELECT id, org FROM oauth_grant WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
const FORGET_CODES: &str = "DELETE FROM oauth_code WHERE id IN \
    (SELECT id FROM oauth_code WHERE expires_at < $1 LIMIT 5000) RETURNING id";

const CLIENTS: &str = "SELECT COUNT(*) FROM oauth_client";
const GRANTS: &str = "SELECT COUNT(*) FROM oauth_grant";
const CODES: &str = "SELECT COUNT(*) FROM oauth_code";
const MAKE_ROOM: &str = "DELETE FROM oauth_client WHERE id IN (SELECT id FROM oauth_client \
    WHERE is_used = 0 AND touched_at < $1 ORDER BY touched_at LIMIT 1) RETURNING id";
const NEW_CLIENT: &str =
    "INSERT INTO oauth_client (id, metadata, created_at, touched_at, is_used) VALUES ($1, $2, $3, $3, 0)";
const CLIENT: &str = "SELECT id, metadata, created_at FROM oauth_client WHERE id = $1";
const USE_CLIENT: &str = "UPDATE oauth_client SET touched_at = $1, is_used = 1 WHERE id = $2";
const FORGET_CLIENTS: &str = "DELETE FROM oauth_client WHERE id IN \
    (SELECT id FROM oauth_client WHERE touched_at < $1 LIMIT 5000) RETURNING id";

impl OauthStore for Database {
    fn begin_grant<'a>(&'a self, code: &'a OauthCode) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let OauthCode { id, grant, org, asked, expires_at } = code;
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            inside.run(NEW_GRANT, vec![grant.0.into(), org.0.into(), (*expires_at).into()]).await?;
            let values =
                vec![id.as_str().into(), grant.0.into(), org.0.into(), asked.as_str().into(), (*expires_at).into()];
            inside.run(NEW_CODE, values).await?;
            transaction.commit().await
        }))
    }

    fn spend_code<'a>(&'a self, id: &'a str) -> Fut<'a, Result<Option<SpentCode>, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(SPEND, vec![id.into()], spent).await?.into_iter().next())
        }))
    }

    fn turn_grant(
        &self,
        grant: GrantId,
        number: i64,
        now: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<RefreshTurn, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let values = vec![until.into(), grant.0.into(), number.into(), now.into()];
            if !session.fetch(TURN, values, |_| Ok(())).await?.is_empty() {
                return Ok(RefreshTurn::Turned);
            }
            let newest = session.fetch(STANDING, vec![grant.0.into(), now.into()], |row| row.columns().int()).await?;
            Ok(if newest.first().is_some_and(|newest| *newest > number) {
                RefreshTurn::Reused
            } else {
                RefreshTurn::Gone
            })
        }))
    }

    fn end_grant(&self, grant: GrantId) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(!session.fetch(END, vec![grant.0.into()], |_| Ok(())).await?.is_empty())
        }))
    }

    fn ended_grants(&self, now: Timestamp, most: u32) -> Fut<'_, Result<Vec<EndedGrant>, StoreError>> {
        let ended = |row: &DatabaseRow| {
            let mut columns = row.columns();
            Ok(EndedGrant { grant: GrantId(columns.uuid()?), org: OrgId(columns.uuid()?) })
        };
        Box::pin(async move { self.rows(ENDED, vec![now.into(), i64::from(most).into()], ended).await })
    }

    fn forget_codes(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(FORGET_CODES, vec![before.into()], |_| Ok(())).await?.len() as u64)
        }))
    }

    fn add_client<'a>(
        &'a self,
        client: &'a OauthClient,
        most: u64,
        idle_before: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |session| add_client(session, client, most, idle_before).await))
    }

    fn client<'a>(&'a self, id: &'a str) -> Fut<'a, Result<Option<OauthClient>, StoreError>> {
        let client = |row: &DatabaseRow| {
            let mut columns = row.columns();
            Ok(OauthClient {
                id: columns.text()?.to_owned(),
                metadata: columns.text()?.to_owned(),
                created_at: columns.time()?,
            })
        };
        Box::pin(async move { Ok(self.rows(CLIENT, vec![id.into()], client).await?.into_iter().next()) })
    }

    fn use_client<'a>(&'a self, id: &'a str, now: Timestamp) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            session.run(USE_CLIENT, vec![now.into(), id.into()]).await.map(drop)
        }))
    }

    fn forget_clients(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(FORGET_CLIENTS, vec![before.into()], |_| Ok(())).await?.len() as u64)
        }))
    }

    fn oauth_rows(&self) -> Fut<'_, Result<OauthRows, StoreError>> {
        Box::pin(self.on(Side::Read, async move |mut session| {
            let mut counted = [0; 3];
            for (count, sql) in counted.iter_mut().zip([CLIENTS, GRANTS, CODES]) {
                *count = u64::try_from(session.fetch_int(sql, vec![]).await?).unwrap_or_default();
            }
            let [clients, grants, codes] = counted;
            Ok(OauthRows { clients, grants, codes })
        }))
    }
}

fn spent(row: &DatabaseRow) -> Result<SpentCode, Error> {
    let mut columns = row.columns();
    let code = OauthCode {
        id: columns.text()?.to_owned(),
        grant: GrantId(columns.uuid()?),
        org: OrgId(columns.uuid()?),
        asked: columns.text()?.to_owned(),
        expires_at: columns.time()?,
    };
    Ok(SpentCode { code, uses: columns.int()? })
}

/// Some that come at the same moment may together pass the bound by their number; nobody passes it alone.
async fn add_client(
    mut session: Session<'_>,
    client: &OauthClient,
    most: u64,
    idle_before: Timestamp,
) -> Result<bool, Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    let count = u64::try_from(inside.fetch_int(CLIENTS, vec![]).await?).unwrap_or_default();
    let is_full = count >= most;
    if is_full && inside.fetch(MAKE_ROOM, vec![idle_before.into()], |_| Ok(())).await?.is_empty() {
        return Ok(false);
    }
    let values = vec![client.id.as_str().into(), client.metadata.as_str().into(), client.created_at.into()];
    inside.run(NEW_CLIENT, values).await?;
    transaction.commit().await?;
    Ok(true)
}
