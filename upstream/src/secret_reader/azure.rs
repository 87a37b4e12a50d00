//! Azure Key Vault (<https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret>).

use super::{SecretReader, Unread, json, refusal};
use crate::credential::Pass;
use crate::outbound::send;
use gateway_domain::cloud::Grant;
use http::{Method, header};
use std::sync::Arc;

const VERSION: &str = "7.4";

pub(super) async fn read(reader: &SecretReader, grant: &Arc<Grant>, vault: &str, name: &str) -> Result<String, Unread> {
    let pass = reader.credentials.token(grant).await?;
    let Pass::Header(token) = &pass else { return Err(Unread::new("needs a token")) };
    let request = reader.outbound.request(Method::GET, &format!("{vault}/secrets/{name}?api-version={VERSION}"))?;
    let answer = send(request.header(header::AUTHORIZATION, token.clone())).await?;
    let told = json(&answer);
    if answer.status != 200 {
        if answer.status == 401 {
            reader.credentials.refused(grant, &pass, Some(&answer.headers));
        }
        let told = told.unwrap_or_default();
        return Err(refusal(answer.status, told["error"]["code"].as_str()));
    }
    told?["value"].as_str().map(str::to_owned).ok_or_else(|| Unread::new("came in an answer without a value"))
}
