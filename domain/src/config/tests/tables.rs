//! Every row of the config tables: what is accepted, and what is refused with which path and rule.

use super::*;

#[test]
fn what_is_accepted() {
    let target = json!({"provider": "openai"});
    for config in [
        json!({"provider": "openai"}),
        json!({"provider": "openai", "api_key": "k", "name": "n", "weight": 0.5}),
        json!({"provider": "@p"}),
        json!({"virtual_key": "vk"}),
        json!({"virtualKey": "@vk"}),
        json!({"passthrough": true}),
        json!({"passthrough": false, "provider": "openai"}),
        json!({"override_params": {"model": "@p/m"}}),
        json!({"default_params": {"temperature": 1}}),
        json!({"drop_params": ["a.b", "tools[0].x", "tools[*].x"]}),
        json!({"forward_headers": ["x-a"]}),
        json!({"request_timeout": 1}),
        json!({"retry": {"attempts": 5, "on_status_codes": [100, 599], "use_retry_after_header": true, "jitter": true}}),
        json!({"retry": {"attempts": 0, "useRetryAfterHeaders": false}}),
        json!({"custom_host": "https://api.example.com/v1", "provider": "openai"}),
        json!({"strict_open_ai_compliance": true}),
        json!({"metadata": {"_user": "u", "_prompt": "p", "_organisation": "o", "_environment": "e", "any": "x"}}),
        json!({"fetch_integrated_models": true}),
        json!({"provider": "openai", "openai_organization": "o", "openaiProject": "p", "anthropic_beta": "b"}),
        json!({"provider": "openai", "api_key": null, "retry": null}),
        json!({"cb_config": {"failure_threshold": 1, "cooldown_interval": 30000}}),
        json!({"cache": "simple"}),
        json!({"cache": {"mode": "simple", "max_age": 60}}),
        json!({"cache": {"mode": "simple", "maxAge": 7_776_000}, "provider": "openai"}),
        json!({"strategy": {"mode": "single"}, "targets": [target]}),
        json!({"strategy": {"mode": "fallback", "on_status_codes": []}, "targets": [target]}),
        json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "openai", "on_status_codes": [429]}]}),
        json!({"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "openai", "weight": 0}, target]}),
        json!({"strategy": {"mode": "loadbalance", "sticky": {"enabled": true, "hash_fields": ["metadata.u"], "ttl": 1}},
               "targets": [target]}),
        json!({"strategy": {"mode": "loadbalance", "sticky": {"enabled": false}}, "targets": [target]}),
        json!({"strategy": {"mode": "fallback", "cb_config": {
            "failure_threshold": 5, "failure_threshold_percentage": 20.5, "minimum_requests": 10,
            "cooldown_interval": 60000, "failure_status_codes": [429, 500]}}, "targets": [target]}),
        json!({"strategy": {"mode": "fallback", "cbConfig": {"failureThresholdPercentage": 20}}, "targets": [target]}),
        json!({"strategy": {"mode": "conditional", "conditions": [{"query": {"metadata.a": "b"}, "then": "x"}]},
               "targets": [{"name": "x", "provider": "openai"}]}),
    ] {
        if let Err(problems) = compiled(config.clone()) {
            panic!("{config}: {problems:?}");
        }
    }
}

/// Each config is refused with a problem at this path that says this.
#[track_caller]
fn refused(rows: &[(Value, &str, &str)]) {
    for (config, path, rule) in rows {
        let problems = compiled(config.clone()).err().unwrap_or_else(|| panic!("accepted: {config}"));
        let told = problems.iter().any(|p| p.path == *path && p.message.contains(rule));
        assert!(told, "{config}: no `{path}` with `{rule}` in {problems:?}");
    }
}

