//! Lists of objects at a provider whose credential workspaces share (`isolate_objects`): each sees what it made, on
//! every node and over kills, and no id of others.

use crate::area_forms::{FORM, form};
use crate::bound_ids::id;
use crate::cloud_files;
use crate::clouds::bare;
use crate::harness::{Answer, Gateway, Seen, Upstream, call::Call, eventually, reply};
use crate::kept_files::{self, Fireworks};
use gateway_testing::Postgres;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// A word in every id that the provider gives, and in no answer that a client may see.
const NATIVE: &str = "native";
/// Where the provider keeps what, and what its ids begin with. The last is where Together has its jobs.
const ROOTS: [(&str, &str); 6] = [
    ("/files", "file-"),
    ("/batches", "batch_"),
    ("/fine_tuning/jobs", "ftjob-"),
    ("/vector_stores", "vs_"),
    ("/assistants", "asst_"),
    ("/fine-tunes", "ft-"),
];

/// A provider that keeps objects and lists them newest first, so many to a page.
struct SharedKeeper {
    upstream: Upstream,
    objects: Arc<Mutex<Vec<(&'static str, Value)>>>,
}

impl SharedKeeper {
    async fn start(page: usize) -> Self {
        let objects = Arc::<Mutex<Vec<(&'static str, Value)>>>::default();
        let kept = objects.clone();
        let upstream = Upstream::replying(move |seen| answer(&kept, page, seen)).await;
        Self { upstream, objects }
    }

    /// What somebody else has there.
    fn others(&self, root: &str, count: usize) {
        for _ in 0..count {
            made(&self.objects, root, None);
        }
    }

    fn listed(&self, root: &str) -> usize {
        let lists = |seen: &Seen| seen.method == "GET" && seen.target.split('?').next() == Some(&format!("/v1{root}"));
        self.upstream.seen().iter().filter(|seen| lists(seen)).count()
    }
}

fn made(objects: &Mutex<Vec<(&'static str, Value)>>, root: &str, asked: Option<&Value>) -> Value {
    let (root, kind) = ROOTS.iter().find(|(known, _)| *known == root).expect("a root");
    let mut objects = objects.lock();
    let number = objects.len() + 1;
    let file = asked.map_or(Value::Null, |asked| asked["training_file"].clone());
    let object = json!({ "id": format!("{kind}{NATIVE}{number}"), "filename": "lines.jsonl", "size_bytes": 3, "status": "pending",
        "created_at": format!("2026-01-01T00:00:{number:02}Z"), "training_file": file, "object": "thing" });
    objects.push((root, object.clone()));
    object
}

fn answer(objects: &Mutex<Vec<(&'static str, Value)>>, page: usize, seen: &Seen) -> Vec<u8> {
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let path = path.trim_start_matches("/v1");
    let Some((root, rest)) = ROOTS.iter().find_map(|(root, _)| Some((*root, path.strip_prefix(root)?))) else {
        return reply::error(404, &[]);
    };
    let id = rest.trim_start_matches('/');
    let found = |(at, object): &(&str, Value)| *at == root && object["id"] == id;
    match (seen.method.as_str(), id) {
        ("POST", "") => {
            let asked = serde_json::from_slice(&seen.body).ok();
            reply::json(200, &made(objects, root, asked.as_ref()))
        }
        ("GET", "") if query.contains("page_size=") => {
            let asked = |name: &str| {
                query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<usize>().ok())
            };
            let (number, size) = (asked("page").unwrap_or(0), asked("page_size").unwrap_or(100).min(page));
            let objects = objects.lock();
            let all: Vec<&Value> =
                objects.iter().rev().filter(|(at, _)| *at == root).map(|(_, object)| object).collect();
            let some: Vec<_> = all.iter().skip(number * size).take(size).collect();
            reply::json(200, &json!({ "object": "list", "data": some, "total": all.len() }))
        }
        ("GET", "") => {
            let asked = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let objects = objects.lock();
            let mut of_kind: Vec<&Value> =
                objects.iter().filter(|(at, _)| *at == root).map(|(_, object)| object).collect();
            of_kind.reverse();
            if let Some(after) = asked("after").or_else(|| asked("after_id")) {
                let Some(place) = of_kind.iter().position(|object| object["id"] == after) else {
                    return reply::error(404, &[]);
                };
                of_kind.drain(..=place);
            }
            let limit = asked("limit").map_or(20, |limit| limit.parse::<usize>().expect("a number")).min(page);
            let has_more = of_kind.len() > limit;
            of_kind.truncate(limit);
            let end = |object: Option<&&Value>| object.map_or(Value::Null, |object| object["id"].clone());
            let (first, last) = (end(of_kind.first()), end(of_kind.last()));
            let told =
                json!({ "object": "list", "data": of_kind, "first_id": first, "last_id": last, "has_more": has_more });
            reply::json(200, &told)
        }
        ("GET", _) => match objects.lock().iter().find(|object| found(object)) {
            Some((_, object)) => reply::json(200, object),
            None => reply::error(404, &[]),
        },
        ("DELETE", _) => {
            objects.lock().retain(|object| !found(object));
            reply::json(200, &json!({ "id": id, "object": "thing", "deleted": true }))
        }
        _ => reply::error(404, &[]),
    }
}

async fn house(family: &str, keeper: &SharedKeeper, isolates: bool) -> (Gateway, [String; 2]) {
    let gateway = Gateway::start().await;
    let keys = shared(&gateway, family, keeper, isolates).await;
    (gateway, keys)
}

async fn shared(gateway: &Gateway, family: &str, keeper: &SharedKeeper, isolates: bool) -> [String; 2] {
    let configurations = json!({ "custom_host": keeper.upstream.url(), "isolate_objects": isolates });
    gateway.admin().sharing(family, Some("sk-shared"), &configurations).await
}

fn call(gateway: &Gateway, method: &str, path: &str, key: &str) -> Call {
    gateway.call(method, path).key(key).provider("@p")
}

async fn upload(gateway: &Gateway, key: &str) -> String {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), b"{}\n")]);
    id(&call(gateway, "POST", "/v1/files", key).body(FORM, body).send().await.expect(200))
}

