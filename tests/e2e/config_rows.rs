//! Each row of the tables of the config object, and the tests that see it: most through the real binary, what only time
//! or arithmetic can show in the tests of `domain` and of the proxy. The first table is held to the keys that the
//! program knows: a new key needs its line, and the tests that a line names must be there.

use std::collections::BTreeSet;

/// Tests are `file::name` of this folder, or `path/from/the/root.rs::name`.
type Rows = &'static [(&'static str, &'static [&'static str])];

const LATER: &[&str] = &["config_rules::what_waits_for_its_feature_is_refused_by_name"];
const HEADERS: &[&str] = &["params::provider_settings_of_a_config_are_sent_and_a_request_beats_them"];
const STICKY: &[&str] = &[
    "routing::sticky_keeps_a_user_at_a_target",
    "domain/src/config/tests/plans.rs::who_agrees_in_the_fields_stays_for_the_ttl",
];
const CONDITIONS: &[&str] = &["routing::conditions_choose_by_metadata_params_and_path"];

/// Every key, as [`gateway_domain::config::keys`] tells them.
const KEYS: Rows = &[
    ("strategy", &["strategies::statuses_and_headers_of_each_strategy"]),
    ("targets", &["strategies::strategies_nest", "strategies::every_problem_of_a_config_is_listed"]),
    ("name", CONDITIONS),
    ("provider", &["config_rules::managed_providers_are_named_in_each_way_and_narrow_the_catalogue"]),
    ("virtual_key", &["config_rules::managed_providers_are_named_in_each_way_and_narrow_the_catalogue"]),
    ("api_key", &["custom_hosts::a_key_saved_in_a_config_never_meets_a_host_of_the_request"]),
    ("passthrough", &["routing::passthrough_takes_its_provider_from_header_or_model"]),
    (
        "weight",
        &["strategies::weights_share_the_load", "strategies::loadbalance_does_not_fall_back_and_needs_a_weight"],
    ),
    ("on_status_codes", &["config_rules::a_target_of_a_fallback_may_bring_its_own_statuses"]),
    ("retry", &["retries::a_success_after_failures_is_counted"]),
    ("cache", &["cached::the_same_question_is_answered_once"]),
    ("request_timeout", &["retries::a_timeout_is_a_408_that_names_it", "matrix::timeouts_hold_on_every_way"]),
    ("default_params", &["params::defaults_then_overrides_then_drops_in_place"]),
    ("override_params", &["params::defaults_then_overrides_then_drops_in_place"]),
    ("drop_params", &["params::defaults_then_overrides_then_drops_in_place"]),
    ("forward_headers", &["params::metadata_forwarded_headers_and_compliance_of_a_config_are_in_force_and_inherited"]),
    ("custom_host", &["custom_hosts::hosts_in_an_inline_config_are_checked"]),
    (
        "strict_open_ai_compliance",
        &["params::metadata_forwarded_headers_and_compliance_of_a_config_are_in_force_and_inherited"],
    ),
    ("cb_config", &["routing::a_broken_target_is_left_out_and_shown"]),
    ("openai_organization", HEADERS),
    ("openai_project", HEADERS),
    ("openai_beta", HEADERS),
    ("anthropic_beta", HEADERS),
    ("anthropic_version", HEADERS),
    ("metadata", &["params::metadata_forwarded_headers_and_compliance_of_a_config_are_in_force_and_inherited"]),
    ("fetch_integrated_models", &["config_rules::managed_providers_are_named_in_each_way_and_narrow_the_catalogue"]),
    ("options", &["config_rules::every_refusal_says_what_and_why"]),
    ("prompt_id", &["prompt_targets::a_fallback_asks_each_prompt_in_its_own_words_and_names_it_in_its_record"]),
    ("input_guardrails", &["guardrails::requests_are_denied_marked_or_pass"]),
    ("output_guardrails", &["guardrails::answers_are_denied_and_paid_for_or_marked"]),
    ("before_request_hooks", &["guardrails::raw_hooks_stand_before_and_behind"]),
    ("after_request_hooks", &["guardrails::raw_hooks_stand_before_and_behind"]),
    ("input_mutators", &["guardrails::rewrites_go_up_and_down_and_none_is_lost"]),
    ("output_mutators", &["guardrails::rewrites_go_up_and_down_and_none_is_lost"]),
    ("retry.attempts", &["retries::attempts_that_run_out_are_counted_as_minus_one"]),
    ("retry.on_status_codes", &["retries::statuses_outside_the_list_are_given_as_they_are"]),
    ("retry.use_retry_after_header", &["retries::retry_after_is_read_in_its_three_spellings"]),
    ("retry.use_retry_after_headers", &["retries::attempts_that_run_out_are_counted_as_minus_one"]),
    (
        "retry.jitter",
        &[
            "retries::relayed_calls_are_retried_by_the_same_rules",
            "src/proxy/exchange/backoff.rs::jitter_shortens_by_at_most_half",
        ],
    ),
    ("cache.mode", &["cached::the_same_question_is_answered_once", LATER[0]]),
    ("cache.max_age", &["cached::the_organisation_bounds_how_long_answers_are_kept"]),
    ("strategy.mode", &["strategies::statuses_and_headers_of_each_strategy"]),
    ("strategy.on_status_codes", &["strategies::fallback_by_status_goes_on_at_those_only"]),
    ("strategy.conditions", CONDITIONS),
    ("strategy.default", &["routing::no_match_without_a_default_is_a_400"]),
    ("strategy.sticky", STICKY),
    ("strategy.cb_config", &["routing::a_broken_target_is_left_out_and_shown"]),
    ("strategy.sticky.enabled", STICKY),
    ("strategy.sticky.hash_fields", STICKY),
    ("strategy.sticky.ttl", &["routing::sticky_is_shared_through_redis", STICKY[1]]),
    ("strategy.conditions.query", CONDITIONS),
    ("strategy.conditions.then", &["routing::target_names_and_operators_are_checked_at_save_and_inline"]),
    ("cb_config.failure_threshold", &["routing::a_broken_target_is_left_out_and_shown"]),
    (
        "cb_config.failure_threshold_percentage",
        &["config_rules::a_share_of_failures_opens_a_breaker_once_enough_was_seen"],
    ),
    ("cb_config.minimum_requests", &["config_rules::a_share_of_failures_opens_a_breaker_once_enough_was_seen"]),
    (
        "cb_config.cooldown_interval",
        &["domain/src/config/breaker.rs::failures_within_a_window_open_it_for_one_cooldown"],
    ),
    ("cb_config.failure_status_codes", &["routing::a_429_is_no_ill_health_unless_listed"]),
];

