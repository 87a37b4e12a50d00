//! How a Postgres server has to prove itself.

use crate::options;
use gateway_store::{DatabaseUrl, OpenError, open};
use gateway_testing::Postgres;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_asks_for_what_it_says() {
    let (secured, plain) =
        tokio::task::spawn_blocking(|| (Postgres::start_secured(), Postgres::shared())).await.unwrap();
    let (signed, other) = secured.authorities();
    let address = secured.url();
    let named = address.replace("127.0.0.1", "localhost");
    let at = |text: &str| DatabaseUrl::parse(text).unwrap();
    let (mine, strange) = (Some(signed.as_path()), Some(other.as_path()));
    for (name, url, opens) in [
        ("no TLS where the server wants it", at(&address).with_tls(Some("disable"), None), false),
        ("whatever the server has", Ok(at(&address)), true),
        ("prefer", at(&address).with_tls(Some("prefer"), None), true),
        ("require", at(&address).with_tls(Some("require"), None), true),
        ("its authority", at(&address).with_tls(Some("verify-ca"), mine), true),
        ("another authority", at(&address).with_tls(Some("verify-ca"), strange), false),
        ("the system's authorities", at(&address).with_tls(Some("verify-ca"), None), false),
        ("its name", at(&named).with_tls(Some("verify-full"), mine), true),
        ("its name, untold", at(&named).with_tls(None, mine), true),
        ("another name", at(&address).with_tls(Some("verify-full"), mine), false),
        ("another authority for its name", at(&named).with_tls(Some("verify-full"), strange), false),
        ("TLS of a server without", at(&plain.create("tls")).with_tls(Some("require"), None), false),
        ("by the URL", Ok(at(&format!("{named}?sslmode=verify-full&sslrootcert={}", signed.display()))), true),
        ("by the URL, wrong", Ok(at(&format!("{named}?sslmode=verify-full&sslrootcert={}", other.display()))), false),
    ] {
        match open(&url.unwrap(), &options()).await {
            Ok(database) => {
                assert!(opens, "{name}");
                database.close().await;
            }
            Err(error) => {
                assert!(!opens, "{name}: {error}");
                assert!(!error.to_string().contains("test-password"), "{error}");
                if name.contains("authority") {
                    assert!(
                        matches!(&error, OpenError::Unreachable { why, .. } if why.contains("certificate")),
                        "{error:?}"
                    );
                }
            }
        }
    }
}
