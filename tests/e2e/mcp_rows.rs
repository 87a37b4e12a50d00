//! What MCP servers and agents behind the gateway are held to, what went wrong elsewhere, and what attackers try, each
//! with the tests that see it. Each test that a line names must be there.

use crate::config_rows::is_there;

/// What is to hold, in words, and the tests that see it: `file::name` of this folder or `path/from/the/root.rs::name`.
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
const KILLED: &str = "mcp_nodes::a_thousand_sessions_outlive_the_node_that_opened_them";
const HEADERS: &str = "mcp::headers_of_the_modern_era_say_what_the_body_says";
const LISTENS: &str = "mcp_streams::a_server_without_a_stream_is_asked_for_one_once";
const CHALLENGE: &str = "mcp_authorization::a_client_without_a_token_hears_where_to_sign_in";
const AUDIENCE: &str = "mcp_authorization::a_token_opens_the_server_that_it_was_issued_for_and_no_other";
const SCOPES: &str = "mcp_authorization::scopes_of_the_protocol_say_who_reads_and_who_calls";
const CODE: &str = "mcp_sign_in_attacks::a_code_is_for_its_client_its_address_and_its_proof";
const ORIGINS: &str = "mcp::pages_of_other_origins_may_not_call";
const COLLISIONS: &[&str] = &[
    "mcp_members::equal_names_of_two_members_are_two_and_each_reaches_its_own",
    "mcp_members::names_too_long_for_clients_are_cut_and_still_reach_their_tool",
    "mcp_members::what_makes_no_whole_is_refused_by_name",
];
const ADDRESSES: &[&str] = &[
    "mcp::addresses_that_may_not_be_called_are_refused_when_they_are_saved",
    "saved_addresses::no_field_saves_an_address_that_nobody_may_call",
    "mcp_account_attacks::no_document_has_the_gateway_call_what_nobody_may",
    "agent_hooks::no_webhook_leads_where_nobody_may_be_called",
    "tool_addresses::a_redirect_of_a_server_an_agent_or_a_token_endpoint_leads_nowhere",
];
const SWITCHED: &str = "mcp_notices::a_tool_that_is_switched_off_on_another_node_is_told_to_open_streams_and_refused";
const CANARY: &[&str] = &[
    "mcp::nothing_of_the_callers_credentials_goes_to_the_server",
    "mcp_sign_in_attacks::nothing_secret_is_told_where_it_does_not_belong",
    "mcp_upstream_sign_in::one_token_is_fetched_for_all_who_wait_and_shown_to_nobody",
    "mcp_account_attacks::no_token_is_told_to_anybody_but_its_server",
    "tool_canary::what_is_brought_said_and_kept_for_tools_and_agents_is_told_nowhere_else",
];

