//! MCP servers that are programs of the gateway's own machine: whose process one is, what it finds in its environment,
//! how it ends, and that nothing an admin says ever becomes a command.

use crate::harness::{Gateway, eventually};
use crate::mcp_script::{initialize, request, tool_call};
use crate::mcp_sse_server::{McpClient, last};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Speaks enough for a client to call: one tool tells its process, one counts, one its environment, one asks for time,
/// one dies.
const SERVER: &str = r#"
n=0
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$1"; }
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"count"'*) n=$((n+1)); say "$n" ;;
    *'"pid"'*) say "$$" ;;
    *'"env"'*) say "$(env | grep -v '^PWD=\|^SHLVL=\|^_=\|^PATH=\|^OLDPWD=' | tr '\n' ' ')" ;;
    *'"progress"'*) t=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([0-9][0-9]*\).*/\1/p')
      printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n' "$t"
      printf '{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}\n'
      say "$1 $t" ;;
    *'"die"'*) echo "the token is $TOKEN" >&2; exit 3 ;;
    *) ;;
  esac
done
"#;

/// A gateway whose settings name two programs, `own` and `all`, and a key that may call both.
struct StdioServed {
    gateway: Gateway,
    key: String,
    _folder: tempfile::TempDir,
}

fn settings(folder: &Path, more: &str) -> String {
    let (script, file) = (folder.join("server.sh"), folder.join("gateway.toml"));
    std::fs::write(&script, SERVER).expect("a script");
    let one = |name: &str, shared: bool| {
        format!(
            "[[mcp.stdio]]\nname = \"{name}\"\ncommand = \"sh\"\nargs = [\"{}\"]\nenv = {{ TOKEN = \"canary-4321\" }}\n\
             shared = {shared}\n",
            script.display()
        )
    };
    std::fs::write(&file, format!("{}{}{more}", one("own", false), one("all", true))).expect("a file");
    file.display().to_string()
}

