//! Streams of every dialect that clients read, from providers that speak it and from providers whose events are
//! translated: what is forbidden never leaves, and what is redacted is the redacted whole, wherever bytes were cut.

use super::*;
use crate::guardrails::fixture::{guarded, guardrail, outside};
use gateway_domain::cloud::{CloudSettings, setting};
use gateway_domain::operation::route;
use gateway_guardrails::BodyShape;
use gateway_providers::{Call, adapter};
use http::Method;
use serde_json::{Value, json};

/// A provider's stream, made of pieces of text.
type Speech = fn(&[String]) -> Vec<u8>;

/// Who asks, and who answers.
struct Spoken {
    family: &'static str,
    model: &'static str,
    path: &'static str,
    shape: BodyShape,
    speech: Speech,
}

fn spoken() -> Vec<Spoken> {
    let row = |family, model, path, shape, speech: Speech| Spoken { family, model, path, shape, speech };
    let (chat, completions) = ("/v1/chat/completions", "/v1/completions");
    let (messages, responses) = ("/v1/messages", "/v1/responses");
    let (claude, nova) = ("claude-sonnet-4", "us.amazon.nova-pro-v1:0");
    vec![
        row("openai", "m", chat, BodyShape::Chat, chunks),
        row("anthropic", claude, chat, BodyShape::Chat, claudes),
        row("google", "gemini-2.5-flash", chat, BodyShape::Chat, geminis),
        row("bedrock", nova, chat, BodyShape::Chat, converse),
        row("cohere", "command-a-03-2025", chat, BodyShape::Chat, coheres),
        row("openai", "m", completions, BodyShape::Completions, completion),
        row("anthropic", claude, messages, BodyShape::Messages, claudes),
        row("openai", "m", messages, BodyShape::Messages, chunks),
        row("google", "gemini-2.5-flash", messages, BodyShape::Messages, geminis),
        row("bedrock", nova, messages, BodyShape::Messages, converse),
        row("cohere", "command-a-03-2025", messages, BodyShape::Messages, coheres),
        row("openai", "m", responses, BodyShape::Responses, response),
        row("anthropic", claude, responses, BodyShape::Responses, claudes),
        row("google", "gemini-2.5-flash", responses, BodyShape::Responses, geminis),
        row("bedrock", nova, responses, BodyShape::Responses, converse),
        row("cohere", "command-a-03-2025", responses, BodyShape::Responses, coheres),
    ]
}

fn event(name: Option<&str>, data: &Value) -> String {
    name.map(|name| format!("event: {name}\n")).unwrap_or_default() + &format!("data: {data}\n\n")
}

fn chunks(texts: &[String]) -> Vec<u8> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        event(
            None,
            &json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}),
        )
    };
    let mut out = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    texts.iter().for_each(|text| out += &chunk(json!({"content": text}), Value::Null));
    out += &chunk(json!({}), json!("stop"));
    (out + "data: [DONE]\n\n").into()
}

fn completion(texts: &[String]) -> Vec<u8> {
    let chunk = |text: &str, finish: Value| {
        let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
        event(None, &json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}))
    };
    let said: String = texts.iter().map(|text| chunk(text, Value::Null)).collect();
    (said + &chunk("", json!("stop")) + "data: [DONE]\n\n").into()
}