#[test]
fn keys_and_answerers_that_are_refused() {
    let t = json!({"provider": "openai"});
    refused(&[
        (json!([]), "config", "must be an object"),
        (json!({}), "config", "nothing to go by"),
        (json!({"provider": null}), "config", "nothing to go by"),
        (json!({"options": []}), "options", "not supported"),
        (json!({"retires": 1}), "retires", "not a known key"),
        (json!({"provider": "nobody"}), "provider", "not a known provider"),
        (json!({"provider": 1}), "provider", "must be a string"),
        (json!({"api_key": "k"}), "provider", "required with api_key"),
        (json!({"virtual_key": ""}), "virtual_key", "must be a string that is not empty"),
        (json!({"name": 1}), "name", "must be a string"),
        (json!({"weight": -1, "provider": "openai"}), "weight", "at least 0"),
        (json!({"weight": "1", "provider": "openai"}), "weight", "must be a number"),
        (json!({"prompt_id": 1}), "prompt_id", "must be a string"),
        (json!({"prompt_id": "@3"}), "prompt_id", "slug or the id of a prompt"),
        (json!({"promptId": "pp-a@"}), "prompt_id", "slug or the id of a prompt"),
        (json!({"passthrough": true, "prompt_id": "pp-a"}), "prompt_id", "beside passthrough"),
        (
            json!({"strategy": {"mode": "single"}, "targets": [t.clone()], "prompt_id": "pp-a"}),
            "prompt_id",
            "beside targets",
        ),
        (json!({"input_guardrails": "g"}), "input_guardrails", "must be a list"),
        (json!({"outputMutators": {}}), "output_mutators", "must be a list"),
        (json!({"default_input_guardrails": ["g"]}), "default_input_guardrails", "not a known key"),
        (json!({"passthrough": true, "output_guardrails": ["g"]}), "output_guardrails", "beside passthrough"),
        (json!({"provider": "azure-openai", "deployments": []}), "deployments", "must hold 1..200"),
        (json!({"provider": "openai", "azure_api_version": "v1"}), "azure_api_version", "no meaning for `openai`"),
        (json!({"provider": "@a", "vertexRegion": "global"}), "vertex_region", "needs a provider family"),
        (json!({"azure_api_version": "v1"}), "azure_api_version", "needs a provider family"),
        (json!({"provider": "azure-ai", "azure_foundry_url": "http://10.0.0.1"}), "azure_foundry_url", ""),
        (json!({"aws_region": "x"}), "aws_region", "needs a provider family"),
        (json!({"cache": {"mode": "semantic"}}), "cache,mode", "semantic` is not available"),
        (json!({"cache": "semantic"}), "cache,mode", "semantic` is not available"),
        (json!({"cache": {"mode": "x"}}), "cache,mode", "one of simple, semantic"),
        (json!({"cache": {"max_age": 60}}), "cache,mode", "one of simple, semantic"),
        (json!({"cache": true}), "cache", "must be an object"),
        (json!({"cache": {"mode": "simple", "max_age": 59}}), "cache,max_age", "60..7776000"),
        (json!({"cache": {"mode": "simple", "max_age": 7_776_001}}), "cache,max_age", "60..7776000"),
        (json!({"cache": {"mode": "simple", "x": 1}}), "cache,x", "not a known key"),
        (json!({"passthrough": 1}), "passthrough", "true or false"),
        (json!({"passthrough": true, "provider": "openai"}), "provider", "beside passthrough"),
        (json!({"passthrough": true, "override_params": {}}), "override_params", "beside passthrough"),
        (json!({"passthrough": true, "strategy": {"mode": "single"}, "targets": [t]}), "targets", "beside passthrough"),
    ]);
}

#[test]
fn values_that_are_refused() {
    refused(&[
        (json!({"request_timeout": 0}), "request_timeout", "at least 1"),
        (json!({"request_timeout": "1s"}), "request_timeout", "integer"),
        (json!({"default_params": []}), "default_params", "must be an object"),
        (json!({"override_params": 1}), "override_params", "must be an object"),
        (json!({"drop_params": "a"}), "drop_params", "array of paths"),
        (json!({"drop_params": ["a["]}), "drop_params", "`a[` is not a path"),
        (json!({"drop_params": ["model"]}), "drop_params", "cannot be dropped"),
        (json!({"forward_headers": "x"}), "forward_headers", "array of header names"),
        (json!({"forward_headers": ["x-gateway-forward-headers"]}), "forward_headers", "must not list"),
        (json!({"forward_headers": ["a b"]}), "forward_headers", "valid header name"),
        (json!({"custom_host": "http://10.0.0.1", "provider": "openai"}), "custom_host", ""),
        (json!({"strict_open_ai_compliance": "no"}), "strict_open_ai_compliance", "true or false"),
        (json!({"openai_project": "a\nb", "provider": "openai"}), "openai_project", "no header can carry"),
        (json!({"metadata": []}), "metadata", "object of strings"),
        (json!({"metadata": {"a": 1}}), "metadata", "`a` must be a string"),
        (json!({"fetch_integrated_models": 1}), "fetch_integrated_models", "true or false"),
        (json!({"on_status_codes": [429]}), "on_status_codes", "belongs inside strategy"),
        (json!({"retry": 3}), "retry", "must be an object"),
        (json!({"retry": {}}), "retry,attempts", "0..5"),
        (json!({"retry": {"attempts": 6}}), "retry,attempts", "0..5"),
        (json!({"retry": {"attempts": 1, "on_status_codes": [99]}}), "retry,on_status_codes", "100..599"),
        (
            json!({"retry": {"attempts": 1, "use_retry_after_header": 1}}),
            "retry,use_retry_after_header",
            "true or false",
        ),
        (json!({"retry": {"attempts": 1, "x": 1}}), "retry,x", "not a known key"),
    ]);
}

