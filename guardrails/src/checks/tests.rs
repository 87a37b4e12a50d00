//! Each built-in check by tables: parameters and text, verdict, and the data that results tell.

mod asking;
mod requests;

use crate::fixture::{NOW, answer, chat, completion, hook, judge, one, request, text_of};
use crate::{BodyShape, CheckResult, Content, Judged};
use serde_json::{Value, json};

pub(super) fn only(judged: &Judged) -> CheckResult {
    hook(judged, 0).checks[0].clone()
}

pub(super) fn check(id: &str, parameters: &Value, content: Content) -> CheckResult {
    only(&judge(&[one(id, parameters)], content))
}

/// A row: check, parameters, text, verdict, and members that the data must have.
type CheckCase = (&'static str, Value, &'static str, bool, Value);

fn hold(rows: Vec<CheckCase>) {
    for (id, parameters, text, verdict, data) in rows {
        for content in [chat(text), completion(&[text])] {
            let found = check(id, &parameters, content);
            let name = format!("{id} {parameters} on {text:?}");
            assert_eq!(found.error, None, "{name}");
            assert_eq!(found.verdict, verdict, "{name}: {}", found.data);
            for (key, expected) in data.as_object().unwrap() {
                assert_eq!(found.data.get(key), Some(expected), "{name}: {key}");
            }
            assert!(found.data["explanation"].is_string(), "{name}");
        }
    }
}

#[test]
fn patterns_are_found_or_must_not_be() {
    hold(vec![
        (
            "regexMatch",
            json!({"rule": "b+"}),
            "abbc",
            true,
            json!({"regexPattern": "b+", "not": false, "verdict": true, "textExcerpt": "abbc",
                "matchDetails": {"matchedText": "bb", "index": 1, "groups": {}, "captures": []}}),
        ),
        (
            "regexMatch",
            json!({"rule": "(?<y>\\d{4})-(x)?"}),
            "in 2026-",
            true,
            json!({"matchDetails": {"matchedText": "2026-", "index": 3, "groups": {"y": "2026"}, "captures": ["2026", null]}}),
        ),
        ("regexMatch", json!({"rule": "B"}), "abc", false, json!({"matchDetails": null})),
        ("regexMatch", json!({"rule": "b", "not": true}), "abc", false, json!({"verdict": false, "not": true})),
        ("regexMatch", json!({"rule": "x", "not": true}), "abc", true, json!({"matchDetails": null})),
        ("regexMatch", json!({"rule": "/b/i"}), "a/b/i", true, json!({"regexPattern": "/b/i"})),
        ("regexMatch", json!({"rule": "^\\d$"}), "٣", false, json!({})),
        (
            "regexMatch",
            json!({"rule": "b"}),
            "😀b",
            true,
            json!({"matchDetails": {"matchedText": "b", "index": 2, "groups": {}, "captures": []}}),
        ),
    ]);
}

#[test]
fn counts_have_bounds() {
    hold(vec![
        (
            "sentenceCount",
            json!({"minSentences": 2}),
            "One. Two!",
            true,
            json!({"sentenceCount": 2, "minCount": 2, "maxCount": 99999}),
        ),
        ("sentenceCount", json!({"maxSentences": 1}), "What?!", false, json!({"sentenceCount": 2})),
        ("sentenceCount", json!({"minSentences": 1}), "", false, json!({"sentenceCount": 0})),
        (
            "wordCount",
            json!({"minWords": 2, "maxWords": 2}),
            "  a \n b ",
            true,
            json!({"wordCount": 2, "minWords": 2, "maxWords": 2}),
        ),
        ("wordCount", json!({"maxWords": 1, "not": true}), "a b", true, json!({"not": true})),
        ("characterCount", json!({"maxCharacters": 2}), "é😀", true, json!({"characterCount": 2})),
        ("characterCount", json!({"minCharacters": 3, "maxCharacters": 9}), " a ", true, json!({"characterCount": 3})),
        ("characterCount", json!({"maxCharacters": "3"}), "abcd", false, json!({"maxCharacters": 3})),
    ]);
}

