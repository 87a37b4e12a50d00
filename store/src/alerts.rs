//! How alert rules stand, as rows. Every change names what it changes from, so that of several nodes one makes it.

use crate::database::Database;
use crate::filter::Filter;
use crate::session::{DatabaseRow, Value};
use gateway_domain::Timestamp;
use gateway_domain::alert::AlertStanding;
use gateway_domain::ports::{AlertStandings, Fut, StoreError};
use sqlx::Error;
use uuid::Uuid;

const SELECT: &str = "SELECT rule, checked_at, value, fired_at, over_at FROM alert_standing";
const CLAIM: &str = "INSERT INTO alert_standing (rule, checked_at) VALUES ($1, $2) ON CONFLICT (rule) \
    DO UPDATE SET checked_at = $2 WHERE alert_standing.checked_at = $3 RETURNING rule";
const NOTE: &str = "UPDATE alert_standing SET value = $1 WHERE rule = $2 RETURNING rule";
const FIRE: &str =
    "UPDATE alert_standing SET fired_at = $1 WHERE rule = $2 AND COALESCE(fired_at, 0) = $3 RETURNING rule";
const END: &str = "UPDATE alert_standing SET over_at = $1 \
    WHERE rule = $2 AND fired_at = $3 AND COALESCE(over_at, 0) < $3 RETURNING rule";
const FORGET: &str = "DELETE FROM alert_standing WHERE rule IN \
    (SELECT rule FROM alert_standing WHERE checked_at < $1 LIMIT 2000) RETURNING rule";
/// Far below what either engine takes of values.
const ROWS: usize = 500;

impl AlertStandings for Database {
    fn alert_standings<'a>(&'a self, rules: &'a [Uuid]) -> Fut<'a, Result<Vec<AlertStanding>, StoreError>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(rules.len());
            for chunk in rules.chunks(ROWS) {
                let mut filter = Filter::default();
                filter.and_in("rule", chunk.iter().copied());
                let (sql, values) = filter.page(SELECT, "rule", 0, ROWS as u64);
                found.extend(self.rows(sql, values, read).await?);
            }
            Ok(found)
        })
    }

    fn claim_alert(&self, rule: Uuid, seen: Option<Timestamp>, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        let values = vec![rule.into(), now.into(), seen.unwrap_or(Timestamp(0)).into()];
        Box::pin(async move { Ok(self.any(CLAIM, values).await? > 0) })
    }

    fn note_alert(&self, rule: Uuid, value: Option<f64>) -> Fut<'_, Result<(), StoreError>> {
        let values = vec![Value::Text(value.map(|value| value.to_string().into())), rule.into()];
        Box::pin(async move { self.any(NOTE, values).await.map(|_| ()) })
    }

    fn fire_alert(&self, rule: Uuid, seen: Option<Timestamp>, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        let values = vec![now.into(), rule.into(), seen.unwrap_or(Timestamp(0)).into()];
        Box::pin(async move { Ok(self.any(FIRE, values).await? > 0) })
    }

    fn end_alert(&self, rule: Uuid, fired: Timestamp, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        // Later than what it ends, whatever clocks say.
        let now = now.max(fired);
        Box::pin(async move { Ok(self.any(END, vec![now.into(), rule.into(), fired.into()]).await? > 0) })
    }

    fn forget_alerts(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move { self.any(FORGET, vec![before.into()]).await })
    }
}

fn read(row: &DatabaseRow) -> Result<AlertStanding, Error> {
    let mut c = row.columns();
    Ok(AlertStanding {
        rule: c.uuid()?,
        checked_at: c.time()?,
        value: c.opt_text()?.and_then(|text| text.parse().ok()),
        fired_at: c.opt_int()?.map(Timestamp),
        over_at: c.opt_int()?.map(Timestamp),
    })
}
