//! What a key may do: scopes as data held as a set of bits.
//! `list` never implies `read`; nothing is implied at all.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::LazyLock;

/// Canonical dotted names. Order is storage-neutral: sets are stored by name.
pub static SCOPES: &[&str] = &[
    "organisations.create",
    "organisations.read",
    "organisations.update",
    "organisations.delete",
    "organisations.list",
    "organisation_users.create",
    "organisation_users.read",
    "organisation_users.update",
    "organisation_users.delete",
    "organisation_users.list",
    "organisation_service_api_keys.create",
    "organisation_service_api_keys.read",
    "organisation_service_api_keys.update",
    "organisation_service_api_keys.delete",
    "organisation_service_api_keys.list",
    "organisation_service_api_keys.rotate",
    "organisation_settings.read",
    "organisation_settings.update",
    "organisation_guardrails.create",
    "organisation_guardrails.read",
    "organisation_guardrails.update",
    "organisation_guardrails.delete",
    "organisation_guardrails.list",
    "organisation_exclusions.update",
    "organisation_exclusions.list",
    "audit_logs.list",
    "plugins.create",
    "plugins.update",
    "plugins.list",
    "deployments.create",
    "deployments.read",
    "deployments.update",
    "deployments.delete",
    "deployments.list",
    "oauth_clients.create",
    "oauth_clients.read",
    "oauth_clients.update",
    "oauth_clients.delete",
    "oauth_clients.list",
    "secret_references.create",
    "secret_references.read",
    "secret_references.update",
    "secret_references.delete",
    "secret_references.list",
    "workspaces.create",
    "workspaces.read",
    "workspaces.update",
    "workspaces.delete",
    "workspaces.list",
    "workspace_service_api_keys.create",
    "workspace_service_api_keys.read",
    "workspace_service_api_keys.update",
    "workspace_service_api_keys.delete",
    "workspace_service_api_keys.list",
    "workspace_service_api_keys.rotate",
    "workspace_user_api_keys.create",
    "workspace_user_api_keys.read",
    "workspace_user_api_keys.update",
    "workspace_user_api_keys.delete",
    "workspace_user_api_keys.list",
    "workspace_user_api_keys.rotate",
    "workspace_users.create",
    "workspace_users.read",
    "workspace_users.update",
    "workspace_users.delete",
    "workspace_users.list",
    "prompts.create",
    "prompts.read",
    "prompts.update",
    "prompts.delete",
    "prompts.list",
    "prompts.publish",
    "prompts.render",
    "configs.create",
    "configs.read",
    "configs.update",
    "configs.delete",
    "configs.list",
    "guardrails.create",
    "guardrails.read",
    "guardrails.update",
    "guardrails.delete",
    "guardrails.list",
    "guardrails.invoke",
    "virtual_keys.create",
    "virtual_keys.read",
    "virtual_keys.update",
    "virtual_keys.delete",
    "virtual_keys.list",
    "virtual_keys.duplicate",
    "virtual_keys.copy",
    "providers.create",
    "providers.read",
    "providers.update",
    "providers.delete",
    "providers.list",
    "policies.create",
    "policies.read",
    "policies.update",
    "policies.delete",
    "policies.list",
    "organisation_integrations.create",
    "organisation_integrations.read",
    "organisation_integrations.update",
    "organisation_integrations.delete",
    "organisation_integrations.list",
    "organisation_mcp_integrations.create",
    "organisation_mcp_integrations.read",
    "organisation_mcp_integrations.update",
    "organisation_mcp_integrations.delete",
    "organisation_mcp_integrations.list",
    "organisation_agent_integrations.create",
    "organisation_agent_integrations.read",
    "organisation_agent_integrations.update",
    "organisation_agent_integrations.delete",
    "organisation_agent_integrations.list",
    "workspace_integrations.create",
    "workspace_integrations.read",
    "workspace_integrations.update",
    "workspace_integrations.delete",
    "workspace_integrations.list",
    "workspace_mcp_integrations.create",
    "workspace_mcp_integrations.read",
    "workspace_mcp_integrations.update",
    "workspace_mcp_integrations.delete",
    "workspace_mcp_integrations.list",
    "workspace_agent_integrations.create",
    "workspace_agent_integrations.read",
    "workspace_agent_integrations.update",
    "workspace_agent_integrations.delete",
    "workspace_agent_integrations.list",
    "agent_servers.create",
    "agent_servers.read",
    "agent_servers.update",
    "agent_servers.delete",
    "agent_servers.list",
    "mcp_servers.create",
    "mcp_servers.read",
    "mcp_servers.update",
    "mcp_servers.delete",
    "mcp_servers.list",
    "analytics.view",
    "logs.export",
    "logs.list",
    "logs.view",
    "logs.read",
    "logs.write",
    "completions.read",
    "completions.write",
    "mcp.invoke",
    "agents.invoke",
    "feedbacks.read",
    "feedbacks.write",
    "models.list",
    "scim.create",
    "scim.read",
    "scim.update",
    "scim.delete",
    "scim.list",
];

const WORDS: usize = 3;

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes([u64; WORDS]);

/// One scope, checked against the list when the program starts using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(u8);

