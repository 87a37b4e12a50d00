//! What references may say, what they stand for, and what nobody may name unless the operator says so.

use super::*;
use std::collections::BTreeMap;

type Pair<'a> = (&'a str, &'a str);

struct WrongAuth<'a> {
    manager: SecretManager,
    fields: &'a [Pair<'a>],
    why: &'a str,
}

struct Opened<'a> {
    manager: SecretManager,
    path: &'a str,
    fields: &'a [Pair<'a>],
    is_open: bool,
}

fn read(manager: SecretManager, path: &str, fields: &[(&str, &str)]) -> Result<SecretSource, String> {
    let fields: BTreeMap<&str, &str> = fields.iter().copied().collect();
    let get = |name: &str| fields.get(name).map(|value| (*value).to_owned());
    SecretSource::read(&SourceFields { manager, path, get: &get }).map_err(|why| format!("{} {}", why.field, why.rule))
}

#[test]
fn a_value_is_the_whole_or_a_member_and_never_told() {
    let text = SecretText::new("{\"key\":\"sk-1\",\"n\":7,\"file\":{\"a\":1},\"no\":null}\n").expect("fine");
    assert_eq!(text.pick(Some("key"), None).as_deref(), Ok("sk-1"));
    assert_eq!(text.pick(Some("n"), None).as_deref(), Ok("7"));
    assert_eq!(text.pick(Some("file"), Some(ValueFormat::Json)).as_deref(), Ok("{\"a\":1}"));
    assert!(text.pick(None, Some(ValueFormat::Json)).is_ok());
    for (key, format, why) in [
        (Some("gone"), None, "has no member `gone`"),
        (Some("no"), None, "has no member `no`"),
        (Some("key"), Some(ValueFormat::Json), "is no JSON"),
    ] {
        assert_eq!(text.pick(key, format), Err(why.to_owned()));
    }
    let plain = SecretText::new("sk-plain\r\n").expect("fine");
    assert_eq!(plain.pick(None, None).as_deref(), Ok("sk-plain"));
    assert!(plain.pick(Some("key"), None).is_err());
    assert_eq!(format!("{plain:?}"), "SecretText(***)");
    assert!(SecretText::new("\n").is_err());
    assert!(SecretText::new(&"x".repeat(LONGEST_SECRET + 1)).is_err());
}

#[test]
fn paths_are_those_that_the_manager_could_have() {
    let good = [
        (SecretManager::Aws, "prod/openai"),
        (SecretManager::Aws, "arn:aws:secretsmanager:us-east-1:1:secret:a-AbCdEf"),
        (SecretManager::Azure, "openai-key"),
        (SecretManager::Azure, "openai-key/0123456789abcdef0123456789abcdef"),
        (SecretManager::HashiCorp, "secret/data/team a/openai"),
        (SecretManager::Environment, "TENANT_KEY"),
        (SecretManager::File, "team/openai"),
    ];
    for (manager, path) in good {
        assert_eq!(check_path(manager, path), Ok(()), "{path}");
    }
    let bad = [
        (SecretManager::Aws, "a b"),
        (SecretManager::Azure, "a/b/c"),
        (SecretManager::Azure, "../keys/a"),
        (SecretManager::Azure, "a?x"),
        (SecretManager::HashiCorp, "/secret/a"),
        (SecretManager::HashiCorp, "secret/../../sys/raw"),
        (SecretManager::HashiCorp, "secret/a?list=true"),
        (SecretManager::Environment, "A=B"),
        (SecretManager::File, "../etc/passwd"),
        (SecretManager::File, "/etc/passwd"),
        (SecretManager::File, ""),
        (SecretManager::File, "a\nb"),
    ];
    for (manager, path) in bad {
        assert!(check_path(manager, path).is_err(), "{path}");
    }
}

