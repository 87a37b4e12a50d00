//! What is said of single families on docs/providers.md, and the tests that see each: notes of the table, addresses
//! made of settings, operations in shapes of their own, families that are passed through, services that ended. Neither
//! may be left out: a new line of the page needs its line here, and each test or golden folder that a line names must
//! be there.

use crate::config_rows::is_there;
use std::collections::BTreeSet;
use std::path::Path;

/// Tests are `file::name` of this folder or `path/from/the/root.rs::name`; `golden/family/case` is a folder of what
/// goes up and comes back.
type Rows = &'static [(&'static str, &'static [&'static str])];

const NOTES: Rows = &[
    ("1", &["golden/ai21/unary"]),
    ("2", &["golden/predibase/unary", "golden/predibase/error-refused-user"]),
    ("3", &["golden/openrouter/unary"]),
    ("4", &["golden/groq/unary"]),
    ("5", &["golden/mistral-ai/unary"]),
    ("6", &["long_tail::a_vendors_key_reaches_bytez_and_nobody_else", "golden/bytez/unary-native"]),
    ("7", &["long_tail::snowflake_hears_what_kind_of_token_it_gets"]),
    ("8", &["long_tail::content_of_databricks_comes_as_text", "golden/databricks/unary-endpoint"]),
    ("9", &["golden/github/unary-models"]),
    ("10", &["long_tail::an_error_of_minimax_inside_a_200_falls_back", "golden/minimax/error-stream-late"]),
    (
        "11",
        &[
            "long_tail_clouds::oracle_hears_of_the_compartment",
            "long_tail_clouds::oracle_is_signed_with_a_users_key",
            "long_tail_clouds::oracle_chats_in_its_own_way_where_a_setting_says_so",
            "golden/oracle/stream-own-cohere",
            "long_tail_areas::vectors_and_rerank_of_oracle_name_the_compartment",
        ],
    ),
    ("12", &["golden/reka-ai/unary-older-api"]),
    ("13", &["long_tail::models_of_workers_ai_keep_their_at_sign"]),
    ("14", &["long_tail_shapes::models_without_chat_are_reached_by_responses"]),
    ("15", &["long_tail_shapes::triton_is_called_in_either_of_its_ways"]),
];

const CHECKED: &str = "long_tail::a_name_in_an_address_is_checked_wherever_it_is_given";

/// Set up by an integration through the program itself, each with what goes up.
const ADDRESSES: Rows = &[
    ("workers-ai", &[CHECKED, "long_tail::models_of_workers_ai_keep_their_at_sign"]),
    ("cortex", &[CHECKED, "long_tail::snowflake_hears_what_kind_of_token_it_gets"]),
    ("oracle", &[CHECKED, "long_tail_clouds::oracle_hears_of_the_compartment"]),
    ("databricks", &[CHECKED, "long_tail::content_of_databricks_comes_as_text"]),
    ("byteplus", &[CHECKED, "long_tail::byteplus_is_called_in_its_region", "golden/byteplus/unary-china"]),
    ("huggingface", &["long_tail::hugging_faces_address_may_be_ones_own"]),
];

