//! Each field that an admin can set, and the test that sees it on the proxy. The table is held to the description of
//! the API: a new field needs its line, and the test that a line names must be there.

mod settings;

use crate::harness::{
    Gateway, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply, stand_at_noon, with,
};
use gateway_testing::Redis;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// It is for people, or for programs that read it back; no request depends on it.
const SHOWN: &str = "shown";
/// Says which row is meant, or how this one write is to be made.
const MEANS: &str = "means";
/// Falls on a midnight: seen where the clock is an argument, in the tests of `policies` and of `admin`.
const CALENDAR: &str = "calendar";

/// Kind of resource, where each of its fields is seen.
const TABLE: &[(&str, &[(&str, &str)])] = &[
    (
        "configs",
        &[
            ("name", SHOWN),
            ("config", "configs::an_update_is_in_force_when_it_is_answered"),
            ("isDefault", "saved::the_default_of_a_workspace_serves_who_brings_none"),
            ("status", MEANS),
            ("version", "saved::an_old_version_is_in_force_again_when_it_is_answered"),
            ("workspace_id", "workspaces::the_proxy_port_tells_nothing_of_anothers_things"),
            ("key", "explained::every_target_is_told_with_its_chance_and_nothing_is_sent"),
            ("method", "explained::what_cannot_be_supposed_is_refused_by_name"),
            ("path", "explained::every_target_is_told_with_its_chance_and_nothing_is_sent"),
            ("headers", "explained::the_condition_that_decides_is_named"),
            ("body", "explained::what_would_be_refused_is_told_as_its_refusal"),
        ],
    ),
    (
        "integrations",
        &[
            ("name", SHOWN),
            ("slug", MEANS),
            ("description", SHOWN),
            ("tags", SHOWN),
            ("ai_provider_id", "first_request::a_managed_provider_is_chosen_by_its_slug"),
            ("key", "control::integrations_and_providers_are_made_listed_read_changed_and_deleted"),
            ("configurations", "saved_providers::settings_of_an_integration_go_upstream"),
            ("pricing_adjustments", "models::a_model_has_its_own_price_and_an_integration_a_factor"),
            (
                "secret_mappings",
                "secret_references::every_place_of_an_integration_can_be_filled_and_members_are_chosen",
            ),
            ("workspace_id", "workspaces::the_proxy_port_tells_nothing_of_anothers_things"),
            ("create_default_provider", "saved_providers::settings_of_an_integration_go_upstream"),
            ("default_provider_slug", "saved_providers::settings_of_an_integration_go_upstream"),
            ("models", "models::a_model_has_its_own_host_and_headers"),
            ("allow_all_models", "tenants::models_and_workspaces_are_kept_from_an_integration"),
            ("workspaces", "tenants::models_and_workspaces_are_kept_from_an_integration"),
            ("global_workspace_access", "tenants::models_and_workspaces_are_kept_from_an_integration"),
            ("override_existing_workspace_access", MEANS),
            ("model", "credential_trials::a_credential_is_tried_before_it_is_saved_and_afterwards"),
            ("version", "undone::what_is_taken_back_is_in_force_when_it_is_answered"),
        ],
    ),
    (
        "scim",
        &[
            ("schemas", MEANS),
            ("externalId", SHOWN),
            ("userName", "scim::who_is_switched_off_is_cut_off_on_every_port"),
            ("name", SHOWN),
            ("displayName", SHOWN),
            ("nickName", SHOWN),
            ("profileUrl", SHOWN),
            ("title", SHOWN),
            ("userType", SHOWN),
            ("preferredLanguage", SHOWN),
            ("locale", SHOWN),
            ("timezone", SHOWN),
            ("active", "scim::who_is_switched_off_is_cut_off_on_every_port"),
            ("password", MEANS),
            ("emails", "scim::who_is_switched_off_is_cut_off_on_every_port"),
            ("phoneNumbers", SHOWN),
            ("ims", SHOWN),
            ("photos", SHOWN),
            ("addresses", SHOWN),
            ("entitlements", MEANS),
            ("roles", MEANS),
            ("x509Certificates", SHOWN),
            ("urn:ietf:params:scim:schemas:extension:enterprise:2.0:User", SHOWN),
            ("members", "scim::a_group_opens_a_workspace_and_closes_it"),
            ("Operations", "scim::who_is_switched_off_is_cut_off_on_every_port"),
            ("workspace_id", "scim::a_group_opens_a_workspace_and_closes_it"),
            ("role", "scim::a_group_opens_a_workspace_and_closes_it"),
            ("scim_group_id", "scim::a_group_opens_a_workspace_and_closes_it"),
            ("scim_group_name", MEANS),
        ],
    ),
    (
        "gateway",
        &[
            ("model", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
            ("text", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
            ("messages", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
            ("system", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
            ("tools", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
            ("functions", "tokenize::texts_and_requests_are_counted_and_estimates_are_called_so"),
        ],
    ),
    (
        "batches",
        &[(
            "internal_output_file_id",
            "judged_batches::another_output_takes_the_place_of_the_one_that_is_being_judged",
        )],
    ),
    (
        "providers",
        &[
            ("name", SHOWN),
            ("note", SHOWN),
            ("tags", SHOWN),
            ("slug", "first_request::a_managed_provider_is_chosen_by_its_slug"),
            ("integration_id", "first_request::a_managed_provider_is_chosen_by_its_slug"),
            ("expires_at", "in_force::what_expires_ends_by_itself"),
            ("rate_limits", "token_limits::holders_have_limits_of_their_own"),
            ("usage_limits", "budgets::a_targets_exhausted_budget_falls_back"),
            ("model", "credential_trials::a_credential_is_tried_before_it_is_saved_and_afterwards"),
            ("max_parallel", "shield::a_provider_that_has_enough_to_do_is_passed_over"),
            ("reset_usage", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("workspace_id", "workspaces::the_proxy_port_tells_nothing_of_anothers_things"),
        ],
    ),
    (
        "virtual-keys",
        &[
            ("name", SHOWN),
            ("note", SHOWN),
            ("provider", "saved_providers::a_virtual_key_serves_with_its_own_credential"),
            ("key", "saved_providers::a_virtual_key_serves_with_its_own_credential"),
            ("resourceName", "saved_providers::a_virtual_key_of_azure_finds_its_deployments"),
            ("apiVersion", "saved_providers::a_virtual_key_of_azure_finds_its_deployments"),
            ("deploymentName", "saved_providers::a_virtual_key_of_azure_finds_its_deployments"),
            ("deploymentConfig", "saved_providers::a_virtual_key_of_azure_finds_its_deployments"),
            (
                "secret_mappings",
                "secret_references::every_place_of_an_integration_can_be_filled_and_members_are_chosen",
            ),
            ("expires_at", "in_force::what_expires_ends_by_itself"),
            ("rate_limits", "saved_providers::a_virtual_key_serves_with_its_own_credential"),
            ("usage_limits", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("reset_usage", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("workspace_id", "workspaces::the_proxy_port_tells_nothing_of_anothers_things"),
        ],
    ),
    (
        "api-keys",
        &[
            ("name", SHOWN),
            ("status", "in_force::a_blocked_key_opens_nothing_until_it_is_active_again"),
            ("description", SHOWN),
            ("user_id", "tenants::an_invited_user_calls_with_the_config_of_the_workspace_until_taken_out"),
            ("scopes", "first_request::keys_that_may_not_are_refused"),
            ("defaults", "configs::the_default_of_a_key_is_used_unless_the_request_brings_its_own"),
            ("expires_at", "in_force::what_expires_ends_by_itself"),
            ("rotation_policy", "in_force::an_enforced_cadence_is_kept_and_both_secrets_open"),
            ("key_transition_period_ms", "tenants::a_rotated_key_opens_with_both_secrets"),
            ("rate_limits", "token_limits::holders_have_limits_of_their_own"),
            ("usage_limits", "budgets::money_is_held_before_it_is_spent"),
            ("max_parallel", "shield::a_key_has_no_more_calls_under_way_than_it_may"),
            ("mcp_access", "mcp_access::a_key_uses_what_it_is_held_to_in_lists_and_calls_alike"),
            ("allowed_models", "matrix::a_key_calls_the_models_that_it_may_on_every_way"),
            ("version", "undone::what_is_taken_back_is_in_force_when_it_is_answered"),
            ("alert_emails", "budgets::a_webhook_hears_whom_to_mail"),
            ("reset_usage", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("workspace_id", "workspaces::records_and_limits_stay_with_their_workspace"),
        ],
    ),
    (
        "rate-limits",
        &[
            ("name", SHOWN),
            ("description", SHOWN),
            ("target", MEANS),
            ("type", "token_limits::a_call_holds_what_it_may_use_and_settles_at_what_it_used"),
            ("unit", "limits::as_many_as_allowed_pass_and_the_rest_hear_why"),
            ("value", "limits::as_many_as_allowed_pass_and_the_rest_hear_why"),
            ("conditions", "limits::conditions_and_groups_choose_whom_they_hold"),
            ("group_by", "limits::conditions_and_groups_choose_whom_they_hold"),
            ("enforcement", "budgets::a_check_asks_only_whether_anything_is_left"),
            ("assume_output", "in_force::what_nobody_bounds_is_held_as_each_policy_assumes"),
            ("version", "undone::what_is_taken_back_is_in_force_when_it_is_answered"),
            ("fail_mode", "shared_limits::while_redis_is_away_or_slow_each_policy_does_as_it_says"),
            ("status", "limits::policies_are_made_listed_read_changed_and_archived"),
            ("workspace_id", "workspaces::records_and_limits_stay_with_their_workspace"),
        ],
    ),
    (
        "usage-limits",
        &[
            ("name", SHOWN),
            ("description", SHOWN),
            ("target", MEANS),
            ("type", "budgets::money_is_held_before_it_is_spent"),
            ("credit_limit", "budgets::money_is_held_before_it_is_spent"),
            ("alert_threshold", "budgets::thresholds_are_told_once_in_the_audit_trail_and_to_a_webhook"),
            ("periodic_reset", CALENDAR),
            ("periodic_reset_days", CALENDAR),
            ("next_usage_reset_at", CALENDAR),
            ("conditions", "in_force::a_budget_holds_whom_it_names_until_it_is_archived"),
            ("group_by", "budgets::groups_spend_apart_and_never_more_than_allowed"),
            ("enforcement", "budgets::a_check_asks_only_whether_anything_is_left"),
            ("assume_output", "in_force::what_nobody_bounds_is_held_as_each_policy_assumes"),
            ("version", "undone::what_is_taken_back_is_in_force_when_it_is_answered"),
            ("fail_mode", "in_force::a_budget_does_as_it_says_while_redis_is_away"),
            ("status", "in_force::a_budget_holds_whom_it_names_until_it_is_archived"),
            ("workspace_id", "in_force::a_budget_holds_whom_it_names_until_it_is_archived"),
            ("reset_usage_for_value", "budgets::what_groups_used_is_told_and_set_back"),
        ],
    ),
    (
        "organisations",
        &[
            ("name", "organisations::limits_records_sums_and_exports_stay_with_their_organisation"),
            ("slug", "organisations::people_sign_in_at_the_provider_of_their_own_organisation"),
            ("owners", "organisations::people_sign_in_at_the_provider_of_their_own_organisation"),
        ],
    ),
    (
        "organisation",
        &[
            ("name", SHOWN),
            ("issuer", "sso::somebody_signs_in_works_and_signs_out"),
            ("client_id", "sso::somebody_signs_in_works_and_signs_out"),
            ("client_secret", "sso::somebody_signs_in_works_and_signs_out"),
            ("client_private_key", "sso::a_client_with_a_key_signs_in_the_place_of_a_secret"),
            ("client_key_id", "sso::a_client_with_a_key_signs_in_the_place_of_a_secret"),
            ("client_certificate", "sso::a_client_with_a_key_signs_in_the_place_of_a_secret"),
            ("role_claim", "sso::people_are_linked_and_made_as_the_settings_say"),
            ("roles", "sso::people_are_linked_and_made_as_the_settings_say"),
            ("workspace_roles", "sso::seats_follow_the_claims"),
            ("makes_users", "sso::people_are_linked_and_made_as_the_settings_say"),
            ("new_user_role", "sso::somebody_signs_in_works_and_signs_out"),
            ("email_domains", "sso::people_are_linked_and_made_as_the_settings_say"),
            ("trusts_unverified_emails", "sso::keys_of_the_provider_change_and_the_last_good_ones_stay"),
            ("session_seconds", "sso::somebody_signs_in_works_and_signs_out"),
            ("model_prices", "prices::an_organisation_has_prices_of_its_own_behind_those_of_an_integration"),
            ("block_inline_config", "tenants::inline_selection_is_blocked_when_the_organisation_says_so"),
            ("user_api_key_rotation_period", "in_force::an_enforced_cadence_is_kept_and_both_secrets_open"),
            ("jwks_uris", "tokens::a_token_opens_both_ports_as_its_claims_say"),
            ("jwks", "tokens::a_new_key_is_found_and_a_withdrawn_one_forgotten"),
            ("security_settings", "tenants::a_key_of_a_person_may_no_more_than_the_role_on_the_proxy_port_too"),
            ("overridable_sections", "in_force::a_workspace_decides_for_itself_where_it_may"),
            ("managers_set_limits", "in_force::managers_set_limits_where_the_organisation_says_so"),
            ("known_routes_only", "in_force::a_misspelt_route_goes_nowhere_where_only_known_ones_are_open"),
            ("analytics_metadata_keys", "analytics::what_was_spent_is_told_by_key_user_model_and_named_metadata"),
            ("export_settings", "exports::denied_fields_are_kept_from_readers_and_exports"),
            ("token_rules", "tokens::issuer_and_audience_are_held_to_what_the_organisation_says"),
            ("cache_max_age", "cached::the_organisation_bounds_how_long_answers_are_kept"),
            ("debug_log", "captured::the_debug_header_and_the_organisation_say_metrics_only"),
            ("enforce_debug_log_setting", "captured::the_debug_header_and_the_organisation_say_metrics_only"),
            ("organisation_id", MEANS),
            (
                "input_guardrails",
                "guardrail_defaults::defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations",
            ),
            (
                "output_guardrails",
                "guardrail_defaults::defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations",
            ),
        ],
    ),
    (
        "workspaces",
        &[
            ("name", SHOWN),
            ("slug", MEANS),
            ("description", SHOWN),
            ("icon", SHOWN),
            ("defaults", "workspaces::metadata_of_workspace_and_key_beats_the_requests"),
            ("user_api_key_rotation_period", "in_force::an_enforced_cadence_is_kept_and_both_secrets_open"),
            ("rate_limits", "in_force::a_workspace_decides_for_itself_where_it_may"),
            ("usage_limits", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("reset_usage", "in_force::each_holder_has_a_budget_that_can_start_anew"),
            ("security_settings", "in_force::a_workspace_decides_for_itself_where_it_may"),
            ("export_settings", "exports::denied_fields_are_kept_from_readers_and_exports"),
            ("users", "tenants::an_invited_user_calls_with_the_config_of_the_workspace_until_taken_out"),
            ("role", "tenants::a_key_of_a_person_may_no_more_than_the_role_on_the_proxy_port_too"),
        ],
    ),
    (
        "users",
        &[
            ("email", "tenants::an_invited_user_calls_with_the_config_of_the_workspace_until_taken_out"),
            ("role", "tenants::a_key_of_a_person_may_no_more_than_the_role_on_the_proxy_port_too"),
            ("workspaces", "tenants::an_invited_user_calls_with_the_config_of_the_workspace_until_taken_out"),
            ("workspace_api_key_details", "tenants::a_key_of_a_person_may_no_more_than_the_role_on_the_proxy_port_too"),
        ],
    ),
    ("invites", &[("token", MEANS), ("first_name", SHOWN), ("last_name", SHOWN)]),
    (
        "guardrails",
        &[
            ("name", SHOWN),
            ("organisation_id", MEANS),
            (
                "workspace_id",
                "guardrail_defaults::defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations",
            ),
            ("status", MEANS),
            ("checks", "guardrail_defaults::a_saved_guardrail_is_named_by_slug_and_an_update_is_in_force_at_once"),
            ("actions", "guardrail_defaults::a_saved_guardrail_is_named_by_slug_and_an_update_is_in_force_at_once"),
            ("hook", MEANS),
            ("text", "guardrail_defaults::a_guardrail_can_be_tried_without_a_call"),
            ("request", MEANS),
            ("response", MEANS),
            ("metadata", MEANS),
        ],
    ),
    (
        "prompts",
        &[
            ("name", SHOWN),
            ("string", "prompts::a_prompt_becomes_the_chat_request_that_it_stands_for"),
            ("parameters", "prompts::a_prompt_becomes_the_chat_request_that_it_stands_for"),
            ("model", "prompts::a_prompt_becomes_the_chat_request_that_it_stands_for"),
            ("tools", "prompts::a_prompt_becomes_the_chat_request_that_it_stands_for"),
            ("tool_choice", "prompts::a_prompt_becomes_the_chat_request_that_it_stands_for"),
            ("functions", "prompts::raw_templates_give_messages_whatever_their_values_hold"),
            ("is_raw_template", "prompts::raw_templates_give_messages_whatever_their_values_hold"),
            ("virtual_key", "prompts::the_requests_own_provider_and_config_count_as_for_any_request"),
            ("version", "prompts::each_name_means_one_version"),
            ("label_id", "prompts::each_name_means_one_version"),
            ("workspace_id", "prompts::keys_need_the_scope_of_the_verb_and_see_their_own_workspace"),
            ("organisation_id", MEANS),
            ("collection_id", SHOWN),
            ("version_description", SHOWN),
            ("description", SHOWN),
            ("template_metadata", SHOWN),
            ("prompt_metadata", SHOWN),
            ("patch", MEANS),
            ("status", MEANS),
            ("access", "shared_prompts::a_shared_prompt_says_the_same_to_everybody_and_asks_the_callers_provider"),
            ("workspaces", "shared_prompts::a_shared_prompt_says_the_same_to_everybody_and_asks_the_callers_provider"),
        ],
    ),
    (
        "configuration",
        &[
            ("document", "configuration::a_document_of_one_gateway_is_in_force_on_another"),
            ("secrets", "configuration::a_document_of_one_gateway_is_in_force_on_another"),
            ("dry_run", MEANS),
        ],
    ),
    (
        "collections",
        &[
            ("name", SHOWN),
            ("parent_collection_id", SHOWN),
            ("organisation_id", MEANS),
            ("workspace_id", "prompts::keys_need_the_scope_of_the_verb_and_see_their_own_workspace"),
        ],
    ),
    (
        "labels",
        &[
            ("name", "prompts::each_name_means_one_version"),
            ("description", SHOWN),
            ("color_code", SHOWN),
            ("organisation_id", MEANS),
            ("workspace_id", "prompts::keys_need_the_scope_of_the_verb_and_see_their_own_workspace"),
        ],
    ),
    (
        "plugins",
        &[
            ("organisation_id", MEANS),
            ("partner", "partners::a_partner_is_asked_with_the_credential_of_the_organisation"),
            ("credentials", "partners::a_partner_is_asked_with_the_credential_of_the_organisation"),
        ],
    ),
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
        "deployments",
        &[
            ("name", SHOWN),
            ("slug", "deployments::nodes_serve_the_workspaces_of_their_deployment_and_no_other"),
            ("type", SHOWN),
            ("tags", SHOWN),
            ("source_type", SHOWN),
            ("organisation_id", MEANS),
            ("config", "deployments::nodes_do_what_the_config_of_their_deployment_says"),
            ("allow_all_workspaces", "deployments::nodes_serve_the_workspaces_of_their_deployment_and_no_other"),
            ("allowed_workspaces", "deployments::nodes_serve_the_workspaces_of_their_deployment_and_no_other"),
        ],
    ),
    (
        "secret-references",
        &[
            ("name", SHOWN),
            ("slug", MEANS),
            ("description", SHOWN),
            ("tags", SHOWN),
            ("organisation_id", MEANS),
            ("manager_type", "secret_references::each_manager_is_asked_as_its_documents_say"),
            ("auth_config", "secret_references::each_manager_is_asked_as_its_documents_say"),
            ("secret_path", "secret_references::each_manager_is_asked_as_its_documents_say"),
            ("secret_key", "secret_references::a_rotated_secret_comes_into_force_and_the_last_good_one_stays"),
            ("allow_all_workspaces", "secret_references::a_reference_serves_the_workspaces_that_it_names_and_no_other"),
            ("allowed_workspaces", "secret_references::a_reference_serves_the_workspaces_that_it_names_and_no_other"),
        ],
    ),
    (
        "alerts",
        &[
            ("name", "alerts::a_test_message_says_what_became_of_each_channel"),
            ("description", SHOWN),
            ("type", "alerts::each_kind_is_told_with_what_was_found"),
            ("threshold", "alerts::what_a_rule_asks_for_keeps_it_silent"),
            ("statistic", "alerts::each_kind_is_told_with_what_was_found"),
            ("window_minutes", "alerts::each_kind_is_told_with_what_was_found"),
            ("minimum_count", "alerts::what_a_rule_asks_for_keeps_it_silent"),
            ("cool_down_minutes", "alerts::two_nodes_tell_an_alert_once"),
            ("filters", "alerts::what_a_rule_asks_for_keeps_it_silent"),
            ("channels", "alerts::each_kind_is_told_with_what_was_found"),
            ("status", "alerts::what_a_rule_asks_for_keeps_it_silent"),
            ("workspace_id", MEANS),
            ("organisation_id", MEANS),
        ],
    ),
    (
        "logs",
        &[
            ("request", "own_logs::what_was_answered_is_kept_though_the_gateway_dies_and_is_kept_once"),
            ("response", "own_logs::what_was_answered_is_kept_though_the_gateway_dies_and_is_kept_once"),
            ("metadata", "own_logs::what_was_answered_is_kept_though_the_gateway_dies_and_is_kept_once"),
            ("workspace_id", MEANS),
            ("filters", "exports::a_kill_costs_an_export_nothing"),
            ("requested_data", "exports::a_kill_costs_an_export_nothing"),
            ("description", SHOWN),
            ("format", "exports::columns_are_fetched_like_lines"),
        ],
    ),
    (
        "feedback",
        &[
            ("trace_id", "analytics::clients_say_what_calls_are_worth"),
            ("value", "analytics::clients_say_what_calls_are_worth"),
            ("weight", "analytics::clients_say_what_calls_are_worth"),
            ("metadata", SHOWN),
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
    (
        "workspace-exclusions",
        &[
            ("organisation_id", MEANS),
            (
                "workspaces",
                "guardrail_defaults::defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations",
            ),
            ("override_existing", MEANS),
        ],
    ),
];

fn kind(path: &str) -> &str {
    let mut parts =
        path.trim_start_matches("/v1").split('/').filter(|s| !s.is_empty() && *s != "admin" && *s != "policies");
    parts.next().unwrap_or_default()
}

pub(crate) fn is_there(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test} names no test"));
    let path = format!("{}/tests/e2e/{file}.rs", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).is_ok_and(|source| source.contains(&format!("async fn {name}()")))
}

#[tokio::test]
async fn every_field_has_its_place_here() {
    let gateway = Gateway::start().await;
    let text = gateway.client().get(gateway.admin_url("/openapi.json")).send().await.expect("an answer").text().await;
    let document: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
    let mut told: BTreeSet<(String, String)> = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let fields = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
            let Some(fields) = fields.as_object().filter(|_| method != "delete") else { continue };
            told.extend(fields.keys().map(|field| (kind(path).to_owned(), field.clone())));
        }
    }
    let listed =
        TABLE.iter().flat_map(|(kind, fields)| fields.iter().map(|(f, _)| ((*kind).to_owned(), (*f).to_owned())));
    assert_eq!(listed.collect::<BTreeSet<_>>(), told);
    for (kind, fields) in TABLE {
        for (field, place) in fields.iter().filter(|(_, place)| ![SHOWN, MEANS, CALENDAR].contains(place)) {
            assert!(is_there(place), "{kind} {field}: there is no test {place}");
        }
    }
}

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

/// As RFC 3339 has it.
fn written(at: SystemTime) -> String {
    let micros = at.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
    gateway_domain::Timestamp(i64::try_from(micros).expect("in range")).to_string()
}

#[tokio::test]
async fn a_blocked_key_opens_nothing_until_it_is_active_again() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("up", "openai", Some(&upstream.url())).await;
    let (id, key) = gateway.admin().workspace_key("k", json!({"scopes": ["completions.write", "configs.list"]})).await;
    let path = format!("/api-keys/{id}");
    for (status, expected) in [("active", 200), ("blocked", 401), ("active", 200)] {
        gateway.admin().put(&path, &json!({ "status": status })).await.expect(200);
        let read = gateway.admin().get(&path).await.expect(200).json();
        assert_eq!(read["status"], status);
        gateway.chat().key(&key).provider("@up").json(&hello()).send().await.expect(expected);
        gateway.get("/v1/configs").key(&key).send().await.expect(expected);
    }
    let refused = gateway.admin().put(&path, &json!({ "status": "exhausted" })).await.expect(400);
    assert!(refused.text().contains("must be active or blocked"), "{}", refused.text());
}

#[tokio::test]
async fn what_expires_ends_by_itself() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("short", "openai", Some(&upstream.url())).await;
    let (id, key) = admin.workspace_key("short", json!({})).await;
    let ask = async |key: &str, provider: &str| gateway.chat().key(key).provider(provider).json(&hello()).send().await;
    ask(&key, "@short").await.expect(200);
    let lasts = async |until: SystemTime, key: &str, provider: &str| {
        let answer = ask(key, provider).await;
        assert!(answer.status == 200 || SystemTime::now() >= until, "it ended too soon: {}", answer.text());
    };
    let until = SystemTime::now() + Duration::from_millis(1500);
    admin.put(&format!("/api-keys/{id}"), &json!({ "expires_at": written(until) })).await.expect(200);
    lasts(until, &key, "mock").await;
    eventually("the key ends", || async { (ask(&key, "mock").await.status == 401).then_some(()) }).await;
    assert_eq!(admin.get(&format!("/api-keys/{id}")).await.expect(200).json()["status"], "expired");
    let own = WORKSPACE_KEY;
    let until = SystemTime::now() + Duration::from_millis(1500);
    admin.put("/providers/short", &json!({ "expires_at": written(until) })).await.expect(200);
    lasts(until, own, "@short").await;
    eventually("the provider ends", || async { (ask(own, "@short").await.status == 400).then_some(()) }).await;
    admin.put("/providers/short", &json!({ "expires_at": null })).await.expect(200);
    ask(own, "@short").await.expect(200);
}

/// Invited, accepted: id and key.
async fn person(gateway: &Gateway, scopes: Value) -> (String, String) {
    let invite = json!({ "email": "ann@example.com", "role": "member", "workspaces": [{ "id": "default", "role": "member" }],
        "workspace_api_key_details": { "scopes": scopes } });
    let made = gateway.admin().post("/admin/users/invites", &invite).await.expect(200).json();
    let token = made["invite_link"].as_str().and_then(|l| l.split_once('#')).expect("a token").1;
    let accept = json!({ "token": token, "first_name": "Ann", "last_name": "Lee" });
    let user = gateway.admin().call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let key = user.expect(200).json()["api_keys"][0].clone();
    let text = |name: &str| key[name].as_str().expect("text").to_owned();
    (text("id"), text("key"))
}

#[tokio::test]
async fn a_workspace_decides_for_itself_where_it_may() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (_, key) = person(&gateway, json!(["virtual_keys.list"])).await;
    let models = async || gateway.get("/v1/models").key(&key).send().await.status;
    assert_eq!(models().await, 200);
    let org = "/admin/organisation";
    admin.put(org, &json!({ "security_settings": { "members_view_virtual_keys": false } })).await.expect(200);
    assert_eq!(models().await, 403);
    let mut own = admin.get("/workspaces/default").await.expect(200).json()["security_settings"].clone();
    own["members_view_virtual_keys"] = json!(true);
    let own = json!({ "security_settings": own });
    admin.put("/workspaces/default", &own).await.expect(400);
    admin.put(org, &json!({ "overridable_sections": ["virtual_keys"] })).await.expect(200);
    admin.put("/workspaces/default", &own).await.expect(200);
    assert_eq!(models().await, 200);
    admin.put(org, &json!({ "overridable_sections": [] })).await.expect(200);
    assert_eq!(models().await, 403);
    let one = json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 1 }] });
    admin.put("/workspaces/default", &one).await.expect(200);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(429);
}

#[tokio::test]
async fn an_enforced_cadence_is_kept_and_both_secrets_open() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "user_api_key_rotation_period": "weekly" })).await.expect(200);
    let (id, key) = person(&gateway, json!(["completions.write"])).await;
    let path = format!("/api-keys/{id}");
    assert_eq!(admin.get(&path).await.expect(200).json()["rotation_policy"]["rotation_period_days"], 7);
    admin.put("/workspaces/default", &json!({ "user_api_key_rotation_period": "monthly" })).await.expect(200);
    let other = json!({ "rotation_policy": { "rotation_period_days": 9 } });
    admin.put(&path, &other).await.expect(400);
    let rotated = admin.post(&format!("{path}/rotate"), &json!({})).await.expect(200).json();
    for key in [key.as_str(), rotated["key"].as_str().expect("a key")] {
        gateway.chat().key(key).provider("mock").json(&hello()).send().await.expect(200);
    }
}

