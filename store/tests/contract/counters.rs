//! Counters in Redis against the ledger of one process: whatever is asked, both say the same. And what only
//! Redis has: many nodes, leases, windows that were lost, and calls that were sent twice or came late.

use gateway_domain::Timestamp;
use gateway_domain::counters::{
    Cause, Change, CounterKey, CounterOp, Counters, FailMode, Keep, LimitDecision, Measured, Refusal, Slot, Take,
};
use gateway_policies::Ledger;
use gateway_store::{CounterVerdict, Redis, RedisCounters, RedisFailure, RedisUrl, Seed};
use gateway_testing::Redis as Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use uuid::Uuid;

const PATIENT: Duration = Duration::MAX;
const MINUTE: i64 = 60_000_000;
/// Near the real time, since Redis forgets windows by its own clock.
pub(crate) const START: i64 = 30_000_000 * MINUTE;

fn slot(name: u64, now: Timestamp) -> Slot {
    Slot { key: CounterKey(name << 56, name), began: Timestamp(now.0.div_euclid(MINUTE) * MINUTE) }
}

pub(crate) fn ask(name: u64, limit: u64, amount: u64, take: Take, now: Timestamp) -> CounterOp {
    let slot = slot(name, now);
    CounterOp {
        slot,
        ends: Timestamp(slot.began.0 + MINUTE),
        limit,
        measured: Measured::Tokens,
        amount,
        take,
        keep: Keep::Node,
        fail: FailMode::Local,
        assume: 0,
        tag: 0,
        left: 0,
        lone: false,
        fresh: false,
    }
}

