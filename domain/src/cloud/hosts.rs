//! Families whose address is made of one name: an account, a workspace, a region. The name can fill its place in the
//! address and nothing else; whoever needs another address gives a custom host.

use super::{CloudSettings, Wrong};

/// Where Databricks serves workspaces: on AWS, Azure, Google's cloud and Azure in China
/// (<https://docs.databricks.com/aws/en/workspace/workspace-details>).
const DATABRICKS: &[&str] =
    &["cloud.databricks.com", "azuredatabricks.net", "gcp.databricks.com", "databricks.azure.cn"];

/// Names between dots as host names have them (RFC 1123, section 2.1).
pub(super) fn host_label(value: &str) -> Result<(), &'static str> {
    let fits = |label: &str| {
        let inner = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if value.len() <= 128 && value.split('.').all(fits) {
        Ok(())
    } else {
        Err("must be of 1..128 letters, digits, hyphens and dots, as host names are (RFC 1123), and no address")
    }
}

/// The host of a workspace below one of Databricks' own domains, or its first part alone where that is AWS.
pub(super) fn databricks_workspace(value: &str) -> Result<(), &'static str> {
    host_label(value)?;
    let below = |domain: &str| value.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
    if !value.contains('.') || DATABRICKS.iter().any(|domain| below(domain)) {
        Ok(())
    } else {
        Err("must be a workspace's host below cloud.databricks.com, azuredatabricks.net, gcp.databricks.com or \
             databricks.azure.cn; for any other give a custom host")
    }
}

/// `None`: the family has an address of its own, or none.
pub(super) fn url(family: &str, settings: &CloudSettings) -> Option<Result<String, Wrong>> {
    let of = |name: &'static str, made: &dyn Fn(&str) -> String| Some(settings.needed(name).map(made));
    match family {
        "workers-ai" => of("workers_ai_account_id", &|account| {
            format!("https://api.cloudflare.com/client/v4/accounts/{account}/ai")
        }),
        "cortex" => of("snowflake_account", &|account| format!("https://{account}.snowflakecomputing.com")),
        "oracle" => {
            of("oracle_region", &|region| format!("https://inference.generativeai.{region}.oci.oraclecloud.com"))
        }
        "databricks" => of("databricks_workspace", &|workspace| {
            let domain = if workspace.contains('.') { String::new() } else { format!(".{}", DATABRICKS[0]) };
            format!("https://{workspace}{domain}")
        }),
        "byteplus" => Some(Ok(match settings.get("byteplus_region").unwrap_or("ap-southeast") {
            region if region.starts_with("cn-") => format!("https://ark.{region}.volces.com/api/v3"),
            // Regions are numbered where they are named, not in their hosts
            // (<https://docs.byteplus.com/docs/ModelArk/2191806>).
            region => format!("https://ark.{}.bytepluses.com/api/v3", region.strip_suffix("-1").unwrap_or(region)),
        })),
        "huggingface" => {
            let set = settings.get("huggingface_base_url").unwrap_or("https://router.huggingface.co");
            Some(Ok(set.trim_end_matches('/').to_owned()))
        }
        _ => None,
    }
}