async fn create(gateway: &Gateway, path: &str, key: &str, file: &str) -> String {
    let body = match path {
        "/v1/files" => return upload(gateway, key).await,
        "/v1/batches" => {
            json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h" })
        }
        "/v1/fine_tuning/jobs" => json!({ "model": "gpt-4o-mini", "training_file": file }),
        "/v1/assistants" => json!({ "model": "gpt-4o-mini" }),
        _ => json!({ "name": "store" }),
    };
    id(&call(gateway, "POST", path, key).json(&body).send().await.expect(200))
}

/// A list in which nothing of the provider's own ids may stand.
async fn list(gateway: &Gateway, path: &str, key: &str) -> Value {
    let answer = call(gateway, "GET", path, key).send().await.expect(200);
    assert!(!answer.text().contains(NATIVE), "{path}: {}", answer.text());
    answer.json()
}

fn ids(list: &Value) -> Vec<String> {
    let data = list["data"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    data.iter().map(|object| object["id"].as_str().expect("an id").to_owned()).collect()
}

fn hidden(answer: &Answer) {
    assert!(!answer.text().contains(NATIVE), "{}", answer.text());
}

#[tokio::test]
async fn each_workspace_sees_its_own_in_every_list() {
    let keeper = SharedKeeper::start(4).await;
    let (gateway, [mine, theirs]) = house("openai", &keeper, true).await;
    for (path, root) in ["/files", "/batches", "/fine_tuning/jobs", "/vector_stores", "/assistants"]
        .map(|root| (format!("/v1{root}"), root))
    {
        let (my_file, their_file) = (upload(&gateway, &mine).await, upload(&gateway, &theirs).await);
        let before = [ids(&list(&gateway, &path, &mine).await), ids(&list(&gateway, &path, &theirs).await)];
        keeper.others(root, 2);
        let first = create(&gateway, &path, &mine, &my_file).await;
        keeper.others(root, 3);
        let other = create(&gateway, &path, &theirs, &their_file).await;
        let second = create(&gateway, &path, &mine, &my_file).await;
        keeper.others(root, 1);
        let shown = list(&gateway, &path, &mine).await;
        assert_eq!(ids(&shown)[..2], [second.clone(), first.clone()], "{path}");
        assert_eq!(ids(&shown)[2..], before[0], "{path}");
        let ends = (shown["first_id"].clone(), shown["last_id"].clone(), shown["has_more"].clone());
        let last = ids(&shown).pop().expect("objects");
        assert_eq!(ends, (json!(second), json!(last), json!(false)), "{path}");
        let shown = ids(&list(&gateway, &path, &theirs).await);
        assert_eq!((&shown[0], &shown[1..]), (&other, &before[1][..]), "{path}");
        let found = call(&gateway, "GET", &format!("{path}/{first}"), &mine).send().await;
        assert!(found.status == 200 && id(&found) == first, "{path}: what is listed is found");
        hidden(&found);
    }
}

#[tokio::test]
async fn one_at_a_time_they_are_all_there_over_pages_of_others() {
    let keeper = SharedKeeper::start(2).await;
    let (gateway, [mine, theirs]) = house("openai", &keeper, true).await;
    let mut own = Vec::new();
    for others in [3, 0, 5, 4] {
        own.push(upload(&gateway, &mine).await);
        keeper.others("/files", others);
    }
    let foreign = upload(&gateway, &theirs).await;
    own.reverse();
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&gateway, &format!("/v1/files?purpose=batch&limit=1{after}"), &mine).await;
        let some = ids(&page);
        assert_eq!((some.len(), &page["first_id"], &page["last_id"]), (1, &json!(some[0]), &json!(some[0])));
        found.extend(some);
        after = format!("&after={}", found[found.len() - 1]);
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(found, own);
    let seen = keeper.upstream.seen();
    assert!(seen.iter().all(|seen| !seen.target.contains("gw1_")));
    assert!(seen.iter().filter(|seen| seen.method == "GET").all(|seen| seen.target.contains("purpose=batch")));
    let lists = keeper.listed("/files");
    for (path, status) in [
        (format!("/v1/files?after={foreign}"), 404),
        (format!("/v1/files?after=file-{NATIVE}1"), 404),
        (format!("/v1/files?%61fter=file-{NATIVE}1"), 404),
        ("/v1/files?after=file-gw1_AAAA".to_owned(), 404),
        (format!("/v1/files?before={}", own[0]), 400),
        ("/v1/batches?limit=101".to_owned(), 400),
        ("/v1/files?limit=x".to_owned(), 400),
        ("/v1/uploads".to_owned(), 403),
        ("/v1/proxy/files".to_owned(), 403),
    ] {
        let told = call(&gateway, "GET", &path, &mine).send().await;
        assert_eq!(told.status, status, "{path}: {}", told.text());
    }
    assert_eq!(keeper.listed("/files"), lists, "nothing of it went up");
}

