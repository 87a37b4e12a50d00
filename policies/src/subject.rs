//! A call as policies see it: the attributes that conditions and groups may name.
//! Knows nothing of how the values were found.

use gateway_domain::id::{KeyId, WorkspaceId};
use uuid::Uuid;

/// Everything is borrowed, so that asking costs nothing when nobody matches. An empty text counts as missing.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub api_key: Option<KeyId>,
    pub workspace: WorkspaceId,
    /// The first pair of a name counts.
    pub metadata: &'a [(String, String)],
    /// Slug of the managed provider; known once a target is chosen.
    pub virtual_key: Option<&'a str>,
    /// Slug of the provider family; known once a target is chosen.
    pub provider: Option<&'a str>,
    pub config: Option<&'a str>,
    pub prompt: Option<&'a str>,
    /// The model as the request names it, `@slug/` included.
    pub model: Option<&'a str>,
    pub endpoint_type: &'a str,
    /// Slug of the server whose tool is called; of tool calls only.
    pub mcp_server: Option<&'a str>,
    /// Name of the tool; of tool calls only.
    pub mcp_tool: Option<&'a str>,
    /// The body was not read (a relayed call): without a `model`, conditions on it count as matching, so that
    /// nobody slips past a limit by choosing a route that is not parsed.
    pub unread: bool,
}

/// What a condition or a group looks at. `S` is owned in rules and borrowed in look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Attribute<S = Box<str>> {
    ApiKey,
    Workspace,
    VirtualKey,
    Provider,
    Config,
    Prompt,
    Model,
    EndpointType,
    McpServer,
    McpTool,
    Metadata(S),
}

impl Attribute<&'static str> {
    /// All that have one value per call.
    pub(crate) const SINGLE: [Self; 10] = [
        Self::ApiKey,
        Self::Workspace,
        Self::VirtualKey,
        Self::Provider,
        Self::Config,
        Self::Prompt,
        Self::Model,
        Self::EndpointType,
        Self::McpServer,
        Self::McpTool,
    ];
}

impl Attribute {
    pub(crate) fn parse(key: &str) -> Option<Self> {
        Some(match key {
            "api_key" => Self::ApiKey,
            "workspace_id" => Self::Workspace,
            "virtual_key" => Self::VirtualKey,
            "provider" => Self::Provider,
            "config" => Self::Config,
            "prompt" => Self::Prompt,
            "model" => Self::Model,
            "endpoint_type" => Self::EndpointType,
            "mcp_server" => Self::McpServer,
            "mcp_tool" => Self::McpTool,
            _ => Self::Metadata(key.strip_prefix("metadata.").filter(|k| !k.is_empty())?.into()),
        })
    }

    /// Writes the name by which policies call it.
    pub(crate) fn write(&self, into: &mut String) {
        into.push_str(match self {
            Self::ApiKey => "api_key",
            Self::Workspace => "workspace_id",
            Self::VirtualKey => "virtual_key",
            Self::Provider => "provider",
            Self::Config => "config",
            Self::Prompt => "prompt",
            Self::Model => "model",
            Self::EndpointType => "endpoint_type",
            Self::McpServer => "mcp_server",
            Self::McpTool => "mcp_tool",
            Self::Metadata(_) => "metadata.",
        });
        if let Self::Metadata(name) = self {
            into.push_str(name);
        }
    }

    pub(crate) fn borrowed(&self) -> Attribute<&str> {
        match self {
            Self::ApiKey => Attribute::ApiKey,
            Self::Workspace => Attribute::Workspace,
            Self::VirtualKey => Attribute::VirtualKey,
            Self::Provider => Attribute::Provider,
            Self::Config => Attribute::Config,
            Self::Prompt => Attribute::Prompt,
            Self::Model => Attribute::Model,
            Self::EndpointType => Attribute::EndpointType,
            Self::McpServer => Attribute::McpServer,
            Self::McpTool => Attribute::McpTool,
            Self::Metadata(name) => Attribute::Metadata(name),
        }
    }
}

impl<S> Attribute<S> {
    /// Its bit in the set of attributes that a part of the index asks about.
    pub(crate) const fn bit(&self) -> u16 {
        1 << match self {
            Self::ApiKey => 0,
            Self::Workspace => 1,
            Self::VirtualKey => 2,
            Self::Provider => 3,
            Self::Config => 4,
            Self::Prompt => 5,
            Self::Model => 6,
            Self::EndpointType => 7,
            Self::McpServer => 9,
            Self::McpTool => 10,
            Self::Metadata(_) => 8,
        }
    }

    /// Known only once a target is chosen.
    pub(crate) const fn of_target(&self) -> bool {
        matches!(self, Self::VirtualKey | Self::Provider)
    }

    /// Its values are ids, not text.
    pub(crate) const fn is_id(&self) -> bool {
        matches!(self, Self::ApiKey | Self::Workspace)
    }
}

/// The value of an attribute in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttributeValue<'a> {
    Text(&'a str),
    Id(Uuid),
    /// It is there, but nobody looked.
    Unread,
}

impl<'a> Subject<'a> {
    pub(crate) fn see(&self, attribute: Attribute<&str>) -> Option<AttributeValue<'a>> {
        let text = match attribute {
            Attribute::ApiKey => return self.api_key.map(|k| AttributeValue::Id(k.0)),
            Attribute::Workspace => return Some(AttributeValue::Id(self.workspace.0)),
            Attribute::VirtualKey => self.virtual_key,
            Attribute::Provider => self.provider,
            Attribute::Config => self.config,
            Attribute::Prompt => self.prompt,
            Attribute::EndpointType => Some(self.endpoint_type),
            Attribute::McpServer => self.mcp_server,
            Attribute::McpTool => self.mcp_tool,
            Attribute::Metadata(name) => self.metadata.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()),
            Attribute::Model => {
                let named = self.model.filter(|m| !m.is_empty());
                return named.map(AttributeValue::Text).or(self.unread.then_some(AttributeValue::Unread));
            }
        };
        text.filter(|t| !t.is_empty()).map(AttributeValue::Text)
    }
}

/// `gpt-4o` of `@openai-prod/gpt-4o`: the name without the provider it was addressed through.
pub(crate) fn bare_model(name: &str) -> Option<&str> {
    name.strip_prefix('@')?.split_once('/').map(|(_, model)| model).filter(|m| !m.is_empty())
}