/// Thirty-two of them, in the order in which the gateway was asked for them.
const BEHAVIOURS: &[McpRow] = &[
    McpRow("1: versions are echoed", &["mcp::initialize_echoes_each_known_version_and_offers_the_newest_for_another"]),
    McpRow("2: a version that nobody serves, and one that the body alone names", &[HEADERS]),
    McpRow("3: the name in the header is that of the body", &[HEADERS]),
    McpRow("4: a modern client says what it can do, and pings nobody", &[HEADERS]),
    McpRow(
        "5: batches where there are any",
        &["mcp::a_batch_counts_each_call_and_only_the_oldest_version_has_batches"],
    ),
    McpRow("6: any node, and after a restart", &[NODES, KILLED, "mcp::a_session_survives_a_restart_of_the_gateway"]),
    McpRow(
        "7: a session of another, changed, ended, over",
        &[SESSION, "mcp::a_session_that_is_over_is_as_unknown_as_any"],
    ),
    McpRow("8: the server forgets a session", FORGOTTEN),
    McpRow("9: a member is down, hangs or fails", &[MEMBERS]),
    McpRow("10: all pages", &[PAGES]),
    McpRow("11: one name in two members, a slug that cannot be a prefix", COLLISIONS),
    McpRow(
        "12: what is hidden is missing",
        &[
            "mcp::what_is_switched_off_is_missing_in_lists_and_calls_alike",
            "mcp_members::what_is_switched_off_anywhere_is_missing_and_limits_count_the_member",
            "mcp_tasks::a_task_of_a_tool_that_is_switched_off_is_an_unknown_one",
            "tool_matrix::what_a_key_or_a_person_may_not_use_is_refused_on_every_way",
        ],
    ),
    McpRow("13: a change on another node", &[SWITCHED]),
    McpRow("14: a tool at its limit", &[LIMIT, "tool_matrix::a_limit_holds_on_every_way_and_is_told_in_its_words"]),
    McpRow("15: fifty at once", &["mcp::as_many_tool_calls_as_allowed_reach_the_server_under_concurrency"]),
    McpRow(
        "16: guardrails deny",
        &[
            "mcp::guardrails_judge_arguments_and_results_and_a_denial_is_a_result",
            "tool_matrix::guardrails_hold_on_every_way",
        ],
    ),
    McpRow("17: an answer to another node", &[NODES]),
    McpRow(
        "18: progress and silence",
        &["mcp_streams::progress_keeps_a_call_alive_and_silence_ends_it_and_tells_the_server"],
    ),
    McpRow(
        "19: a client leaves",
        &[
            "mcp_eras::a_client_of_the_modern_era_that_leaves_ends_the_call",
            "mcp_streams::a_client_that_leaves_ends_the_call_and_is_told_where_nobody_can_come_back",
        ],
    ),
    McpRow(
        "20: a place in a stream",
        &[
            "mcp_streams::a_place_in_a_stream_is_good_on_another_node_and_after_a_restart",
            "mcp_streams::an_answer_that_comes_on_the_next_stream_is_filtered_and_judged_there",
        ],
    ),
    McpRow("21: no stream to listen to", &[LISTENS]),
    McpRow("22: no token, another's, one for reading", &[CHALLENGE, AUDIENCE, SCOPES]),
    McpRow("23: documents behind a proxy", &[CHALLENGE]),
    McpRow(
        "24: clients by document and by registration",
        &[
            "mcp_sign_in::a_client_may_be_the_document_at_its_own_address",
            "mcp_sign_in::a_client_finds_the_way_signs_somebody_in_and_calls",
            CODE,
        ],
    ),
    McpRow("25: two nodes, one rotating token", &["mcp_accounts::two_nodes_renew_one_rotating_token_with_one_request"]),
    McpRow("26: two callers, one credential", &[SHARED]),
    McpRow("27: marked secrets are nowhere", CANARY),
    McpRow("28: pages of other origins", &[ORIGINS]),
    McpRow("29: addresses inside", ADDRESSES),
    McpRow("30: what a token says", &["mcp_sign_in::what_was_allowed_is_told_and_taken_back"]),
    McpRow(
        "31: cards of agents, and tasks of others",
        &[
            "agents::cards_lead_to_the_gateway_bad_cards_are_refused_and_tasks_of_others_are_not_found",
            "agent_cards::what_is_no_card_is_refused_and_so_is_one_byte_too_many",
            "agent_nodes::a_task_is_known_on_another_node_and_after_a_restart_to_its_caller_alone",
            "mcp_tasks::a_task_of_somebody_else_is_an_unknown_one",
        ],
    ),
    McpRow(
        "32: the process takes leave",
        &[
            "mcp_streams::calls_and_streams_end_cleanly_when_the_process_takes_leave",
            "agent_clocks::streams_end_cleanly_when_the_process_takes_leave",
        ],
    ),
];