#[tokio::test]
async fn behind_ten_pages_of_others_a_list_goes_on_from_where_it_stopped() {
    let keeper = SharedKeeper::start(1).await;
    let (gateway, [mine, _]) = house("openai", &keeper, true).await;
    let oldest = upload(&gateway, &mine).await;
    keeper.others("/files", 12);
    let newest = upload(&gateway, &mine).await;
    let first = list(&gateway, "/v1/files", &mine).await;
    assert_eq!((ids(&first), &first["has_more"]), (vec![newest], &json!(true)));
    assert_eq!(keeper.listed("/files"), 10);
    let place = first["last_id"].as_str().expect("a place");
    for path in [format!("/v1/files/{place}"), format!("/v1/files/{place}/content")] {
        call(&gateway, "GET", &path, &mine).send().await.expect(404);
    }
    call(&gateway, "DELETE", &format!("/v1/files/{place}"), &mine).send().await.expect(404);
    let rest = list(&gateway, &format!("/v1/files?after={place}"), &mine).await;
    assert_eq!(
        (ids(&rest), &rest["last_id"], &rest["has_more"]),
        (vec![oldest.clone()], &json!(oldest), &json!(false))
    );
    assert!(keeper.objects.lock().len() == 14, "a place of a list removes nothing");
}

