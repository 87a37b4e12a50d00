//! The record of which nothing is known.

use super::{LogRecord, RecordedOperation, Steps, Timings};
use crate::id::{OrgId, WorkspaceId};
use crate::time::Timestamp;
use uuid::Uuid;

impl LogRecord {
    /// Nothing is known yet: for whoever fills in what is. A call of a model, until its operation is another.
    pub fn blank() -> Self {
        Self {
            id: Uuid::nil(),
            created_at: Timestamp(0),
            trace_id: "".into(),
            attempt: 0,
            last: false,
            org: OrgId(Uuid::nil()),
            workspace: WorkspaceId(Uuid::nil()),
            workspace_slug: "".into(),
            key: None,
            key_name: "".into(),
            owner: None,
            config: "".into(),
            config_id: None,
            config_version: None,
            virtual_key: "".into(),
            provider: "".into(),
            model: "".into(),
            operation: RecordedOperation::NONE,
            method: "".into(),
            path: "".into(),
            status: 0,
            fault: None,
            stream: false,
            option_index: "".into(),
            strategy: "",
            cost: None,
            timings: Timings::default(),
            steps: Steps::default(),
            request_bytes: 0,
            response_bytes: 0,
            client_ip: None,
            metadata: "".into(),
            trace: None,
            client: None,
            charges: Vec::new(),
            bodies: None,
            hooks: None,
        }
    }
}
