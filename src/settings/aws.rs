//! What AWS's platforms put into the environment of a process, by AWS's own names: no flag could know it better.

use crate::upstream::Platform;
use gateway_domain::Secret;
use gateway_domain::cloud::AwsKeys;

/// Where ECS answers for `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`.
const CONTAINERS: &str = "http://169.254.170.2";

pub(crate) fn platform() -> Platform {
    #[expect(clippy::disallowed_methods, reason = "below the one module that reads the environment")]
    let named = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    read(&named)
}

/// Where AWS Secrets Manager is, in place of the region's own address.
pub(crate) fn secrets_endpoint() -> Option<String> {
    variable("AWS_ENDPOINT_URL_SECRETS_MANAGER")
}

/// A variable that the operator opened to secret references by its prefix, or one of AWS's.
pub(crate) fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "below the one module that reads the environment")]
    let value = std::env::var(name);
    value.ok().filter(|text| !text.is_empty())
}

/// What buckets are reached with, under the names that AWS's own tools give them.
const OF_BUCKETS: [&str; 13] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// Those of them that are set, in lower case; what none of them gives, the machine's metadata service does.
pub(crate) fn of_buckets() -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "below the one module that reads the environment")]
    let named = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let metadata = named("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let metadata = metadata.map(|url| ("aws_metadata_endpoint".to_owned(), url.trim_end_matches('/').to_owned()));
    OF_BUCKETS.iter().filter_map(|name| Some((name.to_lowercase(), named(name)?))).chain(metadata).collect()
}

fn read(named: &dyn Fn(&str) -> Option<String>) -> Platform {
    let keys = |id: &str, secret: &str, token: &str| {
        let (id, secret) = (named(id)?, Secret::new(named(secret)?));
        Some(AwsKeys { id, secret, token: named(token).map(Secret::new) })
    };
    let relative = || named("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINERS}{path}"));
    Platform {
        sts: named("AWS_ENDPOINT_URL_STS"),
        metadata: named("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        web_identity: named("AWS_WEB_IDENTITY_TOKEN_FILE").map(Into::into).zip(named("AWS_ROLE_ARN")),
        session: named("AWS_ROLE_SESSION_NAME"),
        container: relative().or_else(|| named("AWS_CONTAINER_CREDENTIALS_FULL_URI")),
        container_token: named("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new),
        container_token_file: named("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(Into::into),
        keys: keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        role_keys: keys(
            "AWS_ASSUME_ROLE_ACCESS_KEY_ID",
            "AWS_ASSUME_ROLE_SECRET_ACCESS_KEY",
            "AWS_ASSUME_ROLE_SESSION_TOKEN",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_known_by_what_they_say() {
        let of = |pairs: &'static [(&str, &str)]| {
            read(&move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        let eks = of(&[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")]);
        assert_eq!(eks.web_identity, Some(("/t".into(), "arn:aws:iam::1:role/r".into())));
        let ecs = of(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/a")]);
        assert_eq!(ecs.container.as_deref(), Some("http://169.254.170.2/v2/credentials/a"));
        assert!(of(&[("AWS_ACCESS_KEY_ID", "a")]).keys.is_none(), "half a key is none");
        assert!(of(&[("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")]).web_identity.is_none());
    }
}
