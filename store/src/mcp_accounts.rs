//! Accounts of people at MCP servers, as rows. Whoever renews one claims its version first, so that of many nodes one
//! spends what can be spent once. What is sealed is opened elsewhere.

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session};
use gateway_domain::Timestamp;
use gateway_domain::id::{McpIntegrationId, OrgId, UserId};
use gateway_domain::ports::{
    AccountPage, AccountsAsked, Fut, McpAccount, McpAccountId, McpAccountRows, McpAccounts, McpServerClient,
    SealedTokens, StoreError,
};
use sha2::{Digest, Sha256};
use sqlx::Error;

const OTHERS: &str = "SELECT COUNT(*) FROM mcp_account WHERE org = $1 AND id <> $2";
const CONNECT: &str = "INSERT INTO mcp_account \
    (id, integration, user_id, org, sealed, version, expires_at, renewing_until, created_at, updated_at) \
    VALUES ($1, $2, $3, $4, $5, 1, $6, 0, $7, $7) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, \
    version = mcp_account.version + 1, expires_at = excluded.expires_at, renewing_until = 0, \
    updated_at = excluded.updated_at";
const ONE: &str = "SELECT integration, user_id, org, sealed, version, expires_at, created_at, updated_at \
    FROM mcp_account WHERE id = $1";
const NEWEST: &str = "SELECT integration, user_id, org, sealed, version, expires_at, created_at, updated_at \
    FROM mcp_account WHERE integration = $1 AND sealed <> '' ORDER BY updated_at DESC LIMIT 1";
const OF_ONE: &str = "SELECT integration, user_id, org, sealed, version, expires_at, created_at, updated_at \
    FROM mcp_account WHERE integration = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";
const PAGE: &str = "SELECT integration, user_id, org, sealed, version, expires_at, created_at, updated_at \
    FROM mcp_account WHERE org = $1 AND integration IN ({integrations}) AND user_id IN ({users}) \
    ORDER BY user_id, integration LIMIT $4 OFFSET $5";
const PAGE_TOTAL: &str = "SELECT COUNT(*) FROM mcp_account \
    WHERE org = $1 AND integration IN ({integrations}) AND user_id IN ({users})";
const ALL: &str = "SELECT integration, user_id, org, sealed, version, expires_at, created_at, updated_at \
    FROM mcp_account WHERE id > $1 ORDER BY id LIMIT $2";
const CLAIM: &str = "UPDATE mcp_account SET renewing_until = $1 \
    WHERE id = $2 AND version = $3 AND renewing_until <= $4 AND sealed <> '' RETURNING id";
const POSTPONE: &str = "UPDATE mcp_account SET renewing_until = $1 \
    WHERE id = $2 AND version = $3 AND renewing_until = $4 RETURNING id";
const RENEW: &str = "UPDATE mcp_account SET sealed = $1, expires_at = $2, version = version + 1, renewing_until = 0, \
    updated_at = $3 WHERE id = $4 AND version = $5 RETURNING id";
const LAPSE: &str = "UPDATE mcp_account SET sealed = '', expires_at = 0, version = version + 1, renewing_until = 0, \
    updated_at = $1 WHERE id = $2 AND version = $3 RETURNING id";
const REMOVE: &str = "DELETE FROM mcp_account WHERE id = $1 \
    RETURNING integration, user_id, org, sealed, version, expires_at, created_at, updated_at";

const CLIENT: &str = "SELECT org, issuer, sealed FROM mcp_server_client WHERE id = $1";
const KEEP_CLIENT: &str = "INSERT INTO mcp_server_client (id, org, issuer, sealed, created_at) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, created_at = excluded.created_at";
const CLIENTS_OF: &str = "SELECT COUNT(*) FROM mcp_server_client WHERE org = $1";
const MAKE_ROOM: &str = "DELETE FROM mcp_server_client WHERE id IN \
    (SELECT id FROM mcp_server_client WHERE org = $1 ORDER BY created_at, id LIMIT $2)";
const FORGET_CLIENT: &str = "DELETE FROM mcp_server_client WHERE id = $1";

const CONNECTED: &str = "SELECT COUNT(*) FROM mcp_account WHERE sealed <> ''";
const LAPSED: &str = "SELECT COUNT(*) FROM mcp_account WHERE sealed = ''";
const CLIENTS: &str = "SELECT COUNT(*) FROM mcp_server_client";

