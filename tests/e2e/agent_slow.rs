//! A scripted agent that takes its time, for the tests of clocks, of clients that leave and of bytes that are held.
//! What it is told says how it behaves.

use crate::agent_script::{address, card};
use crate::harness::call::Call;
use crate::harness::{Gateway, Peer, Upstream, reply};
use serde_json::{Value, json};
use tokio::sync::watch;

/// An agent, and what lets those of its streams go on that wait.
pub(crate) struct SlowAgent {
    pub(crate) upstream: Upstream,
    pub(crate) go: watch::Sender<bool>,
}

/// `work`: says where it stands six times, 300 ms apart, then is done. `mute`: begins and says no more. `endless`: says
/// where it stands for ever. `drip`: answers whole, one byte every 100 ms. `large N`: says so many KiB in pieces of 32,
/// waits, then is done. `open N`: so many KiB of an event whose end waits.
pub(crate) async fn slow_agent() -> SlowAgent {
    let (go, told) = watch::channel(false);
    let upstream = Upstream::scripted(move |peer| serve(peer, told.clone())).await;
    SlowAgent { upstream, go }
}

fn update(id: &Value, update: &Value) -> Vec<u8> {
    reply::chunk(format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": update})))
}

fn state(state: &str) -> Value {
    let status = json!({"state": format!("TASK_STATE_{state}")});
    json!({"statusUpdate": {"taskId": "task-7", "contextId": "context-7", "status": status}})
}

fn piece(text: &str) -> Value {
    let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
    json!({"artifactUpdate": {"taskId": "task-7", "contextId": "context-7", "artifact": artifact, "append": true}})
}

async fn serve(mut peer: Peer, mut go: watch::Receiver<bool>) {
    while let Some(seen) = peer.request().await {
        if seen.target.ends_with("/.well-known/agent-card.json") {
            peer.send(reply::json(200, &card(&address(&seen)))).await;
            continue;
        }
        let body = seen.json();
        let id = &body["id"];
        let said = body["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
        let (what, size) = said.split_once(' ').unwrap_or((said, "0"));
        let size = size.parse::<usize>().expect("a size") << 10;
        if what == "drip" {
            peer.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n").await;
            while peer.send(" ").await {
                peer.pause(100).await;
            }
            return;
        }
        peer.send(reply::STREAM).await;
        match what {
            "work" => {
                for _ in 0..6 {
                    if !peer.send(update(id, &state("WORKING"))).await {
                        return;
                    }
                    peer.pause(300).await;
                }
            }
            "mute" => {
                peer.send(update(id, &state("WORKING"))).await;
                peer.gone().await;
                return;
            }
            "endless" => {
                while peer.send(update(id, &state("WORKING"))).await {
                    peer.pause(100).await;
                }
                return;
            }
            "large" => {
                for _ in 0..size >> 15 {
                    peer.send(update(id, &piece(&"x".repeat(1 << 15)))).await;
                }
                let _ = go.wait_for(|go| *go).await;
            }
            _ => {
                let event = json!({"jsonrpc": "2.0", "id": id, "result": piece(&"x".repeat(size))});
                peer.send(reply::chunk(format!("data: {event}"))).await;
                let _ = go.wait_for(|go| *go).await;
                peer.send(reply::chunk("\n\n")).await;
            }
        }
        peer.send([update(id, &state("COMPLETED")), reply::LAST_CHUNK.to_vec()].concat()).await;
    }
}

/// A gateway with that agent as `slow`, at 40 cents a message, and a key that may call it.
pub(crate) async fn slow_gateway(agent: &SlowAgent, flags: &[&str]) -> (Gateway, String) {
    let gateway = Gateway::with(flags).await;
    let integration = json!({"name": "S", "slug": "slow-int", "url": agent.upstream.url(), "auth_type": "none",
        "configurations": {"pricing": {"default_usd_per_call": 0.4}}});
    gateway.admin().post("/agent-integrations", &integration).await.expect(200);
    let server = json!({"name": "Slow", "slug": "slow", "agent_integration_id": "slow-int"});
    gateway.admin().post("/agent-servers", &server).await.expect(200);
    let (_, key) = gateway.admin().workspace_key("slow", json!({"scopes": ["agents.invoke"]})).await;
    (gateway, key)
}

/// A message that says how the agent is to behave.
pub(crate) fn saying(gateway: &Gateway, key: &str, method: &str, text: &str) -> Call {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
    let body = json!({"jsonrpc": "2.0", "id": "s-1", "method": method, "params": {"message": message}});
    gateway.call("POST", "/v1/agent/slow").key(key).header("a2a-version", "1.0").json(&body)
}

pub(crate) fn streaming(gateway: &Gateway, key: &str, text: &str) -> Call {
    saying(gateway, key, "SendStreamingMessage", text)
}
