//! Many MCP servers that are asked again and again what they offer: each by one node at a time, spread over the time
//! between two questions, a few at once, in memory that does not grow. A few hundred of them in the suite; `make scale`
//! asks for ten thousand, as many as an organisation may have asked.

use crate::harness::{Gateway, Upstream, reply};
use gateway_testing::Postgres;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Servers that one node asks at the same time.
const AT_ONCE: usize = 4;
/// What the second round may leave two processes with that had one behind them, in MiB.
const MOST_MIB: u64 = 48;
/// Integrations that an organisation may have.
const MOST: usize = 10_000;

#[expect(clippy::disallowed_methods, reason = "how many integrations is asked of the test, not of the gateway")]
fn integrations() -> usize {
    std::env::var("SCALE_INTEGRATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(400)
}

/// What servers heard.
#[derive(Default)]
struct Heard {
    /// When each was asked who it is.
    asked: BTreeMap<String, Vec<Instant>>,
    now: usize,
    /// The most that were asked at the same time.
    most: usize,
}

type Asked = Arc<Mutex<Heard>>;

/// All servers at once, told apart by their paths: each says that it offers nothing, in a while.
async fn servers(asked: Asked) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let asked = asked.clone();
        async move {
            while let Some(seen) = peer.request().await {
                {
                    let mut heard = asked.lock().expect("no panic");
                    heard.asked.entry(seen.target.clone()).or_default().push(Instant::now());
                    heard.now += 1;
                    heard.most = heard.most.max(heard.now);
                }
                peer.pause(5).await;
                asked.lock().expect("no panic").now -= 1;
                let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete",
                    "serverInfo": {"name": "many", "version": "1"}});
                let answer = json!({"jsonrpc": "2.0", "id": seen.json()["id"], "result": result});
                peer.send(reply::json(200, &answer)).await;
            }
        }
    })
    .await
}

async fn planned(gateway: &Gateway) -> usize {
    let metrics = gateway.metrics().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("gateway_mcp_integrations ")).expect("the metric");
    line.parse().expect("a number")
}

/// Waits for as long as so many may take: jobs are written one by one before the first number is told.
async fn grown(what: &str, until: usize, count: impl AsyncFn() -> usize) {
    let (began, patience) = (Instant::now(), Duration::from_millis(60) * u32::try_from(until).expect("a number"));
    while count().await < until {
        assert!(began.elapsed() < patience.max(Duration::from_secs(60)), "never came: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_servers_as_there_may_be_are_asked_in_turn_by_one_node_each() {
    let many = integrations();
    let every = Duration::from_secs(8).max(Duration::from_millis(15) * u32::try_from(many).expect("a number"));
    let span = format!("{}s", every.as_secs());
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_load"))).await;
    let (_postgres, url) = database.expect("no panic");
    let asked = Asked::default();
    let upstream = servers(asked.clone()).await;
    let flags = ["--database-url", url.as_str(), "--mcp-sync-interval", &span];
    let first = Gateway::with(&flags).await;
    let master = first.folder().join("data/master.key").display().to_string();
    let second = Gateway::with(&[&flags[..], &["--master-key-file", &master]].concat()).await;
    // One more than are asked, where the bound is reached at all.
    let told = if many >= MOST { many + 1 } else { many };
    let mut document = String::from("version: 1\nmcp_integrations:\n");
    for n in 0..told {
        let own = format!("slug: many-{n}, name: Many {n}, url: '{}/{n}'", upstream.url());
        document.push_str(&format!("- {{{own}, auth_type: none, transport: http}}\n"));
    }
    let imported = first.admin().post("/configuration/import", &json!({"document": document})).await;
    imported.expect(200);
    let began = Instant::now();
    for node in [&first, &second] {
        grown("all are planned", many, async || planned(node).await).await;
        assert_eq!(planned(node).await, many);
    }
    if told > many {
        assert!(first.process.output().contains("no more MCP servers"), "{}", first.process.output());
    }
    let rounds = |least: usize| asked.lock().expect("no panic").asked.values().filter(|all| all.len() >= least).count();
    grown("each was asked", many, async || rounds(1)).await;
    let memory = first.memory_bytes() + second.memory_bytes();
    grown("each was asked again", many, async || rounds(2)).await;
    let grown_by = (first.memory_bytes() + second.memory_bytes()).saturating_sub(memory) >> 20;
    assert!(grown_by <= MOST_MIB, "{grown_by} MiB more after the second round");
    let took = began.elapsed();
    let (asked, most) = {
        let heard = asked.lock().expect("no panic");
        (heard.asked.clone(), heard.most)
    };
    assert!(most <= 2 * AT_ONCE, "{most} at once, whatever is due");
    assert_eq!(asked.len(), many, "nobody beyond the bound is asked");
    for (place, times) in &asked {
        let most = usize::try_from(took.as_millis() / every.as_millis()).expect("few") + 2;
        assert!(times.len() <= most, "{place} was asked {} times in {took:?}", times.len());
        // Whoever has just been asked is asked by nobody else.
        let pauses = times.windows(2).map(|two| two[1] - two[0]);
        assert!(pauses.min().is_none_or(|least| least >= every.mul_f64(0.9)), "{place}: {times:?}");
    }
    let quarter = every / 4;
    let mut first_asked = [0_usize; 8];
    for times in asked.values() {
        let at = (times[0].saturating_duration_since(began)).as_millis() / quarter.as_millis();
        first_asked[usize::try_from(at).expect("few").min(7)] += 1;
    }
    let spread = &first_asked[..4];
    assert!(spread.iter().all(|count| *count > 0 && *count < many / 2), "{first_asked:?} of {many}");
    println!("{many} servers, each asked twice in {took:?}, {most} at once; {grown_by} MiB more; {first_asked:?}");
}
