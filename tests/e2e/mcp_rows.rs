//! What MCP servers behind the gateway are held to, and what went wrong elsewhere, each with the tests that see it. Each test
//! that a line names must be there.

use crate::config_rows::is_there;

/// In words, with `file::name` of this folder or `path/from/the/root.rs::name`.
struct McpRow(&'static str, &'static [&'static str]);

const MEMBERS: &str = "mcp_members::a_member_that_fails_takes_no_other_with_it";
const NODES: &str = "mcp_members::any_node_serves_a_session_and_takes_the_answer_to_what_a_member_asked";
const PAGES: &str = "mcp::all_pages_of_a_list_pass";
const SESSION: &str = "mcp::a_session_is_of_one_key_and_of_one_server_and_has_an_end";
const FORGOTTEN: &[&str] = &[
    "mcp::a_session_that_the_server_forgot_is_a_404",
    "mcp_members::a_session_that_a_member_forgot_is_opened_again_unseen",
];
const LIMIT: &str = "mcp::a_tool_at_its_limit_is_a_429_in_json_rpc_and_another_tool_is_free";
const SHARED: &str = "mcp::callers_before_a_server_that_keeps_sessions_never_share_one";
const ADDRESSES: &[&str] = &[
    "mcp::addresses_that_may_not_be_called_are_refused_when_they_are_saved",
    "saved_addresses::no_field_saves_an_address_that_nobody_may_call",
    "mcp_account_attacks::no_document_has_the_gateway_call_what_nobody_may",
];
const SWITCHED: &str = "mcp_notices::a_tool_that_is_switched_off_on_another_node_is_told_to_open_streams_and_refused";
const CANARY: &[&str] = &[
    "mcp::nothing_of_the_callers_credentials_goes_to_the_server",
    "mcp_sign_in_attacks::nothing_secret_is_told_where_it_does_not_belong",
    "mcp_upstream_sign_in::one_token_is_fetched_for_all_who_wait_and_shown_to_nobody",
    "mcp_account_attacks::no_token_is_told_to_anybody_but_its_server",
];

const BEHAVIOURS: &[McpRow] = &[
    McpRow("versions are echoed", &["mcp::initialize_echoes_each_known_version_and_offers_the_newest_for_another"]),
    McpRow(
        "versions, names and headers of the modern era fit",
        &["mcp::headers_of_the_modern_era_say_what_the_body_says"],
    ),
    McpRow("batches where there are any", &["mcp::a_batch_counts_each_call_and_only_the_oldest_version_has_batches"]),
    McpRow("any node, and after a restart", &[NODES, "mcp::a_session_survives_a_restart_of_the_gateway"]),
    McpRow("a session of another, changed, ended", &[SESSION]),
    McpRow("the server forgets a session", FORGOTTEN),
    McpRow("a member is down, hangs or fails", &[MEMBERS]),
    McpRow("all pages", &[PAGES]),
    McpRow(
        "one name in two members, a slug that cannot be a prefix",
        &[
            "mcp_members::equal_names_of_two_members_are_two_and_each_reaches_its_own",
            "mcp_members::what_makes_no_whole_is_refused_by_name",
        ],
    ),
    McpRow(
        "what is hidden is missing",
        &[
            "mcp::what_is_switched_off_is_missing_in_lists_and_calls_alike",
            "mcp_tasks::a_task_of_a_tool_that_is_switched_off_is_an_unknown_one",
        ],
    ),
    McpRow("a change on another node", &[SWITCHED]),
    McpRow("a tool at its limit", &[LIMIT]),
    McpRow("a task of another", &["mcp_tasks::a_task_of_somebody_else_is_an_unknown_one"]),
    McpRow("fifty at once", &["mcp::as_many_tool_calls_as_allowed_reach_the_server_under_concurrency"]),
    McpRow(
        "cards of agents, and tasks of others",
        &[
            "agents::cards_lead_to_the_gateway_bad_cards_are_refused_and_tasks_of_others_are_not_found",
            "agent_cards::what_is_no_card_is_refused_and_so_is_one_byte_too_many",
        ],
    ),
    McpRow("guardrails deny", &["mcp::guardrails_judge_arguments_and_results_and_a_denial_is_a_result"]),
    McpRow("an answer to another node", &[NODES]),
    McpRow(
        "progress and silence",
        &["mcp_streams::progress_keeps_a_call_alive_and_silence_ends_it_and_tells_the_server"],
    ),
    McpRow(
        "a client leaves",
        &["mcp_streams::a_client_that_leaves_ends_the_call_and_is_told_where_nobody_can_come_back"],
    ),
    McpRow(
        "a place in a stream",
        &[
            "mcp_streams::a_place_in_a_stream_is_good_on_another_node_and_after_a_restart",
            "mcp_streams::an_answer_that_comes_on_the_next_stream_is_filtered_and_judged_there",
        ],
    ),
    McpRow("no stream to listen to", &["mcp_streams::a_server_without_a_stream_is_asked_for_one_once"]),
    McpRow(
        "no token, another's, one for reading",
        &[
            "mcp_authorization::a_client_without_a_token_hears_where_to_sign_in",
            "mcp_authorization::a_token_opens_the_server_that_it_was_issued_for_and_no_other",
            "mcp_authorization::scopes_of_the_protocol_say_who_reads_and_who_calls",
        ],
    ),
    McpRow("documents behind a proxy", &["mcp_authorization::a_client_without_a_token_hears_where_to_sign_in"]),
    McpRow(
        "clients by document and by registration",
        &[
            "mcp_sign_in::a_client_may_be_the_document_at_its_own_address",
            "mcp_sign_in::a_client_finds_the_way_signs_somebody_in_and_calls",
            "mcp_sign_in_attacks::a_code_is_for_its_client_its_address_and_its_proof",
        ],
    ),
    McpRow("two nodes, one rotating token", &["mcp_accounts::two_nodes_renew_one_rotating_token_with_one_request"]),
    McpRow("two callers, one credential", &[SHARED]),
    McpRow("marked secrets are nowhere", CANARY),
    McpRow("pages of other origins", &["mcp::pages_of_other_origins_may_not_call"]),
    McpRow("addresses inside", ADDRESSES),
    McpRow("what a token says", &["mcp_sign_in::what_was_allowed_is_told_and_taken_back"]),
    McpRow("the process takes leave", &["mcp_streams::calls_and_streams_end_cleanly_when_the_process_takes_leave"]),
];

/// By whose issue, `https://github.com/<repository>/issues/<number>`.
const INCIDENTS: &[McpRow] = &[
    McpRow("agentgateway/agentgateway 3476: the first page only", &[PAGES]),
    McpRow("agentgateway/agentgateway 3622: a dead session of a member fails for ever", FORGOTTEN),
    McpRow("agentgateway/agentgateway 1266, 1029: one bad member kills the session", &[MEMBERS]),
    McpRow(
        "agentgateway/agentgateway 2980: the client's version sent on",
        &["mcp_members::members_of_both_eras_serve_clients_of_both"],
    ),
    McpRow("agentgateway/agentgateway 3129: a bare 429", &[LIMIT]),
    McpRow("agentgateway/agentgateway 754, 2397: sessions of one replica", &[NODES, SESSION]),
    McpRow(
        "envoyproxy/ai-gateway 1940: a session cut at a subject's sign",
        &["mcp/src/session.rs::a_session_comes_back_as_it_was"],
    ),
    McpRow(
        "envoyproxy/ai-gateway 1924: one 405 and a storm of retries",
        &["mcp_streams::a_server_without_a_stream_is_asked_for_one_once"],
    ),
    McpRow(
        "envoyproxy/ai-gateway 2219: an empty first event",
        &["mcp::events_pass_as_they_come_and_a_client_of_json_gets_the_answer_alone"],
    ),
    McpRow("BerriAI/litellm 29936: a refusal that holds tokens", CANARY),
    McpRow("BerriAI/litellm 25343: a test that runs commands", ADDRESSES),
    McpRow(
        "BerriAI/litellm 29355: anonymous below /.well-known/",
        &["admin/src/oauth.rs::what_is_handed_over_is_what_is_served"],
    ),
    McpRow(
        "BerriAI/litellm 36803, 31296: the server's own sign-in shown to clients",
        &["mcp::a_servers_own_challenge_and_failures_stay_behind_the_gateway"],
    ),
    McpRow(
        "BerriAI/litellm 20858: calls went to the address that a card claims",
        &["agents::calls_go_to_the_registered_address_whatever_a_card_claims"],
    ),
    McpRow("BerriAI/litellm 38208, 12359: a failure shown as an empty list", &[MEMBERS]),
    McpRow("IBM/mcp-context-forge 2055, 4205: sessions shared by users", &[SHARED]),
    McpRow("IBM/mcp-context-forge 5485: a node that owned a session died", &[NODES]),
    McpRow(
        "googleapis/genai-toolbox GHSA-5gf6-gc35-xjpc: older versions skip scopes",
        &["mcp_authorization::scopes_of_the_protocol_say_who_reads_and_who_calls"],
    ),
    McpRow("saved changes not in force", &[SWITCHED]),
];

#[test]
fn every_row_names_tests_that_are_there() {
    for McpRow(told, tests) in BEHAVIOURS.iter().chain(INCIDENTS) {
        assert!(!tests.is_empty(), "{told} has no test");
        tests.iter().for_each(|test| assert!(is_there(test), "{told} names {test}, which is not there"));
    }
}