/// The other tables of the object, by their headings.
const RULES: &[(&str, Rows)] = &[
    (
        "the object",
        &[
            ("a model written @slug/model", &["strategies::a_managed_model_may_stand_in_body_or_override"]),
            (
                "settings of clouds, deployments",
                &["config_rules::settings_of_clouds_stand_in_targets", "azure::settings_come_by_header_or_by_config"],
            ),
            ("unknown keys are refused", &["config_rules::every_refusal_says_what_and_why"]),
            (
                "snake_case and camelCase",
                &[
                    "config_rules::keys_in_camel_case_mean_the_same",
                    "domain/src/config/tests.rs::casings_are_one_and_given_twice_is_a_problem",
                ],
            ),
            ("default, override, drop", &["params::defaults_then_overrides_then_drops_in_place"]),
            ("all problems at once", &["strategies::every_problem_of_a_config_is_listed"]),
        ],
    ),
    (
        "modes",
        &[
            ("absent", &["strategies::statuses_and_headers_of_each_strategy"]),
            ("single", &["strategies::single_takes_the_first"]),
            (
                "fallback",
                &[
                    "strategies::fallback_goes_on_until_one_answers",
                    "strategies::when_all_fail_the_last_answer_is_given",
                ],
            ),
            (
                "a gateway exception ends it",
                &["domain/src/config/tests/plans.rs::fallback_walks_by_its_list_through_nested_levels"],
            ),
            (
                "loadbalance",
                &[
                    "strategies::weights_share_the_load",
                    "strategies::loadbalance_does_not_fall_back_and_needs_a_weight",
                ],
            ),
            ("conditional", CONDITIONS),
            ("nesting", &["strategies::strategies_nest"]),
            (
                "caps",
                &[
                    "strategies::every_problem_of_a_config_is_listed",
                    "domain/src/config/tests/tables.rs::targets_are_capped",
                ],
            ),
            (
                "under faults",
                &[
                    "strategies::twenty_fallbacks_at_once_under_faults",
                    "routing::twenty_fallbacks_at_once_past_every_fault",
                ],
            ),
        ],
    ),
    (
        "queries",
        &[
            ("two segments", &["domain/src/config/query/tests.rs::keys_have_two_segments"]),
            ("a literal, $eq, $ne", &["domain/src/config/query/tests.rs::equality_is_strict"]),
            (
                "$gt, $gte, $lt, $lte",
                &["domain/src/config/query/tests.rs::comparisons_read_numbers_from_the_start_of_both_sides"],
            ),
            ("$in, $nin", &["domain/src/config/query/tests.rs::membership"]),
            (
                "$regex, a missing key",
                &["domain/src/config/query/tests.rs::a_regex_decides_at_once_and_reads_undefined"],
            ),
            ("$and, $or", &["domain/src/config/query/tests.rs::and_and_or_nest_and_decide_at_once"]),
            ("an unknown operator", &["routing::target_names_and_operators_are_checked_at_save_and_inline"]),
            ("no params of what is relayed", CONDITIONS),
            ("url.pathname with /v1", CONDITIONS),
        ],
    ),
    (
        "inheritance",
        &[
            (
                "params",
                &["strategies::overrides_replace_and_add_and_children_win", "params::parents_give_and_children_win"],
            ),
            (
                "retry, timeout, host, headers, compliance",
                &["domain/src/config/tests.rs::children_inherit_and_override"],
            ),
            (
                "cb_config",
                &["domain/src/config/tests/plans.rs::rules_are_inherited_and_not_looked_at_below_conditional"],
            ),
            (
                "headers beat it at the target",
                &[
                    "retries::a_timeout_is_a_408_that_names_it",
                    "custom_hosts::a_key_saved_in_a_config_never_meets_a_host_of_the_request",
                ],
            ),
        ],
    ),
    (
        "sources",
        &[
            ("header over key", &["configs::the_default_of_a_key_is_used_unless_the_request_brings_its_own"]),
            ("token over workspace, unknown ones ignored", &["tokens::a_token_opens_both_ports_as_its_claims_say"]),
            ("workspace", &["saved::the_default_of_a_workspace_serves_who_brings_none"]),
            ("allow_config_override", &["configs::the_default_of_a_key_is_used_unless_the_request_brings_its_own"]),
            (
                "saved only",
                &["configs::saved_only_mode_refuses_what_is_inline", "matrix::saved_only_mode_holds_on_every_way"],
            ),
        ],
    ),
    (
        "refusals",
        &[
            ("each with its words", &["config_rules::every_refusal_says_what_and_why"]),
            ("content type", &["headers::the_wrong_content_type_is_a_400"]),
            (
                "at save too",
                &[
                    "routing::target_names_and_operators_are_checked_at_save_and_inline",
                    "custom_hosts::hosts_that_an_admin_saves_are_checked",
                ],
            ),
        ],
    ),
    (
        "retries and timeouts",
        &[
            (
                "waits",
                &["src/proxy/exchange/backoff.rs::every_rule_of_waiting", "retries::the_first_back_off_is_a_second"],
            ),
            ("headers in order", &["src/proxy/deliver/outcome.rs::the_first_header_that_says_it_counts"]),
            ("a minute is not waited", &["retries::a_wait_of_a_minute_is_not_waited"]),
            ("network errors", &["retries::a_broken_connection_is_retried_by_rule_only"]),
            ("the try's own timeout", &["retries::a_timeout_counts_for_each_try_and_is_retried_when_listed"]),
            ("the whole request's", &["streams::the_time_for_the_whole_request_holds_to_its_end"]),
            ("relayed calls", &["retries::relayed_calls_are_retried_by_the_same_rules"]),
            ("a client that leaves", &["retries::a_client_that_leaves_during_a_wait_ends_the_retries"]),
        ],
    ),
    (
        "circuit breakers",
        &[
            ("open targets are left out", &["routing::a_broken_target_is_left_out_and_shown"]),
            ("shown in metrics and on the admin port", &["routing::a_broken_target_is_left_out_and_shown"]),
            ("all open, all used", &["routing::when_every_target_is_open_all_are_used"]),
            (
                "above 500 unless listed",
                &["domain/src/config/breaker.rs::only_what_is_above_500_is_a_failure_unless_listed"],
            ),
            ("not below conditional", &["config_rules::conditional_does_not_look_at_breakers"]),
            ("loadbalance", &["routing::load_balance_draws_among_those_that_are_well"]),
        ],
    ),
    (
        "cache",
        &[
            ("MISS, HIT, DISABLED", &["cached::the_same_question_is_answered_once"]),
            ("REFRESH", &["cached::a_fresh_answer_replaces_the_kept_one"]),
            (
                "never shared",
                &[
                    "cached::nothing_is_shared_across_namespaces_metadata_credentials_or_tenants",
                    "cached::probes_from_elsewhere_never_hit",
                ],
            ),
            ("2xx only", &["cached::failures_are_never_kept"]),
            (
                "streams",
                &["cached::a_stream_is_kept_whole_and_told_as_a_stream", "cached::a_broken_stream_is_not_kept"],
            ),
            ("what is never cached", &["cached::what_is_passed_through_is_kept_only_when_it_is_whole"]),
            (
                "x-gateway-debug: false",
                &["cached::nothing_is_shared_across_namespaces_metadata_credentials_or_tenants"],
            ),
            ("before budgets", &["budgets::an_exhausted_budget_still_serves_what_is_cached"]),
            (
                "one call for many",
                &[
                    "cached::two_hundred_at_once_make_one_call_while_others_proceed",
                    "cached::a_call_that_nobody_wants_any_more_ends",
                ],
            ),
            ("bounded", &["cached::memory_stays_within_its_bound_under_random_keys"]),
            ("Redis", &["cached::redis_keeps_answers_over_a_restart_and_is_done_without_when_away"]),
            ("the organisation's cap", &["cached::the_organisation_bounds_how_long_answers_are_kept"]),
        ],
    ),
    (
        "headers of answers",
        &[
            ("on each strategy", &["strategies::statuses_and_headers_of_each_strategy"]),
            ("on each way", &["matrix::credential_headers_and_answers_are_the_same_on_every_way"]),
        ],
    ),
];

pub(crate) fn is_there(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test} names no test"));
    let root = env!("CARGO_MANIFEST_DIR");
    let path = if file.contains('/') { format!("{root}/{file}") } else { format!("{root}/tests/e2e/{file}.rs") };
    std::fs::read_to_string(path).is_ok_and(|source| source.contains(&format!("fn {name}()")))
}

#[test]
fn every_row_has_its_tests() {
    let told: BTreeSet<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    let known = gateway_domain::config::keys();
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    assert_eq!(told, known, "the keys of the table, and those that the program knows");
    for (table, rows) in std::iter::once(&("keys", KEYS)).chain(RULES) {
        for (row, tests) in *rows {
            assert!(!tests.is_empty(), "{table}: {row} has no test");
            tests.iter().for_each(|test| assert!(is_there(test), "{table}: {row} names {test}, which is not there"));
        }
    }
}
