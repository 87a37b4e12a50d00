//! The cases that guardrails are held to, and the tests that see each: most through the real binary, what only the
//! engine or many splits can show in the tests of its crates. A case may not be left out, and each test that a line
//! names must be there.

use crate::config_rows::is_there;

/// A case by its number, in words, with `file::name` of this folder or `path/from/the/root.rs::name`.
struct GuardrailCase(u8, &'static str, &'static [&'static str]);

const REQUESTS: &[&str] = &["guardrails::requests_are_denied_marked_or_pass"];
const ANSWERS: &[&str] = &["guardrails::answers_are_denied_and_paid_for_or_marked"];
const DIALECTS: &[&str] = &["guardrails::other_dialects_are_denied_in_their_own_words"];
const FALLBACK: &[&str] = &["guardrails::fallback_follows_246_and_446"];
const RETRY: &[&str] = &["guardrails::a_retry_makes_the_whole_call_again_and_each_try_has_its_record"];
const WEBHOOK: &[&str] = &[
    "guardrails::a_webhook_judges_rewrites_and_may_be_away",
    "outside_checks::services_that_lie_or_fail_are_errors_on_every_kind_of_answer",
];
const DEFAULTS: &[&str] = &[
    "guardrail_defaults::defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations",
    "guardrail_cases::defaults_judge_callers_by_token_like_callers_by_key",
];

const CASES: &[GuardrailCase] = &[
    GuardrailCase(1, "request denied: 446 without a call", REQUESTS),
    GuardrailCase(2, "request fails softly: 246", REQUESTS),
    GuardrailCase(3, "request passes: 200 with results", REQUESTS),
    GuardrailCase(
        4,
        "an asynchronous one fails: 200 without",
        &["guardrails::asynchronous_ones_decide_nothing_and_are_recorded"],
    ),
    GuardrailCase(5, "no guardrail: no key", REQUESTS),
    GuardrailCase(6, "answer denied: 446, billed", ANSWERS),
    GuardrailCase(7, "answer fails softly: 246", ANSWERS),
    GuardrailCase(8, "the provider answers 418: not judged", ANSWERS),
    GuardrailCase(9, "the provider answers 201: not judged", ANSWERS),
    GuardrailCase(
        10,
        "fields and order of 446 and 246",
        &[
            "guardrail_cases::a_denial_has_its_fields_in_their_order",
            "guardrails/src/engine/tests.rs::results_have_their_exact_form",
        ],
    ),
    GuardrailCase(
        11,
        "results in an answer: nothing else moves",
        &["guardrails::results_are_the_last_key_and_nothing_else_moves"],
    ),
    GuardrailCase(12, "446 on Messages: the dialect's error", DIALECTS),
    GuardrailCase(13, "a soft denial in three dialects: 200", DIALECTS),
    GuardrailCase(14, "a soft denial of a stream: a valid stream", DIALECTS),
    GuardrailCase(15, "446 falls back", FALLBACK),
    GuardrailCase(16, "246 falls back when listed", FALLBACK),
    GuardrailCase(17, "246 is success when not", FALLBACK),
    GuardrailCase(18, "one target's own guardrail: only that one is passed over", FALLBACK),
    GuardrailCase(19, "retry on 246", RETRY),
    GuardrailCase(20, "retry on 446", RETRY),
    GuardrailCase(21, "retries run out: -1, and a record for each", RETRY),
    GuardrailCase(
        22,
        "a target's set replaces its parent's",
        &["guardrail_cases::what_a_target_sets_takes_the_place_of_what_it_would_inherit"],
    ),
    GuardrailCase(23, "defaults stay, for keys and tokens", DEFAULTS),
    GuardrailCase(24, "an excluded workspace, for keys and tokens", DEFAULTS),
    GuardrailCase(
        25,
        "an update: the next request has the new one, those under way the old",
        &[
            "guardrail_defaults::a_saved_guardrail_is_named_by_slug_and_an_update_is_in_force_at_once",
            "guardrail_cases::a_request_under_way_keeps_the_guardrail_that_it_began_with",
        ],
    ),
    GuardrailCase(
        26,
        "in sequence: sees what was rewritten",
        &["guardrails/src/engine/tests.rs::rewrites_are_composed_and_seen_in_sequence_only"],
    ),
    GuardrailCase(
        27,
        "side by side: sees the original",
        &["guardrails/src/engine/tests.rs::rewrites_are_composed_and_seen_in_sequence_only"],
    ),
    GuardrailCase(28, "two rewrites: both", &["guardrails::rewrites_go_up_and_down_and_none_is_lost"]),
    GuardrailCase(29, "webhook away: 200 with an error", WEBHOOK),
    GuardrailCase(30, "with failOnError: 446", WEBHOOK),
    GuardrailCase(31, "its reply is {}: 446", WEBHOOK),
    GuardrailCase(
        32,
        "webhook at a private address: never dialled",
        &[
            "guardrails::addresses_that_are_nobodys_business_are_never_dialled",
            "guardrail_addresses::an_address_that_nobody_may_call_is_refused_where_it_is_saved",
            "guardrail_addresses::a_name_that_leads_inside_is_not_dialled",
        ],
    ),
    GuardrailCase(33, "redirecting to one: never dialled", &["guardrail_addresses::redirects_lead_nowhere_inside"]),
    GuardrailCase(
        34,
        "payloads of webhook and log hold no header and no credential",
        &["guardrail_cases::webhook_and_log_are_told_nothing_of_the_client_but_what_they_name"],
    ),
    GuardrailCase(
        35,
        "forwarded headers: sent, made, refused",
        &[
            "guardrails::a_webhook_judges_rewrites_and_may_be_away",
            "guardrails::what_is_wrong_is_refused_by_check_and_parameter",
        ],
    ),
    GuardrailCase(
        36,
        "the second of two choices",
        &["guardrail_cases::each_choice_and_each_call_of_an_answer_is_judged"],
    ),
    GuardrailCase(37, "arguments of a call", &["guardrail_cases::each_choice_and_each_call_of_an_answer_is_judged"]),
    GuardrailCase(
        38,
        "tokens: garbage, no key set, HS256, none",
        &[
            "guardrail_cases::a_token_that_is_not_sound_does_not_pass",
            "guardrails/src/checks/tests/requests.rs::tokens_pass_only_when_all_of_them_is_sound",
        ],
    ),
    GuardrailCase(
        39,
        "patterns that explode",
        &[
            "guardrail_cases::patterns_that_would_take_forever_end_at_once",
            "guardrails/src/pattern/tests.rs::slow_patterns_end_within_their_limit",
        ],
    ),
    GuardrailCase(
        40,
        "rewrites keep the shape of embeddings, Messages and images",
        &["guardrail_cases::what_is_rewritten_keeps_its_shape", "guardrails::rewrites_go_up_and_down_and_none_is_lost"],
    ),
    GuardrailCase(
        41,
        "a cached answer, another guardrail: MISS",
        &["guardrails::what_the_cache_has_was_judged_by_the_guardrails_that_ask"],
    ),
    GuardrailCase(42, "a denied answer is charged and not cached", ANSWERS),
    GuardrailCase(
        43,
        "pass-through: 246 with an equal body, 446, an error of the check",
        &["guardrails::what_passes_through_is_judged_and_never_changed"],
    ),
    GuardrailCase(
        44,
        "a forbidden word split at every position",
        &[
            "guarded_streams::no_character_of_a_forbidden_word_leaves_however_it_is_cut",
            "src/guardrails/streams/tests.rs::what_is_forbidden_leaves_in_no_dialect_however_its_bytes_are_cut",
        ],
    ),
    GuardrailCase(
        45,
        "a redacted stream is the redacted whole",
        &[
            "guarded_streams::what_is_redacted_streamed_is_what_is_redacted_whole",
            "src/guardrails/streams/tests.rs::what_is_redacted_does_not_depend_on_how_bytes_are_cut",
            "src/guardrails/streams/tests.rs::a_redacted_stream_of_any_dialect_is_the_redacted_whole",
        ],
    ),
    GuardrailCase(
        46,
        "held: 446 and fallback, or the same events",
        &[
            "guarded_streams::a_held_answer_falls_back_and_a_denied_one_is_clean",
            "guarded_streams::what_passes_arrives_as_it_came",
        ],
    ),
    GuardrailCase(
        47,
        "modes that a check cannot run in",
        &["guardrails::what_is_wrong_is_refused_by_check_and_parameter"],
    ),
    GuardrailCase(
        48,
        "cut streams as SDKs read them",
        &["tests/sdks.rs::sdks_meet_guardrails", "guarded_streams::each_dialect_is_cut_and_redacted_in_its_own_words"],
    ),
    GuardrailCase(49, "a cut is billed and recorded", &["guarded_streams::a_cut_is_billed_recorded_and_ends_the_call"]),
    GuardrailCase(
        50,
        "a split call is redacted in one piece",
        &["guarded_streams::calls_of_tools_are_held_to_their_end"],
    ),
    GuardrailCase(
        51,
        "an outside check slower than the stream",
        &[
            "outside_checks::windows_are_judged_outside_in_their_order_and_all_of_the_text_arrives",
            "outside_checks::a_service_slower_than_the_stream_holds_it_up_within_bounds",
        ],
    ),
    GuardrailCase(
        52,
        "a whole response agrees with its pieces",
        &["guarded_streams::the_whole_response_agrees_with_its_redacted_pieces"],
    ),
    GuardrailCase(
        53,
        "a client that leaves ends checks: 499",
        &["guardrails::a_client_that_leaves_ends_the_checks_of_its_request"],
    ),
    GuardrailCase(
        54,
        "guardrails that nobody uses cost nothing",
        &[
            "guardrail_cases::guardrails_that_nobody_uses_are_not_even_compiled",
            "domain/src/config/tests/hooks.rs::ten_thousand_configs_with_guardrails_leave_the_others_without",
        ],
    ),
    GuardrailCase(
        55,
        "each partner: request, verdict, rewrite, error, timeout",
        &[
            "guardrails/src/partners/tests.rs::golden_folders_hold",
            "guardrails/src/partners/tests.rs::every_check_has_its_cases",
            "guardrails/src/partners/tests.rs::services_that_fail_are_errors",
            "outside_checks::a_partner_is_asked_over_tls_by_an_authority_that_the_machine_trusts",
        ],
    ),
    GuardrailCase(
        56,
        "each refusal names check and parameter",
        &[
            "guardrails::what_is_wrong_is_refused_by_check_and_parameter",
            "admin/tests/api/guardrails.rs::what_cannot_run_is_refused_by_check_and_parameter",
        ],
    ),
    GuardrailCase(
        57,
        "a stream fails softly before and behind its head",
        &["guarded_streams::a_soft_failure_is_told_before_the_head_and_recorded_behind_it"],
    ),
    GuardrailCase(
        58,
        "one that holds holds for all",
        &["guarded_streams::a_held_answer_falls_back_and_a_denied_one_is_clean"],
    ),
    GuardrailCase(
        59,
        "more than is held",
        &[
            "guarded_streams::more_than_is_held_fails_the_check",
            "guarded_streams::what_is_held_to_be_judged_counts_among_the_bytes_of_bodies",
        ],
    ),
    GuardrailCase(
        60,
        "what is shed is counted",
        &[
            "guardrail_cases::more_asynchronous_guardrails_than_may_run_are_shed_and_counted",
            "src/guardrails/background.rs::of_ten_thousand_at_once_a_thousand_run_and_the_rest_is_shed_and_counted",
        ],
    ),
];

#[test]
fn every_case_has_its_tests() {
    let numbers: Vec<u8> = CASES.iter().map(|GuardrailCase(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=60).collect::<Vec<u8>>(), "each once, in order");
    for GuardrailCase(number, told, tests) in CASES {
        assert!(!tests.is_empty(), "case {number} ({told}) has no test");
        tests
            .iter()
            .for_each(|test| assert!(is_there(test), "case {number} ({told}) names {test}, which is not there"));
    }
}
