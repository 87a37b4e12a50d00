//! Arguments of a tool that its schema wants repeated in headers, so that middlemen can route by them without reading a
//! body (`x-mcp-header`, Model Context Protocol 2026-07-28, streamable HTTP). Knows schemas, and no request.

use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
/// Headers that one tool may want.
const MOST: usize = 32;
/// Bytes of a header's name behind `Mcp-Param-`.
const LONGEST: usize = 100;
/// Levels of nesting in a schema that are looked at; what lies deeper is not.
const DEEPEST: usize = 32;

/// What of a call of one tool stands in headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpToolHeaders(Vec<McpToolHeader>);

/// One argument, and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpToolHeader {
    /// Names from the arguments down to the value.
    pub path: Vec<Box<str>>,
    /// The header's name behind `Mcp-Param-`, in lower case.
    pub name: Box<str>,
}

impl McpToolHeaders {
    /// Reads a tool as its server lists it. `Err`: its schema breaks the rules, and no client may be shown such a tool.
    pub fn of(tool: &Value) -> Result<Self, &'static str> {
        let mut found = Self::default();
        found.walk(&tool["inputSchema"], &mut Vec::new(), true, 0)?;
        Ok(found)
    }

    /// Reads a tool from its JSON as it was written, and no more of it than it must.
    pub fn of_json(tool: &str) -> Result<Self, &'static str> {
        if !tool.contains(ANNOTATION) {
            return Ok(Self::default());
        }
        Self::of(&serde_json::from_str(tool).unwrap_or_default())
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &McpToolHeader> {
        self.0.iter()
    }

    /// `reachable`: nothing but `properties` lies between the arguments and here.
    fn walk(
        &mut self,
        schema: &Value,
        path: &mut Vec<Box<str>>,
        reachable: bool,
        depth: usize,
    ) -> Result<(), &'static str> {
        if depth > DEEPEST {
            return Ok(());
        }
        let object = match schema {
            Value::Object(object) => object,
            Value::Array(all) => return all.iter().try_for_each(|one| self.walk(one, path, false, depth + 1)),
            _ => return Ok(()),
        };
        if let Some(name) = object.get(ANNOTATION) {
            if !reachable || path.is_empty() {
                return Err("x-mcp-header stands where no single argument is meant");
            }
            self.add(name, object, path)?;
        }
        for (key, value) in object {
            match (key.as_str(), value) {
                ("properties", Value::Object(all)) => {
                    for (name, schema) in all {
                        path.push(name.as_str().into());
                        let done = self.walk(schema, path, reachable, depth + 1);
                        path.pop();
                        done?;
                    }
                }
                // Values, not schemas.
                ("const" | "default" | "enum" | "examples" | ANNOTATION, _) => {}
                _ => self.walk(value, path, false, depth + 1)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &Value, schema: &Map<String, Value>, path: &[Box<str>]) -> Result<(), &'static str> {
        let name = name.as_str().ok_or("x-mcp-header must be a text")?;
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_token) {
            return Err("x-mcp-header must be the name of a header");
        }
        if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err("x-mcp-header is for texts, whole numbers and true or false");
        }
        let name = name.to_ascii_lowercase();
        if self.0.iter().any(|known| *known.name == *name) {
            return Err("x-mcp-header names a header twice");
        }
        if self.0.len() >= MOST {
            return Err("x-mcp-header stands more often than it may");
        }
        self.0.push(McpToolHeader { path: path.to_vec(), name: name.into() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(properties: &Value) -> Result<Vec<String>, &'static str> {
        let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}});
        let found = McpToolHeaders::of(&tool);
        assert_eq!(found, McpToolHeaders::of_json(&tool.to_string()));
        found.map(|found| found.iter().map(|header| format!("{}={}", header.path.join("/"), header.name)).collect())
    }

    #[test]
    fn annotated_arguments_are_found_wherever_properties_lead() {
        let told = of(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "plain": {"type": "number"},
            "to": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            // A property of that name is no annotation, nor is a value.
            "x-mcp-header": {"type": "boolean", "default": {"x-mcp-header": ""}},
        }));
        assert_eq!(told, Ok(vec!["region=region".to_owned(), "to/n=n".to_owned()]));
        assert_eq!(McpToolHeaders::of(&json!({"name": "t"})), Ok(McpToolHeaders::default()));
    }

    #[test]
    fn whatever_breaks_the_rules_is_told() {
        let text = |name: &str| json!({"a": {"type": "string", "x-mcp-header": name}});
        for (name, bad) in [
            ("empty", text("")),
            ("space", text("a b")),
            ("colon", text("a:b")),
            ("line", text("a\nb")),
            ("letters", text("é")),
            ("length", text(&"x".repeat(101))),
            ("no text", json!({"a": {"type": "string", "x-mcp-header": 7}})),
            ("number", json!({"a": {"type": "number", "x-mcp-header": "A"}})),
            ("object", json!({"a": {"type": "object", "x-mcp-header": "A"}})),
            ("no type", json!({"a": {"x-mcp-header": "A"}})),
            (
                "twice",
                json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
            ),
            ("items", json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}})),
            ("choice", json!({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}, {"type": "null"}]}})),
            ("definition", json!({"a": {"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}})),
            (
                "choice of objects",
                json!({"a": {"oneOf": [{"properties": {"b": {"type": "string", "x-mcp-header": "A"}}}]}}),
            ),
        ] {
            assert!(of(&bad).is_err(), "{name}");
        }
        let many: Map<String, Value> =
            (0..=MOST).map(|n| (format!("a{n}"), json!({"type": "string", "x-mcp-header": format!("A{n}")}))).collect();
        assert!(of(&Value::Object(many)).is_err());
        let root = json!({"inputSchema": {"type": "object", "x-mcp-header": "A"}});
        assert!(McpToolHeaders::of(&root).is_err());
    }
}