/// Tests of each shape, named by family and operation as the table of shapes has them.
const SHAPES: Rows = &[
    (
        "stability-ai images",
        &[
            "long_tail_shapes::pictures_and_sound_of_other_shapes_are_made_and_billed",
            "golden/stability-ai/error-filtered",
        ],
    ),
    ("stability-ai image edits", &["long_tail_areas::pictures_are_changed_in_the_words_of_their_providers"]),
    (
        "fal-ai images",
        &[
            "long_tail_areas::pictures_cost_by_the_unit_that_their_provider_counts",
            "golden/fal-ai/unary",
            "golden/fal-ai/error",
        ],
    ),
    ("segmind images", &["golden/segmind/unary", "golden/segmind/unary-several"]),
    ("hyperbolic images", &["golden/hyperbolic/unary-pictures", "golden/hyperbolic/error-refused-several"]),
    ("siliconflow images", &["golden/siliconflow/unary-pictures"]),
    (
        "fireworks-ai images",
        &[
            "long_tail_areas::pictures_cost_by_the_unit_that_their_provider_counts",
            "golden/fireworks-ai/unary-pictures",
            "golden/fireworks-ai/unary-workflow",
        ],
    ),
    (
        "workers-ai images",
        &["golden/workers-ai/unary-pictures", "providers/src/shapes/pictures/native.rs::a_bare_picture_is_one"],
    ),
    ("dashscope images", &["golden/dashscope/unary-pictures"]),
    ("dashscope image edits", &["long_tail_areas::pictures_are_changed_in_the_words_of_their_providers"]),
    ("dashscope speech", &["long_tail_areas::speech_of_dashscope_is_the_sound_in_its_events"]),
    ("openrouter images", &["golden/openrouter/unary-pictures"]),
    ("openrouter transcription", &["long_tail_areas::openrouter_hears_sound_in_json_and_its_figure_is_the_cost"]),
    ("oracle embeddings", &["long_tail_areas::vectors_and_rerank_of_oracle_name_the_compartment"]),
    ("together-ai images", &["golden/together-ai/unary-pictures"]),
    ("minimax speech", &["long_tail_shapes::pictures_and_sound_of_other_shapes_are_made_and_billed"]),
    ("google images", &["golden/google/unary-picture", "golden/google/error-picture-size"]),
    ("google image edits", &["golden/google/unary-edit"]),
    ("google speech", &["golden/google/unary-speech-pcm", "golden/google/error-speech-mp3"]),
    ("google transcription", &["golden/google/unary-transcript"]),
    ("vertex-ai images", &["golden/vertex-ai/unary-picture", "golden/vertex-ai/unary-picture-imagen"]),
    // The code of these three is Google's.
    ("vertex-ai image edits", &["golden/google/unary-edit"]),
    ("vertex-ai speech", &["golden/google/unary-speech-pcm"]),
    (
        "vertex-ai transcription",
        &[
            "golden/google/unary-transcript",
            "golden/vertex-ai/unary-chirp",
            "long_tail_areas::chirp_is_asked_of_cloud_speech_and_billed_by_the_second",
        ],
    ),
    ("bedrock images", &["golden/bedrock/unary-picture-amazon", "golden/bedrock/unary-picture-stability"]),
    ("bedrock image edits", &["golden/bedrock/unary-edit-amazon"]),
    ("mistral-ai speech", &["golden/mistral-ai/unary-speech", "golden/mistral-ai/stream-speech"]),
    ("mistral-ai transcription", &["golden/mistral-ai/unary-transcript", "golden/mistral-ai/stream-transcript"]),
    ("mistral-ai moderations", &["golden/mistral-ai/unary-moderation"]),
    ("mistral-ai OCR", &["golden/mistral-ai/unary-ocr", "golden/mistral-ai/unary-ocr-annotated"]),
    ("cohere transcription", &["golden/cohere/unary-transcript"]),
    ("cohere OCR", &["golden/cohere/unary-ocr"]),
    ("x-ai transcription", &["golden/x-ai/unary-transcript"]),
    ("deepinfra transcription", &["golden/deepinfra/unary-transcript"]),
    ("workers-ai transcription", &["golden/workers-ai/unary-transcript"]),
    ("azure-ai OCR", &["golden/azure-ai/unary-ocr"]),
    ("vertex-ai OCR", &["golden/vertex-ai/unary-ocr"]),
    ("nomic embeddings", &["golden/nomic/unary", "golden/nomic/error-refused-tokens"]),
];

const ALL_ROWS: &str = "providers/src/compat/tests.rs::every_provider_is_where_its_page_says";

