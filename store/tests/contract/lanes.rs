//! The connection to Redis that a thread has of its own: used when it is there, done without when it is not, and what
//! was asked over it by somebody who has gone is heard of.

use super::counters::{START, ask, join, take};
use ::redis::{Connection, cmd};
use gateway_domain::Timestamp;
use gateway_domain::counters::Take;
use gateway_store::{CounterVerdict, Redis, RedisCounters, RedisUrl};
use gateway_testing::Redis as Server;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

const AT: Timestamp = Timestamp(START);

/// Clients but the one that asks, oldest first: number and last command.
fn clients(direct: &mut Connection) -> Vec<(u64, String)> {
    let text: String = cmd("CLIENT").arg("LIST").query(direct).unwrap();
    let field = |line: &str, name: &str| {
        let found = line.split(' ').find_map(|word| word.strip_prefix(name));
        found.unwrap_or_default().to_owned()
    };
    let mut all: Vec<_> = text.lines().map(|line| (field(line, "id=").parse().unwrap(), field(line, "cmd="))).collect();
    all.retain(|(_, last)| !last.starts_with("client"));
    all.sort_unstable();
    all
}

/// A node that has joined and asks over the lane of this thread, and the number of that as Redis knows it.
async fn with_lane(redis: &Redis, direct: &mut Connection) -> (RedisCounters, u64) {
    while !redis.state().connected {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let node = RedisCounters::new(redis.clone(), Uuid::now_v7(), Uuid::now_v7());
    join(&node).await;
    let lane = lane(&node, direct).await;
    (node, lane)
}

async fn lane(node: &RedisCounters, direct: &mut Connection) -> u64 {
    let found = async {
        loop {
            assert_eq!(take(node, &mut [ask(9, 1 << 20, 0, Take::Look, AT)], AT).await, CounterVerdict::Granted);
            if let [_, (lane, last)] = &clients(direct)[..]
                && last == "evalsha"
            {
                return *lane;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), found).await.unwrap()
}

async fn with_redis(server: &Server, url: &str, story: impl AsyncFnOnce(Redis, Connection)) {
    let redis = Redis::new(RedisUrl::parse(url).unwrap(), Duration::from_secs(5));
    let direct = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story(redis.clone(), direct) => {}
    }
}

#[tokio::test]
async fn a_lane_knows_its_user_and_its_database() {
    let server = Server::start();
    let url = format!("redis://ann:hush@127.0.0.1:{}/3", server.port());
    let mut admin = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let () = cmd("ACL").arg(&["SETUSER", "ann", "on", ">hush", "~*", "+@all"]).query(&mut admin).unwrap();
    drop(admin);
    with_redis(&server, &url, async |redis, mut direct| {
        let (node, _) = with_lane(&redis, &mut direct).await;
        assert_eq!(take(&node, &mut [ask(1, 9, 4, Take::Now, AT)], AT).await, CounterVerdict::Granted);
        let elsewhere: Vec<String> = cmd("KEYS").arg("*").query(&mut direct).unwrap();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        let () = cmd("SELECT").arg(3).query(&mut direct).unwrap();
        let here: Vec<String> = cmd("KEYS").arg("gateway:{limits}:*").query(&mut direct).unwrap();
        assert!(here.len() > 2, "{here:?}");
    })
    .await;
}

#[tokio::test]
async fn without_its_lane_a_thread_asks_as_the_others_do_and_dials_another() {
    let server = Server::start();
    with_redis(&server, &server.url(), async |redis, mut direct| {
        let (node, first) = with_lane(&redis, &mut direct).await;
        let killed: i64 = cmd("CLIENT").arg(&["KILL", "ID"]).arg(first).query(&mut direct).unwrap();
        assert_eq!(killed, 1);
        while clients(&mut direct).iter().any(|(id, _)| *id == first) {}
        // The runtime has nothing else to do than to look at what its connections say.
        tokio::time::sleep(Duration::from_millis(5)).await;
        for n in 1..50 {
            let mut one = [ask(1, 100, 1, Take::Now, AT)];
            assert_eq!(take(&node, &mut one, AT).await, CounterVerdict::Granted);
            assert_eq!(one[0].left, 100 - n);
            tokio::task::yield_now().await;
        }
        assert_ne!(lane(&node, &mut direct).await, first);
        assert_eq!((redis.links(), redis.state().failures), (1, 0));
    })
    .await;
}

/// Whether it now waits.
async fn begin<F: Future>(mut call: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn what_was_asked_by_somebody_who_left_is_heard_of() {
    let server = Server::start();
    with_redis(&server, &server.url(), async |redis, mut direct| {
        let (node, _) = with_lane(&redis, &mut direct).await;
        let heard = Arc::new(Notify::new());
        let late = heard.clone();
        let mut asks = [ask(1, 9, 4, Take::Hold, AT)];
        {
            let mut call = pin!(node.reserve(&mut asks, (AT, Duration::MAX), move || late.notify_one()));
            assert!(begin(call.as_mut()).await);
        }
        heard.notified().await;
        let mut look = [ask(1, 9, 0, Take::Look, AT)];
        assert_eq!(take(&node, &mut look, AT).await, CounterVerdict::Granted);
        assert_eq!(look[0].left, 5, "taken, and told");
        // A call that was refused has nothing to be told late.
        let unheard = {
            let late = Arc::new(());
            let kept = Arc::downgrade(&late);
            let mut asks = [ask(1, 9, 40, Take::Hold, AT)];
            let mut call = pin!(node.reserve(&mut asks, (AT, Duration::MAX), move || panic!("{late:?}")));
            assert!(begin(call.as_mut()).await);
            kept
        };
        assert_eq!(take(&node, &mut look, AT).await, CounterVerdict::Granted);
        assert!(unheard.upgrade().is_none());
    })
    .await;
}

/// All that is asked in one turn of the runtime takes one way there and one back, and each hears its own answer.
#[tokio::test]
async fn answers_find_who_asked() {
    let server = Server::start();
    with_redis(&server, &server.url(), async |redis, mut direct| {
        let (node, _) = with_lane(&redis, &mut direct).await;
        let calls = (0..500_u64).map(|n| {
            let node = &node;
            async move {
                let mut asks = [ask(n % 200, 1000 + n, 1 + n, Take::Hold, AT), ask(200, 400, 1, Take::Now, AT)];
                let told = take(node, &mut asks, AT).await;
                (n, told == CounterVerdict::Granted, asks[1].left)
            }
        });
        let told = futures_util::future::join_all(calls).await;
        let mut left: Vec<u64> = told.iter().filter(|told| told.1).map(|told| told.2).collect();
        left.sort_unstable();
        assert_eq!(left, (0..400).collect::<Vec<_>>());
        assert!(told.iter().take(200).all(|told| told.1), "the first of each counter came first");
    })
    .await;
}
