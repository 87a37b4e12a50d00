//! How many tokens a text or the body of a request has, by the tokenizers that are here. No provider is asked and
//! nothing is counted against limits; what is an estimate says so. Knows no tokenizer: the port counts.

use crate::problem::{Problem, bad, busy, not_built};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::config::split_model;
use gateway_domain::ports::{TokenSubject, TooBusyToCount};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const WRITE: &[Scope] = &[Scope::named("completions.write")];
    vec![
        authed(Method::POST, "/gateway/tokenize", WRITE, "Count the tokens of a text or of a request", tokenize)
            .takes::<TokenizeAsk>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenizeAsk {
    model: Option<String>,
    text: Option<String>,
    messages: Option<Vec<Value>>,
    system: Option<Value>,
    tools: Option<Vec<Value>>,
    functions: Option<Vec<Value>>,
}

async fn tokenize(call: AdminCall) -> Result<AdminReply, Problem> {
    let ask: TokenizeAsk = call.body()?.read()?;
    let model = ask.model.as_deref().map(|name| split_model(name).map_or(name, |(_, model)| model).to_owned());
    if model.as_ref().is_some_and(|name| name.is_empty() || name.len() > 255) {
        return Err(bad("model", "must have 1..255 bytes"));
    }
    let beside = [
        ("messages", ask.messages.map(Value::from)),
        ("system", ask.system),
        ("tools", ask.tools.map(Value::from)),
        ("functions", ask.functions.map(Value::from)),
    ];
    let mut request = Map::new();
    for (name, value) in beside {
        if let Some(value) = value {
            request.insert(name.to_owned(), value);
        }
    }
    let subject = match (ask.text, request.is_empty()) {
        (Some(_), false) => {
            return Err(bad("text", "must not stand beside a request's messages, system, tools, functions"));
        }
        (None, true) => return Err(bad("text", "is required, or the messages of a request")),
        (Some(text), true) => TokenSubject::Text(text),
        (None, false) if !request.contains_key("messages") => {
            return Err(bad("messages", "is required beside system, tools and functions"));
        }
        (None, false) => TokenSubject::Request(Value::Object(request).to_string()),
    };
    let Some(counts) = &call.app.token_counts else {
        return Err(not_built(call.method.as_str(), call.route.path));
    };
    let told = counts.count_tokens(model.clone(), subject).await;
    let told = told.map_err(|TooBusyToCount| busy("too much is being counted: try again in a moment"))?;
    Ok(AdminReply::json(json!({
        "object": "tokenization",
        "model": model,
        "tokens": told.tokens,
        "tokenizer": told.tokenizer,
        "estimated": !told.is_exact,
    })))
}