#[tokio::test]
async fn what_is_removed_is_gone_and_the_rest_outlives_a_kill() {
    let keeper = SharedKeeper::start(100).await;
    let (gateway, [mine, theirs]) = house("openai", &keeper, false).await;
    upload(&gateway, &mine).await;
    let admin = gateway.admin();
    let on = json!({ "configurations": { "isolate_objects": true } });
    admin.put("/integrations/shared", &on).await.expect(200);
    assert!(ids(&list(&gateway, "/v1/files", &mine).await).is_empty(), "made before it was switched on");
    let (kept, removed) = (upload(&gateway, &mine).await, upload(&gateway, &mine).await);
    let rows = async |gateway: &Gateway, count: &str| {
        eventually("the count of rows", || async {
            let text = gateway.metrics().await;
            text.lines()
                .any(|line| line == format!("gateway_kept_object_notes_total{{outcome=\"noted\"}} {count}"))
                .then_some(())
        })
        .await;
    };
    rows(&gateway, "2").await;
    let deleted = call(&gateway, "DELETE", &format!("/v1/files/{removed}"), &mine).send().await.expect(200);
    assert_eq!(id(&deleted), removed);
    let left: Vec<String> = vec![kept];
    assert_eq!(ids(&list(&gateway, "/v1/files", &mine).await), left);
    let gateway = gateway.restart_after_kill(&[]).await;
    assert_eq!(ids(&list(&gateway, "/v1/files", &mine).await), left);
    assert!(ids(&list(&gateway, "/v1/files", &theirs).await).is_empty());
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_shown_to_nobody() {
    let foreign = json!({ "id": format!("file-{NATIVE}1"), "object": "file" });
    let bodies = [
        (200, json!({ "files": [foreign] }).to_string()),
        (200, json!({ "data": [foreign], "has_more": "yes" }).to_string()),
        (200, json!([foreign]).to_string()),
        (200, format!("<html>file-{NATIVE}1</html>")),
        (200, format!("{{\"data\":[{foreign}],\"padding\":\"{}\"}}", "x".repeat(9 << 20))),
    ];
    for (status, body) in bodies {
        let shown = body.chars().take(80).collect::<String>();
        let upstream =
            Upstream::replying(move |_| reply::whole(status, &[("content-type", "application/json")], &body)).await;
        let keeper = SharedKeeper { upstream, objects: Arc::default() };
        let (gateway, [mine, _]) = house("openai", &keeper, true).await;
        let told = call(&gateway, "GET", "/v1/files", &mine).send().await.expect(502);
        hidden(&told);
        assert!(told.text().contains("openai"), "{shown}: {}", told.text());
    }
}

/// Families whose lists are not OpenAI's: files of Anthropic's, whose batches are told from others' too, and jobs of
/// Together's.
#[tokio::test]
async fn lists_of_families_show_the_workspaces_own_alone() {
    let keeper = SharedKeeper::start(2).await;
    let (gateway, [mine, theirs]) = house("anthropic", &keeper, true).await;
    keeper.others("/files", 1);
    let (first, foreign) = (upload(&gateway, &mine).await, upload(&gateway, &theirs).await);
    keeper.others("/files", 2);
    let second = upload(&gateway, &mine).await;
    let shown = list(&gateway, "/v1/files?limit=1", &mine).await;
    assert_eq!((ids(&shown), &shown["has_more"]), (vec![second.clone()], &json!(true)));
    let shown = list(&gateway, &format!("/v1/files?after={second}"), &mine).await;
    assert_eq!((ids(&shown), &shown["has_more"]), (vec![first.clone()], &json!(false)));
    assert_eq!(ids(&list(&gateway, "/v1/files", &theirs).await), std::slice::from_ref(&foreign));
    // Its own clients page in its own words.
    let own = async |query: &str| {
        let asked =
            call(&gateway, "GET", &format!("/v1/files?{query}"), &mine).header("anthropic-version", "2023-06-01");
        let answer = asked.send().await.expect(200);
        hidden(&answer);
        ids(&answer.json())
    };
    assert_eq!(own("limit=1").await, std::slice::from_ref(&second));
    assert_eq!(own(&format!("after_id={second}")).await, [first]);
    let asked = keeper.upstream.seen();
    assert!(asked.iter().filter(|seen| seen.method == "GET").all(|seen| seen.header("anthropic-beta").is_some()));

    // All jobs at once, as Together tells them.
    let keeper = SharedKeeper::start(100).await;
    let (gateway, [mine, theirs]) = house("together-ai", &keeper, true).await;
    keeper.others("/fine-tunes", 1);
    let mut jobs = Vec::new();
    for key in [&mine, &theirs] {
        let file = upload(&gateway, key).await;
        let body = json!({ "model": "meta-llama/Llama-3.2-1B-Instruct", "training_file": file });
        jobs.push(id(&call(&gateway, "POST", "/v1/fine_tuning/jobs", key).json(&body).send().await.expect(200)));
        keeper.others("/fine-tunes", 1);
    }
    for (key, job) in [&mine, &theirs].into_iter().zip(jobs) {
        assert_eq!(ids(&list(&gateway, "/v1/fine_tuning/jobs", key).await), [job]);
        assert_eq!(ids(&list(&gateway, "/v1/files", key).await).len(), 1);
    }
}

#[tokio::test]
async fn batches_of_a_family_that_others_made_are_not_listed() {
    let upstream = Upstream::replying(|seen| match seen.target.starts_with("/v1/messages/batches") {
        true => {
            let batch =
                json!({ "id": format!("msgbatch_{NATIVE}"), "processing_status": "ended", "request_counts": {} });
            reply::json(200, &json!({ "data": [batch], "has_more": false, "last_id": null }))
        }
        false => reply::error(404, &[]),
    })
    .await;
    let keeper = SharedKeeper { upstream, objects: Arc::default() };
    let (gateway, [mine, _]) = house("anthropic", &keeper, true).await;
    assert!(ids(&list(&gateway, "/v1/batches", &mine).await).is_empty());
    assert_eq!(keeper.upstream.seen().len(), 1);
}

/// Mistral's pages have numbers.
#[tokio::test]
async fn files_on_pages_with_numbers_are_the_workspaces_own_alone() {
    let keeper = SharedKeeper::start(3).await;
    let (gateway, [mine, theirs]) = house("mistral-ai", &keeper, true).await;
    let mut own = Vec::new();
    for others in [2, 4, 1] {
        own.push(upload(&gateway, &mine).await);
        keeper.others("/files", others);
    }
    let foreign = upload(&gateway, &theirs).await;
    own.reverse();
    let all = list(&gateway, "/v1/files", &mine).await;
    assert_eq!((ids(&all), &all["has_more"], &all["total"]), (own.clone(), &json!(false), &json!(3)));
    assert_eq!(ids(&list(&gateway, "/v1/files", &theirs).await), std::slice::from_ref(&foreign));
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&gateway, &format!("/v1/files?limit=1{after}"), &mine).await;
        found.extend(ids(&page));
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["last_id"].as_str().expect("a place"));
    }
    assert_eq!(found, own);
    // Its own clients ask for pages.
    let page = list(&gateway, "/v1/files?page=1&page_size=2", &mine).await;
    assert_eq!((ids(&page), &page["has_more"]), (vec![own[2].clone()], &json!(false)));
    assert!(ids(&list(&gateway, "/v1/files?page=9&page_size=100", &mine).await).is_empty());
    for (path, status) in [
        (format!("/v1/files?after={foreign}"), 404),
        ("/v1/files?page=x".to_owned(), 400),
        ("/v1/files?limit=0".to_owned(), 400),
    ] {
        call(&gateway, "GET", &path, &mine).send().await.expect(status);
    }
}