fn change(of: &CounterOp, back: u64, more: u64, used: i64) -> Change {
    let CounterOp { slot, ends, limit, measured, keep, .. } = *of;
    Change { slot, ends, limit, measured, keep, back, more, used, owes: true }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn now(ledger: &Ledger, asks: &mut [CounterOp], at: Timestamp) -> Result<(), Refusal> {
    match ledger.reserve(asks, at, Duration::ZERO) {
        LimitDecision::Now(verdict) => verdict,
        LimitDecision::Later(_) => panic!("the ledger answers at once"),
    }
}

fn node(redis: &Redis) -> RedisCounters {
    RedisCounters::new(redis.clone(), Uuid::now_v7(), Uuid::now_v7())
}

pub(crate) async fn take(node: &RedisCounters, asks: &mut [CounterOp], at: Timestamp) -> CounterVerdict {
    node.reserve(asks, (at, PATIENT), || {}).await.unwrap()
}

pub(crate) async fn join(node: &RedisCounters) {
    assert!(!node.join().await.unwrap(), "nothing was counted before");
    node.enter().await.unwrap();
}

/// Connected nodes that have joined, while `story` runs.
async fn with_nodes<F: Future<Output = ()>>(server: &Server, n: usize, story: impl FnOnce(Vec<RedisCounters>) -> F) {
    with_redis(server, async |redis| {
        let nodes: Vec<_> = (0..n).map(|_| node(&redis)).collect();
        for node in &nodes {
            join(node).await;
        }
        story(nodes).await;
    })
    .await;
}

async fn with_redis(server: &Server, story: impl AsyncFnOnce(Redis)) {
    at_redis(&server.url(), story).await;
}

async fn at_redis(url: &str, story: impl AsyncFnOnce(Redis)) {
    let redis = Redis::new(RedisUrl::parse(url).unwrap(), Duration::from_secs(5));
    let story = async {
        while !redis.state().connected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        story(redis.clone()).await;
    };
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}

#[tokio::test]
async fn redis_and_the_ledger_agree_on_every_story() {
    let server = Server::start();
    with_nodes(&server, 1, |nodes| async move {
        let (ledger, redis, mut dice) = (Ledger::new(1 << 16), &nodes[0], Dice(7));
        let (mut at, mut held): (Timestamp, Vec<(CounterOp, u64)>) = (Timestamp(START), Vec::new());
        for step in 0..3000 {
            at = Timestamp(at.0 + i64::try_from(dice.below(4)).unwrap() * 1_000_000);
            if dice.below(3) == 0 && !held.is_empty() {
                let which = usize::try_from(dice.below(held.len() as u64)).unwrap();
                let (ask, amount) = held.swap_remove(which);
                let used = i64::try_from(dice.below(amount * 2 + 1)).unwrap();
                let changes = [change(&ask, amount, 0, used)];
                ledger.settle(&changes);
                redis.settle(&changes, step + 1, at).await.unwrap().expect("joined");
                continue;
            }
            let mut names: Vec<u64> = (0..=dice.below(3)).map(|_| dice.below(6)).collect();
            names.sort_unstable();
            names.dedup();
            let wanted = names.iter().map(|name| {
                let take = [Take::Now, Take::Hold, Take::Look][usize::try_from(dice.below(3)).unwrap()];
                ask(*name, 20 + name * 7, 1 + dice.below(30), take, at)
            });
            let mut ours: Vec<CounterOp> = wanted.collect();
            let mut theirs = ours.clone();
            let expected = now(&ledger, &mut ours, at);
            let got = take(redis, &mut theirs, at).await;
            let told = expected.map_or_else(CounterVerdict::Refused, |()| CounterVerdict::Granted);
            assert_eq!(got, told, "step {step}: {ours:?}");
            if expected.is_err() {
                continue;
            }
            for (a, b) in ours.iter().zip(&theirs) {
                assert_eq!((a.left, a.lone, a.fresh), (b.left, b.lone, b.fresh), "step {step}: {a:?}");
            }
            held.extend(ours.into_iter().filter(|a| a.take == Take::Hold).map(|a| (a, a.amount)));
        }
    })
    .await;
}

#[tokio::test]
async fn many_nodes_together_admit_what_is_allowed_and_no_more() {
    let server = Server::start();
    with_nodes(&server, 4, |nodes| async move {
        let at = Timestamp(START);
        let calls = (0..400).map(|i| {
            let node = &nodes[i % nodes.len()];
            async move {
                let mut asks = [ask(1, 100, 1, Take::Now, at), ask(2, 150, 1, Take::Hold, at)];
                take(node, &mut asks, at).await == CounterVerdict::Granted
            }
        });
        let admitted = futures_util::future::join_all(calls).await.into_iter().filter(|ok| *ok).count();
        assert_eq!(admitted, 100);
        let mut look = [ask(2, 150, 0, Take::Look, at)];
        assert_eq!(take(&nodes[0], &mut look, at).await, CounterVerdict::Granted);
        assert_eq!(look[0].left, 50, "a refused call took from neither");
    })
    .await;
}

#[tokio::test]
async fn a_dead_node_gives_back_what_it_held() {
    let server = Server::start();
    let url = server.url();
    with_nodes(&server, 2, |nodes| async move {
        let at = Timestamp(START);
        assert_eq!(take(&nodes[0], &mut [ask(1, 10, 9, Take::Hold, at)], at).await, CounterVerdict::Granted);
        let mut mine = [ask(1, 10, 5, Take::Hold, at)];
        assert!(matches!(take(&nodes[1], &mut mine, at).await, CounterVerdict::Refused(_)));
        let mut direct = ::redis::Client::open(url).unwrap().get_connection().unwrap();
        let leases: Vec<String> = ::redis::cmd("KEYS").arg("gateway:{limits}:node:*").query(&mut direct).unwrap();
        assert_eq!(leases.len(), 2);
        for lease in leases {
            let _: () = ::redis::cmd("DEL").arg(lease).query(&mut direct).unwrap();
        }
        nodes[1].renew_lease().await.unwrap();
        assert_eq!(take(&nodes[1], &mut mine, at).await, CounterVerdict::Granted);
        assert_eq!(mine[0].left, 5);
    })
    .await;
}

#[tokio::test]
async fn in_cluster_mode_all_limits_of_a_stage_are_one_call() {
    let server = Server::start_cluster();
    let one = server.url();
    // Redis is named as a single server, and as a cluster that is found by any of its nodes.
    for (round, url) in [(1, one.clone()), (2, format!("{one},{one}"))] {
        let name = |n: u64| round * 10 + n;
        at_redis(&url, async |redis| {
            let (node, at) = (node(&redis), Timestamp(START));
            assert!(!node.join().await.unwrap());
            let mut asks: Vec<CounterOp> = (1..6).map(|n| ask(name(n), 9, n, Take::Hold, at)).collect();
            node.seed(&[seed(&asks[0], 3, 0)], at).await.unwrap();
            node.enter().await.unwrap();
            assert_eq!(take(&node, &mut asks, at).await, CounterVerdict::Granted);
            assert_eq!(asks.iter().map(|ask| ask.left).collect::<Vec<_>>(), [5, 7, 6, 5, 4]);
            let refusal = Refusal { at: 4, cause: Cause::Limit, taken: 5 };
            assert_eq!(take(&node, &mut asks.clone(), at).await, CounterVerdict::Refused(refusal));
            let used: Vec<Change> = asks.iter().map(|ask| change(ask, ask.amount, 0, 1)).collect();
            assert_eq!(node.settle(&used, 1, at).await.unwrap(), Some(vec![0; 5]));
            node.renew_lease().await.unwrap();
            let mut look: Vec<CounterOp> = (1..6).map(|n| ask(name(n), 9, 0, Take::Look, at)).collect();
            assert_eq!(take(&node, &mut look, at).await, CounterVerdict::Granted);
            assert_eq!(look.iter().map(|ask| ask.left).collect::<Vec<_>>(), [5, 8, 8, 8, 8]);
        })
        .await;
    }
}

fn seed(of: &CounterOp, used: u64, held: u64) -> Seed {
    Seed { slot: of.slot, ends: of.ends, keep: of.keep, used, held }
}

#[tokio::test]
async fn what_nodes_know_comes_back_to_a_redis_that_lost_it() {
    let mut server = Server::start();
    let url = server.url();
    let (site, at) = (Uuid::now_v7(), Timestamp(START));
    let mut mine = [ask(1, 20, 1, Take::Now, at)];
    let redis = Redis::new(RedisUrl::parse(&url).unwrap(), Duration::from_secs(5));
    let story = async {
        while !redis.state().connected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (one, two) = (RedisCounters::new(redis.clone(), Uuid::now_v7(), site), node(&redis));
        assert_eq!(take(&one, &mut mine, at).await, CounterVerdict::Stranger, "nobody joined");
        for node in [&one, &two] {
            assert!(!node.join().await.unwrap());
            node.enter().await.unwrap();
        }
        assert_eq!(take(&one, &mut mine, at).await, CounterVerdict::Granted);
        server.stop();
        server.resume();
        while redis.links() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(take(&one, &mut mine, at).await, CounterVerdict::Stranger, "an empty Redis counts for nobody");
        assert_eq!(one.settle(&[change(&mine[0], 0, 0, 3)], 1, at).await.unwrap(), None);
        for (node, used, held) in [(&one, 8, 2), (&two, 5, 0)] {
            assert!(!node.join().await.unwrap());
            // What was told twice counts once.
            node.seed(&[seed(&mine[0], used, held)], at).await.unwrap();
            node.seed(&[seed(&mine[0], used, held)], at).await.unwrap();
            node.enter().await.unwrap();
        }
        assert_eq!(take(&two, &mut mine, at).await, CounterVerdict::Granted);
        assert_eq!(mine[0].left, 4, "eight and five were used, two are held, one is new");
        let again = RedisCounters::new(redis.clone(), Uuid::now_v7(), site);
        assert!(again.join().await.unwrap(), "after a restart of its own it has nothing to tell");
    };
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}

#[tokio::test]
async fn of_what_a_node_tells_the_part_that_is_missing_counts() {
    let server = Server::start();
    with_redis(&server, async |redis| {
        let (site, at) = (Uuid::now_v7(), Timestamp(START));
        let begin = async || {
            let process = RedisCounters::new(redis.clone(), Uuid::now_v7(), site);
            process.join().await.unwrap();
            process.enter().await.unwrap();
            process
        };
        let left = async |process: &RedisCounters, name: u64| {
            let mut look = [ask(name, 100, 0, Take::Look, at)];
            assert_eq!(take(process, &mut look, at).await, CounterVerdict::Granted);
            look[0].left
        };
        let before = begin().await;
        let kept = ask(1, 100, 4, Take::Now, at);
        let short = CounterOp { keep: Keep::Memory, ..ask(2, 100, 4, Take::Now, at) };
        assert_eq!(take(&before, &mut [kept, short], at).await, CounterVerdict::Granted);
        let used = [change(&kept, 0, 0, 6), change(&short, 0, 0, 6)];
        before.settle(&used, 1, at).await.unwrap().expect("joined");
        assert_eq!((left(&before, 1).await, left(&before, 2).await), (90, 90));
        // Three more were used while Redis was out of reach, and the process was killed: the journal has them. Of
        // the short window the next process knows only its own.
        let after = begin().await;
        for _ in 0..2 {
            after.seed(&[seed(&kept, 13, 5), seed(&short, 2, 0)], at).await.unwrap();
        }
        assert_eq!((left(&after, 1).await, left(&after, 2).await), (82, 88));
        // What is held no more is told too; what was never used begins nothing.
        after.seed(&[seed(&kept, 11, 0), seed(&ask(3, 9, 1, Take::Now, at), 0, 0)], at).await.unwrap();
        assert_eq!((left(&after, 1).await, left(&after, 3).await), (87, 100));
    })
    .await;
}

#[tokio::test]
async fn a_count_that_every_node_knows_is_told_by_all_and_counted_once() {
    let server = Server::start();
    with_nodes(&server, 2, |nodes| async move {
        let at = Timestamp(START);
        let mut budget = [CounterOp { keep: Keep::Shared, ends: Timestamp(i64::MAX), ..ask(1, 20, 1, Take::Hold, at) }];
        for (node, known) in nodes.iter().zip([12, 15]) {
            node.seed(&[seed(&budget[0], known, 0)], at).await.unwrap();
        }
        assert_eq!(take(&nodes[0], &mut budget, at).await, CounterVerdict::Granted);
        assert_eq!(budget[0].left, 4);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_is_sent_twice_settles_once() {
    let server = Server::start();
    with_nodes(&server, 1, |nodes| async move {
        let at = Timestamp(START);
        let mut held = [ask(1, 20, 10, Take::Hold, at)];
        assert_eq!(take(&nodes[0], &mut held, at).await, CounterVerdict::Granted);
        let changes = [change(&held[0], 10, 0, 4)];
        assert_eq!(nodes[0].settle(&changes, 1, at).await.unwrap(), Some(vec![0]));
        assert_eq!(nodes[0].settle(&changes, 1, at).await.unwrap(), Some(Vec::new()));
        let mut look = [ask(1, 20, 0, Take::Look, at)];
        assert_eq!(take(&nodes[0], &mut look, at).await, CounterVerdict::Granted);
        assert_eq!(look[0].left, 16);
    })
    .await;
}

/// A wire to Redis that holds back what Redis says for as long as it is told to.
async fn slow_wire(port: u16, wait: Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::task::spawn_local(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            tokio::task::spawn_local(async move { tokio::io::copy(&mut from_near, &mut to_far).await });
            let wait = wait.clone();
            tokio::task::spawn_local(async move {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = from_far.read(&mut buffer).await {
                    tokio::time::sleep(Duration::from_millis(wait.load(Relaxed))).await;
                    if to_near.write_all(&buffer[..n]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    own
}

#[tokio::test]
async fn what_came_late_is_heard_of() {
    // Over the connection of all threads, and over this thread's own.
    for asked_before in [0, 50] {
        Box::pin(hear_of_what_came_late(asked_before)).await;
    }
}

async fn hear_of_what_came_late(asked_before: u64) {
    let server = Server::start();
    let wait = Arc::new(AtomicU64::new(0));
    let local = tokio::task::LocalSet::new();
    let story = async {
        let port = slow_wire(server.port(), wait.clone()).await;
        let url = RedisUrl::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
        let redis = Redis::new(url, Duration::from_millis(400));
        let story = async {
            while !redis.state().connected {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let node = node(&redis);
            node.join().await.unwrap();
            node.enter().await.unwrap();
            for _ in 0..asked_before {
                take(&node, &mut [ask(2, 9, 0, Take::Look, Timestamp(START))], Timestamp(START)).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            wait.store(600, Relaxed);
            let heard = Arc::new(Notify::new());
            let late = heard.clone();
            let began = Instant::now();
            let mut asks = [ask(1, 9, 1, Take::Now, Timestamp(START))];
            let failed = node.reserve(&mut asks, (Timestamp(START), PATIENT), move || late.notify_one()).await;
            assert_eq!(failed, Err(RedisFailure::Late));
            assert!(began.elapsed() < Duration::from_millis(550), "{:?}", began.elapsed());
            heard.notified().await;
        };
        tokio::select! {
            () = redis.keep() => unreachable!("it never ends"),
            () = story => {}
        }
    };
    local.run_until(Box::pin(story)).await;
}