#[test]
fn words_are_found() {
    let words = json!(["foo", "bar"]);
    hold(vec![
        (
            "contains",
            json!({"words": words}),
            "a foo",
            true,
            json!({"foundWords": ["foo"], "missingWords": ["bar"], "operator": "any"}),
        ),
        ("contains", json!({"words": words, "operator": "all"}), "barfoo", true, json!({"missingWords": []})),
        ("contains", json!({"words": words, "operator": "all"}), "Foo bar", false, json!({"missingWords": ["foo"]})),
        ("contains", json!({"words": words, "operator": "none"}), "", true, json!({"foundWords": []})),
        ("contains", json!({"words": words, "operator": "none"}), "xbarx", false, json!({"foundWords": ["bar"]})),
        ("contains", json!({"words": "foo, bar"}), "bar", true, json!({"foundWords": ["bar"]})),
        ("contains", json!({"words": ["aa", "aab", "b"], "operator": "all"}), "aab", true, json!({"missingWords": []})),
        ("endsWith", json!({"suffix": "end"}), "the end.", true, json!({"suffix": "end", "verdict": true})),
        ("endsWith", json!({"suffix": "end"}), "the end ", false, json!({})),
        ("endsWith", json!({"suffix": "end", "not": true}), "the end", false, json!({"not": true})),
        ("alluppercase", json!({}), "ÀB 1!", true, json!({})),
        ("allUpperCase", json!({}), "Àb", false, json!({})),
        ("alllowercase", json!({}), "straße é 1", true, json!({})),
        ("alllowercase", json!({"not": true}), "É", true, json!({})),
    ]);
}

#[test]
fn code_is_told_by_the_first_word_of_its_mark() {
    hold(vec![
        (
            "containsCode",
            json!({"format": "SQL"}),
            "x\n```sql\nselect 1\n```",
            true,
            json!({"searchedFormat": "SQL", "foundFormats": ["SQL"]}),
        ),
        ("containsCode", json!({"format": "Rust"}), "```rust,ignore title=a\nfn a() {}\n```", true, json!({})),
        ("containsCode", json!({"format": "Shell"}), "```bash {linenos}\nls\n```", true, json!({})),
        ("containsCode", json!({"format": "C++"}), "```c++\nint a;\n```", true, json!({})),
        ("containsCode", json!({"format": "SQL"}), "```py\n1\n```", false, json!({"foundFormats": ["Python"]})),
        ("containsCode", json!({"format": "SQL"}), "select 1", false, json!({"foundFormats": []})),
        ("containsCode", json!({"format": "SQL", "not": true}), "select 1", true, json!({})),
        ("containsCode", json!({"format": "SQL", "not": true}), "```SQL\n1", false, json!({})),
    ]);
}

