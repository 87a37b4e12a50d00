//! Counters in Redis against the ledger of one process: whatever is asked, both say the same. And what only
//! Redis has: many nodes, leases, and windows that were lost.

use gateway_domain::Timestamp;
use gateway_domain::counters::{Answer, Ask, Change, CounterKey, Counters, Keep, Measured, Refusal, Slot, Take};
use gateway_policies::Ledger;
use gateway_store::{Redis, RedisCounters, RedisUrl};
use gateway_testing::Redis as Server;
use std::time::Duration;
use uuid::Uuid;

const MINUTE: i64 = 60_000_000;
/// Near the real time, since Redis forgets windows by its own clock.
const START: i64 = 30_000_000 * MINUTE;

fn slot(name: u64, now: Timestamp) -> Slot {
    Slot { key: CounterKey(name << 56, name), began: Timestamp(now.0.div_euclid(MINUTE) * MINUTE) }
}

fn ask(name: u64, limit: u64, amount: u64, take: Take, now: Timestamp) -> Ask {
    let slot = slot(name, now);
    Ask {
        slot,
        ends: Timestamp(slot.began.0 + MINUTE),
        limit,
        measured: Measured::Tokens,
        amount,
        take,
        keep: Keep::Node,
        assume: 0,
        tag: 0,
        left: 0,
        lone: false,
        fresh: false,
    }
}

fn change(of: &Ask, back: u64, more: u64, used: i64) -> Change {
    let Ask { slot, ends, limit, measured, keep, .. } = *of;
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

fn now(ledger: &Ledger, asks: &mut [Ask], at: Timestamp) -> Result<(), Refusal> {
    match ledger.reserve(asks, at) {
        Answer::Now(verdict) => verdict,
        Answer::Later(_) => panic!("the ledger answers at once"),
    }
}

const NO_SEEDS: &(dyn Fn(Slot) -> u64 + Sync) = &|_| 0;

/// A connected node, while `story` runs.
async fn with_nodes<F: Future<Output = ()>>(server: &Server, n: usize, story: impl FnOnce(Vec<RedisCounters>) -> F) {
    let redis = Redis::new(RedisUrl::parse(&server.url()).unwrap(), Duration::from_secs(5));
    let nodes: Vec<_> = (0..n).map(|_| RedisCounters::new(redis.clone(), Uuid::now_v7())).collect();
    let story = async {
        while !redis.state().connected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for node in &nodes {
            node.renew_lease().await.unwrap();
        }
        story(nodes).await;
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
        let (mut at, mut held): (Timestamp, Vec<(Ask, u64)>) = (Timestamp(START), Vec::new());
        for step in 0..3000 {
            at = Timestamp(at.0 + i64::try_from(dice.below(4)).unwrap() * 1_000_000);
            if dice.below(3) == 0 && !held.is_empty() {
                let which = usize::try_from(dice.below(held.len() as u64)).unwrap();
                let (ask, amount) = held.swap_remove(which);
                let used = i64::try_from(dice.below(amount * 2 + 1)).unwrap();
                let changes = [change(&ask, amount, 0, used)];
                ledger.settle(&changes);
                redis.settle(&changes, NO_SEEDS, at).await.unwrap();
                continue;
            }
            let mut names: Vec<u64> = (0..=dice.below(3)).map(|_| dice.below(6)).collect();
            names.sort_unstable();
            names.dedup();
            let wanted = names.iter().map(|name| {
                let take = [Take::Now, Take::Hold, Take::Look][usize::try_from(dice.below(3)).unwrap()];
                ask(*name, 20 + name * 7, 1 + dice.below(30), take, at)
            });
            let mut ours: Vec<Ask> = wanted.collect();
            let mut theirs = ours.clone();
            let expected = now(&ledger, &mut ours, at);
            let got = redis.reserve(&mut theirs, NO_SEEDS, at).await.unwrap();
            assert_eq!(got, expected, "step {step}: {ours:?}");
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
                node.reserve(&mut asks, NO_SEEDS, at).await.unwrap().is_ok()
            }
        });
        let admitted = futures_util::future::join_all(calls).await.into_iter().filter(|ok| *ok).count();
        assert_eq!(admitted, 100);
        let mut look = [ask(2, 150, 0, Take::Look, at)];
        nodes[0].reserve(&mut look, NO_SEEDS, at).await.unwrap().unwrap();
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
        nodes[0].reserve(&mut [ask(1, 10, 9, Take::Hold, at)], NO_SEEDS, at).await.unwrap().unwrap();
        let mut mine = [ask(1, 10, 5, Take::Hold, at)];
        assert!(nodes[1].reserve(&mut mine, NO_SEEDS, at).await.unwrap().is_err());
        let mut direct = ::redis::Client::open(url).unwrap().get_connection().unwrap();
        let leases: Vec<String> = ::redis::cmd("KEYS").arg("gateway:{limits}:node:*").query(&mut direct).unwrap();
        assert_eq!(leases.len(), 2);
        for lease in leases {
            let _: () = ::redis::cmd("DEL").arg(lease).query(&mut direct).unwrap();
        }
        nodes[1].renew_lease().await.unwrap();
        nodes[1].reserve(&mut mine, NO_SEEDS, at).await.unwrap().unwrap();
        assert_eq!(mine[0].left, 5);
    })
    .await;
}

#[tokio::test]
async fn a_window_that_redis_lost_begins_with_what_the_node_knows() {
    let server = Server::start();
    with_nodes(&server, 1, |nodes| async move {
        let at = Timestamp(START);
        let mut asks = [ask(1, 10, 1, Take::Now, at)];
        nodes[0].reserve(&mut asks, &|_| 8, at).await.unwrap().unwrap();
        assert_eq!(asks[0].left, 1, "eight were used before");
        nodes[0].reserve(&mut asks, &|_| 8, at).await.unwrap().unwrap();
        assert_eq!(asks[0].left, 0, "what Redis knows counts once it knows");
        assert!(nodes[0].reserve(&mut asks, &|_| 8, at).await.unwrap().is_err());
    })
    .await;
}
