//! SCIM 2.0 (RFC 7643, RFC 7644): a directory outside makes users, changes them, switches them off and tells who is in
//! which group. What people may do by their groups is told by an admin, in [`mapping`]. Knows no provider by name.

mod document;
mod etag;
mod filter;
mod group;
mod handlers;
mod lookup;
mod mapping;
mod page;
mod patch;
mod path;
mod refusal;
mod schema;
mod seats;
mod selection;
mod service;
mod user;

pub(crate) use refusal::{MEDIA_TYPE, answer};
pub(crate) use service::responses;

use crate::route::AdminRoute;

pub(crate) fn routes() -> Vec<AdminRoute> {
    [service::routes(), user::routes(), group::routes(), mapping::routes()].into_iter().flatten().collect()
}

/// Whether answers of this path have the form of the protocol, refusals among them.
pub(crate) fn speaks(path: &str) -> bool {
    const FIRST: [&str; 7] = ["Bulk", "Groups", "Me", "ResourceTypes", "Schemas", "ServiceProviderConfig", "Users"];
    let below = path.strip_prefix("/scim/").map(|rest| rest.split('/').next().unwrap_or_default());
    below.is_some_and(|first| FIRST.contains(&first))
}
