//! A refusal on its way to the client, with what is known by then of whom it refuses. Tells nobody and records nothing.

use super::request::Request;
use gateway_domain::denied_caller::{Stranger, Unwelcome};
use gateway_domain::ports::Revision;
use gateway_domain::token::TokenError;
use gateway_domain::{Fault, FaultKind, OrgId};

/// A refusal, with the tenant when it was known by then (its refusals are recorded).
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) request: Option<Box<Request>>,
    /// The token may be good once the issuers of this organisation were asked for their keys again.
    pub(crate) unknown_signer: Option<OrgId>,
    /// Refused for whom it came from, which nothing else tells of.
    pub(crate) stranger: Option<Stranger>,
    /// The token may be good once this node has heard of as much.
    pub(crate) awaits: Option<Revision>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, request: None, unknown_signer: None, stranger: None, awaits: None }
    }
}

impl Refused {
    pub(crate) fn of(fault: Fault, request: Box<Request>) -> Self {
        Self { request: Some(request), ..fault.into() }
    }

    pub(crate) fn stranger(fault: Fault, stranger: Stranger) -> Self {
        Self { stranger: Some(stranger), ..fault.into() }
    }

    /// Refuses a request whose key opens nothing.
    pub(crate) fn unauthenticated(message: &'static str, stranger: Stranger) -> Self {
        Self::stranger(Fault::new(FaultKind::Unauthenticated, message), stranger)
    }

    /// A token that names this organisation, which nobody vouches for.
    pub(crate) fn token(error: &TokenError, org: Option<OrgId>) -> Self {
        let told = error.to_string();
        let (why, kind, unknown_signer) = match error {
            TokenError::Forbidden(_) => (Unwelcome::NoPlace, FaultKind::Forbidden, None),
            TokenError::Invalid(_) => (Unwelcome::BadToken, FaultKind::Unauthenticated, None),
            TokenError::UnknownKey(org) => (Unwelcome::BadToken, FaultKind::Unauthenticated, Some(*org)),
        };
        Self { unknown_signer, ..Self::stranger(Fault::new(kind, told), Stranger::with_token(why, org)) }
    }
}