fn claudes(texts: &[String]) -> Vec<u8> {
    let named = |name: &str, mut body: Value| {
        body["type"] = name.into();
        event(Some(name), &body)
    };
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut out = named("message_start", json!({"message": message}));
    out += &named("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}));
    for text in texts {
        out += &named("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}}));
    }
    out += &named("content_block_stop", json!({"index": 0}));
    let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
    out += &named("message_delta", json!({"delta": delta, "usage": {"output_tokens": 3}}));
    (out + &named("message_stop", json!({}))).into()
}

fn geminis(texts: &[String]) -> Vec<u8> {
    let one = |text: &str, finish: Option<&str>| {
        let mut candidate = json!({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        let usage = json!({"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3});
        event(None, &json!({"candidates": [candidate], "usageMetadata": usage, "responseId": "r"}))
    };
    let said: String = texts.iter().map(|text| one(text, None)).collect();
    (said + &one("", Some("STOP"))).into()
}

fn coheres(texts: &[String]) -> Vec<u8> {
    let named = |name: &str, mut body: Value| {
        body["type"] = name.into();
        event(Some(name), &body)
    };
    let message = json!({"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []});
    let mut out = named("message-start", json!({"id": "r", "delta": {"message": message}}));
    let block = |content: Value| json!({"index": 0, "delta": {"message": {"content": content}}});
    out += &named("content-start", block(json!({"type": "text", "text": ""})));
    texts.iter().for_each(|text| out += &named("content-delta", block(json!({"text": text}))));
    out += &named("content-end", json!({"index": 0}));
    let usage = json!({"tokens": {"input_tokens": 1, "output_tokens": 2}});
    out += &named("message-end", json!({"delta": {"finish_reason": "COMPLETE", "usage": usage}}));
    (out + "data: [DONE]\n\n").into()
}

/// An event of AWS as its streams frame it: lengths, headers of text, payload, each part with its CRC-32.
fn frame(name: &str, payload: &Value) -> Vec<u8> {
    let payload = payload.to_string();
    let mut headers = Vec::new();
    for (key, value) in [(":message-type", "event"), (":event-type", name), (":content-type", "application/json")] {
        headers.push(u8::try_from(key.len()).expect("short"));
        headers.extend_from_slice(key.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let total = u32::try_from(16 + headers.len() + payload.len()).expect("short");
    let mut out = [total.to_be_bytes(), u32::try_from(headers.len()).expect("short").to_be_bytes()].concat();
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload.as_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

fn converse(texts: &[String]) -> Vec<u8> {
    let mut out = frame("messageStart", &json!({"role": "assistant"}));
    for text in texts {
        out.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}})));
    }
    out.extend(frame("contentBlockStop", &json!({"contentBlockIndex": 0})));
    out.extend(frame("messageStop", &json!({"stopReason": "end_turn"})));
    let usage = json!({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3});
    out.extend(frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 1}})));
    out
}

fn response(texts: &[String]) -> Vec<u8> {
    let whole: String = texts.concat();
    let part = json!({"type": "output_text", "text": whole, "annotations": []});
    let item = |status: &str, content: Value| json!({"id": "i", "type": "message", "status": status, "role": "assistant", "content": content});
    let place = |mut more: Value| {
        (more["item_id"], more["output_index"], more["content_index"]) = ("i".into(), 0.into(), 0.into());
        more
    };
    let bare = json!({"id": "r", "object": "response", "status": "in_progress", "model": "m", "output": []});
    let mut done = bare.clone();
    (done["status"], done["output"]) = ("completed".into(), json!([item("completed", json!([part]))]));
    done["usage"] = json!({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3});
    let empty = json!({"type": "output_text", "text": "", "annotations": []});
    let mut events = vec![
        ("response.created", json!({"response": bare})),
        ("response.output_item.added", json!({"output_index": 0, "item": item("in_progress", json!([]))})),
        ("response.content_part.added", place(json!({"part": empty}))),
    ];
    for text in texts {
        events.push(("response.output_text.delta", place(json!({"delta": text, "logprobs": []}))));
    }
    events.push(("response.output_text.done", place(json!({"text": whole, "logprobs": []}))));
    events.push(("response.content_part.done", place(json!({"part": part}))));
    events.push(("response.output_item.done", json!({"output_index": 0, "item": item("completed", json!([part]))})));
    events.push(("response.completed", json!({"response": done})));
    let numbered = (0..).zip(events).map(|(number, (name, mut body))| {
        (body["type"], body["sequence_number"]) = (name.into(), Value::from(number));
        event(Some(name), &body)
    });
    numbered.collect::<String>().into()
}

/// What a client reads of events, piece by piece.
fn said(events: &str) -> String {
    let bodies = events.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let text = |event: Value| {
        let places = ["/choices/0/delta/content", "/choices/0/text", "/delta/text"];
        let found = places.iter().find_map(|place| Some(event.pointer(place)?.as_str()?.to_owned()));
        let delta = || event["delta"].as_str().filter(|_| event["type"] == "response.output_text.delta");
        found.or_else(|| delta().map(str::to_owned))
    };
    bodies.filter_map(text).collect()
}

/// What came of a stream.
#[derive(Debug)]
struct Left {
    events: String,
    is_stopped: bool,
}

struct Stage {
    outside: Arc<OutsideAnswers>,
    settings: CloudSettings,
}

impl Stage {
    fn new() -> Self {
        let mut settings = CloudSettings::default();
        settings.set(setting("aws_region").expect("a setting"), "us-east-1".to_owned()).expect("a region");
        Self { outside: outside(), settings }
    }

    fn flow(&self, spoken: &Spoken, guarded: &Arc<TargetGuards>, pieces: &[Bytes]) -> Left {
        let adapter = adapter(spoken.family).expect("a family");
        let body = Bytes::from(json!({"model": spoken.model, "stream": true}).to_string());
        let routed = route(&Method::POST, spoken.path).expect("a route");
        let call = Call {
            operation: routed.operation,
            dialect: routed.dialect,
            method: &Method::POST,
            tail: routed.tail,
            query: None,
            body: &body,
            model: Some(spoken.model),
            form: None,
            sound_ms: None,
            model_span: None,
            stream: true,
            wants_usage: true,
            strict: true,
            now_ms: 1_750_000_000_123,
            dice: 7,
            origin: 1,
            settings: &self.settings,
            keeps: None,
        };
        let mut translator = adapter.stream(&call);
        let mut judge = StreamJudge::new(routed.operation, guarded, &self.outside, false).expect("a dialect");
        let mut events = Vec::new();
        for piece in pieces {
            let translated = translator.push(piece.clone());
            let translated = translated.unwrap_or_else(|e| panic!("{} {}: {e:?}", spoken.family, spoken.path));
            judge.push(&translated, translator.texts());
            events.extend_from_slice(&judge.take_out());
            if judge.stopped().is_some() {
                break;
            }
        }
        if judge.stopped().is_none() {
            judge.push(&translator.finish(), &[]);
            judge.end();
            events.extend_from_slice(&judge.take_out());
            assert!(translator.ending().complete, "{} {} was complete", spoken.family, spoken.path);
            assert!(judge.is_over() || judge.stopped().is_some(), "{} {}", spoken.family, spoken.path);
        }
        Left { events: String::from_utf8(events).expect("text"), is_stopped: judge.stopped().is_some() }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn halves(stream: &Bytes) -> impl Iterator<Item = [Bytes; 2]> + '_ {
    (0..=stream.len()).map(|at| [stream.slice(..at), stream.slice(at..)])
}

#[tokio::test]
async fn what_is_forbidden_leaves_in_no_dialect_however_its_bytes_are_cut() {
    let stage = Stage::new();
    let checks = json!([{"id": "contains", "parameters": {"words": ["secret"], "operator": "none"}}]);
    let rule = guardrail(&checks, &json!({"deny": true}));
    for spoken in spoken() {
        let guarded = guarded(vec![rule.clone()], spoken.shape);
        let stream = Bytes::from((spoken.speech)(&owned(&["well, ", "a sec", "ret ", "and more"])));
        let name = format!("{} {}", spoken.family, spoken.path);
        for (at, pieces) in halves(&stream).enumerate() {
            let left = stage.flow(&spoken, &guarded, &pieces);
            assert!(left.is_stopped, "{name} cut at {at}: {}", left.events);
            let said = said(&left.events);
            assert!("well, a ".starts_with(&said), "{name} cut at {at}: {said}");
            assert!(
                !left.events.contains("sec") && !left.events.contains("ret "),
                "{name} cut at {at}: {}",
                left.events
            );
        }
    }
}

#[tokio::test]
async fn what_is_redacted_does_not_depend_on_how_bytes_are_cut() {
    let stage = Stage::new();
    let checks = json!([{"id": "regexReplace", "parameters": {"rule": "s\\w+t", "redactText": "[X]"}}]);
    let rule = guardrail(&checks, &json!({}));
    for spoken in spoken() {
        let guarded = guarded(vec![rule.clone()], spoken.shape);
        let stream = Bytes::from((spoken.speech)(&owned(&["a se", "cr", "et – “and” ", "a silent", " one"])));
        let name = format!("{} {}", spoken.family, spoken.path);
        for (at, pieces) in halves(&stream).enumerate() {
            let left = stage.flow(&spoken, &guarded, &pieces);
            assert_eq!(said(&left.events), "a [X] – “and” a [X] one", "{name} cut at {at}: {}", left.events);
            // What was taken out is gone as well from texts that are told once more, whole.
            assert!(!left.events.contains("ecret") && !left.events.contains("silent"), "{name}: {}", left.events);
        }
    }
}

/// Random numbers that are equal in each run (xorshift of 64 bits).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).expect("small")
    }

    /// Cut at some places between characters, some pieces empty.
    fn cut(&mut self, text: &str) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for c in text.chars() {
            if self.below(4) == 0 {
                pieces.push(String::new());
            }
            if let Some(last) = pieces.last_mut() {
                last.push(c);
            }
        }
        pieces
    }
}

