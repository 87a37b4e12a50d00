//! Steps of chunks as servers really send them: calls numbered in odd ways, content in parts, errors in place.

use super::*;

/// Steps in short, one a line.
fn render_steps(events: &[&str]) -> Vec<String> {
    let mut reader = ChatReader::default();
    let mut all = Vec::new();
    for event in events {
        let mut steps = Vec::new();
        let outcome = reader.event(event.as_bytes(), &mut steps);
        all.extend(steps.iter().map(|step| match step {
            ResponseEvent::Open { model, .. } => format!("open {}", model.as_deref().unwrap_or_default()),
            ResponseEvent::Text { block, text } => format!("text {block} {text}"),
            ResponseEvent::Reasoning { block, text } => format!("reasoning {block} {text}"),
            ResponseEvent::ToolOpen { call, id, name, .. } => format!("call {call} {id} {name}"),
            ResponseEvent::ToolArguments { call, fragment } => format!("arguments {call} {fragment}"),
            ResponseEvent::Finish { standard, .. } => format!("finish {standard}"),
            ResponseEvent::End { usage } => format!("end {}", usage.is_some()),
            other => format!("{other:?}"),
        }));
        all.extend(outcome.err().map(|bad| format!("{bad:?}")));
    }
    all
}

#[test]
fn reasoning_text_and_calls_in_order() {
    let events = [
        r#"{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","reasoning":"hm","content":null}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"so"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"id":"a","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"arguments":"{\"x\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"arguments":"1}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":4,"id":"b","function":{"name":"g"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        "[DONE]",
        "[DONE]",
    ];
    let expected = [
        "open m",
        "reasoning 1 hm",
        "text 2 so",
        "call 0 a f",
        "arguments 0 {\"x\":",
        "arguments 0 1}",
        "call 1 b g",
        "arguments 1 {}",
        "finish tool_calls",
        "end true",
    ];
    assert_eq!(render_steps(&events), expected);
}

#[test]
fn calls_of_servers_that_number_badly() {
    let same_number = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]}}]}"#,
    ];
    assert_eq!(render_steps(&same_number)[1..], ["call 0 a f", "arguments 0 {}", "call 1 b f", "arguments 1 {}"]);
    let none = [
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g"}}]}}]}"#,
    ];
    assert_eq!(render_steps(&none)[1..], ["call 0 call_0 f", "arguments 0 {\"a\":1}", "call 1 call_1 g"]);
}

#[test]
fn parts_of_mistral_and_choices() {
    let events = [
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#,
        "[DONE]",
    ];
    let steps = render_steps(&events);
    assert_eq!(steps[..5], ["open ", "reasoning 1 hm", "text 2 a", "Choice(1)", "text 3 b"]);
    assert_eq!(steps[5..], ["Choice(0)", "finish stop", "Choice(1)", "finish stop", "end false"]);
}

#[test]
fn errors_in_place_of_chunks() {
    assert!(render_steps(&[r#"{"error":{"message":"no","code":429}}"#])[0].contains("429"));
    assert!(render_steps(&[r#"{"choices":[{"error":{"message":"cut"},"finish_reason":"error"}]}"#])[1].contains("cut"));
    assert_eq!(render_steps(&["{"]), ["Unreadable"]);
}