impl Scope {
    pub const COMPLETIONS_WRITE: Self = Self::named("completions.write");
    pub const AGENTS_INVOKE: Self = Self::named("agents.invoke");
    pub const MCP_INVOKE: Self = Self::named("mcp.invoke");
    pub const MODELS_LIST: Self = Self::named("models.list");
    pub const VIRTUAL_KEYS_LIST: Self = Self::named("virtual_keys.list");

    /// Finds a scope when a constant is made: a name that is not in the list does not compile.
    pub const fn named(name: &str) -> Self {
        let mut i = 0;
        while i < SCOPES.len() {
            if equal(SCOPES[i].as_bytes(), name.as_bytes()) {
                #[expect(clippy::cast_possible_truncation, reason = "the list is shorter than 192")]
                return Self(i as u8);
            }
            i += 1;
        }
        #[expect(clippy::panic, reason = "evaluated at compile time for constants")]
        {
            panic!("not a scope")
        }
    }

    /// Dots, colons and hyphens between resource and action are one; so is a `gateway.` prefix.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("gateway.").unwrap_or(text);
        let dotted = text.replace(':', ".");
        let i = SCOPES.iter().position(|s| *s == dotted)?;
        u8::try_from(i).ok().map(Self)
    }

    pub fn name(self) -> &'static str {
        SCOPES[usize::from(self.0)]
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl Scopes {
    pub fn all() -> Self {
        (0..SCOPES.len()).filter_map(|i| u8::try_from(i).ok()).map(Scope).collect()
    }

    pub fn insert(&mut self, scope: Scope) {
        self.0[usize::from(scope.0) / 64] |= 1 << (scope.0 % 64);
    }

    pub fn remove(&mut self, scope: Scope) {
        self.0[usize::from(scope.0) / 64] &= !(1 << (scope.0 % 64));
    }

    /// What both hold.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let mut both = *self;
        both.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        both
    }

    /// What changes no setting: looking, and using the data plane.
    pub fn for_reading() -> Self {
        // Asked for by requests: made once.
        static READING: LazyLock<Scopes> = LazyLock::new(Scopes::that_read);
        *READING
    }

    fn that_read() -> Self {
        let reads = |name: &&&str| {
            let (resource, action) = name.split_once('.').unwrap_or_default();
            matches!(action, "read" | "list" | "view" | "export" | "render" | "invoke")
                || matches!(resource, "completions" | "feedbacks")
                || **name == "logs.write"
        };
        SCOPES.iter().filter(reads).filter_map(|name| Scope::parse(name)).collect()
    }

    pub const fn has(&self, scope: Scope) -> bool {
        self.0[scope.0 as usize / 64] & (1 << (scope.0 % 64)) != 0
    }

    /// True when every scope here is in `other` too.
    pub fn within(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(a, b)| a & !b == 0)
    }

    pub fn names(&self) -> Vec<&'static str> {
        (0..SCOPES.len())
            .filter_map(|i| u8::try_from(i).ok())
            .map(Scope)
            .filter(|s| self.has(*s))
            .map(Scope::name)
            .collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(iter: I) -> Self {
        let mut set = Self::default();
        iter.into_iter().for_each(|s| set.insert(s));
        set
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.names().serialize(s)
    }
}

/// A scope that this version does not know is left out: an older node grants less, never more.
impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Vec::<String>::deserialize(d)?.iter().filter_map(|s| Scope::parse(s)).collect())
    }
}

/// Scopes as somebody wrote them down, in their order and spelling, and the set that they make. Who reads them back
/// compares with what they wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenScopes {
    names: Vec<String>,
    set: Scopes,
}

impl WrittenScopes {
    /// A name that this version does not know is kept, and grants nothing here.
    pub fn of(names: Vec<String>) -> Self {
        let set = names.iter().filter_map(|s| Scope::parse(s)).collect();
        Self { names, set }
    }

    pub const fn set(&self) -> Scopes {
        self.set
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Those that `other` has too.
    pub fn within(&self, other: &Scopes) -> Vec<&str> {
        let held = |name: &&String| Scope::parse(name).is_some_and(|scope| other.has(scope));
        self.names.iter().filter(held).map(String::as_str).collect()
    }
}

impl From<Scopes> for WrittenScopes {
    fn from(set: Scopes) -> Self {
        Self { names: set.names().into_iter().map(str::to_owned).collect(), set }
    }
}

impl Serialize for WrittenScopes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.names.serialize(s)
    }
}

impl<'de> Deserialize<'de> for WrittenScopes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self::of(Vec::deserialize(d)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        assert!(SCOPES.len() <= 64 * WORDS);
        let mut s = Scopes::default();
        s.insert(Scope::COMPLETIONS_WRITE);
        assert!(s.has(Scope::COMPLETIONS_WRITE) && !s.has(Scope::MODELS_LIST));
        assert!(s.within(&Scopes::all()) && !Scopes::all().within(&s));
        assert_eq!(s.meet(&Scopes::all()), s);
        assert!(Scopes::for_reading().has(Scope::COMPLETIONS_WRITE));
        assert!(!Scopes::for_reading().has(Scope::named("configs.create")));
        s.remove(Scope::COMPLETIONS_WRITE);
        assert_eq!(s, Scopes::default());
        assert_eq!(Scope::parse("completions:write"), Some(Scope::COMPLETIONS_WRITE));
        assert_eq!(Scopes::all().names().len(), SCOPES.len());
    }
}
