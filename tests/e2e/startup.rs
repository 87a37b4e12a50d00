//! Starting wrong: the program ends at once and says what is wrong and why. And the commands beside
//! `serve`.

use crate::harness::{ADMIN_KEY, Gateway, Upstream, WORKSPACE_KEY, hello, ports::Port, process::program, reply};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

/// Runs the program to its end.
fn run(args: &[&str]) -> Output {
    program().args(args).output().expect("it runs")
}

struct Place {
    folder: tempfile::TempDir,
    proxy: Port,
    admin: Port,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), proxy: Port::reserve(), admin: Port::reserve() }
    }

    fn fails(&self, flags: &[&str], said: &[&str]) {
        let (proxy, admin) = (self.proxy.address.to_string(), self.admin.address.to_string());
        let data = self.folder.path().join("data").display().to_string();
        let usual = [("--listen", &proxy), ("--admin-listen", &admin), ("--data-dir", &data)];
        let usual =
            usual.iter().filter(|(flag, _)| !flags.contains(flag)).flat_map(|(flag, value)| [*flag, value.as_str()]);
        let args: Vec<&str> = ["serve"].into_iter().chain(usual).chain(flags.iter().copied()).collect();
        // A wrong program would run on, so it is not waited for without end.
        let output = program_with_limit().args(&args).output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert_ne!(output.status.code(), Some(124), "{flags:?}: it runs:\n{text}");
        assert!(!output.status.success(), "{flags:?}: {}:\n{text}", output.status);
        for said in said {
            assert!(text.contains(said), "{flags:?} does not say {said:?}:\n{text}");
        }
        assert!(!text.contains("panicked"), "{flags:?}:\n{text}");
        assert!(!text.contains(ADMIN_KEY), "a key is printed:\n{text}");
    }
}

