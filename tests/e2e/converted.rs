//! Files of other gateways made into documents by the program itself, imported as it wrote them, and served by a
//! gateway that runs meanwhile.

use crate::harness::{Gateway, Upstream, eventually, hello, process::program, reply, with};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Output, Stdio};

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    program().args(arguments).envs(variables.iter().copied()).output().expect("it runs")
}

/// What a command that goes well prints, and what it says beside.
fn printed(output: &Output) -> (String, String) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}\n{err}", output.status);
    (out.into_owned(), err.into_owned())
}

/// Imports a document beside the running gateway.
fn import(gateway: &Gateway, document: &str, variables: &[(&str, &str)]) -> String {
    let data = gateway.folder().join("data").display().to_string();
    printed(&run(&["import", "--data-dir", &data, "--trusted-custom-hosts", "127.0.0.1", document], variables)).0
}

async fn chat(gateway: &Gateway, config: &str, model: &str) -> Option<String> {
    let body = with(hello(), json!({ "model": model }));
    let answer = gateway.post("/v1/chat/completions").header("x-gateway-config", config).json(&body).send().await;
    (answer.status == 200).then(|| answer.said())
}

#[tokio::test]
async fn a_file_of_litellm_is_converted_imported_and_served() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(500, &[])).await;
    let good = Upstream::replying(|_| reply::chat("from the fallback")).await;
    let file = format!(
        "model_list:\n\
         - model_name: fast\n  litellm_params: {{model: openai/gpt-4o, api_key: os.environ/FIRST_KEY, api_base: '{}', temperature: 0.2}}\n\
         - model_name: slow\n  litellm_params: {{model: openai/gpt-4o-mini, api_key: sk-literal-canary-0001, api_base: '{}'}}\n\
         - model_name: odd\n  litellm_params: {{model: nobody/odd}}\n\
         router_settings: {{fallbacks: [{{fast: [slow]}}]}}\n\
         litellm_settings: {{callbacks: [langfuse]}}\n\
         general_settings: {{master_key: os.environ/MASTER, database_url: 'postgres://user:canary@db'}}\n",
        broken.url(),
        good.url()
    );
    let (from, to) = (gateway.folder().join("config.yaml"), gateway.folder().join("gateway.yaml"));
    std::fs::write(&from, file).expect("written");
    let (from, to) = (from.display().to_string(), to.display().to_string());
    let trusted = ["--trusted-custom-hosts", "127.0.0.1"];
    let all = [&["convert", "--from", "litellm", &from, "--to", &to][..], &trusted].concat();
    let (out, notes) = printed(&run(&all, &[]));
    assert_eq!(out, "", "the document is in the file");
    for told in
        ["`nobody` is no provider", "litellm_settings.callbacks", "general_settings.database_url", "holds a credential"]
    {
        assert!(notes.contains(told), "{told} in {notes}");
    }
    let document = std::fs::read_to_string(&to).expect("a document");
    assert!(!format!("{document}{notes}").contains("canary"), "{document}{notes}");
    // Read from standard input and written to standard output, the document is no other.
    let mut piped = program();
    piped.args(["convert", "--from", "litellm", "-"]).args(trusted);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let text = std::fs::read(&from).expect("the file");
    piped.stdin.take().expect("piped").write_all(&text).expect("taken");
    assert_eq!(printed(&piped.wait_with_output().expect("it ends")).0, document);
    // Each secret has a name that the document tells, and none of them is in it.
    let names: Vec<&str> = document.split("${").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    assert!(names.contains(&"GATEWAY_SECRET_FIRST_KEY"), "{document}");
    let variables: Vec<(&str, &str)> =
        names.iter().map(|name| (*name, "a-secret-of-this-gateway-0123456789")).collect();
    let report = import(&gateway, &to, &variables);
    let config = report.lines().find_map(|line| line.split("configs default/").nth(1)).expect("a config").trim();
    let config = config.split([' ', ':']).next().expect("a slug").to_owned();
    eventually("the config of the file is in force", || async {
        chat(&gateway, &config, "fast").await.filter(|said| said == "from the fallback")
    })
    .await;
    let sent = broken.seen().pop().expect("asked first");
    assert_eq!((&sent.json()["model"], &sent.json()["temperature"]), (&json!("gpt-4o"), &json!(0.2)));
    assert_eq!(good.seen().pop().expect("asked then").json()["model"], "gpt-4o-mini");
    assert_eq!(sent.header("authorization"), Some("Bearer a-secret-of-this-gateway-0123456789"));
}

