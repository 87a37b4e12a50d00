//! Single sign-on of people by OpenID Connect: the settings of an organisation, the way to its provider and back, and
//! the session at its end, which is a short-lived key of that person. What a person may do is decided where keys are.

mod callback;
mod client_assertion;
mod id_token;
mod issuer;
mod person;
mod provisioning;
mod session;
mod settings;
mod start;
mod ticket;
mod user_lookup;

pub(crate) use issuer::check_address;

use crate::route::AdminRoute;

pub(crate) fn routes() -> Vec<AdminRoute> {
    [settings::routes(), start::routes(), callback::routes(), session::routes()].into_iter().flatten().collect()
}
