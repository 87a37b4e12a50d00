//! Fine-tuning jobs at families whose interface for them is their own: OpenAI's routes are asked, and OpenAI's job is
//! told.

use crate::area_forms::{ask, metrics_of};
use crate::clouds::{bare, integration};
use crate::cluster::database;
use crate::harness::{Gateway, Seen, Upstream, eventually, reply};
use crate::long_tail_areas::priced;
use serde_json::{Value, json};

pub(crate) const JOBS: &str = "/v1/fine_tuning/jobs";
const ARN: &str =
    "arn:aws:bedrock:us-east-1:123456789012:model-customization-job/amazon.nova-lite-v1:0:300k/abcdefgh1234";
const NOVA: &str = "amazon.nova-lite-v1:0:300k";

/// One segment of a path, as SDKs write it.
fn segment(id: &str) -> String {
    id.replace('/', "%2F")
}

fn escaped(id: &str) -> String {
    segment(id).replace(':', "%3A")
}

fn customization(status: &str) -> Value {
    json!({ "jobArn": ARN, "jobName": "my-job", "outputModelName": "my-model", "status": status,
            "creationTime": "2025-01-01T00:00:00Z", "baseModelArn": format!("arn:aws:bedrock:us-east-1::foundation-model/{NOVA}"),
            "trainingDataConfig": { "s3Uri": "s3://my-bucket/train.jsonl" }, "customizationType": "FINE_TUNING" })
}

async fn aws_upstream() -> Upstream {
    Upstream::replying(|seen| {
        let job = format!("/model-customization-jobs/{}", escaped(ARN));
        let path = seen.target.split('?').next().unwrap_or_default();
        match (seen.method.as_str(), path) {
            ("POST", "/model-customization-jobs") => reply::json(201, &json!({ "jobArn": ARN })),
            ("GET", "/model-customization-jobs") => {
                reply::json(200, &json!({ "modelCustomizationJobSummaries": [customization("Completed")] }))
            }
            ("GET", path) if path == job => reply::json(200, &customization("InProgress")),
            ("POST", path) if path == format!("{job}/stop") => reply::json(200, &json!({})),
            _ => reply::json(404, &json!({ "message": "no such job" })),
        }
    })
    .await
}

fn aws(upstream: &Upstream) -> Value {
    json!({ "provider": "bedrock", "custom_host": bare(upstream), "aws_region": "us-east-1", "aws_access_key_id": "AKIDSTATIC",
            "aws_secret_access_key": "very-secret-key-of-aws", "aws_s3_bucket": "my-bucket" })
}

fn wanted(model: &str) -> Value {
    json!({ "model": model, "training_file": "s3://my-bucket/train.jsonl", "suffix": "my-model",
            "role_arn": "arn:aws:iam::123456789012:role/tuning",
            "method": { "type": "supervised", "supervised": { "hyperparameters": { "n_epochs": 2 } } } })
}

fn last(upstream: &Upstream) -> Seen {
    upstream.seen().pop().expect("it went up")
}

