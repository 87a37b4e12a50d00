//! The servers start, answer, stop, come back, and leave nothing behind.

use gateway_testing::{Postgres, Redis};
use std::net::TcpStream;

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn postgres_stops_and_comes_back() {
    let mut postgres = Postgres::start();
    let port = postgres.port();
    postgres.create("kept");
    postgres.stop();
    assert!(!listens(port));
    postgres.resume();
    assert!(listens(port));
    drop(postgres);
    assert!(!listens(port));
}

#[test]
fn redis_is_gone_after_a_panic() {
    let port = std::panic::catch_unwind(|| {
        let redis = Redis::start();
        assert!(listens(redis.port()));
        std::panic::panic_any(redis.port());
    });
    let port = *port.unwrap_err().downcast::<u16>().unwrap();
    assert!(!listens(port));
}
