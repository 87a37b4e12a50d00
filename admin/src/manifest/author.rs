//! Who brings a document: a call of the Admin API, or whoever runs the gateway.

use crate::actor::Actor;
use crate::app::App;
use crate::change::{Action, ChangeOrigin, audit};
use crate::problem::Problem;
use crate::route::AdminCall;
use gateway_domain::resource::{Audit, Stored};
use serde_json::{Map, Value};

pub(super) enum Author<'a> {
    Call(&'a AdminCall),
    Operator,
}

impl Author<'_> {
    pub(super) const fn is_operator(&self) -> bool {
        matches!(self, Self::Operator)
    }

    pub(super) fn audit(&self, app: &App, action: Action, row: &Stored, told: &Map<String, Value>) -> Audit {
        match self {
            Self::Call(call) => audit(call, action, row, told),
            Self::Operator => ChangeOrigin::of_operator(app).audit(action, row, told),
        }
    }

    /// The operator may do everything.
    pub(super) fn may(
        &self,
        allow: fn(&Stored, &Actor, Action) -> Result<(), Problem>,
        row: &Stored,
        action: Action,
    ) -> Result<(), Problem> {
        match self {
            Self::Call(call) => allow(row, &call.actor, action),
            Self::Operator => Ok(()),
        }
    }
}