/// Reached by pass-through: where, and how they want their credential.
const PASSED: Rows = &[
    ("deepgram", &[ALL_ROWS]),
    ("ember-cloud", &[ALL_ROWS]),
    ("lightning-ai", &[ALL_ROWS]),
    ("meshy", &[ALL_ROWS]),
    ("milvus", &[ALL_ROWS]),
    ("palm", &[ALL_ROWS, "long_tail_areas::a_service_that_ended_says_so"]),
    ("qdrant", &[ALL_ROWS]),
    ("replicate", &[ALL_ROWS, "providers/src/model_place/tests.rs::each_family_is_read_where_it_reads"]),
    ("scenario-ai", &[ALL_ROWS]),
    ("tripo3d", &[ALL_ROWS]),
];

/// Sections of a single family each.
const SECTIONS: Rows = &[
    ("Chat by Responses", &["long_tail_shapes::models_without_chat_are_reached_by_responses"]),
    ("Perplexity", &["long_tail_shapes::perplexity_is_asked_by_responses_and_its_own_figure_is_the_cost"]),
    ("Bedrock's open models", &["long_tail_clouds::bedrocks_open_models_are_signed_and_claude_hears_messages"]),
    ("Claude Platform on AWS", &["long_tail_areas::claude_on_aws_is_signed_and_told_its_workspace"]),
    ("Amazon SageMaker", &["long_tail_clouds::sagemaker_is_signed_on_its_own_path_and_given_a_token_on_openais"]),
    ("No longer served", &["long_tail_areas::a_service_that_ended_says_so"]),
];

const PAGE: &str = include_str!("../../docs/providers.md");

/// What stands below a title, up to the next one of any level.
fn below(title: &str) -> &'static str {
    let rest = PAGE.split_once(&format!("# {title}\n")).map_or("", |(_, rest)| rest);
    assert_ne!(rest, "", "no title {title}");
    rest.split("\n#").next().unwrap_or_default()
}

/// Cells of the rows of the first table.
fn table(text: &'static str) -> Vec<Vec<&'static str>> {
    let rows =
        text.lines().skip_while(|line| !line.starts_with("|--")).skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn slugs(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

fn row_names(rows: Rows) -> BTreeSet<String> {
    rows.iter().map(|(row, _)| (*row).to_owned()).collect()
}

#[test]
fn every_line_of_the_page_has_its_tests() {
    let notes = below("OpenAI's dialect").lines().filter_map(|line| line.split_once(". "));
    let notes = notes.filter(|(number, _)| number.parse::<u8>().is_ok()).map(|(number, _)| number.to_owned());
    assert_eq!(row_names(NOTES), notes.collect(), "notes of the table");
    let of_first = |title| table(below(title)).into_iter().flat_map(|row| slugs(row[0])).map(str::to_owned).collect();
    assert_eq!(row_names(ADDRESSES), of_first("Addresses made of settings"), "addresses");
    assert_eq!(row_names(PASSED), of_first("Passed through only"), "families that are passed through");
    let shapes = table(below("Pictures, sound, vectors, rerank and pages")).into_iter().flat_map(|row| {
        let named = |slug: &str| row[3].split(", ").map(|what| format!("{slug} {what}")).collect::<Vec<_>>();
        slugs(row[0]).flat_map(named).collect::<Vec<_>>()
    });
    assert_eq!(row_names(SHAPES), shapes.collect(), "operations in shapes of their own");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers/tests");
    let is_seen = |test: &str| if test.starts_with("golden/") { root.join(test).is_dir() } else { is_there(test) };
    for (row, tests) in [NOTES, ADDRESSES, SHAPES, PASSED, SECTIONS].into_iter().flatten() {
        assert!(!tests.is_empty(), "{row} has no test");
        tests.iter().for_each(|test| assert!(is_seen(test), "{row} names {test}, which is not there"));
    }
    SECTIONS.iter().for_each(|(title, _)| assert!(!below(title).is_empty(), "{title}"));
}