#[tokio::test]
async fn a_redacted_stream_of_any_dialect_is_the_redacted_whole() {
    let stage = Stage::new();
    let mut dice = Dice(0x5eed_2026);
    let letters = ["a", "b", "ab", "é", "😀", "\n", " ", "\"", "\\", "c"];
    let rules: Vec<_> = ["ab+", "(?<=a)b", "a.c", "\\bc\\b", "[éa]{2,3}", "😀+"]
        .iter()
        .map(|rule| {
            let checks = json!([{"id": "regexReplace", "parameters": {"rule": rule, "redactText": "<$&>"}}]);
            guardrail(&checks, &json!({"stream": {"mode": "window", "overlap": 40}}))
        })
        .collect();
    for spoken in spoken() {
        for round in 0..60 {
            let text: String = (0..dice.below(20)).map(|_| letters[dice.below(letters.len())]).collect();
            let chosen = vec![rules[dice.below(rules.len())].clone(), rules[dice.below(rules.len())].clone()];
            let target = guarded(chosen.clone(), spoken.shape);
            let stream = Bytes::from((spoken.speech)(&dice.cut(&text)));
            let mut cuts: Vec<usize> = (0..dice.below(6)).map(|_| dice.below(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Bytes> = cuts.windows(2).map(|w| stream.slice(w[0]..w[1])).collect();
            let left = stage.flow(&spoken, &target, &pieces);
            let body = json!({"choices": [{"message": {"role": "assistant", "content": text}}]}).to_string();
            let run = Run::begin(&chosen, target.answering(body.into(), BodyShape::Chat), Timing::Sync, clock::now());
            let rewritten = run.finish(clock::now()).rewritten.map(|content| {
                let body: Value = serde_json::from_slice(content.body()).expect("JSON");
                body["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
            });
            let expected = rewritten.unwrap_or_else(|| text.clone());
            let name = format!("{} {} {round}: {text:?} {:?}", spoken.family, spoken.path, chosen);
            assert_eq!(said(&left.events), expected, "{name}\n{}", left.events);
        }
    }
}

/// Words that nearly stand in the text hold its events for a while, behind each other and behind others.
#[tokio::test]
async fn what_is_not_forbidden_leaves_byte_for_byte_as_it_came() {
    let stage = Stage::new();
    let mut dice = Dice(0xf10_2026);
    let letters = ["a", "b", "c", "ab", "bc", "é", " ", "\n"];
    let rules: Vec<_> = [
        json!({"id": "contains", "parameters": {"words": ["abca", "bcé", "c a"], "operator": "none"}}),
        json!({"id": "contains", "parameters": {"words": ["aaaaaaaabbbb"], "operator": "none"}}),
        json!({"id": "regexMatch", "parameters": {"rule": "ab+c{3}", "not": true}}),
        json!({"id": "wordCount", "parameters": {"maxWords": 1000}}),
    ]
    .iter()
    .map(|check| guardrail(&json!([check]), &json!({"deny": true})))
    .collect();
    let mut stopped = 0;
    for spoken in spoken() {
        let nothing = guarded(Vec::new(), spoken.shape);
        for round in 0..60 {
            let text: String = (0..dice.below(30)).map(|_| letters[dice.below(letters.len())]).collect();
            let chosen = vec![rules[dice.below(rules.len())].clone(), rules[dice.below(rules.len())].clone()];
            let stream = Bytes::from((spoken.speech)(&dice.cut(&text)));
            let mut cuts: Vec<usize> = (0..dice.below(6)).map(|_| dice.below(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Bytes> = cuts.windows(2).map(|w| stream.slice(w[0]..w[1])).collect();
            let came = stage.flow(&spoken, &nothing, &pieces);
            let left = stage.flow(&spoken, &guarded(chosen.clone(), spoken.shape), &pieces);
            let name = format!("{} {} {round}: {text:?} {chosen:?}", spoken.family, spoken.path);
            if left.is_stopped {
                stopped += 1;
                assert!(text.starts_with(&said(&left.events)), "{name}: {}", left.events);
            } else {
                assert_eq!(left.events, came.events, "{name}");
            }
        }
    }
    assert!((50..700).contains(&stopped), "some are forbidden and some are not: {stopped}");
}

#[tokio::test]
async fn events_without_text_do_not_pile_up_behind_one_that_waits() {
    let checks = json!([{"id": "contains", "parameters": {"words": ["secret"], "operator": "none"}}]);
    let target = guarded(vec![guardrail(&checks, &json!({"deny": true}))], BodyShape::Chat);
    let mut judge = StreamJudge::new(Operation::ChatCompletions, &target, &outside(), false).expect("a dialect");
    let said = |text: &str| event(None, &json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    judge.push(&said("sec").into(), &[]);
    let silent =
        event(None, &json!({"choices": [{"index": 0, "delta": {"content": ""}}], "padding": "x".repeat(4096)}));
    let silent = Bytes::from(silent);
    let pushed = (0..2_000).take_while(|_| {
        judge.push(&Bytes::copy_from_slice(&silent), &[]);
        judge.stopped().is_none()
    });
    let pushed = pushed.count();
    assert!((1_000..1_100).contains(&pushed), "4 MiB wait at most: {pushed}");
    assert!(!judge.take_out().windows(3).any(|w| w == b"sec"));
}