#[test]
fn strategies_that_are_refused() {
    let t = json!({"provider": "openai"});
    refused(&[
        (json!({"targets": [t]}), "strategy", "required with targets"),
        (json!({"strategy": {"mode": "single"}}), "targets", "at least 1 target"),
        (json!({"strategy": {"mode": "single"}, "targets": []}), "targets", "at least 1 target"),
        (json!({"strategy": {"mode": "single"}, "targets": [1]}), "targets,0", "must be an object"),
        (json!({"strategy": "single", "targets": [t]}), "strategy", "must be an object"),
        (json!({"strategy": {"mode": "roundrobin"}, "targets": [t]}), "strategy,mode", "one of single"),
        (json!({"strategy": {"mode": "single", "x": 1}, "targets": [t]}), "strategy,x", "not a known key"),
        (
            json!({"strategy": {"mode": "fallback", "on_status_codes": ["x"]}, "targets": [t]}),
            "strategy,on_status_codes",
            "100..599",
        ),
        (
            json!({"strategy": {"mode": "single", "on_status_codes": [1]}, "targets": [t]}),
            "strategy,on_status_codes",
            "mode fallback",
        ),
        (json!({"strategy": {"mode": "single", "sticky": {}}, "targets": [t]}), "strategy,sticky", "mode loadbalance"),
        (
            json!({"strategy": {"mode": "single", "conditions": []}, "targets": [t]}),
            "strategy,conditions",
            "mode conditional",
        ),
        (
            json!({"strategy": {"mode": "single", "default": "x"}, "targets": [t]}),
            "strategy,default",
            "mode conditional",
        ),
        (json!({"strategy": {"mode": "single"}, "provider": "openai", "targets": [t]}), "provider", "no effect beside"),
        (
            json!({"strategy": {"mode": "single"}, "openai_beta": "x", "targets": [t]}),
            "openai_beta",
            "no effect beside",
        ),
        (
            json!({"strategy": {"mode": "single"}, "targets": [{"provider": "openai", "metadata": {}}]}),
            "targets,0,metadata",
            "at the root",
        ),
        (
            json!({"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "openai", "weight": 0}]}),
            "targets",
            "weight above 0",
        ),
    ]);
}

#[test]
fn parts_of_strategies_that_are_refused() {
    let t = json!({"provider": "openai"});
    let named = json!({"provider": "openai", "name": "x"});
    let loadbalance = |sticky: Value| json!({"strategy": {"mode": "loadbalance", "sticky": sticky}, "targets": [t]});
    let conditional = |strategy: Value| {
        let mut whole = json!({"strategy": strategy, "targets": [named]});
        whole["strategy"]["mode"] = json!("conditional");
        whole
    };
    let breaker = |cb: Value| json!({"provider": "openai", "cb_config": cb});
    refused(&[
        (loadbalance(json!({"enabled": true})), "strategy,sticky,hash_fields", "1..16"),
        (loadbalance(json!({"enabled": true, "hash_fields": []})), "strategy,sticky,hash_fields", "1..16"),
        (
            loadbalance(json!({"enabled": true, "hash_fields": ["user"]})),
            "strategy,sticky,hash_fields",
            "metadata.<key>",
        ),
        (
            loadbalance(json!({"enabled": true, "hash_fields": ["params.a..b"]})),
            "strategy,sticky,hash_fields",
            "metadata.<key>",
        ),
        (
            loadbalance(json!({"enabled": true, "hash_fields": ["metadata.u"], "ttl": 0})),
            "strategy,sticky,ttl",
            "1..2592000",
        ),
        (loadbalance(json!({"enabled": 1, "hash_fields": ["metadata.u"]})), "strategy,sticky,enabled", "true or false"),
        (conditional(json!({})), "strategy,conditions", "at least 1 condition"),
        (conditional(json!({"conditions": []})), "strategy,conditions", "at least 1 condition"),
        (conditional(json!({"conditions": [1]})), "strategy,conditions,0", "must be an object"),
        (conditional(json!({"conditions": [{"then": "x"}]})), "strategy,conditions,0,query", "required"),
        (conditional(json!({"conditions": [{"query": {}}]})), "strategy,conditions,0,then", "required"),
        (
            conditional(json!({"conditions": [{"query": {}, "then": "y"}]})),
            "strategy,conditions,0,then",
            "target name `y` is invalid",
        ),
        (
            conditional(json!({"conditions": [{"query": {}, "then": "x"}], "default": "y"})),
            "strategy,default",
            "target name `y` is invalid",
        ),
        (
            conditional(json!({"conditions": [{"query": {"params.a": {"$x": 1}}, "then": "x"}]})),
            "strategy,conditions,0,query,params.a,$x",
            "Unsupported operator",
        ),
        (
            json!({"strategy": {"mode": "conditional", "conditions": [{"query": {}, "then": "x"}]}, "targets": [named, named]}),
            "targets,1,name",
            "another target",
        ),
        (breaker(json!({})), "cb_config,failure_threshold", "required"),
        (breaker(json!({"failure_threshold": 0})), "cb_config,failure_threshold", "1..10000"),
        (
            breaker(json!({"failure_threshold": 1, "cooldown_interval": 29999})),
            "cb_config,cooldown_interval",
            "30000..",
        ),
        (
            breaker(json!({"failure_threshold_percentage": 101})),
            "cb_config,failure_threshold_percentage",
            "at most 100",
        ),
        (breaker(json!({"failure_threshold": 1, "minimum_requests": 0})), "cb_config,minimum_requests", "1..10000"),
        (
            breaker(json!({"failure_threshold": 1, "failure_status_codes": [1]})),
            "cb_config,failure_status_codes",
            "100..599",
        ),
        (breaker(json!({"failure_threshold": 1, "x": 1})), "cb_config,x", "not a known key"),
    ]);
}

#[test]
fn every_problem_is_listed_with_its_path() {
    let problems = compiled(json!({
        "strategy": {"mode": "roundrobin", "on_status_codes": ["x"]},
        "retry": {"attempts": 9},
        "targets": [
            {"provider": "nobody", "weight": -1},
            {"provider": "openai", "custom_host": "http://10.0.0.1", "cache": {"mode": "semantic"}},
            {"provider": "openai", "retires": 3, "requestTimeout": "1s"},
        ],
    }))
    .expect_err("has problems");
    let lines: Vec<&str> = problems.iter().map(|p| p.path.as_str()).collect();
    for path in [
        "strategy,mode",
        "strategy,on_status_codes",
        "retry,attempts",
        "targets,0,weight",
        "targets,0,provider",
        "targets,1,custom_host",
        "targets,1,cache,mode",
        "targets,2,retires",
        "targets,2,request_timeout",
    ] {
        assert!(lines.contains(&path), "{path} in {lines:?}");
    }
}

#[test]
fn targets_are_capped() {
    let many = |mode: &str, n: usize| {
        let target = json!({"provider": "openai", "name": "x"});
        let targets: Vec<Value> =
            (0..n).map(|i| if i == 0 { target.clone() } else { json!({"provider": "openai"}) }).collect();
        let mut config = json!({"strategy": {"mode": mode}, "targets": targets});
        if mode == "conditional" {
            config["strategy"]["conditions"] = json!([{"query": {}, "then": "x"}]);
        }
        config
    };
    for (mode, cap) in [("single", 100), ("fallback", 100), ("loadbalance", 100), ("conditional", 1000)] {
        assert!(read(&many(mode, cap), true).is_ok(), "{mode}");
        assert!(read(&many(mode, cap + 1), true).is_err(), "{mode}");
    }
    let nested = |n: usize| json!({"strategy": {"mode": "fallback"}, "targets": [many("conditional", n)]});
    assert!(compiled(nested(50)).is_ok());
    assert!(compiled(nested(51)).is_err(), "below the root even a conditional has 50");
    let deep = |n: usize| {
        (0..n).fold(json!({"provider": "openai"}), |c, _| json!({"strategy": {"mode": "single"}, "targets": [c]}))
    };
    assert!(compiled(deep(32)).is_ok());
    assert!(compiled(deep(33)).is_err());
}