/// What a holder's limits stand in, in a body of its route.
type Around<'a> = &'a dyn Fn(Value) -> Value;

/// Each counts eight tokens a call.
#[tokio::test]
async fn each_holder_has_a_budget_that_can_start_anew() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let older = json!({ "name": "Older", "provider": "openai", "key": "sk-older-0000000000" });
    admin.post("/virtual-keys", &older).await.expect(200);
    let host = json!({ "configurations": { "custom_host": upstream.url() } });
    admin.put("/integrations/older", &host).await.expect(200);
    let (id, key) = admin.workspace_key("spender", json!({})).await;
    let ask = async |provider: &str| gateway.chat().key(&key).provider(provider).json(&hello()).send().await.status;
    let budget = json!({ "type": "tokens", "credit_limit": 8, "periodic_reset": null });
    let plain = |fields: Value| fields;
    let seat = |fields: Value| json!({ "workspaces": [with(json!({ "id": "default", "enabled": true }), fields)] });
    let all = |fields: Value| json!({ "global_workspace_access": with(json!({ "enabled": true }), fields) });
    let holders: [(String, &str, Around<'_>); 6] = [
        (format!("/api-keys/{id}"), "@main", &plain),
        ("/providers/main".to_owned(), "@main", &plain),
        ("/virtual-keys/older".to_owned(), "@older", &plain),
        ("/integrations/main-integration/workspaces".to_owned(), "@main", &seat),
        ("/integrations/main-integration/workspaces".to_owned(), "@main", &all),
        ("/workspaces/default".to_owned(), "@main", &plain),
    ];
    for (path, provider, body) in holders {
        admin.put(&path, &body(json!({ "usage_limits": [budget] }))).await.expect(200);
        assert_eq!((ask(provider).await, ask(provider).await), (200, 412), "{path}");
        // Records of calls take a moment to the counts; calls do not wait for them.
        eventually("what was used", || async {
            admin.get(&path).await.expect(200).text().contains("\"current_usage\":8").then_some(())
        })
        .await;
        admin.put(&path, &body(json!({ "reset_usage": true }))).await.expect(200);
        assert_eq!((ask(provider).await, ask(provider).await), (200, 412), "{path}: used anew");
        admin.put(&path, &body(json!({ "usage_limits": null }))).await.expect(200);
        assert_eq!(ask(provider).await, 200, "{path}: free");
    }
}

