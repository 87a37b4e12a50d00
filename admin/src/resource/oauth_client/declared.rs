//! OAuth clients in a file: a confidential one by the SHA-256 of its secret, so that whoever holds that goes on using
//! it.

use super::MadeClient;
use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use gateway_domain::keys::KeyHash;
use serde_json::{Map, Value};

impl Declared for MadeClient {
    const SECTION: &'static str = "oauth_clients";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("oauth_clients");

    fn declare(row: &ResourceRow<Self>, _to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "type", doc.kind());
        put(&mut fields, "redirect_uris", &doc.redirect_uris);
        put(&mut fields, "scope", &doc.scope);
        put(&mut fields, "sha256", &doc.secret_sha256);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let given: Option<String> = take(&mut item.fields, "sha256")?;
        let is_confidential = item.fields.get("type").and_then(Value::as_str) == Some("confidential");
        let before = item.before.as_ref().and_then(|row| row.doc.secret_sha256.clone());
        let mut row = item.create(from.call, true)?;
        row.doc.secret_sha256 = match (is_confidential, given) {
            (false, None) => None,
            (false, Some(_)) => return Err(bad("sha256", "is of confidential clients")),
            (true, Some(hash)) if KeyHash::parse(&hash).is_none() => {
                return Err(bad("sha256", "must be a SHA-256 of 64 hexadecimal digits"));
            }
            (true, Some(hash)) => Some(hash.to_ascii_lowercase()),
            (true, None) if before.is_some() => before,
            (true, None) => return Err(bad("sha256", "is required where the type is confidential")),
        };
        Ok(row)
    }
}
