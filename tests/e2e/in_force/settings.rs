//! Settings of families, and the tests that see each of them at work.

use super::is_there;
use std::collections::BTreeSet;

/// Settings of families in `configurations`, each with the test that sees it: those of the families below.
const SETTINGS: &[(&str, &str)] = &[
    ("amzn_sagemaker_custom_attributes", SAGEMAKER),
    ("amzn_sagemaker_target_model", SAGEMAKER),
    ("amzn_sagemaker_target_variant", SAGEMAKER),
    ("amzn_sagemaker_target_container_hostname", SAGEMAKER),
    ("amzn_sagemaker_inference_id", SAGEMAKER),
    ("amzn_sagemaker_enable_explanations", SAGEMAKER),
    ("amzn_sagemaker_inference_component", SAGEMAKER),
    ("amzn_sagemaker_session_id", SAGEMAKER),
    ("amzn_sagemaker_model_name", SAGEMAKER),
    ("workers_ai_account_id", "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given"),
    ("anthropic_aws_workspace_id", "long_tail_areas::claude_on_aws_is_signed_and_told_its_workspace"),
    ("fireworks_account_id", "tuning::together_and_fireworks_train_models_for_clients_of_openai"),
    ("snowflake_account", "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given"),
    ("databricks_workspace", "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given"),
    ("databricks_serving_endpoint_name", "long_tail::content_of_databricks_comes_as_text"),
    ("byteplus_region", "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given"),
    ("huggingface_base_url", "long_tail::hugging_faces_address_may_be_ones_own"),
    ("triton_api", "long_tail_shapes::triton_is_called_in_either_of_its_ways"),
    ("oracle_region", "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given"),
    ("oracle_api_version", "long_tail_clouds::oracle_hears_of_the_compartment"),
    ("oracle_serving_mode", "long_tail_clouds::oracle_chats_in_its_own_way_where_a_setting_says_so"),
    ("oracle_api_format", "long_tail_clouds::oracle_chats_in_its_own_way_where_a_setting_says_so"),
    ("oracle_compartment_id", "long_tail_clouds::oracle_hears_of_the_compartment"),
    ("oracle_tenancy", "long_tail_clouds::oracle_is_signed_with_a_users_key"),
    ("oracle_user", "long_tail_clouds::oracle_is_signed_with_a_users_key"),
    ("oracle_fingerprint", "long_tail_clouds::oracle_is_signed_with_a_users_key"),
    ("oracle_private_key", "long_tail_clouds::oracle_is_signed_with_a_users_key"),
];

const SAGEMAKER: &str = "long_tail_clouds::sagemaker_is_signed_on_its_own_path_and_given_a_token_on_openais";

/// Families of which each setting stands in [`SETTINGS`]; those of the older clouds are seen in their own files.
const SET_UP: &[&str] = &[
    "workers-ai",
    "cortex",
    "fireworks-ai",
    "databricks",
    "byteplus",
    "huggingface",
    "oracle",
    "sagemaker",
    "triton",
    "claude-platform-aws",
];

#[test]
fn every_setting_of_a_family_has_its_place_here() {
    let of_one = |s: &&gateway_domain::cloud::Setting| matches!(s.families, [one] if SET_UP.contains(one));
    let known: BTreeSet<&str> = gateway_domain::cloud::SETTINGS.iter().filter(of_one).map(|s| s.name).collect();
    assert_eq!(SETTINGS.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), known);
    for (name, place) in SETTINGS {
        assert!(is_there(place), "{name}: there is no test {place}");
    }
}