/// Attacks on who may call, and on whom the gateway calls.
const ATTACKS: &[McpRow] = &[
    McpRow(
        "issuers are mixed up",
        &[
            "mcp_authorization::issuers_are_not_mixed_up_and_what_is_over_opens_nothing",
            "mcp_account_attacks::an_answer_of_another_server_or_one_that_comes_twice_is_none",
            "mcp_account_attacks::documents_that_speak_for_others_or_protect_nothing_lead_nowhere",
        ],
    ),
    McpRow("a code comes again", &["mcp_sign_in_attacks::a_code_that_comes_twice_ends_what_it_began", CODE]),
    McpRow(
        "a token for somebody else",
        &[
            AUDIENCE,
            "mcp_sign_in_attacks::tokens_of_others_open_nothing",
            "mcp_upstream_sign_in::a_callers_own_token_goes_on_only_to_whom_it_names",
            "agent_sign_in::a_callers_own_token_goes_on_only_to_the_agent_that_it_names",
        ],
    ),
    McpRow("an open redirect", &["mcp_sign_in_attacks::nobody_is_sent_anywhere_before_a_decision", CODE]),
    McpRow(
        "a session is foisted on somebody",
        &[
            SESSION,
            "mcp_sign_in_attacks::only_a_page_of_ours_in_the_browser_that_began_decides",
            "mcp_account_attacks::a_link_is_for_one_person_and_an_answer_for_the_browser_that_asked",
        ],
    ),
    McpRow(
        "a name leads elsewhere than it did",
        &[ORIGINS, "tool_addresses::a_name_that_leads_inside_is_not_dialled_for_a_tool_or_an_agent"],
    ),
    McpRow("names of tools collide", COLLISIONS),
    McpRow("addresses inside, in each field", ADDRESSES),
    McpRow("marked values in everything", CANARY),
    McpRow("a node is killed under a thousand sessions", &[KILLED]),
];

/// Faults that others had, each with its issue, `https://github.com/<repository>/issues/<number>`.
const INCIDENTS: &[McpRow] = &[
    McpRow("agentgateway/agentgateway 3476: the first page only", &[PAGES]),
    McpRow("agentgateway/agentgateway 3622: a dead session of a member fails for ever", FORGOTTEN),
    McpRow("agentgateway/agentgateway 1266, 1029: one bad member kills the session", &[MEMBERS]),
    McpRow(
        "agentgateway/agentgateway 2980: the client's version sent on",
        &["mcp_members::members_of_both_eras_serve_clients_of_both"],
    ),
    McpRow("agentgateway/agentgateway 3129: a bare 429", &[LIMIT]),
    McpRow("agentgateway/agentgateway 754, 2397: sessions of one replica", &[NODES, KILLED, SESSION]),
    McpRow(
        "envoyproxy/ai-gateway 1940: a session cut at a subject's sign",
        &["mcp/src/session.rs::a_session_comes_back_as_it_was"],
    ),
    McpRow("envoyproxy/ai-gateway 1924: one 405 and a storm of retries", &[LISTENS]),
    McpRow(
        "envoyproxy/ai-gateway 2219: an empty first event",
        &["mcp::events_pass_as_they_come_and_a_client_of_json_gets_the_answer_alone"],
    ),
    McpRow("BerriAI/litellm 29936: a refusal that holds tokens", CANARY),
    McpRow(
        "BerriAI/litellm 25343: a test that runs commands",
        &["mcp_stdio::no_field_of_the_admin_api_takes_a_command"],
    ),
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
    McpRow("IBM/mcp-context-forge 5485: a node that owned a session died", &[NODES, KILLED]),
    McpRow(
        "googleapis/genai-toolbox GHSA-5gf6-gc35-xjpc: older versions skip scopes",
        &[SCOPES, "mcp_legacy_clients::older_clients_meet_every_check"],
    ),
    McpRow("saved changes not in force", &[SWITCHED]),
];

#[test]
fn every_row_names_tests_that_are_there() {
    assert_eq!((BEHAVIOURS.len(), INCIDENTS.len()), (32, 19));
    for (at, McpRow(told, _)) in BEHAVIOURS.iter().enumerate() {
        assert!(told.starts_with(&format!("{}: ", at + 1)), "{told}");
    }
    for McpRow(told, tests) in BEHAVIOURS.iter().chain(INCIDENTS).chain(ATTACKS) {
        assert!(!tests.is_empty(), "{told} has no test");
        tests.iter().for_each(|test| assert!(is_there(test), "{told} names {test}, which is not there"));
    }
}