#[tokio::test]
async fn bedrock_trains_models_for_clients_of_openai() {
    let (gateway, upstream) = (Gateway::start().await, aws_upstream().await);
    let config = aws(&upstream);
    let made = gateway.post(JOBS).config(&config).json(&wanted(NOVA)).send().await.expect(201).json();
    assert_eq!(
        (&made["id"], &made["object"], &made["status"]),
        (&json!(ARN), &json!("fine_tuning.job"), &json!("running"))
    );
    let (model, file) = (&made["model"], &made["training_file"]);
    assert_eq!((model, file), (&json!(NOVA), &json!("s3://my-bucket/train.jsonl")));
    assert!((1_500_000_000..10_000_000_000).contains(&made["created_at"].as_i64().expect("seconds")));
    let up = last(&upstream);
    assert!(up.header("authorization").unwrap_or_default().contains("/us-east-1/bedrock/aws4_request"));
    let sent = up.json();
    assert_eq!(
        (&sent["customModelName"], &sent["hyperParameters"]),
        (&json!("my-model"), &json!({ "epochCount": "2" }))
    );
    assert_eq!(sent["baseModelIdentifier"], NOVA);
    assert!(sent["outputDataConfig"]["s3Uri"].as_str().expect("a place").starts_with("s3://my-bucket/gateway-tuning/"));
    let one = format!("{JOBS}/{}", segment(ARN));
    let job = gateway.get(&one).config(&config).send().await.expect(200).json();
    assert_eq!(
        (&job["id"], &job["created_at"], &job["status"]),
        (&json!(ARN), &json!(1_735_689_600), &json!("running"))
    );
    let list = gateway.get(JOBS).config(&config).send().await.expect(200).json();
    assert_eq!(
        (&list["object"], &list["data"][0]["status"], &list["has_more"]),
        (&json!("list"), &json!("succeeded"), &json!(false))
    );
    let stopped = ask(&gateway, &format!("{one}/cancel"), "stop").config(&config).json(&json!({}));
    let stopped = stopped.send().await.expect(200).json();
    assert_eq!((&stopped["id"], &stopped["status"]), (&json!(ARN), &json!("cancelled")));
    assert_eq!(last(&upstream).target, format!("/model-customization-jobs/{}/stop", escaped(ARN)));
    assert_eq!(metrics_of(&gateway, "stop").await["operation"], "cancelFinetune");
    let before = upstream.seen().len();
    // What Bedrock has not is said, and stops nothing.
    for step in ["pause", "resume"] {
        let call = ask(&gateway, &format!("{one}/{step}"), step).config(&config).json(&json!({}));
        let refused = call.send().await.expect(500);
        assert!(refused.error().contains(&format!("{step}Finetune is not supported by bedrock")), "{}", refused.text());
    }
    for what in ["events", "checkpoints"] {
        let refused = gateway.get(&format!("{one}/{what}")).config(&config).send().await.expect(500);
        assert!(refused.error().contains("is not supported by bedrock"), "{}", refused.text());
    }
    let mut wrong = wanted(NOVA);
    wrong["method"] = json!({ "type": "dpo", "dpo": {} });
    let refused = gateway.post(JOBS).config(&config).json(&wrong).send().await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "method.type");
    assert_eq!(upstream.seen().len(), before, "nothing of this went up");
    let unknown = gateway.get(&format!("{JOBS}/other")).config(&config).send().await.expect(404);
    assert!(unknown.error().contains("no such job"), "{}", unknown.text());
}

#[tokio::test]
async fn a_job_made_under_several_targets_is_found_again_by_its_bound_id() {
    let (gateway, upstream) = (Gateway::start().await, aws_upstream().await);
    let mut other = aws(&upstream);
    other["aws_access_key_id"] = json!("AKIDOTHER");
    let two = json!({ "strategy": { "mode": "loadbalance" }, "targets": [aws(&upstream), other] });
    let made = gateway.post(JOBS).config(&two).json(&wanted(NOVA)).send().await.expect(201).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    assert!(id.contains("gw1_"), "{id}");
    let job = gateway.get(&format!("{JOBS}/{id}")).config(&two).send().await.expect(200).json();
    assert_eq!((job["id"].as_str(), &job["status"]), (Some(id.as_str()), &json!("running")));
    assert_eq!(last(&upstream).target, format!("/model-customization-jobs/{}", escaped(ARN)));
}