#[test]
fn json_is_found_in_texts() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "object"}, "at": {"format": "date-time"}}});
    let rule = json!({"schema": schema});
    hold(vec![
        (
            "jsonSchema",
            rule.clone(),
            "{\"a\":{\"b\":{}}}",
            true,
            json!({"matchedJson": {"a": {"b": {}}}, "validationErrors": []}),
        ),
        (
            "jsonSchema",
            rule.clone(),
            "Here: {\"a\":{\"b\":{}}} and {\"c\":1}",
            true,
            json!({"matchedJson": {"a": {"b": {}}}}),
        ),
        ("jsonSchema", rule.clone(), "```json\n{\"a\":{}}\n``` {\"c\":1}", true, json!({"matchedJson": {"a": {}}})),
        ("jsonSchema", rule.clone(), "{\"a\":1}", false, json!({"matchedJson": {"a": 1}})),
        ("jsonSchema", rule.clone(), "{\"a\":{},\"at\":\"yesterday\"}", false, json!({})),
        ("jsonSchema", rule, "none", false, json!({"matchedJson": null})),
        ("jsonSchema", json!({"schema": schema, "not": true}), "{\"a\":1}", true, json!({"not": true})),
        ("jsonSchema", json!({"schema": schema, "not": true}), "none", false, json!({})),
        ("jsonSchema", json!({"schema": schema.to_string()}), "{\"a\":{}}", true, json!({})),
        (
            "jsonKeys",
            json!({"keys": ["a", "b"]}),
            "{\"b\":1}",
            true,
            json!({"presentKeys": ["b"], "missingKeys": ["a"], "operator": "any"}),
        ),
        (
            "jsonKeys",
            json!({"keys": ["a", "b"], "operator": "all"}),
            "{\"a\":1} {\"a\":1,\"b\":2}",
            true,
            json!({"matchedJson": {"a": 1, "b": 2}}),
        ),
        (
            "jsonKeys",
            json!({"keys": ["a"], "operator": "none"}),
            "{\"b\":1} {\"a\":1}",
            false,
            json!({"presentKeys": ["a"]}),
        ),
        ("jsonKeys", json!({"keys": ["a"], "operator": "none"}), "{\"x\":{\"a\":1}}", true, json!({})),
        ("jsonKeys", json!({"keys": ["a"]}), "none", false, json!({"requiredKeys": ["a"]})),
    ]);
    // Another draft's name does not change how the schema is read, and nothing is fetched for it.
    let older = json!({"schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}});
    assert!(check("jsonSchema", &older, completion(&["{}"])).verdict);
    let error = json!([{"path": "/a", "message": "1 is not of type \"object\""}]);
    let found = check("jsonSchema", &json!({"schema": schema}), completion(&["{\"a\":1}"]));
    assert_eq!(found.data["validationErrors"], error);
}

#[test]
fn too_many_candidates_fail_the_check() {
    let many = "{\"a\":1} ".repeat(65);
    let found = check("jsonKeys", &json!({"keys": ["a"]}), completion(&[many.as_str()]));
    assert!(!found.verdict && found.error.unwrap().name == "CandidateLimit");
    let open = "[1,".repeat(2_000);
    let found = check("jsonKeys", &json!({"keys": ["a"]}), completion(&[open.as_str()]));
    assert!(!found.verdict, "{found:?}");
}

#[test]
fn content_is_there_or_not() {
    let message = |content: Value| answer(&json!({"choices": [{"message": {"content": content}}]}), BodyShape::Chat);
    for (content, verdict, kind) in [
        (message(json!("a")), true, "text"),
        (message(json!(null)), false, "null"),
        (message(json!(" \n")), false, "empty"),
        (message(json!([])), false, "null"),
        (
            answer(
                &json!({"choices": [{"message": {"content": null, "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}}]}),
                BodyShape::Chat,
            ),
            true,
            "tool_calls",
        ),
        (
            answer(&json!({"content": [{"type": "tool_use", "name": "f", "input": {}}]}), BodyShape::Messages),
            true,
            "tool_calls",
        ),
        (request(&json!({"messages": []}), BodyShape::Chat), false, "null"),
    ] {
        let found = check("notNull", &json!({}), content.clone());
        assert_eq!((found.verdict, found.data["contentType"].as_str()), (verdict, Some(kind)), "{}", text_of(&content));
        assert_eq!(check("notNull", &json!({"not": true}), content).verdict, !verdict);
    }
}

#[test]
fn replaced_texts_keep_the_shape_around_them() {
    let rule = json!({"rule": "sec(r)et", "redactText": "$1-x"});
    for (content, expected) in [
        (
            Content::new(
                r#"{ "n":1.50, "messages":[{"role":"user","content":"a secret secret" }] }"#.into(),
                BodyShape::Chat,
                crate::Direction::Input,
            ),
            r#"{ "n":1.50, "messages":[{"role":"user","content":"a r-x r-x" }] }"#,
        ),
        (request(&json!({"input": ["secret", "b"]}), BodyShape::Embeddings), r#"{"input":["r-x","b"]}"#),
        (request(&json!({"input": "secret"}), BodyShape::Embeddings), r#"{"input":"r-x"}"#),
        (request(&json!({"prompt": ["a", "secret"]}), BodyShape::Completions), r#"{"prompt":["a","r-x"]}"#),
        (
            request(
                &json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "secret"}}, {"type": "text", "text": "secret"}]}]}),
                BodyShape::Chat,
            ),
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"secret"}},{"type":"text","text":"r-x"}]}]}"#,
        ),
        (
            request(
                &json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "secret"}]}]}]}),
                BodyShape::Messages,
            ),
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r-x"}]}]}]}"#,
        ),
        (
            request(
                &json!({"input": [{"type": "function_call_output", "call_id": "c", "output": "secret"}]}),
                BodyShape::Responses,
            ),
            r#"{"input":[{"type":"function_call_output","call_id":"c","output":"r-x"}]}"#,
        ),
        (
            answer(
                &json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": "secret"}]}]}),
                BodyShape::Responses,
            ),
            r#"{"output":[{"type":"message","content":[{"type":"output_text","text":"r-x"}]}]}"#,
        ),
        (
            answer(
                &json!({"content": [{"type": "text", "text": "secret"}, {"type": "tool_use", "input": {"q": "secret", "n": 1}}]}),
                BodyShape::Messages,
            ),
            r#"{"content":[{"type":"text","text":"r-x"},{"type":"tool_use","input":{"q":"r-x","n":1}}]}"#,
        ),
        (
            answer(
                &json!({"choices": [{"message": {"content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"q\": \"secret\"}"}}]}}]}),
                BodyShape::Chat,
            ),
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"q\": \"r-x\"}"}}]}}]}"#,
        ),
        (answer(&json!({"choices": [{"text": "secret"}]}), BodyShape::Completions), r#"{"choices":[{"text":"r-x"}]}"#),
    ] {
        let before = text_of(&content);
        let judged = judge(&[one("regexReplace", &rule)], content);
        let found = only(&judged);
        assert!(found.verdict && found.transformed && found.error.is_none(), "{before}");
        assert_eq!(found.data["regexPattern"], json!("sec(r)et"));
        assert_eq!(text_of(&judged.rewritten.unwrap()), expected, "{before}");
    }
}

