//! x
use crate::harness::{Mock, raw};
#[tokio::test]
async fn mocks() {
    let m = Mock::start(&[]).await;
    println!("{}", m.stats().await);
    let _ = raw::post("/", &[], "");
}