#[tokio::test]
async fn vertex_trains_models_for_clients_of_openai() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| {
        let base = "/v1/projects/my-project/locations/us-central1/tuningJobs";
        let job = json!({ "name": "projects/1/locations/us-central1/tuningJobs/456", "state": "JOB_STATE_RUNNING",
                          "createTime": "2025-01-01T00:00:00Z", "baseModel": "gemini-2.5-flash",
                          "supervisedTuningSpec": { "trainingDatasetUri": "gs://my-bucket/train.jsonl" } });
        match (seen.method.as_str(), seen.target.strip_prefix(base).unwrap_or("elsewhere")) {
            ("POST", "") | ("GET", "/456") => reply::json(200, &job),
            ("GET", "?pageSize=1000") => reply::json(200, &json!({ "tuningJobs": [job] })),
            ("POST", "/456:cancel") => reply::json(200, &json!({})),
            _ => {
                reply::json(404, &json!({ "error": { "code": 404, "message": "no such job", "status": "NOT_FOUND" } }))
            }
        }
    })
    .await;
    let config = json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": bare(&upstream),
                         "vertex_project_id": "my-project", "vertex_region": "us-central1" });
    let body = json!({ "model": "gemini-2.5-flash", "training_file": "gs://my-bucket/train.jsonl", "suffix": "mine" });
    let made = gateway.post(JOBS).config(&config).json(&body).send().await.expect(200).json();
    assert_eq!(
        (&made["id"], &made["status"], &made["created_at"]),
        (&json!("456"), &json!("running"), &json!(1_735_689_600))
    );
    let up = last(&upstream);
    assert_eq!(up.header("authorization"), Some("Bearer ya29.token"));
    assert_eq!(up.json()["supervisedTuningSpec"], json!({ "trainingDatasetUri": "gs://my-bucket/train.jsonl" }));
    let get = |path: &str| gateway.get(&format!("{JOBS}{path}")).config(&config);
    assert_eq!(get("/456").send().await.expect(200).json()["id"], "456");
    assert_eq!(get("").send().await.expect(200).json()["data"][0]["id"], "456");
    assert_eq!(get("/456/checkpoints").send().await.expect(200).json()["data"], json!([]));
    let events = get("/456/events").send().await.expect(500);
    assert!(events.error().contains("listFinetuneEvents is not supported by vertex-ai"), "{}", events.text());
    let cancelled = gateway.post(&format!("{JOBS}/456/cancel")).config(&config).json(&json!({})).send().await;
    assert_eq!(cancelled.expect(200).json()["status"], "cancelled");
    assert!(last(&upstream).target.ends_with("/tuningJobs/456:cancel"));
    let unknown = get("/9").send().await.expect(404);
    assert!(unknown.error().contains("no such job"), "{}", unknown.text());
}

