//! What a node of role `proxy` hands on from the Admin API of another: as it comes, of whatever length, and broken off
//! where it breaks off.

use crate::harness::{ADMIN_KEY, Gateway, Raw, Upstream, reply};
use gateway_testing::Postgres;
use serde_json::json;
use std::sync::Arc;

const CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

/// A node without a control plane, which hands on to this server, and the one that made its database.
struct Pair {
    node: Gateway,
    far: Gateway,
    _postgres: Arc<Postgres>,
}

impl Pair {
    /// `upstream`: in the place of the other node.
    async fn new(name: &'static str, upstream: Option<&Upstream>) -> Self {
        let database = tokio::task::spawn_blocking(move || (Postgres::shared(), Postgres::shared().create(name))).await;
        let (postgres, url) = database.expect("no panic");
        let far = Gateway::with(&["--database-url", &url]).await;
        let key = far.folder().join("data/master.key").display().to_string();
        let own = upstream.map(|upstream| upstream.url().trim_end_matches("/v1").to_owned());
        let there = own.unwrap_or_else(|| format!("http://{}", far.admin));
        let shared = ["--database-url", &*url, "--master-key-file", &*key];
        let flags = [&shared[..], &["--role", "proxy", "--admin-upstream", &*there]].concat();
        Self { node: Gateway::with(&flags).await, far, _postgres: postgres }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_goes_down_piece_by_piece_and_is_held_by_nobody() {
    const PIECE: usize = 256 * 1024;
    const PIECES: usize = 320;
    let far = Upstream::scripted(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.send(CHUNKS).await;
            let piece = reply::chunk(vec![b'x'; PIECE]);
            for _ in 0..PIECES {
                if !peer.send(&piece).await {
                    return;
                }
            }
            peer.send(reply::LAST_CHUNK).await;
        }
    })
    .await;
    let Pair { node, _postgres, .. } = Pair::new("handed_large", Some(&far)).await;
    let before = node.memory("VmHWM");
    let mut answer = node.call("GET", "/v1/configuration").key(ADMIN_KEY).open().await;
    assert_eq!(answer.status(), 200);
    let mut length = 0;
    while let Some(piece) = answer.chunk().await.expect("whole") {
        length += piece.len();
    }
    assert_eq!(length, PIECE * PIECES, "80 MiB, which is more than a node would hold");
    let grown = node.memory("VmHWM").saturating_sub(before);
    assert!(grown < 24, "{grown} MiB more at the peak");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_not_ended_cleanly() {
    let far = Upstream::scripted(|mut peer| async move {
        if peer.request().await.is_some() {
            peer.send(CHUNKS).await;
            peer.send(reply::chunk("{\"document\":")).await;
            peer.pause(50).await;
            peer.reset().await;
        }
    })
    .await;
    let Pair { node, _postgres, .. } = Pair::new("handed_broken", Some(&far)).await;
    let answer = node.call("GET", "/v1/configuration").key(ADMIN_KEY).send().await;
    assert!(!answer.whole && answer.status == 200, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_of_another_node_is_the_same_through_both() {
    let Pair { node, far, _postgres } = Pair::new("handed_on", None).await;
    for number in 0..40 {
        let config = json!({ "provider": "mock", "override_params": { "text": "x".repeat(2_000) } });
        far.admin().config(&format!("c{number}"), &config).await;
    }
    let told = far.admin().get("/configuration").await.expect(200).json();
    let through = node.call("GET", "/v1/configuration").key(ADMIN_KEY).send().await.expect(200);
    assert!(through.whole, "it ends as it should");
    assert_eq!(through.json(), told);
    let made =
        node.call("POST", "/v1/configs").key(ADMIN_KEY).json(&json!({ "name": "n", "config": { "provider": "mock" } }));
    made.send().await.expect(200);
    node.call("GET", "/v1/configs/none").key(ADMIN_KEY).send().await.expect(404);
}

/// RFC 9110, 8.6: a length that is told is that of what GET gives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_its_body_has_the_length_of_the_whole() {
    let Pair { node, far, _postgres } = Pair::new("handed_bare", None).await;
    for path in ["/v1/configs", "/v1/configs/none"] {
        let mut lengths = Vec::new();
        for gateway in [&far, &node] {
            let whole = gateway.call("GET", path).key(ADMIN_KEY).send().await;
            let mut raw = Raw::connect(gateway.proxy).await;
            for _ in 0..2 {
                raw.send(format!("HEAD {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {ADMIN_KEY}\r\n\r\n")).await;
                let head = raw.head().await;
                assert_eq!(head.status, whole.status, "{path}");
                assert_eq!(head.header("transfer-encoding"), None, "{path}");
                lengths.push(head.header("content-length").map(str::to_owned));
            }
            assert!(!whole.body.is_empty());
            lengths.push(Some(whole.body.len().to_string()));
        }
        assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "{path}: {lengths:?}");
    }
}