#[test]
fn replacing_has_flags_deletes_and_detects() {
    for (parameters, text, expected) in [
        (json!({"rule": "/B/gi", "redactText": "*"}), "abB", Some("a**")),
        (json!({"rule": "/B/i", "redactText": "*"}), "abB", Some("a**")),
        (json!({"rule": "a+", "redactText": ""}), "xaay", Some("xy")),
        (json!({"rule": "a"}), "xa", Some("x[REDACTED]")),
        (json!({"rule": "a"}), "x", None),
        (json!({"rule": "x*", "redactText": "-"}), "axb", Some("a-b")),
        (json!({"rule": "/^a/m", "redactText": "*"}), "a\na", Some("*\n*")),
        (json!({"rule": "a/b", "redactText": "*"}), "a/b", Some("*")),
    ] {
        let judged = judge(&[one("regexReplace", &parameters)], completion(&[text]));
        let rewritten = judged.rewritten.map(|c| c.joined(crate::content::Selection::TEXT)[0].text.clone());
        assert_eq!(rewritten.as_deref(), expected, "{parameters} on {text}");
    }
    let found = check("regexReplace", &json!({"rule": "a", "failOnDetection": true}), completion(&["a"]));
    assert!(!found.verdict && found.transformed, "what was found is replaced, and fails");
    let found = check("regexReplace", &json!({"rule": "(a*)*\\1b"}), completion(&[&format!("{}!", "a".repeat(60))]));
    assert!(!found.verdict && found.error.unwrap().name == "RegexLimit");
}