fn name(id: McpAccountId) -> String {
    format!("{}.{}", id.integration, id.user)
}

fn client_name(org: OrgId, issuer: &str) -> String {
    let digest = Sha256::digest(format!("{org}\n{issuer}").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(row: &DatabaseRow) -> Result<McpAccount, Error> {
    let mut columns = row.columns();
    let id = McpAccountId { integration: McpIntegrationId(columns.uuid()?), user: UserId(columns.uuid()?) };
    Ok(McpAccount {
        id,
        org: OrgId(columns.uuid()?),
        sealed: columns.text()?.to_owned(),
        version: columns.int()?,
        expires_at: columns.time()?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
    })
}

impl McpAccounts for Database {
    fn connect_account<'a>(
        &'a self,
        id: McpAccountId,
        org: OrgId,
        tokens: &'a SealedTokens,
        now: Timestamp,
        most: u64,
    ) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            let name = name(id);
            let others = inside.fetch_int(OTHERS, vec![org.0.into(), name.as_str().into()]).await?;
            if u64::try_from(others).unwrap_or_default() >= most {
                return Ok(false);
            }
            let values = vec![
                name.into(),
                id.integration.0.into(),
                id.user.0.into(),
                org.0.into(),
                tokens.sealed.as_str().into(),
                tokens.expires_at.into(),
                now.into(),
            ];
            inside.run(CONNECT, values).await?;
            transaction.commit().await?;
            Ok(true)
        }))
    }

    fn account(&self, id: McpAccountId) -> Fut<'_, Result<Option<McpAccount>, StoreError>> {
        Box::pin(async move { Ok(self.rows(ONE, vec![name(id).into()], read).await?.into_iter().next()) })
    }

    fn newest_account(&self, integration: McpIntegrationId) -> Fut<'_, Result<Option<McpAccount>, StoreError>> {
        Box::pin(async move { Ok(self.rows(NEWEST, vec![integration.0.into()], read).await?.into_iter().next()) })
    }

    fn accounts_of(
        &self,
        integration: McpIntegrationId,
        after: Option<UserId>,
        most: u32,
    ) -> Fut<'_, Result<Vec<McpAccount>, StoreError>> {
        let after = after.map_or_else(String::new, |user| user.to_string());
        let values = vec![integration.0.into(), after.into(), i64::from(most).into()];
        Box::pin(async move { self.rows(OF_ONE, values, read).await })
    }

    fn accounts_page<'a>(&'a self, asked: AccountsAsked<'a>) -> Fut<'a, Result<AccountPage, StoreError>> {
        Box::pin(self.on(Side::Read, async move |session| page(session, asked).await))
    }

    fn all_accounts(&self, after: Option<McpAccountId>, most: u32) -> Fut<'_, Result<Vec<McpAccount>, StoreError>> {
        let values = vec![after.map_or_else(String::new, name).into(), i64::from(most).into()];
        Box::pin(async move { self.rows(ALL, values, read).await })
    }

    fn claim_renewal(
        &self,
        id: McpAccountId,
        version: i64,
        now: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<bool, StoreError>> {
        let values = vec![until.into(), name(id).into(), version.into(), now.into()];
        Box::pin(self.on(Side::Write, async move |session| changed(session, CLAIM, values).await))
    }

    fn postpone_renewal(
        &self,
        id: McpAccountId,
        version: i64,
        claimed: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<bool, StoreError>> {
        let values = vec![until.into(), name(id).into(), version.into(), claimed.into()];
        Box::pin(self.on(Side::Write, async move |session| changed(session, POSTPONE, values).await))
    }

    fn renew_account<'a>(
        &'a self,
        id: McpAccountId,
        version: i64,
        tokens: &'a SealedTokens,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>> {
        let sealed = tokens.sealed.as_str().into();
        let values = vec![sealed, tokens.expires_at.into(), now.into(), name(id).into(), version.into()];
        Box::pin(self.on(Side::Write, async move |session| changed(session, RENEW, values).await))
    }

    fn lapse_account(&self, id: McpAccountId, version: i64, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        let values = vec![now.into(), name(id).into(), version.into()];
        Box::pin(self.on(Side::Write, async move |session| changed(session, LAPSE, values).await))
    }

    fn remove_account(&self, id: McpAccountId) -> Fut<'_, Result<Option<McpAccount>, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(REMOVE, vec![name(id).into()], read).await?.into_iter().next())
        }))
    }

    fn server_client<'a>(
        &'a self,
        org: OrgId,
        issuer: &'a str,
    ) -> Fut<'a, Result<Option<McpServerClient>, StoreError>> {
        let client = |row: &DatabaseRow| {
            let mut columns = row.columns();
            Ok(McpServerClient {
                org: OrgId(columns.uuid()?),
                issuer: columns.text()?.to_owned(),
                sealed: columns.text()?.to_owned(),
            })
        };
        Box::pin(async move {
            Ok(self.rows(CLIENT, vec![client_name(org, issuer).into()], client).await?.into_iter().next())
        })
    }

    fn keep_server_client<'a>(
        &'a self,
        client: &'a McpServerClient,
        now: Timestamp,
        most: u64,
    ) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let McpServerClient { org, issuer, sealed } = client;
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            let values = vec![
                client_name(*org, issuer).into(),
                org.0.into(),
                issuer.as_str().into(),
                sealed.as_str().into(),
                now.into(),
            ];
            inside.run(KEEP_CLIENT, values).await?;
            let count = inside.fetch_int(CLIENTS_OF, vec![org.0.into()]).await?;
            let over = count.saturating_sub(i64::try_from(most).unwrap_or(i64::MAX));
            if over > 0 {
                inside.run(MAKE_ROOM, vec![org.0.into(), over.into()]).await?;
            }
            transaction.commit().await
        }))
    }

    fn forget_server_client<'a>(&'a self, org: OrgId, issuer: &'a str) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            session.run(FORGET_CLIENT, vec![client_name(org, issuer).into()]).await
        }))
    }

    fn account_rows(&self) -> Fut<'_, Result<McpAccountRows, StoreError>> {
        Box::pin(self.on(Side::Read, async move |mut session| {
            let mut counted = [0; 3];
            for (count, sql) in counted.iter_mut().zip([CONNECTED, LAPSED, CLIENTS]) {
                *count = u64::try_from(session.fetch_int(sql, vec![]).await?).unwrap_or_default();
            }
            let [connected, lapsed, clients] = counted;
            Ok(McpAccountRows { connected, lapsed, clients })
        }))
    }
}

