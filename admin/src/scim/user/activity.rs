//! Keys of somebody who is switched off are suspended in the same write, and open again when that person is active
//! again. A key that was blocked for itself stays blocked.

use crate::change::{Action, WriteView, audit};
use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::user::{UserKeys, keys_of};
use crate::route::AdminCall;
use gateway_domain::id::UserId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::Stored;
use gateway_domain::resource::api_key::ApiKey;
use serde_json::Map;

const OPEN: &str = "active";
const SUSPENDED: &str = "suspended";

pub(super) struct KeysOfUser {
    user: UserId,
    read: Vec<Stored>,
}

impl KeysOfUser {
    pub(super) async fn read(call: &AdminCall, user: UserId) -> Result<Self, Problem> {
        Ok(Self { user, read: keys_of(call, user).await? })
    }

    pub(super) fn follow(
        self,
        call: &AdminCall,
        around: &WriteView<'_>,
        is_active: bool,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let (from, to) = if is_active { (SUSPENDED, OPEN) } else { (OPEN, SUSPENDED) };
        let all = UserKeys { user: self.user, kept: |_| false };
        for stored in all.to_end(around, self.read) {
            let mut key: ResourceRow<ApiKey> = ResourceRow::read(&stored)?;
            if key.status != from {
                continue;
            }
            to.clone_into(&mut key.status);
            key.touch(call.now);
            let stored = key.stored()?;
            batch.audit.push(audit(call, Action::Update, &stored, &Map::new()));
            batch.rows.push(stored);
        }
        Ok(())
    }
}
