//! Sticky assignments that nodes share: the first offer stands until its time is over, and nobody waits for a Redis
//! that is away.

use gateway_domain::ports::{Assignment, SharedAssignments};
use gateway_store::{Redis, RedisUrl};
use gateway_testing::Redis as Server;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(500);

fn one(key: u128, place: usize, until_ms: i64) -> Assignment {
    Assignment { key, place, until_ms }
}

#[tokio::test]
async fn the_first_offer_stands() {
    let server = Server::start();
    let [ann, bob] = [0; 2].map(|_| Redis::new(RedisUrl::parse(&server.url()).unwrap(), DEADLINE));
    let offered = [one(1, 3, 60_000), one(u128::MAX, 4, 60_000)];
    assert_eq!(ann.agree(&offered, 0, Duration::ZERO).await, [None, None], "nobody has dialled yet");
    let story = async {
        while !(ann.state().connected && bob.state().connected) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let kept = offered.map(Some);
        assert_eq!(ann.agree(&offered, 0, Duration::ZERO).await, kept);
        let others = [one(1, 7, 90_000), one(u128::MAX, 4, 90_000), one(2, 8, 90_000)];
        let told = bob.agree(&others, 0, Duration::ZERO).await;
        assert_eq!(told, [kept[0], kept[1], Some(others[2])], "each is told whose stands");
        assert_eq!(bob.agree(&others, 0, DEADLINE).await, [None; 3], "who has no time left asks nobody");
        // Kept for no longer than its time: a millisecond, here.
        ann.agree(&[one(5, 1, 1001)], 1000, Duration::ZERO).await;
        loop {
            let told = bob.agree(&[one(5, 2, 60_000)], 1000, Duration::ZERO).await;
            if told == [Some(one(5, 2, 60_000))] {
                break;
            }
        }
    };
    tokio::select! {
        () = ann.keep() => unreachable!("it never ends"),
        () = bob.keep() => unreachable!("it never ends"),
        () = story => {}
    }
}