/// `timeout` ends what does not end by itself, with status 124.
fn program_with_limit() -> std::process::Command {
    let inner = program();
    let mut command = std::process::Command::new("timeout");
    command.arg("20").arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn a_busy_port_is_named() {
    for flag in ["--listen", "--admin-listen"] {
        let place = Place::new();
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("its address").to_string();
        place.fails(&[flag, &address], &[&address, "in use"]);
    }
}

#[test]
fn a_data_folder_that_cannot_be_used_is_named() {
    let place = Place::new();
    let file = place.folder.path().join("file");
    std::fs::write(&file, "not a folder").expect("a file");
    let inside = file.join("data").display().to_string();
    place.fails(&["--data-dir", &inside], &[&inside]);
    place.fails(&["--data-dir", "/proc/no-such/data"], &["/proc/no-such/data"]);
}

#[test]
fn a_database_url_that_cannot_be_used_is_named_without_its_password() {
    let place = Place::new();
    place.fails(&["--database-url", "mysql://u:p4ssw0rd@h/d"], &["mysql"]);
    place.fails(&["--database-url", "nonsense"], &["database-url"]);
    let nobody = Port::reserve();
    let url = format!("postgres://user:p4ssw0rd@{}/db", nobody.address);
    place.fails(&["--database-url", &url], &[&nobody.address.to_string()]);
    let output = run(&["serve", "--database-url", "mysql://u:p4ssw0rd@h/d"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!text.contains("p4ssw0rd"), "{text}");
}

#[test]
fn flags_and_values_that_are_wrong_are_named() {
    let place = Place::new();
    for (flags, said) in [
        (&["--no-such-flag"][..], &["--no-such-flag"][..]),
        (&["--listen", "nowhere"], &["nowhere", "--listen"]),
        (&["--max-body", "much"], &["much", "--max-body"]),
        (&["--first-byte-timeout", "soon"], &["soon", "--first-byte-timeout"]),
        (&["--threads", "0"], &["--threads"]),
        (&["--role", "everything"], &["everything"]),
        (&["--role", "proxy"], &["proxy", "database-url"]),
        (&["--bootstrap-admin-key", "short"], &["bootstrap-admin-key", "32"]),
        (&["--header-alias", "nope"], &["header-alias", "nope"]),
        (&["--cors-origins", "app.example.com"], &["--cors-origins", "app.example.com"]),
        (&["--trusted-custom-hosts", "10.0.0.0/99"], &["10.0.0.0/99"]),
        (&["--tls-cert", "/no/such.pem", "--tls-key", "/no/such.pem"], &["/no/such.pem"]),
        (&["--tls-cert", "/no/such.pem"], &["--tls-key"]),
        (&["--settings", "/no/such.toml"], &["/no/such.toml"]),
        (&["--master-key-file", "/no/such.key"], &["/no/such.key"]),
        (&["--mcp-authorization-servers", "https://id.example.com"], &["--public-url"]),
        (
            &["--public-url", "https://ai.example.com", "--mcp-authorization-servers", "http://id.example.com"],
            &["--mcp-authorization-servers", "https:"],
        ),
    ] {
        place.fails(flags, said);
    }
}

#[test]
fn a_settings_file_is_named_with_its_mistake() {
    let place = Place::new();
    let file = place.folder.path().join("gateway.toml");
    let name = file.display().to_string();
    for (text, said) in [("max-bodyy = \"1MiB\"", "max-bodyy"), ("max-body = 'much'", "much"), ("= =", "gateway.toml")]
    {
        std::fs::write(&file, text).expect("a file");
        place.fails(&["--settings", &name], &[&name, said]);
    }
}

#[tokio::test]
async fn the_environment_and_the_settings_file_count_below_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, "max-body = \"1KiB\"\nheader-alias = [\"x-acme-\"]\n").expect("a file");
    let file = file.display().to_string();
    let gateway = Gateway::with(&["--settings", &file]).await;
    let large = crate::harness::with(hello(), serde_json::json!({ "filler": "x".repeat(4096) }));
    gateway.chat().header("x-acme-provider", "mock").json(&large).send().await.expect(413);
    let gateway = Gateway::with(&["--settings", &file, "--max-body", "1MiB"]).await;
    gateway.chat().header("x-acme-provider", "mock").json(&large).send().await.expect(200);

    let shown = |args: &[&str], env: &[(&str, &str)]| {
        let output = program().args(args).envs(env.iter().copied()).output().expect("it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let data = folder.path().join("data").display().to_string();
    let check = ["check", "--data-dir", &data, "--settings", &file, "--bootstrap-admin-key", ADMIN_KEY];
    let text = shown(&check, &[("GATEWAY_MAX_BODY", "3MiB"), ("GATEWAY_BOOTSTRAP_WORKSPACE_KEY", WORKSPACE_KEY)]);
    let line = |name: &str| {
        text.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{text}")).to_owned()
    };
    assert!(line("max-body").contains("3MiB") && line("max-body").contains("environment"), "{text}");
    assert!(line("header-alias").contains("x-acme-") && line("header-alias").contains("file"), "{text}");
    assert!(line("data-dir").contains("flag"), "{text}");
    assert!(line("first-byte-timeout").contains("default"), "{text}");
    assert!(!text.contains(ADMIN_KEY) && !text.contains(WORKSPACE_KEY), "keys are shown:\n{text}");
}

#[test]
fn a_list_may_be_one_value_and_an_address_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gateway.toml");
    let text = "listen = \"localhost:8787\"\nadmin-listen = \"localhost:0\"\ntrusted-proxies = \"10.0.0.0/8\"\n\
                header-alias = [\"x-acme-\", \"x-other-\"]\n";
    std::fs::write(&file, text).expect("a file");
    let (file, data) = (file.display().to_string(), folder.path().join("data").display().to_string());
    let check = |flags: &[&str]| {
        let args = [&["check", "--settings", &file, "--data-dir", &data], flags].concat();
        let output = run(&args);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let text = check(&[]);
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    assert_eq!((value("listen"), value("admin-listen")), ("127.0.0.1:8787", "127.0.0.1:0"));
    assert_eq!((value("trusted-proxies"), value("header-alias")), ("10.0.0.0/8", "x-acme-,x-other-"));
    assert!(check(&["--listen", "localhost:8788", "--listen", "[::1]:8788"]).contains("127.0.0.1:8788,[::1]:8788"));
}

#[tokio::test]
async fn ready_means_that_the_proxy_port_is_open() {
    for _ in 0..8 {
        assert!(Gateway::listens_when_ready().await, "told ready, and the proxy port refused");
    }
}

#[test]
fn help_and_version_are_there() {
    let help = String::from_utf8_lossy(&run(&["--help"]).stdout).into_owned();
    for flag in
        ["--listen", "--admin-listen", "--data-dir", "--database-url", "--header-alias", "--max-body", "mock", "check"]
    {
        assert!(help.contains(flag), "{flag} is not in\n{help}");
    }
    assert!(run(&["--version"]).status.success());
    // Each flag tells its default, and each duration and size that it is one.
    for command in ["serve", "check"] {
        let help = String::from_utf8_lossy(&run(&[command, "--help"]).stdout).into_owned();
        let flags: Vec<&str> = help.split("\n      --").skip(1).collect();
        assert!(flags.len() > 60, "{} flags in\n{help}", flags.len());
        let untold = |flag: &&&str| {
            !flag.contains("[default:") && !flag.starts_with("upgrade ") && !flag.starts_with("settings")
        };
        let untold: Vec<&&str> = flags.iter().filter(untold).collect();
        assert!(untold.is_empty(), "{untold:#?}");
        for (flag, told) in [
            ("first-byte-timeout <DURATION>", "[default: 300s]"),
            ("max-body <SIZE>", "[default: 64MiB]"),
            ("listen <HOST:PORT>", "[default: 127.0.0.1:8787]"),
            ("tls-cert", "[default: none]"),
        ] {
            assert!(flags.iter().any(|f| f.starts_with(flag) && f.contains(told)), "{flag} {told} in\n{help}");
        }
        assert!(help.contains("a bare number is seconds") && help.contains("1,024 bytes"), "{help}");
    }
    assert!(run(&["mock", "--help"]).status.success());
}

#[tokio::test]
async fn the_master_key_is_replaced_while_the_gateway_serves() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let (data, to) = (gateway.folder().join("data"), gateway.folder().join("new.key"));
    let (data, to) = (data.display().to_string(), to.display().to_string());
    let rotate = ["keys", "rotate-master", "--data-dir", &data, "--to", &to];
    let output = run(&rotate);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 documents"), "{text}");
    let ask = async |gateway: &Gateway| {
        gateway.chat().provider("@main").json(&hello()).send().await.expect(200);
        assert_eq!(upstream.seen().last().and_then(|s| s.header("authorization")), Some("Bearer sk-managed"));
    };
    // It serves by what it had opened, says so, and takes no change.
    ask(&gateway).await;
    let stale = async || {
        let metrics = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("metrics");
        metrics.text().await.expect("text").contains("gateway_config_stale 1")
    };
    crate::harness::eventually("it notices", || async { stale().await.then_some(()) }).await;
    gateway.admin().put("/admin/organisation", &json!({ "name": "a" })).await.expect(503);
    ask(&gateway).await;
    let again = run(&rotate);
    assert!(!again.status.success(), "the old key is no key any more");
    let gateway = gateway.restart_with(&["--master-key-file", &to]).await;
    ask(&gateway).await;
    gateway.admin().put("/admin/organisation", &json!({ "name": "a" })).await.expect(200);
}

#[tokio::test]
async fn a_lost_admin_key_is_replaced_on_the_machine() {
    let gateway = Gateway::start().await;
    let data = gateway.folder().join("data");
    assert!(Path::new(&data).is_dir());
    let output = run(&["keys", "new-admin", "--data-dir", &data.display().to_string()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let key = text.split_whitespace().find(|w| w.starts_with("gw_")).unwrap_or_else(|| panic!("no key in {text}"));
    let admin = gateway.admin().with_key(key);
    crate::harness::eventually("the new key is known", || async {
        (admin.get("/configs").await.status == 200).then_some(())
    })
    .await;
}

/// Whoever lost the database sees that the keys are new, and why.
#[tokio::test]
async fn an_empty_configuration_beside_an_earlier_run_is_told_of() {
    const SAID: &str = "the data folder is of an earlier run";
    let gateway = Gateway::start().await;
    assert!(!gateway.process.output().contains(SAID));
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let data = gateway.folder().join("data");
    let gateway = gateway.restart_with(&[]).await;
    assert!(!gateway.process.output().contains(SAID), "nothing was lost");
    for file in std::fs::read_dir(&data).expect("a folder").flatten() {
        if file.file_name().to_string_lossy().starts_with("config.db") {
            std::fs::remove_file(file.path()).expect("removed");
        }
    }
    let gateway = gateway.restart_with(&[]).await;
    let said = gateway.process.output();
    assert!(said.contains(SAID) && said.contains("master.key, journal, logs"), "{said}");
}
