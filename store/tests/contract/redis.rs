//! The connection to Redis: present, away, back again, and slow.

use gateway_store::{Redis, RedisFailure, RedisUrl};
use gateway_testing::Redis as Server;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(200);

fn handle(server: &Server) -> Redis {
    Redis::new(RedisUrl::parse(&server.url()).unwrap(), DEADLINE)
}

async fn connected(redis: &Redis, wanted: bool) {
    let change = async {
        while redis.state().connected != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), change).await.unwrap();
}

async fn get(redis: &Redis, key: &str) -> Result<Option<String>, RedisFailure> {
    redis.ask(::redis::cmd("GET").arg(key)).await
}

#[tokio::test]
async fn calls_fail_at_once_while_redis_is_away_and_work_when_it_is_back() {
    let mut server = Server::start();
    let redis = handle(&server);
    assert_eq!(get(&redis, "k").await, Err(RedisFailure::Away), "nobody has dialled yet");
    let story = async {
        connected(&redis, true).await;
        redis.ask::<()>(::redis::cmd("SET").arg("k").arg("v")).await.expect("set");
        assert_eq!(get(&redis, "k").await, Ok(Some("v".into())));
        server.stop();
        connected(&redis, false).await;
        let started = Instant::now();
        assert_eq!(get(&redis, "k").await, Err(RedisFailure::Away));
        assert!(started.elapsed() < DEADLINE, "it did not wait");
        server.resume();
        connected(&redis, true).await;
        assert_eq!(get(&redis, "k").await, Ok(None), "a new server, empty");
    };
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}

#[tokio::test]
async fn a_slow_redis_costs_no_more_than_the_deadline() {
    let server = Server::start();
    let redis = handle(&server);
    let story = async {
        connected(&redis, true).await;
        match redis.ask::<i64>(::redis::cmd("NOSUCHCOMMAND").arg("secret")).await {
            Err(RedisFailure::Refused(why)) => assert!(!why.contains("secret"), "{why}"),
            other => panic!("an unknown command: {other:?}"),
        }
        let started = Instant::now();
        let slow = redis.ask::<()>(::redis::cmd("BLPOP").arg("nothing").arg(5)).await;
        assert_eq!(slow, Err(RedisFailure::Late));
        assert!(started.elapsed() < DEADLINE * 5);
    };
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}

#[tokio::test]
async fn a_refusal_is_told_by_its_code() {
    let server = Server::start();
    let redis = handle(&server);
    let story = async {
        connected(&redis, true).await;
        let mut call = ::redis::cmd("EVALSHA");
        call.arg("0".repeat(40)).arg(0);
        assert_eq!(redis.ask::<i64>(&call).await, Err(RedisFailure::Refused("NOSCRIPT".into())));
        assert!(redis.state().connected, "it answers");
    };
    tokio::select! {
        () = redis.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}
