//! Addresses of a cloud beside the one at which its models are asked: where jobs are made, and where files lie.

use super::{CloudSettings, Wrong, aws};

/// What of a cloud is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudService {
    /// Its models.
    #[default]
    Api,
    /// Jobs.
    Control,
    /// Files. A bucket is part of the path, never of the host.
    Storage,
}

/// The address of a service without a trailing slash; `None`: the family's own.
pub fn service_url(family: &str, service: CloudService, settings: &CloudSettings) -> Result<Option<String>, Wrong> {
    match (family, service) {
        ("bedrock", CloudService::Control) => aws::control_url(settings).map(Some),
        ("bedrock", CloudService::Storage) => aws::storage_url(settings).map(Some),
        // Datasets and jobs of an account lie beside what models are asked at.
        ("fireworks-ai", CloudService::Control) => Ok(Some("https://api.fireworks.ai".to_owned())),
        ("vertex-ai", CloudService::Storage) => Ok(Some("https://storage.googleapis.com".to_owned())),
        _ => Ok(None),
    }
}

/// The name that AWS gives the service in signatures; `None`: requests to it are signed like those to models.
pub const fn signed_service(service: CloudService) -> Option<&'static str> {
    match service {
        CloudService::Storage => Some(S3),
        CloudService::Api | CloudService::Control => None,
    }
}

/// Signatures for it need not cover what streams up.
pub const S3: &str = "s3";

/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>
pub(super) fn bucket(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_'));
    let edges = [value.bytes().next(), value.bytes().last()];
    let begins = edges.iter().all(|byte| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    if (3..=63).contains(&value.len()) && fits && begins && !value.contains("..") {
        Ok(())
    } else {
        Err("must be a bucket: 3..63 small letters, digits, `-`, `_` and `.`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_lead_nowhere_else() {
        for good in ["my-bucket", "a.b.c", "0ab", "team_files"] {
            assert_eq!(bucket(good), Ok(()), "{good}");
        }
        for bad in ["evil.com/x", "a@b", "ab", "Upper", "a..b", "-ab", "ab-", "a b", "a%2fb", "x?y", &"a".repeat(64)] {
            assert!(bucket(bad).is_err(), "{bad}");
        }
    }
}