#[test]
fn what_signs_in_is_whole_and_holds_nothing_else() {
    let keys = [("aws_auth_type", "accessKey"), ("aws_region", "us-east-1"), ("aws_access_key_id", "AKIA")];
    let whole = [&keys[..], &[("aws_secret_access_key", "s")]].concat();
    assert!(matches!(read(SecretManager::Aws, "a", &whole), Ok(SecretSource::Aws { .. })));
    let wrong: &[WrongAuth<'_>] = &[
        WrongAuth { manager: SecretManager::Aws, fields: &[], why: "auth_config.aws_auth_type is required" },
        WrongAuth { manager: SecretManager::Aws, fields: &keys, why: "auth_config.aws_secret_access_key is required" },
        WrongAuth {
            manager: SecretManager::Aws,
            fields: &[("aws_auth_type", "apiKey")],
            why: "must be one of accessKey, assumedRole, serviceRole",
        },
        WrongAuth {
            manager: SecretManager::Aws,
            fields: &[("aws_auth_type", "serviceRole")],
            why: "auth_config.aws_region is required",
        },
        WrongAuth {
            manager: SecretManager::Aws,
            fields: &[("aws_auth_type", "serviceRole"), ("aws_region", "r"), ("aws_access_key_id", "a")],
            why: "auth_config.aws_access_key_id has no meaning for `serviceRole`",
        },
        WrongAuth {
            manager: SecretManager::Azure,
            fields: &[("azure_auth_mode", "entra")],
            why: "auth_config.azure_vault_url is required",
        },
        WrongAuth {
            manager: SecretManager::HashiCorp,
            fields: &[("vault_auth_type", "approle"), ("vault_role_id", "r"), ("vault_addr", "https://v")],
            why: "auth_config.vault_secret_id is required",
        },
        WrongAuth {
            manager: SecretManager::HashiCorp,
            fields: &[
                ("vault_auth_type", "token"),
                ("vault_addr", "https://v"),
                ("vault_token", "t"),
                ("vault_role", "r"),
            ],
            why: "auth_config.vault_role has no meaning for `token`",
        },
    ];
    for WrongAuth { manager, fields, why } in wrong {
        let said = read(*manager, "a", fields).expect_err(why);
        assert!(said.contains(why), "{said}: {why}");
    }
}

#[test]
fn the_machine_is_open_to_nobody_unless_its_operator_says_so() {
    let trusted = Trusted::parse(&["vault.house.example"]).expect("parses");
    let open = SecretOpenings {
        machine_identity: true,
        environment: Some("TENANT_".to_owned()),
        folder: Some("/run/tenants".into()),
    };
    let kubernetes = |addr| [("vault_auth_type", "kubernetes"), ("vault_addr", addr), ("vault_role", "r")];
    let managed = |url| [("azure_auth_mode", "managed"), ("azure_vault_url", url)];
    let host = [("aws_auth_type", "serviceRole"), ("aws_region", "us-east-1")];
    let role = [("aws_auth_type", "assumedRole"), ("aws_region", "r"), ("aws_role_arn", "arn:aws:iam::1:role/r")];
    // What the operator opens; and what stays shut even then.
    let cases = [
        Opened { manager: SecretManager::Environment, path: "TENANT_KEY", fields: &[], is_open: true },
        Opened { manager: SecretManager::Environment, path: "TENANT_", fields: &[], is_open: false },
        Opened { manager: SecretManager::Environment, path: "GATEWAY_DATABASE_URL", fields: &[], is_open: false },
        Opened { manager: SecretManager::File, path: "openai", fields: &[], is_open: true },
        Opened { manager: SecretManager::Aws, path: "a", fields: &host, is_open: true },
        Opened { manager: SecretManager::Aws, path: "a", fields: &role, is_open: true },
        Opened {
            manager: SecretManager::Azure,
            path: "a",
            fields: &managed("https://house.vault.azure.net"),
            is_open: true,
        },
        Opened {
            manager: SecretManager::Azure,
            path: "a",
            fields: &managed("https://vault.azure.net.attacker.example"),
            is_open: false,
        },
        Opened {
            manager: SecretManager::Azure,
            path: "a",
            fields: &managed("https://vault.house.example"),
            is_open: true,
        },
        Opened {
            manager: SecretManager::HashiCorp,
            path: "a",
            fields: &kubernetes("https://vault.house.example"),
            is_open: true,
        },
        Opened {
            manager: SecretManager::HashiCorp,
            path: "a",
            fields: &kubernetes("https://vault.attacker.example"),
            is_open: false,
        },
    ];
    for Opened { manager, path, fields, is_open } in cases {
        let source = read(manager, path, fields).expect("reads");
        assert!(SecretOpenings::default().allow(&source, &trusted).is_err(), "{source:?}");
        assert_eq!(open.allow(&source, &trusted).is_ok(), is_open, "{source:?}");
    }
    let token = [("vault_auth_type", "token"), ("vault_addr", "https://v.example"), ("vault_token", "t")];
    let own = read(SecretManager::HashiCorp, "a", &token).expect("reads");
    assert_eq!(SecretOpenings::default().allow(&own, &trusted), Ok(()));
}
