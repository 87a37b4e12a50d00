//! Outputs of batches that somebody else judged.

use crate::harness::House;
use http::Method;
use serde_json::json;

#[tokio::test]
async fn an_output_is_replaced_by_a_file_that_is_here_and_all_else_is_told() {
    let house = House::new().await;
    let put = |id: &str, file: &str| {
        let (path, body) = (format!("/v2/batches/{id}"), json!({ "internal_output_file_id": file }));
        let asker = house.as_service();
        async move { asker.ask(Method::PUT, &path, Some(body)).await }
    };
    let told = put("batch", "file").await.expect(200);
    assert_eq!((&told["status"], &told["output_file_id"]), (&json!("completed"), &json!("file")));
    assert!(put("batch", "other").await.refused(400, "AB01").starts_with("internal_output_file_id must be"));
    assert!(put("ended", "file").await.refused(409, "AB07").ends_with("this one is failed"));
    put("other", "file").await.refused(404, "AB08");
    let nothing = house.as_service().ask(Method::PUT, "/v2/batches/batch", Some(json!({}))).await;
    assert!(nothing.refused(400, "AB01").starts_with("internal_output_file_id"));
}