/// Families that keep files as objects of their own kind, or in a bucket.
#[tokio::test]
async fn files_of_families_with_lists_of_their_own_are_the_workspaces_own_alone() {
    let (fireworks, gemini) = (Fireworks::start().await, kept_files::google().await);
    let (s3, storage) = (cloud_files::bucket().await, cloud_files::bucket().await);
    let google = json!({ "provider": "google", "api_key": "k", "custom_host": bare(&gemini) });
    for (config, model) in [
        (fireworks.config(), "accounts/fireworks/models/llama-v3p1-8b-instruct"),
        (google, cloud_files::GEMINI),
        (cloud_files::aws(&s3), cloud_files::NOVA),
        (cloud_files::google(&storage), cloud_files::GEMINI),
    ] {
        let mut configurations = config.as_object().expect("an object").clone();
        let family = configurations.remove("provider").expect("a family");
        let (family, key) = (family.as_str().expect("a name"), configurations.remove("api_key"));
        configurations.insert("isolate_objects".to_owned(), json!(true));
        let gateway = Gateway::start().await;
        let key = key.as_ref().and_then(Value::as_str);
        let keys = gateway.admin().sharing(family, key, &Value::Object(configurations)).await;
        let mut made = Vec::new();
        for key in [&keys[0], &keys[1], &keys[0]] {
            let lines = kept_files::three(model);
            let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
            made.push(id(&call(&gateway, "POST", "/v1/files", key).body(FORM, body).send().await.expect(200)));
        }
        let listed = async |key: &str| {
            let mut found = ids(&call(&gateway, "GET", "/v1/files", key).send().await.expect(200).json());
            found.sort();
            found
        };
        let mut mine = vec![made[0].clone(), made[2].clone()];
        mine.sort();
        assert_eq!(listed(&keys[0]).await, mine, "{family}");
        assert_eq!(listed(&keys[1]).await, std::slice::from_ref(&made[1]), "{family}");
        let other = format!("/v1/files/{}", made[1]);
        let told = call(&gateway, "GET", &other, &keys[0]).send().await;
        assert_eq!(told.status, 404, "{family}: {}", told.text());
        call(&gateway, "GET", &other, &keys[1]).send().await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_node_sees_them_too() {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("kept"))).await;
    let (_postgres, url) = made.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let master = one.folder().join("data/master.key").display().to_string();
    let keeper = SharedKeeper::start(2).await;
    let [mine, theirs] = shared(&one, "openai", &keeper, true).await;
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &master, "--role", "proxy"]).await;
    let (my_file, their_file) = (upload(&one, &mine).await, upload(&two, &theirs).await);
    for gateway in [&one, &two] {
        assert_eq!(ids(&list(gateway, "/v1/files", &mine).await), std::slice::from_ref(&my_file));
        assert_eq!(ids(&list(gateway, "/v1/files", &theirs).await), std::slice::from_ref(&their_file));
    }
    let removed = call(&two, "DELETE", &format!("/v1/files/{my_file}"), &mine).send().await.expect(200);
    assert_eq!(id(&removed), my_file);
    assert!(ids(&list(&one, "/v1/files", &mine).await).is_empty());
}
