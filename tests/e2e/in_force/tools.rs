//! Fields of MCP servers and agents, and of the clients that sign in to them.

use super::{MEANS, Places, SHOWN};

pub(super) const FIELDS: Places = &[
    (
        "oauth-clients",
        &[
            ("name", SHOWN),
            ("slug", SHOWN),
            ("description", SHOWN),
            ("organisation_id", MEANS),
            ("type", "mcp_made_clients::a_confidential_client_proves_itself_wherever_it_asks"),
            ("redirect_uris", "mcp_made_clients::what_an_admin_made_is_what_a_client_may"),
            ("scope", "mcp_made_clients::what_an_admin_made_is_what_a_client_may"),
        ],
    ),
    (
        "mcp-integrations",
        &[
            ("name", SHOWN),
            ("slug", MEANS),
            ("description", SHOWN),
            ("organisation_id", MEANS),
            ("workspace_id", MEANS),
            ("url", "mcp::a_session_reaches_the_server_under_the_servers_own_id"),
            ("auth_type", "mcp::addresses_that_may_not_be_called_are_refused_when_they_are_saved"),
            ("transport", "mcp_sse::a_server_over_sse_is_asked_listed_and_called_over_one_stream"),
            ("configurations", "mcp::a_session_reaches_the_server_under_the_servers_own_id"),
            ("secret_mappings", "mcp_secrets::a_server_is_called_with_what_the_manager_holds_and_held_last"),
            ("capabilities", "mcp::what_is_switched_off_is_missing_in_lists_and_calls_alike"),
            ("new_capabilities", "mcp_definitions::what_is_new_is_off_until_somebody_switches_it_on"),
            (
                "pin_definitions",
                "mcp_definitions::a_tool_that_changed_after_it_was_accepted_is_not_served_until_it_is_accepted_anew",
            ),
            ("workspaces", "mcp::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("global_workspace_access", "mcp::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("override_existing_workspace_access", MEANS),
        ],
    ),
    (
        "agent-integrations",
        &[
            ("name", SHOWN),
            ("slug", MEANS),
            ("description", SHOWN),
            ("organisation_id", MEANS),
            ("workspace_id", MEANS),
            ("url", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("auth_type", "agent_cards::a_card_is_fetched_by_either_version_of_the_route"),
            ("headers", "agent_cards::a_card_is_fetched_by_either_version_of_the_route"),
            ("configurations", "agents::messages_pass_in_both_versions_and_both_bindings"),
            ("secret_mappings", "agent_cards::a_card_is_fetched_by_either_version_of_the_route"),
            (
                "agent_card",
                "agent_cards::an_agent_that_is_away_keeps_its_card_and_one_that_was_written_down_is_not_asked",
            ),
            ("capabilities", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("skills", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("workspaces", "agents::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("global_workspace_access", "agents::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("override_existing_workspace_access", MEANS),
        ],
    ),
    (
        "agent-servers",
        &[
            ("name", SHOWN),
            ("slug", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("description", SHOWN),
            ("workspace_id", MEANS),
            ("agent_integration_id", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("capabilities", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("skills", "agent_cards::the_admin_api_shows_the_card_that_leads_to_the_gateway"),
            ("user_access", "agents::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("default_user_access", "agents::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
        ],
    ),
    (
        "mcp-servers",
        &[
            ("name", SHOWN),
            ("slug", "mcp::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("description", SHOWN),
            ("workspace_id", MEANS),
            ("mcp_integration_id", "mcp::a_session_reaches_the_server_under_the_servers_own_id"),
            ("members", "mcp_members::equal_names_of_two_members_are_two_and_each_reaches_its_own"),
            ("capabilities", "mcp::what_is_switched_off_is_missing_in_lists_and_calls_alike"),
            ("user_access", "mcp::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
            ("default_user_access", "mcp::who_may_not_call_hears_so_and_what_is_elsewhere_is_missing"),
        ],
    ),
];