#[test]
fn personal_data_is_told_by_its_form() {
    let all = json!(["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "SSN"]);
    for (text, expected) in [
        ("write to ann.b+c@mail.example.com.", "write to {{EMAIL_ADDRESS_1}}."),
        ("a@b.example, c@d.example, a@b.example", "{{EMAIL_ADDRESS_1}}, {{EMAIL_ADDRESS_2}}, {{EMAIL_ADDRESS_1}}"),
        ("card 4111 1111 1111 1111 ok", "card {{CREDIT_CARD_1}} ok"),
        ("card 4111-1111-1111-1111", "card {{CREDIT_CARD_1}}"),
        ("card 4111 1111 1111 1112", "card 4111 1111 1111 1112"),
        ("at 192.168.0.1, not 1.2.3.4.5 or 256.1.1.1", "at {{IP_ADDRESS_1}}, not 1.2.3.4.5 or 256.1.1.1"),
        ("at 2001:db8::1 and ::ffff:1.2.3.4", "at {{IP_ADDRESS_1}} and {{IP_ADDRESS_2}}"),
        ("ssn 123-45-6789, not 000-12-3456", "ssn {{SSN_1}}, not 000-12-3456"),
        ("call +1 (555) 123-4567 or 555-123-4567", "call {{PHONE_NUMBER_1}} or {{PHONE_NUMBER_2}}"),
        ("on 2026-11-22 at 12:30:45 order 12345678", "on 2026-11-22 at 12:30:45 order 12345678"),
        ("std::io::Error and a::b", "std::io::Error and a::b"),
        ("version 1.2.3, 3.14159265", "version 1.2.3, 3.14159265"),
    ] {
        let judged = judge(&[one("pro.pii", &json!({"categories": all, "redact": true}))], chat(text));
        let found = only(&judged);
        assert!(found.verdict, "{text}: {}", found.data);
        let rewritten = judged.rewritten.map(|c| c.parts()[0].text.to_string());
        assert_eq!(rewritten.as_deref().unwrap_or(text), expected);
        assert!(!found.data.to_string().contains("4111"), "results tell categories only");
    }
    let found = check("pro.pii", &json!({"categories": ["SSN"]}), chat("my number is 123-45-6789"));
    assert!(!found.verdict && !found.transformed && found.data["detectedCategories"] == json!(["SSN"]));
    assert!(check("pro.pii", &json!({"categories": ["SSN"], "not": true}), chat("123-45-6789")).verdict);
}

#[test]
fn languages_are_told_where_they_can_be() {
    let english = "The quick brown fox jumps over the lazy dog while the children are watching from the window.";
    let german = "Der schnelle braune Fuchs springt über den faulen Hund, während die Kinder vom Fenster aus zusehen.";
    let chinese = "今天天气很好，我们去公园散步吧。那里有很多花和树。";
    let traditional = "今天天氣很好，我們去公園散步吧。那裡有很多花和樹。";
    for (wanted, text, verdict, found) in [
        (json!(["eng_Latn"]), english, true, "eng_Latn"),
        (json!(["eng_Latn"]), german, false, "deu_Latn"),
        (json!("deu_Latn, fra_Latn"), german, true, "deu_Latn"),
        (json!(["zho_Hans"]), chinese, true, "zho_Hans"),
        (json!(["zho_Hans"]), traditional, false, "zho_Hant"),
    ] {
        let result = check("pro.language", &json!({"language": wanted}), chat(text));
        assert_eq!((result.verdict, result.data["language"].as_str()), (verdict, Some(found)), "{text}");
    }
    let result = check("pro.language", &json!({"language": ["eng_Latn"]}), chat("ok"));
    assert_eq!(result.error.map(|e| e.name).as_deref(), Some("UnreliableLanguage"));
    assert!(result.verdict, "an error lets pass");
}

#[test]
fn empty_texts_are_an_error_that_passes_unless_told() {
    for id in ["regexMatch", "wordCount", "endsWith", "alluppercase", "jsonKeys", "validUrls", "regexReplace"] {
        let mut parameters = match id {
            "regexMatch" | "regexReplace" => json!({"rule": "a"}),
            "endsWith" => json!({"suffix": "a"}),
            "jsonKeys" => json!({"keys": ["a"]}),
            _ => json!({}),
        };
        let found = check(id, &parameters, completion(&[""]));
        assert!(found.verdict && found.error.unwrap().message.starts_with("Missing text"), "{id}");
        parameters["failOnError"] = json!(true);
        let found = check(id, &parameters, completion(&[""]));
        assert!(!found.verdict && found.fail_on_error, "{id}");
    }
}

#[test]
fn the_chosen_texts_are_judged() {
    let body = json!({"messages": [
        {"role": "system", "content": "sys"}, {"role": "user", "content": "first"},
        {"role": "assistant", "content": "mid", "reasoning_content": "why",
            "tool_calls": [{"function": {"name": "f", "arguments": "{\"q\":\"arg\"}"}}]},
        {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "text", "text": "last"}]},
        {"role": "tool", "content": "tool"}]});
    for (parameters, expected) in [
        (json!({}), "tool"),
        (json!({"scan_scope": "last_message"}), "tool"),
        (json!({"scan_scope": "last_user_message"}), "part\nlast"),
        (json!({"scan_scope": "user_messages"}), "first\npart\nlast"),
        (json!({"scan_scope": "all_messages"}), "sys\nfirst\nmid\npart\nlast\ntool"),
        (json!({"scan_scope": "all_messages", "scan": ["tool"]}), "arg"),
        (json!({"scan_scope": "all_messages", "scan": "reasoning"}), "why"),
        (
            json!({"scan_scope": "all_messages", "scan": ["text", "tool", "reasoning"]}),
            "sys\nfirst\nmid\nwhy\narg\npart\nlast\ntool",
        ),
    ] {
        let mut parameters = parameters;
        parameters["rule"] = json!("[^]*");
        let found = check("regexMatch", &parameters, request(&body, BodyShape::Chat));
        assert_eq!(found.data["matchDetails"]["matchedText"], json!(expected), "{parameters}");
    }
}

