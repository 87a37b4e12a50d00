//! The configuration as one document, by the program itself: from one gateway to another, and killed on the way.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, process::program, reply};
use gateway_domain::keys::KeyHash;
use gateway_testing::Postgres;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

const KEY: &str = "a-key-that-goes-on-working-0123456789";

/// A command of the program on a data folder.
fn command(name: &str, data: &Path, rest: &[&str]) -> Command {
    let mut command = program();
    command
        .arg(name)
        .args(["--data-dir", &data.display().to_string(), "--trusted-custom-hosts", "127.0.0.1"])
        .args(rest);
    command
}

fn run(name: &str, data: &Path, rest: &[&str]) -> Output {
    command(name, data, rest).output().expect("it runs")
}

/// What a command that goes well prints.
fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}\n{err}", output.status);
    out.into_owned()
}

#[tokio::test]
async fn a_document_of_one_gateway_is_in_force_on_another() {
    let upstream = Upstream::replying(|_| reply::chat("from the config")).await;
    let (one, other) = (Gateway::start().await, Gateway::start().await);
    let mut config = target(&upstream);
    config["api_key"] = json!("sk-canary-of-the-config-0001");
    let made =
        one.admin().call("POST", "/configs").json(&json!({"name": "c", "config": config})).send().await.expect(200);
    let slug = made.json()["slug"].as_str().expect("a slug").to_owned();
    let key = format!(
        "version: 1\napi_keys:\n- {{workspace: default, name: app, type: workspace-service, scopes: [completions.write], \
         sha256: {}, defaults: {{config_id: {slug}}}}}",
        KeyHash::of(KEY)
    );
    one.admin().call("POST", "/configuration/import").json(&json!({"document": key})).send().await.expect(200);
    one.chat().without("x-gateway-config").key(KEY).json(&hello()).send().await.expect(200);

    // The command line, beside the running gateway, exports the same text as its API.
    let document = one.folder().join("gateway.yaml");
    let path = document.display().to_string();
    printed(&run("export", &one.folder().join("data"), &["--to", &path]));
    let text = std::fs::read_to_string(&document).expect("a document");
    let told = one.admin().call("GET", "/configuration").send().await.expect(200).json();
    assert_eq!(told["document"], text);
    assert!(!text.contains("canary") && !text.contains(KEY), "{text}");
    let name = told["secrets"][0].as_str().expect("a name").to_owned();

    // Without the secret nothing of the document is taken.
    let refused = run("import", &other.folder().join("data"), &[&path]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(&name));
    assert_eq!(run("diff", &other.folder().join("data"), &[&path]).status.code(), Some(2));
    let dry = command("import", &other.folder().join("data"), &["--dry-run", &path]).env(&name, "sk-new").output();
    assert!(printed(&dry.expect("it runs")).contains("Nothing was written"));
    let imported = command("import", &other.folder().join("data"), &[&path]).env(&name, "sk-new").output();
    let report = printed(&imported.expect("it runs"));
    assert!(report.contains(&format!("+ configs default/{slug}")), "{report}");
    assert_eq!(run("diff", &other.folder().join("data"), &[&path]).status.code(), Some(0));
    assert_eq!(printed(&run("export", &other.folder().join("data"), &[])), text);

    // The running gateway hears of it, and the key of the first opens the second.
    eventually("the key opens", || async {
        let call = other.chat().without("x-gateway-config").key(KEY).json(&hello()).send().await;
        (call.status == 200).then_some(())
    })
    .await;
    assert_eq!(
        upstream.seen().last().and_then(|seen| seen.header("authorization").map(str::to_owned)).as_deref(),
        Some("Bearer sk-new")
    );
    let pruned = "version: 1\nconfigs: []\napi_keys: []\n";
    std::fs::write(&document, pruned).expect("written");
    let report = printed(&run("prune", &other.folder().join("data"), &["--dry-run", &path]));
    assert!(
        report.contains(&format!("- configs default/{slug}")) && report.contains("Nothing was written"),
        "{report}"
    );
}

/// A document with so many configs beside what every gateway has.
fn document(configs: usize) -> String {
    let mut text = String::from("version: 1\norganisation: {name: Acme, default_workspace: default}\nworkspaces:\n");
    text.push_str("- {slug: default, name: Default}\n");
    if configs > 0 {
        text.push_str("configs:\n");
    }
    for n in 0..configs {
        text.push_str(&format!("- {{workspace: default, slug: pc-{n:04}, name: n{n}, config: {{provider: mock}}}}\n"));
    }
    text
}

/// Where an import that is killed writes to, fresh for each name: the flags that lead there.
type ImportPlaces<'a> = &'a dyn Fn(&str) -> Vec<String>;

fn kill_imports(kills: u32, folder: &Path, places: ImportPlaces<'_>) {
    let (small, large) = (folder.join("small.yaml"), folder.join("large.yaml"));
    std::fs::write(&small, document(0)).expect("written");
    std::fs::write(&large, document(300)).expect("written");
    let (small, large) = (small.display().to_string(), large.display().to_string());
    let at = |name: &str, place: &ImportPlace, more: &[&str]| {
        let flags: Vec<&str> = place.flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        command(name, &place.data, &flags)
    };
    let done =
        |name: &str, place: &ImportPlace, more: &[&str]| printed(&at(name, place, more).output().expect("it runs"));
    let made = |name: &str| {
        let place = ImportPlace { data: folder.join(name), flags: places(name) };
        done("import", &place, &[&small]);
        place
    };
    let whole = made("whole");
    let before = done("export", &whole, &[]);
    let began = Instant::now();
    done("import", &whole, &[&large]);
    let took = began.elapsed();
    let after = done("export", &whole, &[]);
    assert_ne!(before, after);
    let mut place = made("0");
    let mut ended = 0;
    for n in 0..kills {
        let mut process =
            at("import", &place, &[&large]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // The moment of the kill is the point of the test.
        std::thread::sleep(took * (n + 1) / kills);
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
        let now = done("export", &place, &[]);
        assert!(now == before || now == after, "kill {n}: neither what was nor what is to be:\n{now}");
        if now == after {
            ended += 1;
            place = made(&(n + 1).to_string());
        }
    }
    assert!(ended < kills, "some were killed before they had written");
}

struct ImportPlace {
    data: PathBuf,
    flags: Vec<String>,
}

#[test]
fn an_import_that_is_killed_leaves_all_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    kill_imports(12, folder.path(), &|_| Vec::new());
}

/// The server goes on without its client, and either has the whole transaction or none of it.
#[test]
fn an_import_into_postgres_that_is_killed_leaves_all_or_nothing() {
    let (folder, server) = (tempfile::tempdir().expect("a folder"), Postgres::shared());
    let place = |name: &str| vec!["--database-url".to_owned(), server.create(&format!("killed_import_{name}"))];
    kill_imports(8, folder.path(), &place);
}
