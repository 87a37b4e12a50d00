//! Every row of the query language, as a table of query, request and verdict.

use super::*;
use crate::config::compiler::Compiler;
use crate::config::place::At;
use crate::config::{Context, compile};
use crate::egress::Trusted;
use crate::secret::Secret;
use serde_json::json;

struct JsonRequest(Value);

impl RequestAttributes for JsonRequest {
    fn metadata(&self, key: &str) -> Option<&str> {
        self.0["metadata"].get(key)?.as_str()
    }

    fn param(&self, key: &str) -> Option<&Value> {
        self.0["params"].get(key)
    }

    fn pathname(&self) -> &str {
        "/v1/chat/completions"
    }
}

fn request() -> JsonRequest {
    JsonRequest(json!({
        "metadata": {"plan": "paid", "n": "12", "empty": ""},
        "params": {
            "model": "gpt-4o-mini", "n": 3, "temperature": 0.5, "stream": true, "nil": null, "text": " 7.5 apples",
            "messages": [{"role": "user"}], "deep": {"er": 1}, "exp": "1e2", "sign": "-4x",
        },
    }))
}

fn built(query: &Value) -> Result<Query, Vec<super::super::ConfigProblem>> {
    let trusted = Trusted::default();
    let open = |s: &str| Some(Secret::new(s.to_owned()));
    let context = Context { known_provider: &|_| true, trusted: &trusted, open: &open, saved: false };
    let mut compiler = Compiler::new(&context);
    let made = compiler.query(&At::ROOT.then("query"), query, 0);
    if compiler.problems.is_empty() { Ok(made) } else { Err(compiler.problems) }
}

#[track_caller]
fn holds(query: &Value, expected: bool) {
    let built = built(query).unwrap_or_else(|p| panic!("{query}: {p:?}"));
    assert_eq!(built.matches(&request(), &mut Effort::default()), Ok(expected), "{query}");
}

