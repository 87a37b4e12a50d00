//! Who shares the configuration, as Admin keys see it.

use crate::harness::{House, text};
use gateway_domain::node::Node;
use gateway_domain::ports::NodeRegistry;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn nodes_are_listed_with_their_lag() {
    let house = House::new().await;
    let node = Node {
        id: Uuid::now_v7(),
        role: "proxy".into(),
        deployment: "eu".into(),
        version: "9.9.9".into(),
        revision: 0,
        started_at: crate::harness::now(),
    };
    house.database.beat(&node).await.expect("written");
    let seen = house.as_admin().get("/nodes").await.expect(200);
    assert_eq!(seen["total"], 1);
    let first = &seen["data"][0];
    assert_eq!(text(&first["id"]), node.id.to_string());
    assert_eq!(
        (&first["role"], &first["version"], &first["status"]),
        (&json!("proxy"), &json!("9.9.9"), &json!("live"))
    );
    assert_eq!(first["deployment"], "eu");
    assert_eq!(first["lag"], house.app.live.snapshot().revision);
    assert_eq!(house.as_admin().get("/v2/nodes").await.expect(200)["total"], 1);
    house.as_service().get("/nodes").await.refused(403, "AB03");
    house.nobody().get("/nodes").await.refused(401, "AB05");
}
