//! One server as the registry tells of it.

use crate::problem::{Problem, internal};
use gateway_domain::resource::Stored;
use gateway_domain::resource::mcp::McpServer;
use gateway_domain::time::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-10-17/server.schema.json";
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
const LONGEST: usize = 100;

pub(super) struct RegistryEntry {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) version: String,
    title: String,
    description: String,
    url: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

impl RegistryEntry {
    /// `public`: where clients reach the gateway.
    pub(super) fn of(row: &Stored, public: &str) -> Result<Self, Problem> {
        let doc: McpServer = serde_json::from_str(&row.doc).map_err(internal)?;
        let told = doc.description.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| row.name.clone());
        Ok(Self {
            id: row.id,
            name: format!("{}/{}", reversed(public), row.slug),
            // A change of the server is another version of it.
            version: format!("1.0.{}", row.version),
            title: short(&row.name),
            description: short(&told),
            url: format!("{}/{}/mcp", public.trim_end_matches('/'), row.slug),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "server": {
                "$schema": SCHEMA, "name": self.name, "title": self.title, "description": self.description,
                "version": self.version, "remotes": [{"type": "streamable-http", "url": self.url}],
            },
            "_meta": {OFFICIAL: {
                "status": "active", "publishedAt": self.created_at, "updatedAt": self.updated_at, "isLatest": true,
            }},
        })
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The host of an address as names of servers begin with it: `com.example.ai` for `https://ai.example.com/gw`.
fn reversed(public: &str) -> String {
    let rest = public.split_once("://").map_or(public, |(_, rest)| rest);
    let host = rest.split(['/', ':', '[', ']']).find(|part| !part.is_empty()).unwrap_or_default();
    if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return host.to_owned();
    }
    host.rsplit('.').collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::reversed;

    #[test]
    fn names_begin_with_the_host_from_its_end() {
        for (public, name) in [
            ("https://ai.example.com/gw", "com.example.ai"),
            ("http://localhost:8787", "localhost"),
            ("http://127.0.0.1:8787", "127.0.0.1"),
            ("https://a.b", "b.a"),
        ] {
            assert_eq!(reversed(public), name, "{public}");
        }
    }
}
