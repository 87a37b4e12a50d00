//! What is heard of each dialect's events, and that they can be changed in place.

use super::*;

fn events(operation: Operation, events: &str) -> Vec<TappedEvent> {
    let mut tap = Tap::new(operation).expect("a dialect");
    tap.read(&Bytes::copy_from_slice(events.as_bytes())).expect("events")
}

fn heard(event: &TappedEvent) -> Vec<(TextKind, u32, &str, bool)> {
    event.texts.iter().map(|t| (t.lane.kind, t.lane.part, t.text.as_str(), t.is_echo)).collect()
}

#[test]
fn chunks_tell_texts_and_calls_of_each_choice() {
    use TextKind::{Reasoning, Text, Tool};
    let all = events(
        Operation::ChatCompletions,
        concat!(
            ": ping\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"h\\u0069\",\"reasoning_content\":\"why\"},\
             \"logprobs\":{\"content\":[{\"token\":\"hi\"}]}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":2,\"id\":\"c\",\
             \"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            "data: [DONE]\n\n",
        ),
    );
    assert!(all[0].is_aside && all[1].says_more);
    assert_eq!(heard(&all[2]), [(Text, 0, "hi", false), (Reasoning, 0, "why", false)]);
    assert_eq!(all[2].texts[0].lane.choice, 1);
    assert!(!all[2].says_more);
    assert_eq!((heard(&all[3]), all[3].is_call), (vec![(Tool, 2, "{", false)], true));
    assert_eq!(all[4].closed, [Closed { choice: Some(0), part: None }]);
    assert!(all[5].is_last);
    let changed = all[2].with_texts([Some("a \"b\""), None]);
    let text = String::from_utf8_lossy(&changed);
    assert!(text.contains(r#""content":"a \"b\"","reasoning_content":"why""#), "{text}");
    assert!(text.contains(r#""logprobs":null"#), "{text}");
    assert_eq!(all[2].with_texts([Some("hi"), None]), all[2].bytes, "what stays the same keeps its spelling");
}

#[test]
fn a_key_that_stands_twice_is_heard_twice() {
    let all = events(
        Operation::ChatCompletions,
        "data: {\"choices\":[{\"delta\":{\"content\":\"one\",\"content\":\"two\"}}]}\n\n",
    );
    let texts: Vec<&str> = all[0].texts.iter().map(|t| t.text.as_str()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn what_is_no_object_cannot_be_tapped() {
    let mut tap = Tap::new(Operation::ChatCompletions).expect("a dialect");
    assert_eq!(tap.read(&Bytes::from_static(b"data: nonsense\n\n")), Err(Untappable));
}

#[test]
fn data_of_several_lines_is_one() {
    let all = events(Operation::Completions, "data: {\"choices\":\ndata: [{\"text\":\"hi\"}]}\n\n");
    assert_eq!(heard(&all[0]), [(TextKind::Text, 0, "hi", false)]);
    assert!(String::from_utf8_lossy(&all[0].with_texts([Some("ho")])).contains("{\"text\":\"ho\"}"));
}

#[test]
fn blocks_of_messages_are_lanes() {
    use TextKind::{Reasoning, Text, Tool};
    let all = events(
        Operation::Messages,
        concat!(
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\
             \"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\
             \"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\
             \"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n",
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
    );
    assert!(all[0].is_aside);
    assert_eq!(heard(&all[2]), [(Reasoning, 0, "hm", false)]);
    assert_eq!(heard(&all[3]), [(Text, 1, "hi", false)]);
    assert_eq!((heard(&all[4]), all[4].is_call), (vec![(Tool, 2, "{", false)], true));
    assert_eq!(all[5].closed, [Closed { choice: Some(0), part: Some(2) }]);
    assert!(all[6].is_last);
}

#[test]
fn whole_texts_of_responses_are_echoes_of_their_pieces() {
    use TextKind::{Text, Tool};
    let all = events(
        Operation::Responses,
        concat!(
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"content_index\":0,\"delta\":\"hi\",\
             \"logprobs\":[{}]}\n\n",
            "data: {\"type\":\"response.output_text.done\",\"output_index\":1,\"content_index\":0,\"text\":\"hi\"}\n\n",
            "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":2,\"delta\":\"{\"}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"reasoning\"},{\"type\":\"message\",\
             \"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]},{\"type\":\"function_call\",\"arguments\":\"{}\"}]}}\n\n",
        ),
    );
    let place = PLACE;
    assert_eq!(heard(&all[0]), [(Text, place, "hi", false)]);
    assert_eq!(heard(&all[1]), [(Text, place, "hi", true)]);
    assert_eq!(heard(&all[2]), [(Tool, 2 * place, "{", false)]);
    assert_eq!(heard(&all[3]), [(Text, place, "hi", true), (Tool, 2 * place, "{}", true)]);
    assert!(all[3].is_last);
    assert!(String::from_utf8_lossy(&all[0].with_texts([Some("x")])).contains("\"logprobs\":[]"));
}

/// The number of the first text of the second item.
const PLACE: u32 = 256;

#[test]
fn a_refusal_ends_each_dialect() {
    let chunk = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    let start =
        "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let created =
        "data: {\"type\":\"response.created\",\"sequence_number\":4,\"response\":{\"id\":\"r\",\"output\":[]}}\n\n";
    for (operation, event, told) in [
        (Operation::ChatCompletions, chunk, &["\"finish_reason\":\"content_filter\"", "\"id\":\"c\"", "[DONE]"][..]),
        (Operation::Messages, start, &["\"index\":3", "\"stop_reason\":\"refusal\"", "message_stop"]),
        (Operation::Responses, created, &["response.incomplete", "content_filter", "\"sequence_number\":5"]),
    ] {
        let mut tap = Tap::new(operation).expect("a dialect");
        tap.read(&Bytes::copy_from_slice(event.as_bytes())).expect("events");
        let text = String::from_utf8_lossy(&tap.refuse()).into_owned();
        assert!(told.iter().all(|t| text.contains(t)), "{operation:?}: {text}");
    }
}

/// All that is heard of events, one after another: what fits the last is told from what was read.
fn listened(operation: Operation, events: &str) -> Vec<(bool, String, usize)> {
    let (mut tap, bytes) = (Tap::new(operation).expect("a dialect"), Bytes::copy_from_slice(events.as_bytes()));
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        let (heard, end) = tap.next(&bytes, at).expect("events");
        let text = |event: &TappedEvent| event.texts.iter().map(|t| t.text.as_str()).collect::<String>();
        out.push(match &heard {
            TappedItem::Text(heard) => {
                let again = tap.read_again(bytes.slice(heard.event.clone())).expect("an event");
                assert_eq!((text(&again).as_str(), again.texts[0].lane), (&*heard.text, heard.lane));
                assert_eq!((heard.event.clone(), again.texts.len()), (at..end, 1));
                (true, heard.text.clone().into_owned(), end - at)
            }
            TappedItem::Event(event) => (false, text(event), end - at),
        });
        at = end;
    }
    out
}

#[test]
fn events_that_differ_in_their_text_alone_are_not_read_again() {
    let chunk = |text: &str, more: &str| {
        format!("data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}}}]{more}}}\n\n")
    };
    let pad = |pad: &str| format!(",\"obfuscation\":\"{pad}\"");
    let stream = [
        chunk("\"one\"", &pad("abc")),
        chunk("\"\"", &pad("")),
        chunk("\"t\\\"w\\u00f6\\n\"", &pad("x")),
        chunk("\"drei – 🦀\"", &pad("yz")),
        // Not alike: another value, another text beside it, an escape in what says nothing, no text at all.
        chunk("null", &pad("x")),
        chunk("\"a\",\"refusal\":\"b\"", &pad("x")),
        chunk("\"c\"", &pad("\\u0061")),
        chunk("\"d\"", ",\"usage\":null"),
        chunk("\"e\"", ",\"usage\":null"),
        "data: [DONE]\n\n".to_owned(),
    ];
    let heard = listened(Operation::ChatCompletions, &stream.concat());
    let told: Vec<(bool, &str)> = heard.iter().map(|(fits, text, _)| (*fits, text.as_str())).collect();
    let expected = [
        (false, "one"),
        (true, ""),
        (true, "t\"wö\n"),
        (true, "drei – 🦀"),
        (false, ""),
        (false, "ab"),
        (false, "c"),
        (false, "d"),
        (true, "e"),
        (false, ""),
    ];
    assert_eq!(told, expected);
    assert!(heard.iter().zip(&stream).all(|((.., length), event)| *length == event.len()));
}

#[test]
fn choices_and_dialects_each_have_their_like() {
    let chunk = |index: u32, text: &str| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let two = [chunk(0, "a"), chunk(1, "b"), chunk(0, "c"), chunk(1, "d")].concat();
    let fits = |heard: Vec<(bool, String, usize)>| heard.into_iter().map(|(fits, ..)| fits).collect::<Vec<_>>();
    assert_eq!(fits(listened(Operation::ChatCompletions, &two)), [false, false, true, true]);
    let delta = |number: u32, text: &str| {
        let event = "{\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0";
        format!("event: x\ndata: {event},\"delta\":\"{text}\",\"sequence_number\":{number},\"logprobs\":[]}}\n\n")
    };
    let numbered = [delta(9, "a"), delta(10, "b"), delta(1_000, "c")].concat();
    assert_eq!(fits(listened(Operation::Responses, &numbered)), [false, true, true]);
    let mut tap = Tap::new(Operation::Responses).expect("a dialect");
    let bytes = Bytes::from(numbered);
    let mut at = 0;
    while at < bytes.len() {
        at = tap.next(&bytes, at).expect("events").1;
    }
    assert!(String::from_utf8_lossy(&tap.refuse()).contains("\"sequence_number\":1001"));
    let block = |text: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let blocks = [
        block("a"),
        block("b"),
        block("c").replace("text_delta", "signature_delta").replace("text\":", "signature\":"),
    ];
    assert_eq!(fits(listened(Operation::Messages, &blocks.concat())), [false, true, false]);
}

#[test]
fn what_is_no_json_fits_nothing() {
    let chunk = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    for text in ["a\tb", "a\\x", "a\u{1}b", "a\nb"] {
        let events = Bytes::from([chunk("fine"), chunk(text)].concat());
        let mut tap = Tap::new(Operation::ChatCompletions).expect("a dialect");
        let (_, at) = tap.next(&events, 0).expect("an event");
        assert!(tap.next(&events, at).is_err(), "{text:?}");
    }
}
