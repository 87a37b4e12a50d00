//! The texts in a client's event that a model will read: items of the conversation, instructions, what functions gave,
//! the variables of prompts. They are known by the names of their members, wherever these stand, so that an event that
//! is not known yet hides none. Sounds, ids and settings are not texts.

use serde_json::Value;

/// Members whose strings are texts.
const TEXTS: [&str; 8] = ["text", "transcript", "instructions", "input", "content", "output", "arguments", "prompt"];
/// All strings below it are.
const VARIABLES: &str = "variables";

/// The event as only one reader could read it: none of its members stands twice. `None`: it has no texts.
pub fn texts_alone(json: &str) -> Option<String> {
    let mut event: Value = serde_json::from_str(json).ok()?;
    let mut count = 0;
    walk(&mut event, ValuePlace::Elsewhere, &mut |_| {
        count += 1;
        None
    });
    (count > 0).then(|| event.to_string())
}

/// Shows each text, in the order of the event; gives the event with those that are put in their place. `None`: nothing
/// was changed.
pub fn each_text(json: &str, visit: &mut dyn FnMut(&str) -> Option<String>) -> Option<String> {
    let mut event: Value = serde_json::from_str(json).ok()?;
    walk(&mut event, ValuePlace::Elsewhere, visit).then(|| event.to_string())
}

/// The texts in the arguments of a function that a model asks for: every string in them, or all of it where that is no
/// JSON.
pub fn call_texts(arguments: &str) -> Vec<String> {
    fn gather(value: Value, all: &mut Vec<String>) {
        match value {
            Value::String(text) if !text.is_empty() => all.push(text),
            Value::Array(list) => list.into_iter().for_each(|one| gather(one, all)),
            Value::Object(members) => members.into_iter().for_each(|(_, one)| gather(one, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    match serde_json::from_str(arguments) {
        Ok(value) => gather(value, &mut all),
        Err(_) if arguments.is_empty() => {}
        Err(_) => all.push(arguments.to_owned()),
    }
    all
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    Elsewhere,
    Text,
    /// Inside `variables` every string is a text, but for the `type` of one that is an object.
    Variables,
}

/// Whether something was changed.
fn walk(value: &mut Value, place: ValuePlace, visit: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    match value {
        Value::String(text) if place != ValuePlace::Elsewhere && !text.is_empty() => match visit(text) {
            Some(other) => {
                *text = other;
                true
            }
            None => false,
        },
        Value::Array(list) => list.iter_mut().fold(false, |changed, one| changed | walk(one, place, visit)),
        Value::Object(members) => members.iter_mut().fold(false, |changed, (name, one)| {
            let below = match name.as_str() {
                "type" => ValuePlace::Elsewhere,
                VARIABLES => ValuePlace::Variables,
                _ if place == ValuePlace::Variables => place,
                name if TEXTS.contains(&name) => ValuePlace::Text,
                _ => ValuePlace::Elsewhere,
            };
            changed | walk(one, below, visit)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_text(json, &mut |text| {
            all.push(text.to_owned());
            None
        });
        all
    }

    #[test]
    fn what_a_model_will_read_is_found_wherever_it_stands() {
        for (json, found) in [
            (
                r#"{"type":"conversation.item.create","item":{"type":"message","role":"user","id":"i","content":[
                    {"type":"input_text","text":"one"},{"type":"input_audio","audio":"AAAA","transcript":"two"}]}}"#,
                &["one", "two"][..],
            ),
            (r#"{"type":"x","item":{"type":"function_call_output","call_id":"c","output":"three"}}"#, &["three"]),
            (r#"{"type":"session.update","session":{"model":"m","instructions":"four","voice":"v"}}"#, &["four"]),
            (
                r#"{"type":"session.update","session":{"prompt":{"id":"p","variables":{"a":"five","b":{"type":"input_text","text":"six"}}}}}"#,
                &["five", "six"],
            ),
            (
                r#"{"type":"response.create","response":{"instructions":"seven","input":[{"content":[{"text":"eight"}]}]}}"#,
                &["seven", "eight"],
            ),
            (r#"{"type":"new.event","deep":[{"text":["nine"]}]}"#, &["nine"]),
            (r#"{"type":"session.update","session":{"audio":{"input":{"transcription":{"prompt":"ten"}}}}}"#, &["ten"]),
            (r#"{"type":"input_audio_buffer.append","audio":"text"}"#, &[]),
            (r#"{"type":"response.create"}"#, &[]),
            (r#"{"type":"x","text":"","output":null,"arguments":7}"#, &[]),
            (
                r#"{"type":"response.create","model":"m","input":[{"role":"user","content":"eleven"},{"content":[{"text":"twelve"}]}]}"#,
                &["eleven", "twelve"],
            ),
            (r#"{"type":"response.create","input":"thirteen"}"#, &["thirteen"]),
            ("no JSON", &[]),
        ] {
            assert_eq!(texts(json), found, "{json}");
            assert_eq!(texts_alone(json).is_some(), !found.is_empty(), "{json}");
        }
    }

    #[test]
    fn texts_are_put_in_place_of_others() {
        let json = r#"{"item":{"content":[{"text":"one","n":1},{"text":"two"}]}}"#;
        let other = each_text(json, &mut |text| (text == "two").then(|| "***".to_owned()));
        let other: Value = serde_json::from_str(&other.expect("changed")).expect("JSON");
        assert_eq!(other, serde_json::json!({"item":{"content":[{"text":"one","n":1},{"text":"***"}]}}));
        assert_eq!(each_text(json, &mut |_| None), None);
    }

    #[test]
    fn arguments_are_the_strings_in_them() {
        for (arguments, found) in [
            (r#"{"q":"one","n":1,"deep":[{"type":"two"},""]}"#, &["two", "one"][..]),
            (r#""three""#, &["three"]),
            (r#"{"q":"cut"#, &[r#"{"q":"cut"#]),
            ("{}", &[]),
            ("", &[]),
        ] {
            let mut told = call_texts(arguments);
            told.sort_by_key(|text| std::cmp::Reverse(text.clone()));
            let mut found = found.to_vec();
            found.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(told, found, "{arguments}");
        }
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_said_in_one() {
        let told = texts_alone(r#"{"item":{"text":"good","text":"bad"}}"#).expect("texts");
        assert_eq!((told.as_str(), texts(&told)), (r#"{"item":{"text":"bad"}}"#, vec!["bad".to_owned()]));
    }
}