impl StdioServed {
    async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = settings(folder.path(), "");
        let gateway = Gateway::with(&[&["--settings", &file], flags].concat()).await;
        for name in ["own", "all"] {
            let integration = json!({"name": name, "slug": format!("{name}-int"), "url": format!("stdio:{name}"),
                "auth_type": "none", "transport": "stdio"});
            gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
            let server =
                json!({"name": name, "slug": format!("prog-{name}"), "mcp_integration_id": format!("{name}-int")});
            gateway.admin().post("/mcp-servers", &server).await.expect(200);
        }
        let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
        Self { gateway, key, _folder: folder }
    }

    fn client<'g>(&'g self, path: &'g str) -> McpClient<'g> {
        McpClient { gateway: &self.gateway, key: &self.key, path }
    }

    async fn other_key(&self) -> String {
        self.gateway.admin().workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await.1
    }

    async fn programs(&self) -> usize {
        let metrics = self.gateway.metrics().await;
        let line = metrics.lines().find(|line| line.contains(r#"gateway_mcp_kept{table="programs"}"#));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a figure")
    }
}

fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn a_program_is_asked_listed_and_called_and_each_key_has_its_own() {
    let served = StdioServed::start(&[]).await;
    let told = served.gateway.admin().get("/mcp-integrations/own-int/metadata").await.expect(200).json();
    assert_eq!((&told["sync_status"], &told["server_name"]), (&json!("ok"), &json!("sh")), "{told}");
    let tested = served.gateway.admin().post("/mcp-integrations/own-int/test", &json!({})).await.expect(200).json();
    assert_eq!(tested["success"], true, "{tested}");
    let other = served.other_key().await;
    let ours = served.client("/prog-own/mcp");
    let theirs = McpClient { key: &other, ..ours };
    let (one, two) = (ours.open().await, theirs.open().await);
    let listed = last(&ours.post(Some(&one), &request("tools/list", json!({}))).await.expect(200));
    assert_eq!(listed["result"]["tools"][0]["name"], "count");
    assert_eq!([ours.tool(&one, "count").await, ours.tool(&one, "count").await], ["1", "2"]);
    assert_eq!(theirs.tool(&two, "count").await, "1");
    assert_ne!(ours.tool(&one, "pid").await, theirs.tool(&two, "pid").await);
    assert_eq!(ours.tool(&one, "env").await.trim(), "TOKEN=canary-4321", "nothing else is in its environment");
    let spread =
        "{\n \"jsonrpc\": \"2.0\",\n \"id\": 5, \"method\": \"tools/call\",\n \"params\": {\"name\": \"count\"}}";
    let call = ours.call("POST", Some(&one)).body("application/json", spread);
    assert_eq!(last(&call.send().await.expect(200))["result"]["content"][0]["text"], "3", "a message is one line");
    let pid = ours.tool(&one, "pid").await;
    ours.call("DELETE", Some(&one)).send().await.expect(204);
    eventually("its program ends with the session", || async { (!runs(&pid)).then_some(()) }).await;
}

#[tokio::test]
async fn a_shared_program_tells_callers_apart_and_asks_none_of_them() {
    let served = StdioServed::start(&[]).await;
    let other = served.other_key().await;
    let ours = served.client("/prog-all/mcp");
    let theirs = McpClient { key: &other, ..ours };
    let (one, two) = (ours.open_as(json!({"sampling": {}})).await, theirs.open().await);
    assert_eq!(ours.tool(&one, "pid").await, theirs.tool(&two, "pid").await);
    assert_eq!([ours.tool(&one, "count").await, theirs.tool(&two, "count").await], ["1", "2"]);
    let call = |token: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "progress", "arguments": {}, "_meta": {"progressToken": token}}})
    };
    let (first, second) = (call("mine"), call("yours"));
    let (first, second) = tokio::join!(ours.post(Some(&one), &first), theirs.post(Some(&two), &second));
    for (answer, token, not) in [(first, "mine", "yours"), (second, "yours", "mine")] {
        let text = answer.expect(200).text();
        assert!(text.contains(&format!(r#""progressToken":"{token}""#)) && !text.contains(not), "{text}");
        assert!(!text.contains("sampling") && text.contains(r#""id":1"#), "{text}");
    }
    ours.call("DELETE", Some(&one)).send().await.expect(204);
    assert_eq!(theirs.tool(&two, "count").await, "3", "one that leaves takes it from nobody");
}

#[tokio::test]
async fn a_program_that_dies_is_a_502_and_the_next_call_has_a_new_one() {
    let served = StdioServed::start(&[]).await;
    for path in ["/prog-own/mcp", "/prog-all/mcp"] {
        let client = served.client(path);
        let session = client.open().await;
        assert_eq!(client.tool(&session, "count").await, "1");
        let said = client.tool(&session, "die").await;
        assert!(said.contains("502") && said.contains("broke off"), "{said}");
        assert_eq!(client.tool(&session, "count").await, "1");
    }
    eventually("what it said is in the log, without its secret", || async {
        let log = served.gateway.process.output();
        assert!(!log.contains("canary-4321"), "{log}");
        log.contains("the token is ***").then_some(())
    })
    .await;
}

#[tokio::test]
async fn programs_are_bounded_and_one_that_nobody_uses_makes_room_and_ends() {
    let served = StdioServed::start(&["--mcp-programs", "1", "--mcp-connection-idle", "2s"]).await;
    eventually("nobody asks it any more", || async { (served.programs().await == 0).then_some(()) }).await;
    let other = served.other_key().await;
    let ours = served.client("/prog-own/mcp");
    let theirs = McpClient { key: &other, ..ours };
    let one = ours.open().await;
    let pid = ours.tool(&one, "pid").await;
    let listening = ours.call("GET", Some(&one)).open().await;
    assert_eq!((listening.status().as_u16(), served.programs().await), (200, 1));
    let full = theirs.post(None, &initialize("2025-06-18")).await.expect(503);
    assert!(full.text().contains("--mcp-programs"), "{}", full.text());
    drop(listening);
    eventually("the other key has its turn", || async {
        let answer = theirs.post(None, &initialize("2025-06-18")).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert!(!runs(&pid));
    eventually("idle ones end", || async { (served.programs().await == 0).then_some(()) }).await;
    assert_eq!(ours.tool(&one, "count").await, "1", "and start again");
}

#[tokio::test]
async fn programs_end_with_the_gateway_however_that_ends() {
    for signal in ["TERM", "KILL"] {
        let mut served = StdioServed::start(&[]).await;
        let client = served.client("/prog-own/mcp");
        let session = client.open().await;
        let pid = client.tool(&session, "pid").await;
        assert!(runs(&pid));
        served.gateway.process.signal(signal);
        served.gateway.process.exit(Duration::from_secs(20)).await;
        eventually("its program ends", || async { (!runs(&pid)).then_some(()) }).await;
    }
}

/// Link: <https://github.com/BerriAI/litellm/issues/25343> (CVE-2026-42271), where test routes ran commands of their
/// callers.
#[tokio::test]
async fn no_field_of_the_admin_api_takes_a_command() {
    let served = StdioServed::start(&[]).await;
    eventually("nobody asks them any more", || async { (served.programs().await == 0).then_some(()) }).await;
    let (admin, trap) = (served.gateway.admin(), tempfile::tempdir().expect("a folder"));
    let file = trap.path().join("ran").display().to_string();
    let shell = format!("touch {file}");
    let whole = json!({"name": "X", "url": "https://mcp.example.com/", "auth_type": "none", "transport": "http"});
    let tried = json!({"url": "https://mcp.example.com/", "auth_type": "none", "transport": "http"});
    let with = |body: &Value, field: &str, value: Value| {
        let mut body = body.clone();
        body[field] = value;
        body
    };
    let commands =
        [json!(shell), json!("sh"), json!(["sh", "-c", shell]), json!({"command": "sh", "args": ["-c", shell]})];
    for command in &commands {
        for field in ["command", "args", "env", "stdio", "mcp", "user", "shared", "cwd", "transport"] {
            for (path, body) in [("/mcp-integrations", &whole), ("/mcp-integrations/test", &tried)] {
                let answer = admin.post(path, &with(body, field, command.clone())).await.expect(400);
                assert!(answer.text().contains(field), "{path} {field}: {}", answer.text());
            }
            let answer = admin.put("/mcp-integrations/own-int", &json!({field: command})).await.expect(400);
            assert!(answer.text().contains(field), "{field}: {}", answer.text());
        }
    }
    for url in [
        "sh".to_owned(),
        shell.clone(),
        format!("stdio:{shell}"),
        "stdio:sh".to_owned(),
        "stdio:/bin/sh".to_owned(),
        "stdio:".to_owned(),
        "stdio:own/../all".to_owned(),
        "STDIO:own".to_owned(),
        "stdio:own;id".to_owned(),
    ] {
        for transport in ["stdio", "http", "sse"] {
            for (path, body) in [("/mcp-integrations", &whole), ("/mcp-integrations/test", &tried)] {
                let body = with(&with(body, "url", json!(url)), "transport", json!(transport));
                let answer = admin.post(path, &body).await.expect(400);
                assert!(answer.text().contains("url"), "{path} {url}: {}", answer.text());
            }
        }
        let answer = admin.put("/mcp-integrations/own-int", &json!({"url": url})).await.expect(400);
        assert!(answer.text().contains("url"), "{url}: {}", answer.text());
    }
    // A name is no name with an address, nor the other way round; agents have none at all.
    for body in [with(&whole, "url", json!("stdio:own")), with(&whole, "transport", json!("stdio"))] {
        assert!(admin.post("/mcp-integrations", &body).await.expect(400).text().contains("url"));
    }
    let agent = json!({"name": "a", "slug": "a", "url": "stdio:own", "auth_type": "none"});
    assert!(admin.post("/agent-integrations", &agent).await.expect(400).text().contains("url"));
    let program = with(&with(&whole, "url", json!("stdio:own")), "transport", json!("stdio"));
    for (field, more) in [
        ("auth_type", with(&program, "auth_type", json!("headers"))),
        (
            "user_identity_forwarding",
            with(&program, "configurations", json!({"user_identity_forwarding": {"method": "claims_header"}})),
        ),
    ] {
        let answer = admin.post("/mcp-integrations", &more).await.expect(400);
        assert!(answer.text().contains(field), "{}", answer.text());
    }
    assert_eq!(served.programs().await, 0, "no program was started");
    assert!(!Path::new(&file).exists(), "a command ran");
}

#[test]
fn programs_that_cannot_be_are_named_when_the_gateway_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    for (more, said) in [
        ("[[mcp.stdio]]\nname = \"own\"\ncommand = \"sh\"\n", "stands twice"),
        ("[[mcp.stdio]]\nname = \"x\"\ncommand = \"sh\"\nuser = \"nobody-there\"\n", "nobody-there"),
        ("[[mcp.stdio]]\nname = \"x\"\n", "command"),
        ("[[mcp.stdio]]\nname = \"x\"\ncommand = \"sh\"\nshell = true\n", "shell"),
    ] {
        let file = settings(folder.path(), more);
        for command in ["check", "serve"] {
            let mut gateway = crate::harness::process::program();
            let told = gateway.args([command, "--settings", &file, "--data-dir", &data]).output().expect("it runs");
            let text = String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned();
            assert!(!told.status.success() && text.contains(said), "{command} {said}: {text}");
        }
    }
}

/// Whoever may become somebody else does, and whoever may not is told so at the start.
#[tokio::test]
async fn a_program_runs_as_the_user_of_its_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gateway.toml");
    let text = "[[mcp.stdio]]\nname = \"who\"\ncommand = \"sh\"\nargs = [\"-c\", \"id -u >&2; cat > /dev/null\"]\nuser = \"nobody\"\n";
    std::fs::write(&file, text).expect("a file");
    let (name, data) = (file.display().to_string(), folder.path().join("data").display().to_string());
    let own = Command::new("id").arg("-u").output().expect("an id");
    let nobody = Command::new("id").args(["-u", "nobody"]).output().expect("an id");
    if String::from_utf8_lossy(&own.stdout).trim() != "0" {
        let told =
            crate::harness::process::program().args(["check", "--settings", &name, "--data-dir", &data]).output();
        let told = told.expect("it runs");
        assert!(!told.status.success() && String::from_utf8_lossy(&told.stderr).contains("only root"), "{told:?}");
        return;
    }
    let gateway = Gateway::with(&["--settings", &name]).await;
    let tried = json!({"url": "stdio:who", "auth_type": "none", "transport": "stdio"});
    let (admin, nobody) = (gateway.admin(), String::from_utf8_lossy(&nobody.stdout).trim().to_owned());
    let (_, ()) = tokio::join!(admin.post("/mcp-integrations/test", &tried), async {
        eventually("it says who it is", || async {
            gateway.process.output().lines().any(|l| l.contains("a program says") && l.contains(&nobody)).then_some(())
        })
        .await;
    });
}

/// Modern calls need no session: a program counts two of them, and a call of [`tool_call`] without a session is
/// refused.
#[tokio::test]
async fn modern_clients_call_programs_too() {
    let served = StdioServed::start(&[]).await;
    let call = || {
        crate::mcp_script::modern_call_of(
            &served.gateway,
            ("/prog-own/mcp", &served.key),
            "tools/call",
            json!({"name": "count", "arguments": {}}),
        )
    };
    let counted = [last(&call().send().await.expect(200)), last(&call().send().await.expect(200))];
    assert_eq!(counted.map(|one| one["result"]["content"][0]["text"].clone()), ["1", "2"]);
    served.client("/prog-own/mcp").post(None, &tool_call("count", 1)).await.expect(400);
}
