//! The nouns of the gateway: ids, resources, snapshot, call, usage, money, record, fault, and the ports.
//! Floor 0: knows no runtime, no network, no database and no clock; time, dice and ids are arguments.

pub mod alert;
pub mod analytics;
pub mod bounds;
pub mod catalog;
pub mod cloud;
pub mod config;
pub mod counters;
pub mod digest;
pub mod egress;
pub mod export;
pub mod fault;
pub mod feedback;
pub mod form;
pub mod glob;
pub mod id;
pub mod kept;
pub mod keys;
pub mod metadata;
pub mod money;
pub mod mustache;
pub mod node;
pub mod operation;
pub mod path;
pub mod ports;
pub mod price;
pub mod prompt;
pub mod quote;
pub mod record;
pub mod resource;
pub mod scope;
pub mod secret;
pub mod secret_source;
pub mod snapshot;
pub mod stranger;
pub mod time;
pub mod token;
pub mod usage;

pub use fault::{Fault, FaultKind};
pub use id::{ConfigId, IntegrationId, KeyId, OrgId, PolicyId, ProviderId, SecretReferenceId, WorkspaceId};
pub use money::NanoUsd;
pub use operation::{AnswerForm, Dialect, Operation, Uses};
pub use secret::Secret;
pub use snapshot::Snapshot;
pub use time::Timestamp;
pub use usage::Usage;
