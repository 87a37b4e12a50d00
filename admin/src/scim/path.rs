//! Names of attributes as filters, patches and selections write them (RFC 7644, 3.10): `name.givenName`, the same
//! behind the name of a schema, and a schema alone.

use super::schema::{ResourceType, SchemaAttribute, ScimSchema};

/// What a name means for one type of resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttributePath {
    /// `None`: at the top of the resource.
    pub(super) extension: Option<&'static ScimSchema>,
    /// `None`: all of the extension.
    pub(super) attribute: Option<&'static SchemaAttribute>,
    pub(super) part: Option<&'static SchemaAttribute>,
}

/// Why a name means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPath {
    /// No name could look like this.
    Malformed,
    Unknown,
}

impl AttributePath {
    pub(super) fn read(text: &str, of: &ResourceType) -> Result<Self, NoPath> {
        let (schema, rest) = qualified(text, of);
        let extension = schema.filter(|schema| schema.id != of.core.id);
        if rest.is_empty() {
            // A schema alone; that of the type itself stands for nothing in particular.
            return if extension.is_some() {
                Ok(Self { extension, attribute: None, part: None })
            } else {
                Err(NoPath::Malformed)
            };
        }
        let (name, part) = rest.split_once('.').map_or((rest, None), |(name, part)| (name, Some(part)));
        if !is_name(name) || part.is_some_and(|part| !is_name(part.strip_prefix('$').unwrap_or(part))) {
            return Err(NoPath::Malformed);
        }
        let found = match extension {
            Some(schema) => super::schema::find(schema.attributes, name),
            None => of.top(name),
        };
        let attribute = found.ok_or(NoPath::Unknown)?;
        let part = part.map(|part| attribute.part(part).ok_or(NoPath::Unknown)).transpose()?;
        Ok(Self { extension, attribute: Some(attribute), part })
    }
}

/// Takes the name of a schema off the front.
fn qualified<'t>(text: &'t str, of: &ResourceType) -> (Option<&'static ScimSchema>, &'t str) {
    for schema in of.schemas() {
        let Some((front, rest)) = text.split_at_checked(schema.id.len()) else { continue };
        if !front.eq_ignore_ascii_case(schema.id) {
            continue;
        }
        match rest.strip_prefix(':') {
            Some(rest) => return (Some(schema), rest),
            None if rest.is_empty() => return (Some(schema), rest),
            None => {}
        }
    }
    (None, text)
}

fn is_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    first && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scim::schema::{GROUPS, USERS};

    #[test]
    fn names_are_read_with_and_without_their_schema() {
        let shown = |text: &str| {
            AttributePath::read(text, &USERS).map(|p| {
                let parts = [p.extension.map(|e| e.name), p.attribute.map(|a| a.name), p.part.map(|a| a.name)];
                parts.into_iter().flatten().collect::<Vec<_>>().join("/")
            })
        };
        for (text, want) in [
            ("userName", Ok("userName")),
            ("USERNAME", Ok("userName")),
            ("name.familyname", Ok("name/familyName")),
            ("urn:ietf:params:scim:schemas:core:2.0:User:userName", Ok("userName")),
            ("URN:ietf:params:scim:schemas:core:2.0:user:name.givenName", Ok("name/givenName")),
            (
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value",
                Ok("EnterpriseUser/manager/value"),
            ),
            ("urn:ietf:params:scim:schemas:extension:enterprise:2.0:User", Ok("EnterpriseUser")),
            ("meta.lastModified", Ok("meta/lastModified")),
            ("groups.$ref", Ok("groups/$ref")),
            ("shoeSize", Err(NoPath::Unknown)),
            ("name.shoeSize", Err(NoPath::Unknown)),
            ("urn:ietf:params:scim:schemas:core:2.0:User", Err(NoPath::Malformed)),
            ("user name", Err(NoPath::Malformed)),
            ("1x", Err(NoPath::Malformed)),
            ("", Err(NoPath::Malformed)),
        ] {
            assert_eq!(shown(text), want.map(str::to_owned), "{text}");
        }
        assert!(AttributePath::read("members.value", &GROUPS).is_ok());
    }
}
