//! Why nothing is told, in the words of the registry's API.

use crate::problem::Problem;
use http::StatusCode;

#[derive(Debug)]
pub(super) struct RegistryFault {
    pub(super) status: StatusCode,
    pub(super) told: String,
}

impl RegistryFault {
    pub(super) fn new(status: StatusCode, told: impl Into<String>) -> Self {
        Self { status, told: told.into() }
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Server not found")
    }
}

impl From<Problem> for RegistryFault {
    fn from(problem: Problem) -> Self {
        let told = if problem.status.is_server_error() { "internal error".to_owned() } else { problem.message };
        Self { status: problem.status, told }
    }
}
