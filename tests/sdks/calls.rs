//! Calls over WebRTC and SIP by the official client, their provider being scripted.

use crate::Stage;
use crate::harness::{Gateway, Upstream, reply};
use serde_json::json;

#[tokio::test]
async fn python_realtime_calls() {
    let upstream = Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            if seen.method == "GET" {
                let mut socket = peer.opened(&seen).await;
                let session = json!({ "type": "realtime", "id": "sess_1", "model": "gpt-realtime" });
                socket.say(&json!({ "type": "session.created", "event_id": "e", "session": session })).await;
                socket.end().await;
                return;
            }
            let made = [("content-type", "application/sdp"), ("location", "/v1/realtime/calls/rtc_1")];
            let answer = match seen.target.as_str() {
                "/v1/realtime/calls" => reply::whole(201, &made, "v=0\r\nanswer"),
                _ => reply::whole(200, &[], ""),
            };
            peer.send(answer).await;
        }
    })
    .await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("live", "openai", Some(&upstream.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    gateway.admin().put("/integrations/live-integration/integration-models", &models).await.expect(200);
    let stage = Stage { gateway, _mocks: Vec::new(), story: None, told: Vec::new() };
    stage.python("realtime_calls_sdk.py", "@live", "openai").await;
    let asked: Vec<String> = upstream.seen().iter().map(|seen| seen.target.clone()).collect();
    for verb in ["accept", "refer", "reject", "hangup"] {
        assert!(asked.contains(&format!("/v1/realtime/calls/rtc_1/{verb}")), "{verb}: {asked:?}");
    }
}