async fn policy(gateway: &Gateway, path: &str, fields: Value) -> String {
    let base = json!({ "type": "tokens", "conditions": [{ "key": "api_key", "value": "*" }] });
    let made = gateway.admin().post(path, &with(base, fields)).await.expect(200).json();
    format!("{path}/{}", made["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn what_nobody_bounds_is_held_as_each_policy_assumes() {
    stand_at_noon();
    let upstream = upstream().await;
    for (path, limit, refusal) in [
        ("/policies/rate-limits", json!({ "unit": "tph", "value": 500 }), 429),
        ("/policies/usage-limits", json!({ "credit_limit": 500 }), 412),
    ] {
        let gateway = Gateway::start().await;
        let path = policy(&gateway, path, with(limit, json!({ "assume_output": 495 }))).await;
        let ask = async || gateway.chat_through(&upstream).json(&hello()).send().await.status;
        // The first of a window always fits; of the rest, as much must be left as is assumed.
        assert_eq!((ask().await, ask().await), (200, refusal), "{path}");
        gateway.admin().put(&path, &json!({ "assume_output": 100 })).await.expect(200);
        assert_eq!(ask().await, 200, "{path}");
    }
}

#[tokio::test]
async fn a_budget_holds_whom_it_names_until_it_is_archived() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let other = admin.post("/admin/workspaces", &json!({ "name": "Other" })).await.expect(200).json()["id"].clone();
    let (_, theirs) = admin.workspace_key("theirs", json!({ "workspace_id": other })).await;
    let (_, ours) = admin.workspace_key("ours", json!({})).await;
    let of = |user: &str| json!([{ "key": "metadata._user", "value": user }]);
    let path = "/policies/usage-limits";
    let fields = json!({ "type": "requests", "credit_limit": 1, "conditions": of("ann"), "workspace_id": other });
    let path = policy(&gateway, path, fields).await;
    let ask = async |key: &str, user: &str| {
        let metadata = json!({ "_user": user }).to_string();
        let call = gateway.chat().key(key).provider("mock").header("x-gateway-metadata", &metadata);
        call.json(&hello()).send().await.status
    };
    assert_eq!((ask(&theirs, "ann").await, ask(&theirs, "ann").await), (200, 412));
    assert_eq!((ask(&theirs, "bob").await, ask(&theirs, "bob").await), (200, 200), "the conditions name another");
    assert_eq!((ask(&ours, "ann").await, ask(&ours, "ann").await), (200, 200), "of another workspace");
    admin.put(&path, &json!({ "conditions": of("bob") })).await.expect(200);
    assert_eq!((ask(&theirs, "ann").await, ask(&theirs, "ann").await), (200, 200));
    assert_eq!((ask(&theirs, "bob").await, ask(&theirs, "bob").await), (200, 412), "who is named now");
    admin.put(&path, &json!({ "status": "archived" })).await.expect(200);
    assert_eq!(ask(&theirs, "bob").await, 200);
}

#[tokio::test]
async fn a_budget_does_as_it_says_while_redis_is_away() {
    stand_at_noon();
    let redis = tokio::task::spawn_blocking(Redis::start).await.expect("no panic");
    let gateway = Gateway::with(&["--redis-url", &redis.url()]).await;
    let mode = async |mode: &str| {
        let line = format!("gateway_limits_mode{{mode=\"{mode}\"}} 1\n");
        eventually(mode, || async { gateway.metrics().await.contains(&line).then_some(()) }).await;
    };
    for mode in ["local", "open", "closed"] {
        let conditions = json!([{ "key": "metadata._user", "value": mode }]);
        let fields = json!({ "type": "requests", "credit_limit": 1, "fail_mode": mode, "conditions": conditions });
        policy(&gateway, "/policies/usage-limits", fields).await;
    }
    mode("redis").await;
    tokio::task::spawn_blocking(move || drop(redis)).await.expect("no panic");
    let ask = async |user: &str| {
        let metadata = json!({ "_user": user }).to_string();
        let call = gateway.chat().provider("mock").header("x-gateway-metadata", &metadata);
        call.json(&hello()).send().await.status
    };
    ask("open").await;
    mode("redis-away").await;
    assert_eq!((ask("open").await, ask("open").await), (200, 200));
    assert_eq!(ask("closed").await, 503);
    assert_eq!((ask("local").await, ask("local").await), (200, 412));
}

#[tokio::test]
async fn managers_set_limits_where_the_organisation_says_so() {
    let gateway = Gateway::start().await;
    let lift = async |wanted: u16| {
        let admin = gateway.admin();
        let (path, body) = (
            "/admin/workspaces/default",
            json!({ "rate_limits": [
            { "type": "requests", "unit": "rpm", "value": 9 }] }),
        );
        let call = admin.call("PUT", path).json(&body).header("x-gateway-api-key", WORKSPACE_KEY);
        call.send().await.expect(wanted);
    };
    lift(403).await;
    gateway.admin().put("/admin/organisation", &json!({ "managers_set_limits": true })).await.expect(200);
    lift(200).await;
}

#[tokio::test]
async fn a_misspelt_route_goes_nowhere_where_only_known_ones_are_open() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let ask = async |path: &str, wanted: u16| {
        let answer = gateway.post(path).config(&target(&upstream)).json(&hello()).send().await;
        assert_eq!(answer.status, wanted, "{path}: {}", answer.text());
        answer
    };
    // By itself whatever is below /v1 is the provider's to know, and the answer says whose it is.
    let passed = ask("/v1/chat/completion", 200).await;
    assert_eq!(passed.header("x-gateway-provider"), Some("openai"));
    gateway.admin().put("/admin/organisation", &json!({ "known_routes_only": true })).await.expect(200);
    let before = upstream.seen().len();
    for path in ["/v1/chat/completion", "/v1/proxy/chat/completion", "/v1/Chat/completions", "/v1/brand/new"] {
        let refused = ask(path, 404).await;
        assert!(refused.error().contains("known_routes_only"), "{path}: {}", refused.error());
    }
    assert_eq!(upstream.seen().len(), before, "nothing went up");
    for path in ["/v1/chat/completions", "/v1/chat/completions/", "/v1/proxy/chat/completions"] {
        ask(path, 200).await;
    }
}