#[tokio::test]
async fn configs_of_the_public_product_are_converted_imported_and_served() {
    let gateway = Gateway::start().await;
    let up = Upstream::replying(|_| reply::chat("carried")).await;
    let admin = gateway.admin();
    admin.provider("up", "openai", Some(&up.url())).await;
    let prompt = json!({ "name": "p", "string": "Say it.", "model": "gpt-4o", "virtual_key": "up", "parameters": {} });
    let prompt = admin.post("/prompts", &prompt).await.expect(200).json()["slug"].clone();
    // The file is what GET /configs answers there: a config as its text, one as an object, and a key that nobody knows.
    let inner = json!({ "strategy": { "mode": "fallback" }, "targets": [
        { "virtual_key": "up", "retry": { "attempts": 2 } },
        { "provider": "openai", "api_key": "sk-literal-canary-0002", "custom_host": up.url() }],
        "from_elsewhere": true });
    let file = json!({ "success": true, "data": [
        { "id": "1", "slug": "pc-one", "name": "One", "is_default": 0, "config": inner.to_string() },
        { "id": "2", "slug": "pc-two", "name": "Two", "config": { "strategy": { "mode": "loadbalance" },
            "targets": [{ "promptId": prompt, "weight": 0.5 }, { "prompt_id": prompt, "weight": 0.5 }] } }] });
    let (from, to) = (gateway.folder().join("configs.json"), gateway.folder().join("gateway.yaml"));
    std::fs::write(&from, file.to_string()).expect("written");
    let (from, to) = (from.display().to_string(), to.display().to_string());
    let trusted = ["--trusted-custom-hosts", "127.0.0.1"];
    let (_, notes) =
        printed(&run(&[&["convert", "--from", "portkey", &from, "--to", &to][..], &trusted].concat(), &[]));
    assert!(notes.contains("from_elsewhere") && notes.contains("left out"), "{notes}");
    assert!(notes.contains("holds a credential"), "{notes}");
    assert!(notes.contains(&format!("asks the prompt `{}`", prompt.as_str().expect("a slug"))), "{notes}");
    let document = std::fs::read_to_string(&to).expect("a document");
    assert!(!format!("{document}{notes}").contains("canary"), "{document}{notes}");
    let name = document.split("${").nth(1).and_then(|rest| rest.split('}').next()).expect("a name");
    // Without the secret nothing of the document is taken.
    let data = gateway.folder().join("data").display().to_string();
    let refused = run(&["import", "--data-dir", &data, "--trusted-custom-hosts", "127.0.0.1", &to], &[]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(name));
    import(&gateway, &to, &[(name, "sk-of-this-gateway")]);
    for config in ["pc-one", "pc-two"] {
        eventually("it is in force", || async { chat(&gateway, config, "gpt-4.1").await }).await;
    }
    let sent: Value = up.seen().last().expect("a call").json();
    assert_eq!((&sent["model"], &sent["messages"][0]["content"]), (&json!("gpt-4o"), &json!("Say it.")));
}

#[tokio::test]
async fn what_is_no_file_of_another_gateway_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("x"), folder.path().join("y"));
    for (form, text, told) in
        [("litellm", "[", "no YAML"), ("litellm", "a: 1", "model_list"), ("portkey", "7", "must be a config")]
    {
        std::fs::write(&from, text).expect("written");
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let output = run(&["convert", "--from", form, &from, "--to", &to], &[]);
        assert!(!output.status.success(), "{form} {text}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(told), "{told} in {output:?}");
    }
    assert!(!to.exists());
    assert!(!run(&["convert", "--from", "another", "x"], &[]).status.success());
}
