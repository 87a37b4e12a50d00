//! Exact limits over four processes and one Redis: 64 clients, some of whom leave, in the middle of a stream too, or
//! are called again after a failure. Requests: admitted equals allowed. Tokens and money: used and held never exceed
//! the limit, at no moment, and all but the last hold can be used. A round of each here; `make soak` runs round after
//! round, each with dice of its own.

use crate::harness::{Upstream, eventually, gateway::target, hello, reply, stand_at_noon, with};
use crate::loss::seconds;
use crate::shared_limits::{Nodes, blocking, counting};
use futures_util::{StreamExt, stream};
use gateway_testing::Redis;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Longest answer of a call, in tokens; a cent for each thousand.
const LONGEST: u64 = 16_000;
/// Tokens that are held for a call: its longest answer and a guess at its prompt.
const HOLD: u64 = LONGEST + 200;
const REQUESTS: u64 = 200;
const TOKENS: u64 = 2_000_000;
const DOLLARS: u64 = 20;
const NANOS_PER_TOKEN: u64 = 10_000;

/// What calls are held to. Limits of the three differ by so much that their counters cannot be taken for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Requests,
    Tokens,
    Cost,
    All,
}

impl Kind {
    const EACH: [Self; 4] = [Self::Requests, Self::Tokens, Self::Cost, Self::All];

    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::All => "all",
        }
    }

    /// Each with what the smallest call may hold of it.
    fn limits(self) -> Vec<(u64, u64)> {
        let tokens = (TOKENS, HOLD);
        let cost = (DOLLARS * 1_000_000_000, HOLD * NANOS_PER_TOKEN);
        match self {
            Self::Requests => vec![(REQUESTS, 1)],
            Self::Tokens => vec![tokens],
            Self::Cost => vec![cost],
            Self::All => vec![(REQUESTS, 1), tokens, cost],
        }
    }
}

/// Answers after a while, whole or as a stream, with the usage that the request asks for by its `seed`; the unlucky
/// hear an error.
async fn upstream() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            let body = seen.json();
            let used = body["seed"].as_u64().unwrap_or(1);
            let usage = json!({ "prompt_tokens": 1, "completion_tokens": used - 1, "total_tokens": used });
            peer.pause(used * 3 % 17).await;
            let sent = if body["user"] == "unlucky" {
                peer.send(reply::error(500, &[])).await
            } else if body["stream"] == json!(true) {
                let last = json!({ "object": "chat.completion.chunk", "choices": [], "usage": usage });
                let last = with(reply::completion(""), last);
                let first = [reply::STREAM, &reply::role(), &reply::delta("well")].concat();
                let rest = [reply::delta(", hi"), reply::finish(), reply::chunk(format!("data: {last}\n\n"))].concat();
                let end = [reply::done(), reply::LAST_CHUNK.to_vec()].concat();
                let begun = peer.send(first).await;
                peer.pause(used % 13).await;
                begun && peer.send([rest, end].concat()).await
            } else {
                peer.send(reply::json(200, &with(reply::completion("hi"), json!({ "usage": usage })))).await
            };
            if !sent {
                return;
            }
        }
    })
    .await
}

/// Four processes under policies that hold calls by the metadata `kind`, and count each `run` apart.
async fn nodes(redis: &Redis) -> Nodes {
    let url = redis.url();
    // No busy machine misses this deadline: what is shown here is Redis' own counting.
    let nodes = Nodes::start("exact", 4, &["--redis-url", &url, "--redis-timeout", "20s", "--threads", "1"]).await;
    for node in &nodes.all {
        counting(node, "redis").await;
    }
    let held = |kind: &str| {
        json!({
            "name": kind, "conditions": [{ "key": "metadata.kind", "value": [kind, "all"] }],
            "group_by": [{ "key": "metadata.run" }],
        })
    };
    let admin = nodes.admin();
    let cost = with(held("cost"), json!({ "type": "cost", "credit_limit": DOLLARS }));
    admin.post("/policies/usage-limits", &cost).await.expect(200);
    let tokens = json!({ "type": "tokens", "unit": "tpd", "value": TOKENS });
    admin.post("/policies/rate-limits", &with(held("tokens"), tokens)).await.expect(200);
    nodes.limit(with(held("requests"), json!({ "value": REQUESTS }))).await;
    nodes
}

/// Numbers that look random and are the same for a seed.
struct Dice(u64);

