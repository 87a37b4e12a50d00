//! Log records: kept once, whole, found by every filter, a page at a time, newest first.

pub(crate) use crate::on_log_engines;
use crate::{House, id};
use gateway_domain::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::StoreError;
use gateway_domain::record::{
    BatchDetail, Bodies, CacheStatus, ClientLibrary, Detail, LlmDetail, LogCursor, LogQuery, LogRecord, RecordedBody,
    RecordedMessage, RecordedOperation, RecordedPrompt, Steps, Timings, ToolDetail, Trace,
};
use gateway_domain::usage::{PictureSize, ServiceTier, UsageDetail};
use gateway_domain::{NanoUsd, Timestamp, Usage};

on_log_engines!(
    a_record_comes_back_whole,
    every_kind_comes_back,
    appending_twice_keeps_one,
    batches_of_every_length,
    what_records_say_alike_comes_back_with_each,
    every_filter,
    metadata_is_matched_exactly,
    pages_newest_first,
    a_cursor_repeats_and_skips_none,
    a_page_that_is_too_large_is_not_read,
    one_record_by_id,
    bodies_come_with_one_record_and_not_with_a_page,
    what_clients_send_cannot_fail_a_batch,
    too_many_values_are_refused,
);

/// What records of these tests are about.
pub(crate) fn called(llm: LlmDetail) -> RecordedOperation {
    RecordedOperation::new("chatComplete", llm)
}

pub(crate) fn record(n: u128) -> LogRecord {
    LogRecord {
        id: id(n),
        created_at: Timestamp(n as i64 * 1_000),
        trace_id: format!("trace-{n}").into(),
        attempt: 1,
        last: true,
        org: OrgId(id(1)),
        workspace: WorkspaceId(id(2)),
        workspace_slug: "default".into(),
        key: None,
        key_name: "".into(),
        owner: None,
        config: "".into(),
        config_id: None,
        config_version: None,
        virtual_key: "".into(),
        provider: "openai".into(),
        model: "gpt-4o".into(),
        operation: called(LlmDetail::NONE),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        status: 200,
        fault: None,
        stream: false,
        option_index: "".into(),
        strategy: "single",
        cost: None,
        timings: Timings::default(),
        steps: Steps::default(),
        request_bytes: 0,
        response_bytes: 0,
        client_ip: "10.0.0.1".parse().ok(),
        metadata: "{}".into(),
        trace: None,
        client: None,
        charges: Vec::new(),
        bodies: None,
        hooks: None,
    }
}

fn prompt(n: u128) -> RecordedPrompt {
    RecordedPrompt { id: id(n), slug: "pp-a".into(), version_id: id(n + 1), version: 3 }
}

fn used(n: u128) -> LlmDetail {
    LlmDetail {
        retries: -1,
        prompt: Some(prompt(n).into()),
        response_model: Some("gpt-4o-2026-01-01".into()),
        usage: Some(Usage {
            input: 1,
            cache_read: 2,
            cache_write: 3,
            output: 4,
            reasoning: 5,
            audio_in: 6,
            audio_out: 7,
            images: 8,
            estimated: true,
            detail: UsageDetail {
                cache_write_1h: 2,
                millis_in: 90_500,
                picture: PictureSize::named("high", "1024x1536"),
                tier: ServiceTier::Priority,
                told: Some(NanoUsd(17)),
                ..UsageDetail::default()
            },
        }),
        saved: Some(NanoUsd(3)),
        card: None,
        adjusted: "logit_bias,n".into(),
        cache: CacheStatus::Hit,
        realtime: None,
    }
}

pub(crate) fn full(n: u128) -> LogRecord {
    LogRecord {
        attempt: 3,
        last: false,
        key: Some(KeyId(id(3))),
        owner: Some(id(4)),
        config: "my-config".into(),
        config_id: Some(ConfigId(id(5))),
        config_version: Some(id(6)),
        virtual_key: "my-provider".into(),
        status: 429,
        fault: Some("rate_limited"),
        stream: true,
        option_index: "targets[1].targets[0]".into(),
        strategy: "fallback",
        cost: Some(NanoUsd(-5)),
        timings: Timings { total_us: 1, upstream_us: 2, first_byte_us: 3, gateway_us: 4 },
        steps: Steps { parse_us: 5, before_us: 6, cache_us: 7, after_us: 8, ..Steps::default() },
        request_bytes: 9,
        response_bytes: i64::MAX as u64,
        metadata: r#"{"_user":"é'\"🦀"}"#.into(),
        operation: called(used(n)),
        trace: Some(Trace { id: u128::MAX, span: u64::MAX, sampled: true, ..Trace::default() }.into()),
        client: Some(ClientLibrary { runtime: Some("node".into()), ..ClientLibrary::default() }.into()),
        ..record(n)
    }
}

