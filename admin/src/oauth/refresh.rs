//! Refresh tokens: sealed texts that name their grant and their number in it. Only the newest is good, and only once;
//! an older one that comes again is in two hands, so that the grant ends.

use crate::app::App;
use crate::seal;
use gateway_domain::id::{GrantId, OrgId};
use serde::{Deserialize, Serialize};

const PURPOSE: &str = "oauth refresh";
/// So that whoever finds one knows what it is.
const MARK: &str = "gwr_";
pub(super) const LASTS_MICROS: i64 = 30 * 86_400 * 1_000_000;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RefreshToken {
    pub(super) grant: GrantId,
    pub(super) org: OrgId,
    pub(super) number: i64,
}

impl RefreshToken {
    pub(super) fn seal(&self, app: &App) -> Option<String> {
        seal::seal(app, PURPOSE, self).map(|sealed| format!("{MARK}{sealed}"))
    }

    pub(super) fn open(app: &App, text: &str) -> Option<Self> {
        seal::open(app, PURPOSE, text.strip_prefix(MARK)?)
    }
}