#[test]
fn keys_have_two_segments() {
    for (query, expected) in [
        (json!({"metadata.plan": "paid"}), true),
        (json!({"metadata.plan": "free"}), false),
        (json!({"params.model": "gpt-4o-mini"}), true),
        (json!({"url.pathname": "/v1/chat/completions"}), true),
        (json!({"url.pathname": "/chat/completions"}), false),
        (json!({"url.host": {"$ne": "x"}}), true),
        (json!({"params.deep.er": 1}), false),
        (json!({"params.deep.er": {"$ne": 1}}), true),
        (json!({"metadata": "paid"}), false),
        (json!({"plan": "paid"}), false),
        (json!({"headers.x": {"$regex": "^undefined$"}}), true),
        (json!({}), true),
        (json!({"metadata.plan": "paid", "params.n": 3}), true),
        (json!({"metadata.plan": "paid", "params.n": 4}), false),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn equality_is_strict() {
    for (query, expected) in [
        (json!({"params.n": 3}), true),
        (json!({"params.n": 3.0}), true),
        (json!({"params.n": "3"}), false),
        (json!({"metadata.n": 12}), false),
        (json!({"metadata.n": "12"}), true),
        (json!({"params.stream": true}), true),
        (json!({"params.stream": "true"}), false),
        (json!({"params.nil": null}), true),
        (json!({"params.none": null}), false),
        (json!({"params.n": {"$eq": 3}}), true),
        (json!({"params.n": {"$eq": "3"}}), false),
        (json!({"params.n": {"$ne": "3"}}), true),
        (json!({"params.n": {"$ne": 3}}), false),
        (json!({"metadata.none": {"$eq": "x"}}), false),
        (json!({"metadata.none": {"$ne": "x"}}), true),
        (json!({"params.messages": {"$eq": [{"role": "user"}]}}), false),
        (json!({"metadata.empty": ""}), true),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn comparisons_read_numbers_from_the_start_of_both_sides() {
    for (query, expected) in [
        (json!({"params.n": {"$gt": 2}}), true),
        (json!({"params.n": {"$gt": 3}}), false),
        (json!({"params.n": {"$gte": 3}}), true),
        (json!({"params.n": {"$lt": 3}}), false),
        (json!({"params.n": {"$lt": 3.5}}), true),
        (json!({"params.n": {"$lte": 3}}), true),
        (json!({"params.n": {"$lte": "3 things"}}), true),
        (json!({"metadata.n": {"$gt": "9"}}), true),
        (json!({"metadata.n": {"$gt": 9}}), true),
        (json!({"params.text": {"$gt": 7}}), true),
        (json!({"params.text": {"$lt": "7.6"}}), true),
        (json!({"params.exp": {"$gte": 100}}), true),
        (json!({"params.sign": {"$lt": 0}}), true),
        (json!({"params.model": {"$gt": 0}}), false),
        (json!({"params.model": {"$lt": 0}}), false),
        (json!({"params.stream": {"$gt": 0}}), false),
        (json!({"params.n": {"$gt": "x"}}), false),
        (json!({"metadata.none": {"$gte": 0}}), false),
        (json!({"metadata.none": {"$lte": 0}}), false),
        (json!({"params.n": {"$gt": 2, "$lt": 4}}), true),
        (json!({"params.n": {"$gt": 2, "$lt": 3}}), false),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn membership() {
    for (query, expected) in [
        (json!({"metadata.plan": {"$in": ["free", "paid"]}}), true),
        (json!({"metadata.plan": {"$in": ["free"]}}), false),
        (json!({"metadata.plan": {"$in": "paid"}}), false),
        (json!({"metadata.plan": {"$nin": "free"}}), false),
        (json!({"metadata.plan": {"$nin": ["free"]}}), true),
        (json!({"metadata.plan": {"$nin": ["paid"]}}), false),
        (json!({"metadata.none": {"$in": ["x"]}}), false),
        (json!({"metadata.none": {"$nin": ["x"]}}), true),
        (json!({"params.n": {"$in": [1, 3]}}), true),
        (json!({"params.n": {"$in": ["3"]}}), false),
        (json!({"params.n": {"$in": []}}), false),
        (json!({"params.n": {"$nin": []}}), true),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn a_regex_decides_at_once_and_reads_undefined() {
    for (query, expected) in [
        (json!({"params.model": {"$regex": "4o"}}), true),
        (json!({"params.model": {"$regex": "^4o"}}), false),
        (json!({"params.model": {"$regex": "GPT"}}), false),
        (json!({"params.model": {"$regex": "(?i)GPT"}}), true),
        (json!({"params.n": {"$regex": "^3$"}}), true),
        (json!({"metadata.none": {"$regex": "undefined"}}), true),
        (json!({"metadata.none": {"$regex": "^$"}}), false),
        (json!({"params.model": {"$regex": "gpt", "$eq": "not looked at"}}), true),
        (json!({"params.model": {"$eq": "looked at", "$regex": "gpt"}}), false),
        (json!({"url.pathname": {"$regex": "/chat/"}}), true),
        // Patterns that would take others years.
        (json!({"params.model": {"$regex": "^(([a-z])+.)+[A-Z]([a-z])+$"}}), false),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn and_and_or_nest_and_decide_at_once() {
    let (yes, no) = (json!({"metadata.plan": "paid"}), json!({"metadata.plan": "free"}));
    for (query, expected) in [
        (json!({"$and": [yes, yes]}), true),
        (json!({"$and": [yes, no]}), false),
        (json!({"$and": []}), true),
        (json!({"$or": [no, yes]}), true),
        (json!({"$or": [no, no]}), false),
        (json!({"$or": []}), false),
        (json!({"$or": [{"$and": [yes, no]}, {"$and": [yes, {"$or": [no, yes]}]}]}), true),
        (json!({"$or": [yes], "metadata.plan": "free"}), true),
        (json!({"$and": [yes], "$or": [no]}), true),
        (json!({"metadata.plan": "free", "$or": [yes]}), false),
        (json!({"metadata.plan": "paid", "$or": [no]}), false),
    ] {
        holds(&query, expected);
    }
}

#[test]
fn what_cannot_be_asked_is_refused_with_its_place() {
    let nested = (0..20).fold(json!({"params.n": 1}), |q, _| json!({"$and": [q]}));
    for (query, path, message) in [
        (
            json!({"params.n": {"$like": 1}}),
            "query,params.n,$like",
            "Unsupported operator used in the query router: $like",
        ),
        (json!({"params.n": {"x": 1}}), "query,params.n,x", "Unsupported operator used in the query router: x"),
        (json!({"$not": []}), "query,$not", "Unsupported operator used in the query router: $not"),
        (json!({"$and": {}}), "query,$and", "array"),
        (json!({"$or": [{"$and": [1]}]}), "query,$or,0,$and,0", "object"),
        (json!({"params.n": [1]}), "query,params.n", "$in"),
        (json!({"params.n": {"$regex": "("}}), "query,params.n,$regex", "regular expression"),
        (json!({"params.n": {"$regex": "(?=x)"}}), "query,params.n,$regex", "look-around"),
        (json!({"params.n": {"$regex": 1}}), "query,params.n,$regex", "regular expression"),
        (json!({"params.n": {"$regex": "(a{1000}){1000}"}}), "query,params.n,$regex", "too large"),
        (json!([]), "query", "object"),
        (nested, "query", "deeper"),
    ] {
        let problems = built(&query).expect_err(path);
        let told = problems.iter().any(|p| p.path.starts_with(path) && p.message.contains(message));
        assert!(told, "{query}: {problems:?}");
    }
}

#[test]
fn only_named_params_are_asked_for() {
    let config = json!({
        "strategy": {"mode": "conditional", "conditions": [
            {"query": {"$or": [{"params.model": "a"}, {"metadata.x": "b"}, {"params.user": "c"}]}, "then": "t"},
            {"query": {"params.model": {"$regex": "z"}}, "then": "t"},
        ]},
        "targets": [{"name": "t", "provider": "openai"}],
    });
    let trusted = Trusted::default();
    let open = |s: &str| Some(Secret::new(s.to_owned()));
    let context = Context { known_provider: &|_| true, trusted: &trusted, open: &open, saved: false };
    let compiled = compile(&config, &context).expect("valid");
    let params: Vec<&str> = compiled.params.iter().map(|p| &**p).collect();
    assert_eq!(params, ["model", "user"]);
}
