//! Sessions with MCP servers belong to no node: what one opened any other goes on with, and a node that is killed takes
//! none along.

use crate::harness::call::Call;
use crate::harness::{Gateway, eventually};
use crate::mcp_script::{Script, Served, initialize, request, tool_call};
use futures_util::{StreamExt, stream};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const SESSIONS: usize = 1_000;
/// Clients that call at the same time.
const AT_ONCE: usize = 16;

struct Caller<'g> {
    gateway: &'g Gateway,
    key: &'g str,
}

impl Caller<'_> {
    fn post(&self, body: &Value) -> Call {
        let call = self.gateway.call("POST", "/files/mcp").key(self.key);
        call.header("accept", "application/json, text/event-stream").json(body)
    }

    async fn open(&self) -> String {
        let answer = self.post(&initialize("2025-06-18")).send().await.expect(200);
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&note).header("mcp-session-id", &session).send().await.expect(202);
        session
    }

    async fn opened(&self, count: usize) -> Vec<String> {
        stream::iter(0..count).map(|_| self.open()).buffer_unordered(AT_ONCE).collect().await
    }

    /// Each once; the statuses that came.
    async fn used(&self, sessions: &[String]) -> BTreeSet<u16> {
        let call = |session: &String| self.post(&tool_call("echo", 1)).header("mcp-session-id", session).send();
        stream::iter(sessions).map(call).buffer_unordered(AT_ONCE).map(|answer| answer.status).collect().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_outlive_the_node_that_opened_them() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_nodes"))).await;
    let (_postgres, url) = database.expect("no panic");
    let flags = ["--database-url", &url];
    let mut served = Served::with(Script::default(), &flags).await;
    let master = served.gateway.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&["--database-url", &url, "--master-key-file", &master]).await;
    let second = Caller { gateway: &other, key: &served.key };
    eventually("the other node knows the server", || async {
        let answer = second.post(&initialize("2025-06-18")).send().await;
        (answer.status == 200).then_some(())
    })
    .await;
    let first = Caller { gateway: &served.gateway, key: &served.key };
    let (of_first, of_second) = tokio::join!(first.opened(SESSIONS / 2), second.opened(SESSIONS / 2));
    // Each goes on at the node that did not open it, and at a server's session of its own.
    assert_eq!(second.used(&of_first).await, BTreeSet::from([200]));
    assert_eq!(first.used(&of_second).await, BTreeSet::from([200]));
    let at_server = |served: &Served| -> BTreeSet<String> {
        let heard = served.mcp.heard("tools/call");
        heard.iter().filter_map(|seen| seen.header("mcp-session-id").map(str::to_owned)).collect()
    };
    assert_eq!(at_server(&served).len(), SESSIONS);
    served.gateway.process.signal("KILL");
    served.gateway.process.exit(Duration::from_secs(20)).await;
    let second = Caller { gateway: &other, key: &served.key };
    let all: Vec<String> = [of_first, of_second].concat();
    assert_eq!(second.used(&all).await, BTreeSet::from([200]));
    assert_eq!(at_server(&served).len(), SESSIONS, "no session was opened anew");
    // One that has ended is gone, and takes no other along.
    let (ended, rest) = all.split_first().expect("a thousand");
    let end = other.call("DELETE", "/files/mcp").key(&served.key).header("mcp-session-id", ended);
    end.send().await.expect(204);
    let list = second.post(&request("tools/list", json!({})));
    list.header("mcp-session-id", ended).send().await.expect(404);
    assert_eq!(second.used(&rest[..AT_ONCE]).await, BTreeSet::from([200]));
}