async fn page(mut session: Session<'_>, asked: AccountsAsked<'_>) -> Result<AccountPage, Error> {
    // One value holds all names: there may be more of them than a statement takes values.
    let among = |at: u8| match session {
        Session::Postgres(_) => format!("SELECT jsonb_array_elements_text(${at}::jsonb)"),
        Session::Sqlite(_) => format!("SELECT value FROM json_each(${at})"),
    };
    let [integrations, users] = [among(2), among(3)];
    let sql = |text: &str| text.replace("{integrations}", &integrations).replace("{users}", &users);
    let (rows, total) = (sql(PAGE), sql(PAGE_TOTAL));
    let integrations = names(asked.integrations.iter().map(|id| id.0));
    let users = names(asked.users.iter().map(|user| user.0));
    let mut values = vec![asked.org.0.into(), integrations.into(), users.into()];
    let total = session.fetch_int(total, values.clone()).await?;
    let skip = i64::try_from(asked.skip).unwrap_or(i64::MAX);
    values.extend([i64::from(asked.most).into(), skip.into()]);
    let rows = session.fetch(rows, values, read).await?;
    Ok(AccountPage { rows, total: u64::try_from(total).unwrap_or_default() })
}

/// Ids as an array of JSON.
fn names(ids: impl Iterator<Item = uuid::Uuid>) -> String {
    let quoted: Vec<String> = ids.map(|id| format!("\"{id}\"")).collect();
    format!("[{}]", quoted.join(","))
}

/// Whether a statement met a row.
async fn changed(
    mut session: Session<'_>,
    sql: &'static str,
    values: Vec<crate::session::Value<'_>>,
) -> Result<bool, Error> {
    Ok(!session.fetch(sql, values, |_| Ok(())).await?.is_empty())
}