/// A key that stands twice is judged twice: readers differ on which one counts.
#[test]
fn nothing_hides_behind_a_second_key() {
    let rule = json!({"words": ["bad"], "operator": "none"});
    for body in [
        r#"{"messages":[{"role":"user","content":"bad","content":"good"}]}"#,
        r#"{"messages":[{"role":"user","content":"good","content":"bad"}]}"#,
        r#"{"messages":[{"role":"user","content":"bad"}],"messages":[]}"#,
        r#"{"messages":[{"role":"user","content":"b\u0061d"}]}"#,
        r#"{"messages":[{"role":"user","content":"\ud800bad"}]}"#,
        r#"{"messages":[{"role":"user","c\u006fntent":"bad"}]}"#,
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"bad"}}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","type":"thinking","text":"bad"}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"image","text":"bad"}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"document","title":"bad","source":{}}]}]}"#,
    ] {
        let content = Content::new(body.into(), BodyShape::Chat, crate::Direction::Input);
        assert!(!check("contains", &rule, content).verdict, "{body}");
    }
    for (body, shape) in [
        (r#"{"prompt":"good","suffix":"bad"}"#, BodyShape::Completions),
        (r#"{"input":"good","prompt":{"id":"p","variables":{"who":"bad"}}}"#, BodyShape::Responses),
        (r#"{"prompt":{"id":"p","variables":{"who":{"type":"input_text","text":"bad"}}}}"#, BodyShape::Responses),
        (r#"{"input":[{"type":"message","type":"reasoning","role":"user","content":"bad"}]}"#, BodyShape::Responses),
        (
            r#"{"input":[{"type":"item_of_another_day","content":[{"type":"input_text","text":"bad"}]}]}"#,
            BodyShape::Responses,
        ),
    ] {
        let content = Content::new(body.into(), shape, crate::Direction::Input);
        assert!(!check("contains", &rule, content).verdict, "{body}");
    }
    let users = json!({"words": ["bad"], "operator": "none", "scan_scope": "user_messages"});
    let content = Content::new(
        r#"{"messages":[{"role":"user","role":"assistant","content":"bad"}]}"#.into(),
        BodyShape::Chat,
        crate::Direction::Input,
    );
    assert!(!check("contains", &users, content).verdict, "what may be the user's is judged as such");
    let found =
        check("contains", &rule, Content::new("{\"messages\":".into(), BodyShape::Chat, crate::Direction::Input));
    assert!(!found.verdict && found.error.unwrap().name == "UnreadableBody");
}

#[test]
fn results_name_the_time() {
    let found = check("contains", &json!({"words": ["a"]}), chat("a"));
    assert_eq!(found.created_at, NOW.to_string());
    assert!(found.created_at.ends_with("008Z"));
}