#[tokio::test]
async fn together_and_fireworks_train_models_for_clients_of_openai() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| {
        let tune = |status: &str| json!({ "id": "ft-1", "status": status, "created_at": "2025-01-01T00:00:00Z", "model": "llama" });
        let account = "/v1/accounts/acme";
        let dpo = |state: &str| {
            json!({ "name": "accounts/acme/dpoJobs/abc", "state": state, "createTime": "2025-01-01T00:00:00Z",
                    "dataset": "accounts/acme/datasets/pairs", "trainingConfig": { "baseModel": "llama" } })
        };
        match (seen.method.as_str(), seen.target.as_str()) {
            ("POST", "/v1/fine-tunes") => reply::json(200, &tune("pending")),
            ("GET", "/v1/fine-tunes/ft-1") => reply::json(200, &tune("compressing")),
            ("POST", "/v1/fine-tunes/ft-1/cancel") => reply::json(200, &tune("cancel_requested")),
            ("GET", "/v1/fine-tunes/ft-1/events") => {
                let event = json!({ "object": "fine-tune-event", "created_at": "2025-01-01T00:00:00Z", "type": "job_start",
                                    "message": "Job started", "level": "info" });
                reply::json(200, &json!({ "data": [event] }))
            }
            // What goes past the translation goes up as it came.
            ("GET", "/v1/fine_tuning/jobs/ft-1") => reply::json(200, &json!({ "as": "it came" })),
            ("POST", path) if path == format!("{account}/dpoJobs") => reply::json(200, &dpo("JOB_STATE_CREATING")),
            ("GET", path) if path == format!("{account}/dpoJobs/abc") => reply::json(200, &dpo("JOB_STATE_EARLY_STOPPED")),
            ("POST", path) if path == format!("{account}/dpoJobs/abc:cancel") => reply::json(200, &json!({})),
            ("POST", path) if path == format!("{account}/dpoJobs/abc:resume") => {
                reply::json(200, &dpo("JOB_STATE_RE_QUEUEING"))
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
    .await;
    let together = json!({ "provider": "together-ai", "api_key": "sk-up", "custom_host": bare(&upstream) });
    let body = json!({ "model": "llama", "training_file": "file-1", "seed": 7 });
    let made = gateway.post(JOBS).config(&together).json(&body).send().await.expect(200).json();
    assert_eq!((&made["id"], &made["status"], &made["seed"]), (&json!("ft-1"), &json!("queued"), &json!(7)));
    assert_eq!(last(&upstream).json(), json!({ "model": "llama", "training_file": "file-1", "random_seed": 7 }));
    let get = |path: &str, config: &Value| gateway.get(path).config(config);
    assert_eq!(get("/v1/fine_tuning/jobs/ft-1", &together).send().await.expect(200).json()["status"], "running");
    let events = get("/v1/fine_tuning/jobs/ft-1/events", &together).send().await.expect(200).json();
    assert_eq!(events["data"][0]["message"], "Job started");
    let cancel = gateway.post("/v1/fine_tuning/jobs/ft-1/cancel").config(&together).json(&json!({}));
    assert_eq!(cancel.send().await.expect(200).json()["status"], "cancelled");
    let raw = get(
        "/v1/proxy/fine_tuning/jobs/ft-1",
        &json!({ "provider": "together-ai", "api_key": "sk-up",
                   "custom_host": format!("{}/v1", bare(&upstream)) }),
    );
    assert_eq!(raw.send().await.expect(200).json(), json!({ "as": "it came" }));
    let fireworks = json!({ "provider": "fireworks-ai", "api_key": "fw", "custom_host": bare(&upstream), "fireworks_account_id": "acme" });
    let body = json!({ "model": "llama", "training_file": "pairs", "method": { "type": "dpo", "dpo": {} } });
    let made = gateway.post(JOBS).config(&fireworks).json(&body).send().await.expect(200).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!((id.as_str(), &made["status"]), ("dpoJobs:abc", &json!("queued")));
    assert_eq!(last(&upstream).json()["dataset"], "accounts/acme/datasets/pairs");
    assert_eq!(get(&format!("{JOBS}/{id}"), &fireworks).send().await.expect(200).json()["status"], "succeeded");
    for (step, status) in [("cancel", "cancelled"), ("resume", "queued")] {
        let call = gateway.post(&format!("{JOBS}/{id}/{step}")).config(&fireworks).json(&json!({}));
        assert_eq!(call.send().await.expect(200).json()["status"], status, "{step}");
    }
    let nowhere = json!({ "provider": "fireworks-ai", "api_key": "fw", "custom_host": bare(&upstream) });
    let refused = gateway.post(JOBS).config(&nowhere).json(&body).send().await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "fireworks_account_id");
}

/// Job `number` of six, the first being the newest.
fn numbered(family: &str, number: usize) -> Value {
    let created = format!("2025-01-{:02}T00:00:00Z", 20 - number);
    match family {
        "bedrock" => {
            json!({ "jobArn": format!("arn:aws:bedrock:us-east-1:1:model-customization-job/m/{number}"), "status": "Completed",
                    "creationTime": created, "jobName": "j", "baseModelArn": format!("arn:aws:bedrock:us-east-1::foundation-model/{NOVA}") })
        }
        "vertex-ai" => {
            json!({ "name": format!("projects/1/locations/us-central1/tuningJobs/{number}"), "createTime": created,
                    "state": "JOB_STATE_RUNNING", "baseModel": "gemini-2.5-flash" })
        }
        _ => {
            json!({ "name": format!("accounts/acme/supervisedFineTuningJobs/{number}"), "createTime": created,
                    "state": "JOB_STATE_RUNNING", "baseModel": "llama", "dataset": "accounts/acme/datasets/d" })
        }
    }
}

/// Two jobs to a page; with `endless`, each page names another.
async fn of_three_pages(endless: bool) -> Upstream {
    Upstream::replying(move |seen| {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let (family, list, told, asked) = match path {
            "/model-customization-jobs" => ("bedrock", "modelCustomizationJobSummaries", "nextToken", "nextToken"),
            path if path.ends_with("/tuningJobs") => ("vertex-ai", "tuningJobs", "nextPageToken", "pageToken"),
            path if path.ends_with("/supervisedFineTuningJobs") => {
                ("fireworks-ai", "supervisedFineTuningJobs", "nextPageToken", "pageToken")
            }
            other => panic!("nobody asks {other}"),
        };
        let cursor = query.split('&').find_map(|pair| pair.strip_prefix(asked)?.strip_prefix('='));
        // The cursor comes as the provider told it, escaped once.
        let page: usize = cursor.map_or(0, |cursor| {
            cursor.strip_prefix("p%2F%2B").expect("a cursor of the provider's").parse().expect("a number")
        });
        let jobs = [numbered(family, page * 2), numbered(family, page * 2 + 1)];
        let mut body = json!({ list: jobs });
        if endless || page < 2 {
            body[told] = json!(format!("p/+{}", page + 1));
        }
        reply::json(200, &body)
    })
    .await
}

fn paged_config(family: &str, upstream: &Upstream) -> Value {
    let host = bare(upstream);
    match family {
        "bedrock" => aws(upstream),
        "vertex-ai" => json!({ "provider": family, "api_key": "ya29.token", "custom_host": host,
                               "vertex_project_id": "my-project", "vertex_region": "us-central1" }),
        _ => json!({ "provider": family, "api_key": "fw", "custom_host": host, "fireworks_account_id": "acme" }),
    }
}

#[tokio::test]
async fn lists_of_jobs_go_on_over_the_pages_of_the_provider() {
    let (gateway, upstream) = (Gateway::start().await, of_three_pages(false).await);
    for family in ["bedrock", "vertex-ai", "fireworks-ai"] {
        let config = paged_config(family, &upstream);
        let list = async |query: &str| {
            let told = gateway.get(&format!("{JOBS}{query}")).config(&config).send().await.expect(200).json();
            let ids = told["data"].as_array().expect("jobs").iter();
            let ids: Vec<String> = ids.map(|job| job["id"].as_str().expect("an id").to_owned()).collect();
            (ids, told["has_more"] == true)
        };
        let (all, more) = list("").await;
        let ends: Vec<&str> = all.iter().map(|id| &id[id.len() - 1..]).collect();
        assert_eq!((ends, more), (vec!["0", "1", "2", "3", "4", "5"], false), "{family}");
        // SDKs go on behind the last job that they have.
        let (mut after, mut walked) = (String::new(), Vec::new());
        loop {
            let (ids, more) = list(&format!("?limit=2{after}")).await;
            after = format!("&after={}", segment(ids.last().expect("a job")));
            walked.extend(ids);
            if !more {
                break;
            }
        }
        assert_eq!(walked, all, "{family}");
        let before = upstream.seen().len();
        list("?limit=1").await;
        let pages = upstream.seen().len() - before;
        // Vertex AI does not say in which order its jobs come.
        assert_eq!(pages, if family == "vertex-ai" { 3 } else { 1 }, "{family}");
        let unknown = gateway.get(&format!("{JOBS}?after=nobody")).config(&config).send().await.expect(400);
        assert!(unknown.error().contains("after: no job nobody"), "{}", unknown.text());
        let wrong = gateway.get(&format!("{JOBS}?limit=0")).config(&config).send().await.expect(400);
        assert_eq!(wrong.json()["error"]["param"], "limit");
    }
}

#[tokio::test]
async fn a_list_of_jobs_without_an_end_is_read_for_ten_pages() {
    let (gateway, upstream) = (Gateway::start().await, of_three_pages(true).await);
    let config = paged_config("bedrock", &upstream);
    let asked = gateway.get(&format!("{JOBS}?limit=100")).config(&config).header("x-gateway-trace-id", "endless");
    let told = asked.send().await.expect(200).json();
    assert_eq!((told["data"].as_array().map(Vec::len), &told["has_more"]), (Some(20), &json!(true)));
    assert_eq!(upstream.seen().len(), 10);
    let record = metrics_of(&gateway, "endless").await;
    assert_eq!(record["operation"], "listFinetunes", "one record for all of its pages: {record}");
}

/// Seconds since 1970, so many before now.
fn ago(secs: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    now.as_secs() - secs
}

/// A job of OpenAI's by the end of its id: when it ended, and how.
async fn openai_jobs() -> Upstream {
    Upstream::replying(|seen| {
        let id = seen.target.rsplit('/').next().unwrap_or_default();
        let (status, ended) = match id {
            "ftjob-old" => ("succeeded", ago(40 * 86_400)),
            "ftjob-runs" => ("running", ago(60)),
            _ => ("succeeded", ago(60)),
        };
        reply::json(
            200,
            &json!({ "object": "fine_tuning.job", "id": id, "model": "gpt-small", "status": status, "created_at": ago(7200),
                     "finished_at": ended, "trained_tokens": 5000, "fine_tuned_model": "ft:gpt-small:me" }),
        )
    })
    .await
}

async fn finetunes(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/logs?page_size=200").await.expect(200).json();
    let all = list["data"].as_array().expect("records").iter();
    all.filter(|record| record["metrics"]["operation"] == "finetune").cloned().collect()
}

#[tokio::test]
async fn what_a_job_trained_is_paid_for_once_however_often_and_wherever_it_is_looked_at() {
    let (_postgres, url) = database("tuning").await;
    let gateway = Gateway::with(&["--database-url", &url]).await;
    let upstream = openai_jobs().await;
    integration(&gateway, "openai", Some("sk-a"), json!({ "custom_host": upstream.url() })).await;
    priced(&gateway, "gpt-small", json!({ "additional_units": { "train_token": { "price": 0.001 } } })).await;
    let master = gateway.folder().join("data/master.key").display().to_string();
    let second = Gateway::with(&["--database-url", &url, "--master-key-file", &master]).await;
    let look = |gateway: &Gateway, id: &str| {
        let call = gateway.get(&format!("{JOBS}/{id}")).key(crate::harness::WORKSPACE_KEY).provider("@cloud");
        call.header("x-gateway-trace-id", id)
    };
    eventually("the other node knows the provider", || async {
        (look(&second, "ftjob-runs").send().await.status == 200).then_some(())
    })
    .await;
    for id in ["ftjob-old", "ftjob-runs"] {
        look(&gateway, id).send().await.expect(200);
    }
    let looks = (0..50).map(|n| {
        let node = if n % 2 == 0 { &gateway } else { &second };
        look(node, "ftjob-new").send()
    });
    for answer in futures_util::future::join_all(looks).await {
        let job = answer.expect(200).json();
        assert_eq!(
            (&job["id"], &job["trained_tokens"]),
            (&json!("ftjob-new"), &json!(5000)),
            "as the provider tells it"
        );
    }
    look(&gateway, "ftjob-other").send().await.expect(200);
    let two = eventually("both jobs are counted", || async {
        let all = finetunes(&gateway).await;
        (all.len() >= 2 && all.iter().all(|record| record["metrics"]["cost"].is_number())).then_some(all)
    });
    let two = two.await;
    assert_eq!(two.len(), 2, "once each, and neither the old one nor the one that runs: {two:?}");
    for record in &two {
        assert_eq!(record["metrics"]["cost"], 5.0, "{record}");
    }
    let looked = metrics_of(&gateway, "ftjob-other").await;
    assert!(looked["operation"] == "retrieveFinetune" && looked["cost"].as_f64().unwrap_or(0.0) == 0.0, "{looked}");
}