impl Dice {
    fn of(round: u64, call: usize) -> Self {
        let mut dice = Self(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (call as u64 + 1));
        dice.below(2);
        dice.below(2);
        dice
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Looks at the counters in Redis again and again: of each window the most that was ever used and held together.
struct Watch {
    stop: Arc<AtomicBool>,
    looking: JoinHandle<HashMap<String, u64>>,
}

impl Watch {
    fn over(url: String, known: Vec<String>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let seen = stop.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let mut redis = connect(&url);
            let mut most = HashMap::new();
            loop {
                let last = seen.load(Ordering::SeqCst);
                for name in windows(&mut redis) {
                    if !known.contains(&name) {
                        let (used, held) = level(&mut redis, &name);
                        let most = most.entry(name).or_insert(0);
                        *most = used.saturating_add(held).max(*most);
                    }
                }
                if last {
                    return most;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, looking }
    }

    async fn end(self) -> HashMap<String, u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.looking.await.expect("it looked")
    }
}

fn connect(url: &str) -> redis::Connection {
    redis::Client::open(url).expect("a client").get_connection().expect("connected")
}

fn windows(redis: &mut redis::Connection) -> Vec<String> {
    let names: Vec<String> = redis::cmd("KEYS").arg("gateway:{limits}:*").query(redis).expect("names");
    let is_window = |name: &String| name.split(':').next_back().is_some_and(|last| last.parse::<i64>().is_ok());
    names.into_iter().filter(is_window).collect()
}

/// Used and held, at one moment.
fn level(redis: &mut redis::Connection, name: &str) -> (u64, u64) {
    let all: HashMap<String, u64> = redis::cmd("HGETALL").arg(name).query(redis).expect("numbers, none below nothing");
    let held = all.iter().filter(|(field, _)| field.starts_with("h:")).map(|(_, held)| held).sum();
    (all["u"], held)
}

struct Round<'a> {
    nodes: &'a Nodes,
    upstream: &'a Upstream,
    kind: Kind,
    number: u64,
}

/// What a client heard of its call; one that left heard 0.
struct Heard {
    status: u16,
    used: u64,
}

impl Round<'_> {
    fn metadata(&self) -> String {
        json!({ "kind": self.kind.name(), "run": format!("{}-{}", self.kind.name(), self.number) }).to_string()
    }

    async fn call(&self, i: usize) -> Heard {
        let mut dice = Dice::of(self.number, i);
        let used = (1 + dice.below(16)) * 1_000;
        let user = if dice.below(16) == 0 { "unlucky" } else { "lucky" };
        let most = if dice.below(4) == 0 { used } else { LONGEST };
        let fields = json!({
            "model": "gpt-4o", "max_tokens": most, "seed": used, "user": user, "stream": dice.below(3) == 0,
        });
        let config = with(target(self.upstream), json!({ "retry": { "attempts": 1, "on_status_codes": [500] } }));
        let call = self.nodes.all[i % self.nodes.all.len()].chat().config(&config);
        let call = call.header("x-gateway-metadata", &self.metadata()).json(&with(hello(), fields));
        let patience = Duration::from_millis(if dice.below(5) == 0 { dice.below(40) } else { 60_000 });
        let whole = async {
            let answer = call.attempt().await.expect("an answer");
            let status = answer.status().as_u16();
            answer.bytes().await.expect("the whole of it");
            status
        };
        Heard { status: tokio::time::timeout(patience, whole).await.unwrap_or(0), used }
    }

    /// One call after the other, each of the longest answer, until one is refused and none holds anything.
    async fn use_up(&self, redis: &mut redis::Connection, counters: &[String]) -> usize {
        let fields = json!({ "model": "gpt-4o", "max_tokens": LONGEST, "seed": LONGEST });
        let body = with(hello(), fields);
        let until = Instant::now() + Duration::from_secs(60);
        let mut passed = 0;
        loop {
            let node = &self.nodes.all[passed % self.nodes.all.len()];
            let call = node.chat_through(self.upstream).header("x-gateway-metadata", &self.metadata());
            let answer = call.json(&body).send().await;
            match answer.status {
                200 => passed += 1,
                412 | 429 if counters.iter().all(|name| level(redis, name).1 == 0) => return passed,
                412 | 429 => tokio::time::sleep(Duration::from_millis(5)).await,
                other => panic!("{other}: {}", answer.text()),
            }
            assert!(Instant::now() < until, "what was held does not come back");
        }
    }