/// What Snowflake is to be told of a token: what its form says it is
/// (<https://docs.snowflake.com/en/developer-guide/snowflake-rest-api/authentication>). Both its own key pairs and
/// programmatic tokens are JSON Web Tokens or look like none; the first tell their key's fingerprint as their issuer.
pub fn snowflake_token_type(token: &str) -> &'static str {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = token.split('.').nth(1).filter(|_| token.split('.').count() == 3);
    let claims = claims.and_then(|claims| URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<serde_json::Value>(&claims).ok());
    let Some(claims) = claims else {
        // OAuth tokens of Snowflake's own begin with what they are for.
        return if token.starts_with("ver:") { "OAUTH" } else { "PROGRAMMATIC_ACCESS_TOKEN" };
    };
    match claims["iss"].as_str() {
        Some(issuer) if issuer.contains(".SHA256:") => "KEYPAIR_JWT",
        Some(issuer) if issuer.starts_with("https://") || issuer.starts_with("http://") => "OAUTH",
        _ => "PROGRAMMATIC_ACCESS_TOKEN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{base_url, setting};

    #[test]
    fn names_fill_their_place_and_no_other() {
        for good in ["a", "xy12345.eu-west-1.aws", "023e105f4ecef8ad", "us-chicago-1"] {
            assert_eq!(host_label(good), Ok(()), "{good}");
        }
        let long = "a".repeat(64);
        let many = ["a"; 65].join(".");
        for bad in
            ["", ".", "..", "a.", ".a", "a..b", "-a", "a-", "a/b", "a:1", "a@b", "a#", "a?b", "a b", "ä", "a_b", "a%2f"]
                .into_iter()
                .chain([&*long, &*many])
        {
            assert!(host_label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_workspace_stays_with_databricks() {
        for good in ["dbc-1", "dbc-1.cloud.databricks.com", "adb-12.7.azuredatabricks.net", "1.2.gcp.databricks.com"] {
            assert_eq!(databricks_workspace(good), Ok(()), "{good}");
        }
        for bad in
            ["evil.example", "cloud.databricks.com", "xazuredatabricks.net", "10.0.0.1", "a.cloud.databricks.com.evil"]
        {
            assert!(databricks_workspace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_made_of_names() {
        for (family, name, value, expected) in [
            ("workers-ai", "workers_ai_account_id", "023e", "https://api.cloudflare.com/client/v4/accounts/023e/ai"),
            ("cortex", "snowflake_account", "o-a.eu", "https://o-a.eu.snowflakecomputing.com"),
            (
                "oracle",
                "oracle_region",
                "us-chicago-1",
                "https://inference.generativeai.us-chicago-1.oci.oraclecloud.com",
            ),
            ("databricks", "databricks_workspace", "dbc-1", "https://dbc-1.cloud.databricks.com"),
            (
                "databricks",
                "databricks_workspace",
                "adb-1.2.azuredatabricks.net",
                "https://adb-1.2.azuredatabricks.net",
            ),
            ("byteplus", "byteplus_region", "eu-west", "https://ark.eu-west.bytepluses.com/api/v3"),
            ("byteplus", "byteplus_region", "eu-west-1", "https://ark.eu-west.bytepluses.com/api/v3"),
            ("byteplus", "byteplus_region", "cn-beijing", "https://ark.cn-beijing.volces.com/api/v3"),
            ("huggingface", "huggingface_base_url", "https://mine.example/", "https://mine.example"),
            ("bedrock-mantle", "aws_region", "us-east-1", "https://bedrock-mantle.us-east-1.api.aws"),
            ("sagemaker", "aws_region", "cn-north-1", "https://runtime.sagemaker.cn-north-1.amazonaws.com.cn"),
        ] {
            let mut settings = CloudSettings::default();
            settings.set(setting(name).expect("known"), value.to_owned()).expect("valid");
            assert_eq!(base_url(family, &settings).expect("made").as_deref(), Some(expected));
            let bare = base_url(family, CloudSettings::none());
            match family {
                "byteplus" => {
                    assert_eq!(bare.expect("one").as_deref(), Some("https://ark.ap-southeast.bytepluses.com/api/v3"))
                }
                "huggingface" => assert_eq!(bare.expect("one").as_deref(), Some("https://router.huggingface.co")),
                _ => assert_eq!(bare.expect_err("needs it").field, name),
            }
        }
    }

    #[test]
    fn a_token_of_snowflakes_says_what_it_is() {
        use base64::Engine;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let jwt = |claims: &str| format!("eyJhbGciOiJSUzI1NiJ9.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        for (token, kind) in [
            (jwt(r#"{"iss":"ORG-ACCOUNT.USER.SHA256:abc=","sub":"ORG-ACCOUNT.USER"}"#), "KEYPAIR_JWT"),
            (jwt(r#"{"iss":"https://login.example/","aud":"x"}"#), "OAUTH"),
            (jwt(r#"{"p":"1:2","iss":"SF:3"}"#), "PROGRAMMATIC_ACCESS_TOKEN"),
            ("ver:1-hint:2-ETMsDgAAAZ".to_owned(), "OAUTH"),
            ("pat-like".to_owned(), "PROGRAMMATIC_ACCESS_TOKEN"),
            ("a.b.c".to_owned(), "PROGRAMMATIC_ACCESS_TOKEN"),
        ] {
            assert_eq!(snowflake_token_type(&token), kind, "{token}");
        }
    }
}