pub(crate) fn mixed(n: u128) -> LogRecord {
    if n.is_multiple_of(2) { record(n) } else { full(n) }
}

pub(crate) fn any() -> LogQuery {
    LogQuery { page_size: 1_000, ..LogQuery::default() }
}

async fn a_record_comes_back_whole(house: House) {
    let database = house.logs().await;
    database.append(&[record(1), full(2)]).await.unwrap();
    let page = database.query(&any()).await.unwrap();
    assert_eq!(page.rows, vec![full(2), record(1)]);
}

/// Those that are no calls of models have nothing of such calls, whatever else they have.
async fn every_kind_comes_back(house: House) {
    let database = house.logs().await;
    let of = |n: u128, name, detail: Detail| LogRecord {
        operation: RecordedOperation::new(name, detail),
        cost: Some(NanoUsd(7)),
        ..record(n)
    };
    let stood = ToolDetail { task_state: Some("working".into()) };
    let batch = BatchDetail { status: "expired".into(), lines: 9, cost: NanoUsd(4), ..BatchDetail::default() };
    let records = [
        of(5, "batch", Detail::Batch(Some(batch.into()))),
        of(4, "batch", Detail::Batch(None)),
        of(3, "a2a.GetTask", Detail::Tool(stood)),
        of(2, "mcp.tools/call", Detail::Tool(ToolDetail::default())),
        of(1, "messages", used(1).into()),
    ];
    database.append(&records).await.unwrap();
    assert_eq!(database.query(&any()).await.unwrap().rows, records);
    let query = LogQuery { cache_statuses: vec![CacheStatus::Disabled], ..any() };
    assert_eq!(database.query(&query).await.unwrap().rows, records[..4], "what has no cache is one without it");
}

async fn appending_twice_keeps_one(house: House) {
    let database = house.logs().await;
    database.append(&[record(1), record(2), record(1)]).await.unwrap();
    let mut late = record(2);
    late.status = 500;
    database.append(&[late, record(3)]).await.unwrap();
    let page = database.query(&any()).await.unwrap();
    assert_eq!((page.total, page.rows), (3, vec![record(3), record(2), record(1)]));
    database.append(&[]).await.unwrap();
}

async fn batches_of_every_length(house: House) {
    let database = house.logs().await;
    let mut next = 0;
    for length in [1, 2, 3, 127, 128, 129, 255, 1_300] {
        let batch: Vec<_> = (next..next + length).map(mixed).collect();
        database.append(&batch).await.unwrap();
        next += length;
        assert_eq!(u128::from(database.query(&any()).await.unwrap().total), next);
    }
    let newest = database.query(&LogQuery { page_size: 3, ..any() }).await.unwrap().rows;
    assert_eq!(newest, vec![mixed(next - 1), mixed(next - 2), mixed(next - 3)]);
}

