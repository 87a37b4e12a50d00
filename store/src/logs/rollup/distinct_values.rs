//! Which values of an hour are kept apart already. A node remembers the hours that it writes to, and reads them back
//! after a start; several nodes have a bound each.

use crate::session::Session;
use gateway_domain::analytics::{Combination, CutValues, Grain};
use gateway_domain::id::OrgId;
use sqlx::Error;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Combinations of user, model and metadata that an organisation has rows of its own for, in one hour.
const MOST_TUPLES: usize = 10_000;
/// Models that are kept apart beyond that.
const MOST_MODELS: usize = 500;
/// Hours that are remembered, the last used at the end. What was forgotten is read again.
const HOURS: usize = 64;

#[derive(Default)]
pub(super) struct HourValues {
    tuples: HashSet<u64>,
    models: HashSet<u64>,
}

struct KnownHour {
    org: OrgId,
    hour: i64,
    values: HourValues,
}

#[derive(Default)]
pub(super) struct KnownValues(VecDeque<KnownHour>);

impl KnownValues {
    /// Moves it to the end.
    pub(super) fn has(&mut self, org: OrgId, hour: i64) -> bool {
        let Some(at) = self.0.iter().position(|k| k.hour == hour && k.org == org) else { return false };
        if let Some(found) = self.0.remove(at) {
            self.0.push_back(found);
        }
        true
    }

    pub(super) fn put(&mut self, org: OrgId, hour: i64, values: HourValues) {
        if self.0.len() >= HOURS {
            self.0.pop_front();
        }
        self.0.push_back(KnownHour { org, hour, values });
    }

    pub(super) fn admit(&mut self, hour: i64, of: &mut Combination) {
        let Some(known) = self.0.iter_mut().rev().find(|k| k.hour == hour && k.org == of.org) else { return };
        known.values.admit(of);
    }
}

impl HourValues {
    fn admit(&mut self, of: &mut Combination) {
        let (tuple, model) = hashes(&of.user, &of.model, &of.metadata);
        if self.tuples.contains(&tuple) {
            return;
        }
        if self.tuples.len() < MOST_TUPLES {
            self.tuples.insert(tuple);
            self.models.insert(model);
            return;
        }
        if !of.user.is_empty() {
            of.lose(CutValues::USER);
        }
        if of.metadata.len() > 2 {
            of.lose(CutValues::METADATA);
        }
        if !self.models.contains(&model) && (self.models.len() >= MOST_MODELS || !self.models.insert(model)) {
            of.lose(CutValues::MODEL);
        }
    }
}

fn hashes(user: &str, model: &str, metadata: &str) -> (u64, u64) {
    let (mut tuple, mut only) = (DefaultHasher::new(), DefaultHasher::new());
    (user, model, metadata).hash(&mut tuple);
    model.hash(&mut only);
    (tuple.finish(), only.finish())
}

/// What the rows of an hour hold.
pub(super) async fn load(session: &mut Session<'_>, org: OrgId, hour: i64) -> Result<HourValues, Error> {
    let select = "SELECT DISTINCT user_name, model, metadata FROM log_rollup \
                  WHERE org = $1 AND grain = $2 AND created_at = $3 AND cut = 0 LIMIT $4";
    let most = i64::try_from(MOST_TUPLES).unwrap_or(i64::MAX);
    let values = vec![org.0.into(), Grain::Hour.micros().into(), hour.into(), most.into()];
    let found = session.fetch(select, values, |row| {
        let mut c = row.columns();
        Ok(hashes(c.text()?, c.text()?, c.text()?))
    });
    let (tuples, models) = found.await?.into_iter().unzip();
    Ok(HourValues { tuples, models })
}