    /// Records of the calls that were let in. A last call on each node, refused, tells that its others are stored.
    async fn let_in(&self) -> Vec<Value> {
        for (i, node) in self.nodes.all.iter().enumerate() {
            eventually("no call under way", || async {
                node.metrics().await.contains("gateway_requests_in_flight 0\n").then_some(())
            })
            .await;
            let trace = format!("last-{}-{}-{i}", self.kind.name(), self.number);
            let call = node.chat_through(self.upstream).header("x-gateway-trace-id", &trace);
            let body = with(hello(), json!({ "model": "gpt-4o", "max_tokens": LONGEST }));
            let answer = call.header("x-gateway-metadata", &self.metadata()).json(&body).send().await;
            assert!(matches!(answer.status, 412 | 429), "{}", answer.text());
            eventually("the last record", || async {
                let list = self.nodes.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
                (list["data"].as_array().map(Vec::len) == Some(1)).then_some(())
            })
            .await;
        }
        let mut rows = Vec::new();
        let filter = self.metadata().replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        for page in 0.. {
            let path = format!("/logs?metadata={filter}&page_size=100&current_page={page}");
            let list = self.nodes.admin().get(&path).await.expect(200).json();
            let some = list["data"].as_array().expect("a list").clone();
            if some.is_empty() {
                break;
            }
            rows.extend(some);
        }
        rows.retain(|row| !matches!(row["response"]["status"].as_u64(), Some(412 | 429)));
        rows
    }

    async fn run(&self, url: &str) {
        let mut redis = connect(url);
        let watch = Watch::over(url.to_owned(), windows(&mut redis));
        let heard: Vec<Heard> = stream::iter(0..600).map(|i| self.call(i)).buffer_unordered(64).collect().await;
        let most = watch.end().await;
        let told = |what: &str| format!("{what} of {:?}, round {}", self.kind, self.number);
        let mut names: Vec<String> = most.keys().cloned().collect();
        names.sort_by_key(|name| most[name]);
        let limits = self.kind.limits();
        assert_eq!(names.len(), limits.len(), "{}", told("counters"));
        for (name, (limit, _)) in names.iter().zip(&limits) {
            assert!(most[name] <= *limit, "{} used and held, more than {limit}: {}", most[name], told("a moment"));
        }
        let heard_of = |statuses: &[u16]| heard.iter().filter(|h| statuses.contains(&h.status)).count() as u64;
        let (answered, left) = (heard_of(&[200, 500]), heard_of(&[0]));
        assert!(left > 0 && heard_of(&[412, 429]) > 0 && heard_of(&[500]) > 0, "{}", told("no storm"));
        let rest = self.use_up(&mut redis, &names).await as u64;
        let at_end: Vec<u64> = names.iter().map(|name| level(&mut redis, name).0).collect();
        let is_used_up = at_end.iter().zip(&limits).any(|(used, (limit, hold))| used + hold > *limit);
        assert!(is_used_up, "{at_end:?} of {limits:?} were used and the next is refused: {}", told("the end"));
        for (used, (limit, _)) in at_end.iter().zip(&limits) {
            assert!(used <= limit, "{used} used, more than {limit}: {}", told("the end"));
        }
        let rows = self.let_in().await;
        if matches!(self.kind, Kind::Requests | Kind::All) {
            assert_eq!(rows.len() as u64, at_end[0], "{}", told("calls let in"));
            assert!(answered + rest <= at_end[0] && at_end[0] <= answered + rest + left, "{}", told("calls"));
        }
        if self.kind == Kind::Requests {
            assert_eq!(rows.len() as u64, REQUESTS, "admitted equals allowed");
        }
        // Whoever heard an answer was counted with all of it.
        let used = heard.iter().filter(|h| h.status == 200).map(|h| h.used).sum::<u64>() + rest * LONGEST;
        let counted = rows.iter().filter(|row| row["response"]["status"] == 200);
        let units: u64 = counted.map(|row| row["metrics"]["total_units"].as_u64().expect("usage")).sum();
        assert!(units >= used, "{units} recorded, {used} heard of: {}", told("tokens"));
        let tokens = match self.kind {
            Kind::Requests => return,
            Kind::Tokens => at_end[0],
            Kind::Cost => at_end[0] / NANOS_PER_TOKEN,
            Kind::All => at_end[1],
        };
        // A token of the prompt is cheaper than one of the answer.
        assert!(used <= tokens + rows.len() as u64, "{used} heard of, {tokens} counted: {}", told("tokens"));
        eprintln!("{}: {at_end:?} of {limits:?}; {answered} answered, {left} left", told("used"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_let_in_what_is_allowed_and_no_more() {
    stand_at_noon();
    let (redis, upstream) = (blocking(Redis::start).await, upstream().await);
    let nodes = nodes(&redis).await;
    let until = Instant::now() + Duration::from_secs_f64(seconds());
    for number in 1.. {
        for kind in Kind::EACH {
            Round { nodes: &nodes, upstream: &upstream, kind, number }.run(&redis.url()).await;
        }
        if Instant::now() >= until {
            break;
        }
    }
}