async fn what_records_say_alike_comes_back_with_each(house: House) {
    let database = house.logs().await;
    // Two sorts by turns, each alike but for what is its own, and a few of which there is one each.
    let of = |n: u128| match n % 10 {
        9 => LogRecord { model: format!("model-{n}").into(), ..record(n) },
        odd if odd % 2 == 1 => LogRecord {
            operation: called(used(1)),
            cost: Some(NanoUsd(n as i64)),
            timings: Timings { total_us: n as u64, ..full(n).timings },
            metadata: format!(r#"{{"n":"{n}"}}"#).into(),
            ..full(n)
        },
        _ => record(n),
    };
    let mut records: Vec<_> = (0..300).map(of).collect();
    database.append(&records).await.unwrap();
    records.reverse();
    assert_eq!(database.query(&any()).await.unwrap().rows, records);
}

async fn every_filter(house: House) {
    let database = house.logs().await;
    let mut odd = full(2);
    odd.org = OrgId(id(11));
    odd.workspace = WorkspaceId(id(12));
    odd.provider = "anthropic".into();
    odd.model = "claude".into();
    odd.operation.rename("messages");
    odd.cost = Some(NanoUsd(500));
    let mut cheap = record(3);
    cheap.operation = called(LlmDetail { usage: Some(Usage { input: 10, ..Usage::default() }), ..LlmDetail::NONE });
    cheap.cost = Some(NanoUsd(5));
    database.append(&[record(1), odd, cheap]).await.unwrap();

    let found = async |query: LogQuery| {
        let page = database.query(&query).await.unwrap();
        assert_eq!(page.total, page.rows.len() as u64, "{query:?}");
        page.rows.iter().map(|r| r.id.as_u128()).collect::<Vec<_>>()
    };
    let text = |s: &str| vec![s.to_owned()];
    for (query, want) in [
        (any(), vec![3, 2, 1]),
        (LogQuery { org: Some(OrgId(id(11))), ..any() }, vec![2]),
        (LogQuery { workspaces: vec![WorkspaceId(id(2))], ..any() }, vec![3, 1]),
        (LogQuery { from: Some(Timestamp(2_000)), ..any() }, vec![3, 2]),
        (LogQuery { to: Some(Timestamp(2_000)), ..any() }, vec![2, 1]),
        (LogQuery { trace_id: Some("trace-3".into()), ..any() }, vec![3]),
        (LogQuery { statuses: vec![429, 500], ..any() }, vec![2]),
        (LogQuery { statuses: vec![200, 429], ..any() }, vec![3, 2, 1]),
        (LogQuery { providers: text("anthropic"), ..any() }, vec![2]),
        (LogQuery { virtual_keys: text("my-provider"), ..any() }, vec![2]),
        (LogQuery { models: vec!["claude".into(), "gpt-4o".into()], ..any() }, vec![3, 2, 1]),
        (LogQuery { models: text("claude"), ..any() }, vec![2]),
        (LogQuery { configs: text("my-config"), ..any() }, vec![2]),
        (LogQuery { keys: vec![KeyId(id(3)), KeyId(id(99))], ..any() }, vec![2]),
        (LogQuery { operations: text("chatComplete"), ..any() }, vec![3, 1]),
        (LogQuery { workspaces: vec![WorkspaceId(id(2)), WorkspaceId(id(12))], ..any() }, vec![3, 2, 1]),
        (LogQuery { min_prompt_tokens: Some(11), ..any() }, vec![2]),
        (LogQuery { max_prompt_tokens: Some(10), ..any() }, vec![3]),
        (LogQuery { min_completion_tokens: Some(16), ..any() }, vec![2]),
        (LogQuery { max_completion_tokens: Some(15), ..any() }, vec![3]),
        (LogQuery { min_tokens: Some(10), ..any() }, vec![3, 2]),
        (LogQuery { min_tokens: Some(11), ..any() }, vec![2]),
        (LogQuery { max_tokens: Some(10), ..any() }, vec![3]),
        (LogQuery { min_cost: Some(NanoUsd(6)), ..any() }, vec![2]),
        (LogQuery { max_cost: Some(NanoUsd(5)), ..any() }, vec![3]),
        (LogQuery { providers: text("openai"), statuses: vec![429], ..any() }, vec![]),
        (LogQuery { providers: text("' OR 1=1 --"), ..any() }, vec![]),
    ] {
        assert_eq!(found(query.clone()).await, want, "{query:?}");
    }
}

async fn metadata_is_matched_exactly(house: House) {
    let database = house.logs().await;
    let texts = [
        r#"{"_user":"ann","team":"a_b"}"#,
        r#"{"_user":"ANN","team":"aXb"}"#,
        r#"{"note":"\"_user\":\"ann\"","team":"50%"}"#,
        r#"{"_user":"ann 🦀 \"x\"","team":"50 percent"}"#,
    ];
    let batch: Vec<_> = (1..).zip(texts).map(|(n, text)| LogRecord { metadata: text.into(), ..record(n) }).collect();
    database.append(&batch).await.unwrap();
    for (pairs, want) in [
        (vec![("_user", "ann")], vec![1]),
        (vec![("_user", "ANN")], vec![2]),
        (vec![("team", "a_b")], vec![1]),
        (vec![("team", "50%")], vec![3]),
        (vec![("_user", "ann 🦀 \"x\"")], vec![4]),
        (vec![("_user", "ann"), ("team", "a_b")], vec![1]),
        (vec![("_user", "ann"), ("team", "50%")], vec![]),
        (vec![("user", "ann")], vec![]),
    ] {
        let metadata = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let page = database.query(&LogQuery { metadata, ..any() }).await.unwrap();
        assert_eq!(page.rows.iter().map(|r| r.id.as_u128()).collect::<Vec<_>>(), want, "{pairs:?}");
    }
}

async fn a_cursor_repeats_and_skips_none(house: House) {
    const DAY: i64 = 86_400_000_000;
    let database = house.logs().await;
    // Over three days, two of them at the same instant.
    let mut batch: Vec<_> = (1..=9).map(record).collect();
    batch.iter_mut().for_each(|r| r.created_at = r.created_at.plus_micros(DAY * (r.id.as_u128() as i64 / 3)));
    batch[3].created_at = batch[4].created_at;
    database.append(&batch).await.unwrap();
    let mut seen = Vec::new();
    let mut cursor = Some(LogCursor::START);
    for next in 20.. {
        let page = database.query(&LogQuery { cursor, page_size: 2, page: 7, ..any() }).await.unwrap();
        seen.extend(page.rows.iter().map(|r| r.id.as_u128()));
        let Some(last) = page.rows.last() else { break };
        cursor = Some(LogCursor { created_at: last.created_at, id: last.id });
        // What comes meanwhile is newer.
        let newer = record(next);
        database.append(&[LogRecord { created_at: Timestamp(9 * DAY), ..newer }]).await.unwrap();
    }
    assert_eq!(seen, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    let tight = LogQuery { cursor: Some(LogCursor::START), most_bytes: Some(1), ..any() };
    assert!(database.query(&tight).await.unwrap().is_too_large);
}

async fn pages_newest_first(house: House) {
    let database = house.logs().await;
    // Two at the same instant: the id decides, so that no page repeats or skips one.
    let mut batch: Vec<_> = (1..=7).map(record).collect();
    batch[3].created_at = batch[4].created_at;
    database.append(&batch).await.unwrap();
    let mut seen = Vec::new();
    for page in 0..4 {
        let found = database.query(&LogQuery { page, page_size: 2, ..any() }).await.unwrap();
        assert_eq!(found.total, 7);
        seen.extend(found.rows.iter().map(|r| r.id.as_u128()));
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
    for page in [4, u64::MAX] {
        let past = database.query(&LogQuery { page, page_size: 2, ..any() }).await.unwrap();
        assert_eq!((past.total, past.rows.len()), (7, 0));
    }
    let counted = database.query(&LogQuery::default()).await.unwrap();
    assert_eq!((counted.total, counted.rows.len()), (7, 0));
}

async fn a_page_that_is_too_large_is_not_read(house: House) {
    let database = house.logs().await;
    let mut batch: Vec<_> = (1..=3).map(record).collect();
    for record in &mut batch {
        record.metadata = format!(r#"{{"k":"{}"}}"#, "é".repeat(500)).into();
    }
    let each = (batch[0].metadata.len() + batch[0].path.len()) as u64;
    database.append(&batch).await.unwrap();
    for (most, want) in [(2 * each, 2), (2 * each - 1, 0)] {
        let asked = LogQuery { page_size: 2, most_bytes: Some(most), ..any() };
        let page = database.query(&asked).await.unwrap();
        assert_eq!((page.rows.len(), page.is_too_large), (want, want == 0), "in bytes, not in characters");
    }
}

async fn one_record_by_id(house: House) {
    let database = house.logs().await;
    database.append(&[record(1), full(2)]).await.unwrap();
    assert_eq!(database.get(id(2), None).await.unwrap(), Some(full(2)));
    assert_eq!(database.get(id(2), Some(WorkspaceId(id(2)))).await.unwrap(), Some(full(2)));
    assert_eq!(database.get(id(2), Some(WorkspaceId(id(3)))).await.unwrap(), None);
    assert_eq!(database.get(id(9), None).await.unwrap(), None);
}

async fn bodies_come_with_one_record_and_not_with_a_page(house: House) {
    let database = house.logs().await;
    let message = |text: &str| RecordedMessage {
        body: RecordedBody::of(&text.as_bytes().to_vec().into()),
        ..RecordedMessage::default()
    };
    let mut bodies = Bodies { request: message("{\"é\":\"\0\"}"), ..Bodies::default() };
    bodies.received = Some(RecordedMessage { status: 429, headers: vec![("a".into(), "b".into())], ..message("no") });
    let kept = LogRecord { bodies: Some(bodies.into()), ..full(1) };
    database.append(std::slice::from_ref(&kept)).await.unwrap();
    assert_eq!(database.get(id(1), None).await.unwrap(), Some(kept));
    assert_eq!(database.query(&any()).await.unwrap().rows, [full(1)]);
}

async fn what_clients_send_cannot_fail_a_batch(house: House) {
    let database = house.logs().await;
    // Incompressible, so that Postgres cannot shrink it below what its index takes.
    let noise: String = (0..40_000u64).map(|n| char::from(b'!' + (n.wrapping_mul(n) % 89) as u8)).collect();
    let mut hostile = record(1);
    hostile.trace_id = noise.as_str().into();
    hostile.model = "gpt\0-4o".into();
    hostile.path = "/v1/\0".into();
    hostile.metadata = noise.as_str().into();
    hostile.request_bytes = u64::MAX;
    database.append(&[hostile, record(2)]).await.unwrap();
    let by_trace = database.query(&LogQuery { trace_id: Some(noise.clone()), ..any() }).await.unwrap();
    let kept = &by_trace.rows[0];
    assert_eq!((by_trace.total, &*kept.model, &*kept.metadata), (1, "gpt\u{FFFD}-4o", noise.as_str()));
    assert_eq!(database.query(&any()).await.unwrap().total, 2);
}

async fn too_many_values_are_refused(house: House) {
    let database = house.logs().await;
    let keys = (0..40_000).map(|n| KeyId(id(n))).collect();
    let refused = database.query(&LogQuery { keys, ..any() }).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Broken(why) if why.contains("values to filter by")), "{refused}");
}
