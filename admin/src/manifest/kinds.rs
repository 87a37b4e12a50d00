//! Every kind of resource that a document may hold, in the order in which they build on each other. What the gateway
//! keeps for itself is none: invites are acts, not settings.

use super::item::{Portable, allow, assume, check_unused, declare, tombstone_of};
use crate::resource::declared::Declared;
use gateway_domain::resource::agent::{AgentIntegration, AgentServer};
use gateway_domain::resource::alert::AlertRule;
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::config::SavedConfig;
use gateway_domain::resource::deployment::Deployment;
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::mcp::{McpIntegration, McpServer};
use gateway_domain::resource::oauth_client::MadeClient;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::person::{Member, User};
use gateway_domain::resource::plugin::Plugin;
use gateway_domain::resource::policy::{RateLimitPolicy, UsageLimitPolicy};
use gateway_domain::resource::prompt::{CollectionDocument, LabelDocument, PartialDocument, PromptDocument};
use gateway_domain::resource::provider::Provider;
use gateway_domain::resource::secret_reference::SecretReference;
use gateway_domain::resource::workspace::Workspace;

const fn portable<R: Declared>() -> Portable {
    Portable {
        kind: R::KIND,
        section: R::SECTION,
        level: R::LEVEL,
        slug: R::SLUG,
        is_named: R::NAMED,
        states: R::STATES,
        declare: declare::<R>,
        assume: assume::<R>,
        check_unused: check_unused::<R>,
        tombstone: tombstone_of::<R>,
        allow: allow::<R>,
    }
}

pub(super) static KINDS: &[Portable] = &[
    portable::<Organisation>(),
    portable::<Workspace>(),
    portable::<User>(),
    portable::<Member>(),
    portable::<Plugin>(),
    portable::<SecretReference>(),
    portable::<GuardrailDocument>(),
    portable::<Integration>(),
    portable::<Provider>(),
    portable::<SavedConfig>(),
    portable::<McpIntegration>(),
    portable::<McpServer>(),
    portable::<AgentIntegration>(),
    portable::<AgentServer>(),
    portable::<LabelDocument>(),
    portable::<CollectionDocument>(),
    portable::<PartialDocument>(),
    portable::<PromptDocument>(),
    portable::<ApiKey>(),
    portable::<RateLimitPolicy>(),
    portable::<UsageLimitPolicy>(),
    portable::<AlertRule>(),
    portable::<Deployment>(),
    portable::<MadeClient>(),
];

pub(super) fn of(kind: &str) -> Option<&'static Portable> {
    KINDS.iter().find(|portable| portable.kind.name() == kind)
}

/// The place of a kind among all.
pub(super) fn rank(kind: &Portable) -> usize {
    KINDS.iter().position(|other| other.kind == kind.kind).unwrap_or(KINDS.len())
}
