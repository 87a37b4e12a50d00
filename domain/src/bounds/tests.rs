//! Every bound of the contract, from both sides.

use super::*;
use Operation::{ChatCompletions, CreateRun, Embeddings, ImagesGenerate, Proxy};

fn chat(extra: &str) -> Result<Peek<'static>, Fault> {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{extra}}}"#);
    peek(ChatCompletions, body.leak().as_bytes())
}

#[test]
fn spans_point_into_the_body() {
    let body = br#"{"a":1, "model" : "gpt\u002d4o","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":[{}]}]}"#;
    let p = peek(ChatCompletions, body).expect("valid");
    assert_eq!((p.model.as_deref(), p.stream, p.wants_usage), (Some("gpt-4o"), true, true));
    assert_eq!(&body[p.model_span.expect("a span")], br#""gpt\u002d4o""#);
}

#[test]
fn ranges() {
    for (extra, field) in [
        (r#","n":0"#, "n"),
        (r#","n":129"#, "n"),
        (r#","n":1.5"#, "n"),
        (r#","n":"1""#, "n"),
        (r#","temperature":2.01"#, "temperature"),
        (r#","temperature":-0.1"#, "temperature"),
        (r#","top_p":1.1"#, "top_p"),
        (r#","top_logprobs":21"#, "top_logprobs"),
        (r#","presence_penalty":-3"#, "presence_penalty"),
        (r#","frequency_penalty":2.5"#, "frequency_penalty"),
        (r#","tools":[]"#, "tools"),
        (r#","stream":"yes""#, "stream"),
        (r#","model":7"#, "model"),
        (r#","stop":7"#, "stop"),
        (r#","seed":9223372036854775808"#, "seed"),
        (r#","logit_bias":[]"#, "logit_bias"),
        (r#","response_format":"json""#, "response_format"),
        (r#","user":{}"#, "user"),
        (r#","model":"a","model":"b""#, "model"),
        (r#","tool_choice":1"#, "tool_choice"),
    ] {
        let fault = chat(extra).expect_err(extra);
        assert_eq!((fault.status(), fault.param()), (400, Some(field)), "{extra}: {}", fault.message());
    }
    for extra in [
        r#","n":1"#,
        r#","n":128.0"#,
        r#","temperature":2"#,
        r#","temperature":null"#,
        r#","stop":["a","b"]"#,
        r#","stop":"a""#,
        r#","seed":-9223372036854775808"#,
        r#","tool_choice":{"type":"function"}"#,
        r#","unknown":{"n":500}"#,
        r#","stop":null"#,
    ] {
        assert!(chat(extra).is_ok(), "{extra}");
    }
}

#[test]
fn sizes() {
    let tools = |n: usize| chat(&format!(r#","tools":[{}]"#, vec!["{}"; n].join(",")));
    assert!(tools(128).is_ok());
    assert_eq!(tools(129).expect_err("too many").message(), "tools must be an array of 1..128 items");
    assert!(peek(CreateRun, br#"{"tools":[],"max_prompt_tokens":256}"#).is_ok());
    assert!(peek(CreateRun, br#"{"max_prompt_tokens":255}"#).is_err());
    assert!(peek(Operation::ModifyRun, br#"{"metadata":{}}"#).is_ok());
    assert!(peek(Operation::ModifyRun, br#"{"metadata":{},"model":"x"}"#).is_err());
    assert!(peek(ImagesGenerate, br#"{"prompt":"x","n":11}"#).is_err());
    assert!(peek(ImagesGenerate, br#"{"prompt":"x","n":10,"size":"1536x1024","quality":"high"}"#).is_ok());
    assert!(peek(Embeddings, br#"{"input":[[1,2],[3]]}"#).is_ok());
    assert!(peek(Embeddings, b"{}").is_err());
}

#[test]
fn what_lies_deeper_and_what_single_models_take() {
    let refused = |operation: Operation, body: &str, field: &str| {
        let fault = peek(operation, body.as_bytes()).expect_err(body);
        assert_eq!((fault.status(), fault.param()), (400, Some(field)), "{body}: {}", fault.message());
    };
    for (extra, field) in [
        (r#","stream_options":{"include_usage":"y"}"#, "stream_options.include_usage"),
        (r#","stream_options":[]"#, "stream_options"),
        (r#","thinking":{"type":5}"#, "thinking.type"),
        (r#","thinking":{"type":"enabled","budget_tokens":"many"}"#, "thinking.budget_tokens"),
    ] {
        assert_eq!(chat(extra).expect_err(extra).param(), Some(field), "{extra}");
    }
    for (body, field) in [
        (r#"{"truncation_strategy":{"type":"last_messages","last_messages":0}}"#, "truncation_strategy.last_messages"),
        (r#"{"truncation_strategy":{"type":"some"}}"#, "truncation_strategy.type"),
        (
            r#"{"tools":[{"type":"x"},{"type":"file_search","file_search":{"max_num_results":51}}]}"#,
            "tools[1].file_search.max_num_results",
        ),
        (r#"{"tools":[{"file_search":{"max_num_results":0}}]}"#, "tools[0].file_search.max_num_results"),
    ] {
        refused(CreateRun, body, field);
    }
    for (field, value) in [("size", "1x1"), ("quality", "ultra"), ("style", "weird"), ("response_format", "png")] {
        for model in ["dall-e-3", "@oa/dall-e-2"] {
            refused(ImagesGenerate, &format!(r#"{{"prompt":"x","{field}":"{value}","model":"{model}"}}"#), field);
        }
        let other = format!(r#"{{"prompt":"x","{field}":"{value}","model":"gpt-image-1"}}"#);
        assert!(peek(ImagesGenerate, other.as_bytes()).is_ok(), "{other}");
    }
    refused(Operation::Moderations, r#"{"input":"x","model":"text-moderation-007"}"#, "model");
    for body in
        [r#"{"input":"x","model":"@oa/text-moderation-stable"}"#, r#"{"input":"x","model":"omni-moderation-latest"}"#]
    {
        assert!(peek(Operation::Moderations, body.as_bytes()).is_ok(), "{body}");
    }
    for body in [
        r#"{"truncation_strategy":{"type":"auto","last_messages":null},"tools":[{"type":"file_search","file_search":{}}]}"#,
        r#"{"truncation_strategy":null,"tools":[{"file_search":{"max_num_results":50}}]}"#,
    ] {
        assert!(peek(CreateRun, body.as_bytes()).is_ok(), "{body}");
    }
    assert!(
        peek(ImagesGenerate, br#"{"prompt":"x","model":"dall-e-3","size":"1024x1792","style":"vivid","quality":null}"#)
            .is_ok()
    );
}

/// The bounds of the operations beside chat, from both sides.
#[test]
fn every_operation_has_its_bounds() {
    use Operation::{Completions, CreateBatch, CreateFileBatch, CreateFinetune, CreateVectorStore, Rerank, Speech};
    let many = |n: usize| vec!["\"x\""; n].join(",");
    let long = |n: usize| "é".repeat(n);
    let refused: [(Operation, String, &str); 38] = [
        (Completions, r#"{"prompt":"x","best_of":21}"#.into(), "best_of"),
        (Completions, r#"{"prompt":"x","best_of":-1}"#.into(), "best_of"),
        (Completions, r#"{"prompt":"x","logprobs":6}"#.into(), "logprobs"),
        (Completions, r#"{"prompt":"x","echo":"yes"}"#.into(), "echo"),
        (Completions, r#"{"prompt":"x","suffix":1}"#.into(), "suffix"),
        (Completions, r#"{"prompt":"x","stop":["1","2","3","4","5"]}"#.into(), "stop"),
        (Completions, r#"{"prompt":5}"#.into(), "prompt"),
        (Completions, r#"{"prompt":"x","seed":1.5}"#.into(), "seed"),
        (Embeddings, format!(r#"{{"input":[{}]}}"#, many(2049)), "input"),
        (Embeddings, r#"{"input":[]}"#.into(), "input"),
        (Embeddings, r#"{"input":"x","dimensions":0}"#.into(), "dimensions"),
        (
            Embeddings,
            r#"{"input":"x","model":"text-embedding-3-small","encoding_format":"hex"}"#.into(),
            "encoding_format",
        ),
        (Speech, format!(r#"{{"model":"tts-1","input":"{}"}}"#, long(4097)), "input"),
        (Speech, r#"{"voice":"alloy"}"#.into(), "input"),
        (Speech, r#"{"model":"tts-1-hd","input":"x","speed":4.1}"#.into(), "speed"),
        (Speech, r#"{"model":"tts-1","input":"x","speed":0.2}"#.into(), "speed"),
        (Speech, r#"{"model":"tts-1","input":"x","stream_format":"sse"}"#.into(), "stream_format"),
        (Speech, r#"{"model":"sonic","input":"x","speed":"fast"}"#.into(), "speed"),
        (ImagesGenerate, r#"{"model":"gpt-image-2"}"#.into(), "prompt"),
        (ImagesGenerate, format!(r#"{{"prompt":"{}"}}"#, long(32_001)), "prompt"),
        (ImagesGenerate, r#"{"prompt":"x","partial_images":4}"#.into(), "partial_images"),
        (ImagesGenerate, r#"{"prompt":"x","output_compression":101}"#.into(), "output_compression"),
        (ImagesGenerate, r#"{"prompt":"x","frame_count":1}"#.into(), "frame_count"),
        (Speech, r#"{"input":"x","model":"tts-1-hd","response_format":"ogg"}"#.into(), "response_format"),
        (Rerank, r#"{"query":"x"}"#.into(), "documents"),
        (Rerank, r#"{"query":"x","documents":[]}"#.into(), "documents"),
        (Rerank, r#"{"documents":["x"]}"#.into(), "query"),
        (Rerank, r#"{"query":"x","documents":["x"],"top_n":0}"#.into(), "top_n"),
        (Rerank, r#"{"query":"x","documents":["x"],"return_documents":1}"#.into(), "return_documents"),
        (Rerank, r#"{"query":"x","documents":["x"],"max_tokens_per_doc":"1"}"#.into(), "max_tokens_per_doc"),
        (ImagesGenerate, r#"{"prompt":["x"]}"#.into(), "prompt"),
        (CreateVectorStore, format!(r#"{{"file_ids":[{}]}}"#, many(501)), "file_ids"),
        (CreateVectorStore, r#"{"expires_after":{"days":366}}"#.into(), "expires_after.days"),
        (CreateVectorStore, r#"{"expires_after":{"days":0}}"#.into(), "expires_after.days"),
        (CreateFileBatch, format!(r#"{{"file_ids":[{}]}}"#, many(2_001)), "file_ids"),
        (CreateBatch, r#"{"input_file_id":5}"#.into(), "input_file_id"),
        (CreateFinetune, r#"{"training_file":["a"]}"#.into(), "training_file"),
        (ChatCompletions, r#"{"messages":[{"role":"user"}],"stop":["1","2","3","4","5"]}"#.into(), "stop"),
    ];
    for (operation, body, field) in refused {
        let fault = peek(operation, body.as_bytes()).expect_err(&body);
        assert_eq!((fault.status(), fault.param()), (400, Some(field)), "{body:.80}: {}", fault.message());
    }
    for (operation, body) in [
        (
            Completions,
            r#"{"prompt":[[1,2],[3]],"best_of":20,"logprobs":5,"echo":true,"stop":["1","2","3","4"]}"#.into(),
        ),
        (Completions, r#"{"prompt":["a"],"best_of":0,"suffix":null,"stop":"x"}"#.into()),
        (Embeddings, format!(r#"{{"input":[{}]}}"#, many(2048))),
        (Embeddings, r#"{"input":[1,2],"model":"cohere-embed","encoding_format":"hex"}"#.into()),
        (Speech, format!(r#"{{"input":"{}","speed":0.25,"voice":{{"id":"v"}}}}"#, long(4096))),
        (Speech, r#"{"input":"x","model":"sonic","response_format":"ogg","speed":5,"stream_format":"sse"}"#.into()),
        (Speech, format!(r#"{{"model":"gpt-4o-mini-tts","input":"{}"}}"#, long(5_000))),
        (Rerank, r#"{"query":{"image":"u"},"documents":[{"text":"x"},"y"],"top_n":null}"#.into()),
        (CreateVectorStore, r#"{"expires_after":{"anchor":"last_active_at","days":365},"file_ids":[]}"#.into()),
        (CreateFileBatch, format!(r#"{{"file_ids":[{}],"chunking_strategy":{{"type":"auto"}}}}"#, many(2_000))),
        (CreateBatch, r#"{"input_file_id":"f","completion_window":"immediate","role_arn":"a"}"#.into()),
        (CreateFinetune, r#"{"training_file":"f","method":{"type":"dpo"},"output_file":"o"}"#.into()),
    ] {
        let body: String = body;
        assert!(peek(operation, body.as_bytes()).is_ok(), "{body:.80}");
    }
}

#[test]
fn messages_have_shape() {
    for (body, field) in [
        (r#"{"messages":[]}"#, "messages"),
        (r"{}", "messages"),
        (r#"{"messages":"hi"}"#, "messages"),
        (r#"{"messages":[1]}"#, "messages[0]"),
        (r#"{"messages":[{"role":"user"},{"content":"x"}]}"#, "messages[1].role"),
        (r#"{"messages":[{"role":5}]}"#, "messages[0].role"),
        (r#"{"messages":[{"role":"user","content":5}]}"#, "messages[0].content"),
        (r#"{"messages":[{"role":"user","content":{}}]}"#, "messages[0].content"),
    ] {
        let fault = peek(ChatCompletions, body.as_bytes()).expect_err(body);
        assert_eq!(fault.param(), Some(field), "{body}: {}", fault.message());
    }
}

#[test]
fn broken_json_and_wrong_roots() {
    for body in ["", "{", "[]", "null", "{\"a\":1}x", "{\"messages\":[{\"role\":\"user\"}],}", "\u{feff}{}"] {
        let fault = peek(ChatCompletions, body.as_bytes()).expect_err(body);
        assert_eq!(fault.status(), 400, "{body}");
    }
    assert!(peek(ChatCompletions, b"{\"messages\":[{\"role\":\"\xff\"}]}").is_err());
}

#[test]
fn raw_calls_are_looked_at_and_never_refused() {
    assert_eq!(
        peek(Proxy, br#"{"model":"m","n":999,"stream":true}"#).map(|p| (p.model, p.stream)),
        Ok((Some("m".into()), true))
    );
    let unread = Ok(Peek::default());
    for body in [&b"not json"[..], br#"{"model":5}"#, br#"{"model":"a","model":"b"}"#, b"[1", b"\xff"] {
        assert_eq!(peek(Proxy, body), unread, "{}", String::from_utf8_lossy(body));
    }
    for body in [&b"{}"[..], br#"{"contents":[]}"#, b" [1]", b"\"text\"", b"null"] {
        let found = peek(Proxy, body).map(|peek| Peek { names_no_object: false, ..peek });
        assert_eq!(found, Ok(Peek { read: true, ..Peek::default() }), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_model_spelled_twice_is_seen() {
    for (body, expected) in [
        (r#"{"model":"cheap","Model":"dear"}"#, true),
        (r#"{"MODEL":"dear","model":"cheap"}"#, true),
        (r#"{"mod\u0045l":"dear","model":"cheap"}"#, true),
        (r#"{"model":"cheap","models":["dear"],"x":{"Model":1}}"#, false),
    ] {
        assert_eq!(peek(Proxy, body.as_bytes()).map(|p| p.model_respelled), Ok(expected), "{body}");
    }
    assert!(chat(r#","Model":"dear""#).is_ok_and(|p| p.model_respelled));
}

#[test]
fn forward_headers() {
    assert_eq!(check_forward_header("X-Custom"), Ok("x-custom".into()));
    for bad in ["x-gateway-forward-headers", "connection", "bad name", "", "x-gateway-api-key", "Host"] {
        assert!(check_forward_header(bad).is_err(), "{bad}");
    }
}
