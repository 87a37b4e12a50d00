//! The organisation that a call comes from.

use crate::problem::{Problem, missing};
use crate::resource::{Resource as _, ResourceRow};
use crate::route::AdminCall;
use gateway_domain::resource::Kind;
use gateway_domain::resource::organisation::Organisation;

pub(super) async fn own(call: &AdminCall) -> Result<ResourceRow<Organisation>, Problem> {
    let org = call.actor.org;
    let found = call.app.directory.get(Kind::Organisation, org, None, &org.to_string()).await?;
    let found = found.ok_or_else(|| missing(Organisation::NOUN))?;
    call.subject.found(&found);
    ResourceRow::read(&found)
}
