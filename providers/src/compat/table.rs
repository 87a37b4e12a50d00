//! The rows, one for each family. What a provider's own pages say beside the usual is noted where it counts.
//! Where an address is made of settings, `domain/src/cloud/hosts.rs` makes it. Families with dialects or signatures of
//! their own (Azure, AWS, Vertex, …) are no rows.

use super::{CompatRow, Quirk, Serves, StreamUsage};
use crate::model_place::Naming;
use crate::shapes::{self, NativeShape};
use AuthStyle::{Bearer, BearerIn, Header, Scheme};
use ahash::AHashMap;
use gateway_domain::Operation::{
    self, ChatCompletions, Completions, CountTokens, CreateBatch, CreateFinetune, Embeddings, ImagesEdit,
    ImagesGenerate, ImagesVary, ListModels, Messages, Moderations, Ocr, Realtime, RealtimeCall, RealtimeCallControl,
    Rerank, Responses, Speech, Transcription, Translation, UploadFile,
};
use gateway_domain::catalog::AuthStyle;
use std::sync::LazyLock;

/// OpenRouter shows these beside the traffic of whoever sends them.
const IDENTITY: &[(&str, &str)] = &[("http-referer", "https://gateway.invalid"), ("x-title", "Gateway")];

/// <https://docs.github.com/en/rest/models/inference>
const GITHUB: &[(&str, &str)] = &[("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];

const CHAT: Serves = Serves::of(&[ChatCompletions, ListModels]);
const CMPL: Serves = Serves::of(&[Completions]);
const EMB: Serves = Serves::of(&[Embeddings]);
const IMG: Serves = Serves::of(&[ImagesGenerate]);
const IMG_EDIT: Serves = Serves::of(&[ImagesEdit]);
const IMG_VARY: Serves = Serves::of(&[ImagesVary]);
const TTS: Serves = Serves::of(&[Speech]);
const STT: Serves = Serves::of(&[Transcription]);
const STT_TR: Serves = Serves::of(&[Translation]);
const RESP: Serves = Serves::of(&[Responses]);
const FILES: Serves = Serves::of(&[UploadFile]);
const BATCH: Serves = Serves::of(&[CreateBatch]);
const TUNE: Serves = Serves::of(&[CreateFinetune]);
const LIVE: Serves = Serves::of(&[Realtime]);
const CALLS: Serves = Serves::of(&[RealtimeCall, RealtimeCallControl]);
const MSG: Serves = Serves::of(&[Messages, CountTokens]);

const fn set(all: &[Serves]) -> Serves {
    let mut out = Serves(0);
    let mut i = 0;
    while i < all.len() {
        out = out.and(all[i]);
        i += 1;
    }
    out
}

/// A row that takes every field of OpenAI's chat body under its own name.
const fn full(slug: &'static str, name: &'static str, base_url: &'static str, serves: &[Serves]) -> CompatRow {
    let mut row = CompatRow::new(slug, name, Some(base_url), Bearer);
    row.serves = CHAT.and(set(serves));
    row.stream_usage = StreamUsage::Asked;
    row
}

/// A row that knows `max_tokens` only, and of which nothing is documented about `stream_options`.
const fn plain(slug: &'static str, name: &'static str, base_url: &'static str, serves: &[Serves]) -> CompatRow {
    let mut row = full(slug, name, base_url, serves);
    row.stream_usage = StreamUsage::Unasked;
    row.old_limit = true;
    row
}

/// Nothing of it is OpenAI's, or a translator is still to come: reached by `/proxy/…` and unknown paths.
const fn proxied(slug: &'static str, name: &'static str, base_url: &'static str, auth: AuthStyle) -> CompatRow {
    CompatRow::new(slug, name, Some(base_url), auth)
}

/// Its address is known to whoever runs it.
const fn hosted(slug: &'static str, name: &'static str, auth: AuthStyle) -> CompatRow {
    CompatRow::new(slug, name, None, auth)
}

impl CompatRow {
    const fn below(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    const fn asked(mut self) -> Self {
        self.stream_usage = StreamUsage::Asked;
        self
    }

    const fn refuses_options(mut self) -> Self {
        self.stream_usage = StreamUsage::Refuses;
        self
    }

    const fn new_limit(mut self) -> Self {
        self.old_limit = false;
        self
    }

    const fn old_limit(mut self) -> Self {
        self.old_limit = true;
        self
    }

    const fn knows_developer(mut self) -> Self {
        self.developer = true;
        self
    }

    const fn lacks(mut self, fields: &'static [&'static str]) -> Self {
        self.lacks = fields;
        self
    }

    const fn renames(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.renames = fields;
        self
    }

    const fn quirk(mut self, quirk: Quirk) -> Self {
        self.quirk = Some(quirk);
        self
    }

    const fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    const fn only(mut self, operations: &[Operation]) -> Self {
        self.serves = Serves::of(operations);
        self
    }

    const fn sends(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    const fn lists_at(mut self, path: &'static str) -> Self {
        self.listed = Some(path);
        self
    }

    const fn shaped(mut self, shapes: &'static [(Operation, &'static dyn NativeShape)]) -> Self {
        self.shapes = shapes;
        self
    }

    const fn natively(mut self, auth: AuthStyle) -> Self {
        self.native_auth = Some(auth);
        self
    }

    const fn open(mut self) -> Self {
        self.info.auth = AuthStyle::None;
        self
    }
}

/// Built in, answered in process; it speaks Anthropic's Messages as well.
pub(super) static MOCK: CompatRow =
    full("mock", "Mock", "http://mock.internal", &[CMPL, EMB, MSG]).knows_developer().quirk(Quirk::Messages).open();

#[rustfmt::skip]
pub(crate) static ROWS: &[&CompatRow] = &[
    &MOCK,
    &full("openai", "OpenAI", "https://api.openai.com/v1",
          &[CMPL, EMB, IMG, IMG_EDIT, IMG_VARY, TTS, STT, STT_TR, RESP, FILES, BATCH, TUNE, LIVE, CALLS]).knows_developer().quirk(Quirk::ResponsesOnly),
    // The inference servers behind its router take OpenAI's stream_options.
    &CompatRow { serves: CHAT.and(CMPL).and(EMB), stream_usage: StreamUsage::Asked, old_limit: true,
           ..hosted("huggingface", "Hugging Face", Bearer) }.below("/v1").naming(Naming::Behind("models", &["v1", "pipeline"])).shaped(&[(Rerank, &shapes::TEI)]),
    &plain("anyscale", "Anyscale", "https://api.endpoints.anyscale.com/v1", &[CMPL, EMB]),
    &proxied("palm", "Google PaLM (legacy)", "https://generativelanguage.googleapis.com/v1beta3", Header("x-goog-api-key"))
        .naming(Naming::Google),
    &plain("together-ai", "Together AI", "https://api.together.ai", &[CMPL, EMB, IMG, TTS, STT, STT_TR, FILES, BATCH]).below("/v1")
        .shaped(&[(ImagesGenerate, &shapes::TOGETHER), (Rerank, &shapes::RERANK)]),
    // Answers 422 `extra_forbidden`; the last chunk of its streams has the usage anyway.
    // Its own SDK lists what it takes.
    &plain("mistral-ai", "Mistral AI", "https://api.mistral.ai/v1", &[EMB, RESP, FILES]).refuses_options()
        .shaped(&[(Moderations, &shapes::MISTRAL_MODERATION), (Ocr, &shapes::OCR), (Speech, &shapes::MISTRAL_SPEAKS),
                  (Transcription, &shapes::MISTRAL_HEARS)])
        .lacks(&["logit_bias", "user", "store", "verbosity", "safety_identifier", "prompt_cache_retention"])
        .renames(&[("seed", "random_seed")]),
    &plain("deepinfra", "DeepInfra", "https://api.deepinfra.com", &[]).below("/v1/openai").asked()
        .shaped(&[(Rerank, &shapes::DEEPINFRA_RERANK), (Transcription, &shapes::DEEPINFRA_HEARS)]),
    &plain("ncompass", "nCompass", "https://api.ncompass.tech/v1", &[]),
    &proxied("stability-ai", "Stability AI", "https://api.stability.ai", Bearer)
        .naming(Naming::Behind("generation", &["text-to-image", "image-to-image"]))
        .shaped(&[(ImagesGenerate, &shapes::STABILITY), (ImagesEdit, &shapes::STABILITY_EDITS)]),
    &proxied("nomic", "Nomic", "https://api-atlas.nomic.ai/v1", Bearer).shaped(&[(Embeddings, &shapes::NOMIC)]),
    &CompatRow { serves: CHAT.and(EMB), stream_usage: StreamUsage::Asked, old_limit: true,
           ..hosted("ollama", "Ollama", AuthStyle::None) }.below("/v1"),
    // Older models have paths of their own, which pass through.
    &plain("ai21", "AI21", "https://api.ai21.com/studio/v1", &[]).naming(Naming::First).only(&[ChatCompletions])
        .lacks(&["frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "seed"]),
    &full("groq", "Groq", "https://api.groq.com/openai/v1", &[EMB, STT, STT_TR, TTS, RESP, FILES, BATCH])
        .lacks(&["logit_bias", "logprobs", "top_logprobs"]),
    &proxied("segmind", "Segmind", "https://api.segmind.com/v1", Header("x-api-key")).naming(Naming::First)
        .shaped(&[(ImagesGenerate, &shapes::SEGMIND)]),
    &full("jina", "Jina AI", "https://api.jina.ai/v1", &[]).only(&[Embeddings]).shaped(&[(Rerank, &shapes::RERANK)]),
    &plain("fireworks-ai", "Fireworks AI", "https://api.fireworks.ai/inference/v1", &[CMPL, EMB])
        .shaped(&[(ImagesGenerate, &shapes::FIREWORKS), (Rerank, &shapes::FIREWORKS_RERANK)]),
    &plain("reka-ai", "Reka AI", "https://api.reka.ai", &[]).below("/v1").natively(Header("x-api-key")),
    // Who has a key of China's platform gives `https://api.moonshot.cn` as custom host.
    &plain("moonshot", "Moonshot AI", "https://api.moonshot.ai", &[]).below("/v1"),
    &full("openrouter", "OpenRouter", "https://openrouter.ai/api", &[RESP]).below("/v1").sends(IDENTITY)
        .shaped(&[(ImagesGenerate, &shapes::OPENROUTER), (Transcription, &shapes::OPENROUTER_HEARS)]),
    &plain("lingyi", "01.AI (Lingyi)", "https://api.lingyiwanwu.com", &[]).below("/v1"),
    &plain("zhipu", "Zhipu AI", "https://open.bigmodel.cn/api/paas/v4", &[EMB, IMG]),
    &plain("novita-ai", "Novita AI", "https://api.novita.ai/v3/openai", &[CMPL]).below("/v1").asked(),
    &plain("monsterapi", "Monster API", "https://llm.monsterapi.ai/v1", &[]),
    &plain("deepseek", "DeepSeek", "https://api.deepseek.com", &[]).below("/v1").asked(),
    &plain("predibase", "Predibase", "https://serving.app.predibase.com", &[])
        .quirk(Quirk::TenantInPath).naming(Naming::Behind("llms", &["v1", "generate", "generate_stream"])).only(&[ChatCompletions]),
    // Chat templates of models know no `developer`. A server that was started without a key takes any.
    &CompatRow { serves: CHAT.and(CMPL).and(EMB).and(STT).and(STT_TR), stream_usage: StreamUsage::Asked,
           ..hosted("vllm", "vLLM", Bearer) }.below("/v1").shaped(&[(Rerank, &shapes::RERANK)]),
    // Its front end for OpenAI's clients: <https://docs.nvidia.com/deeplearning/triton-inference-server/>.
    &CompatRow { serves: CHAT.and(CMPL), stream_usage: StreamUsage::Asked, old_limit: true,
           ..hosted("triton", "NVIDIA Triton", AuthStyle::None) }.below("/v1")
        .naming(Naming::Behind("models", &["versions", "infer", "generate", "generate_stream"])).quirk(Quirk::Generates),
    &full("voyage", "Voyage AI", "https://api.voyageai.com/v1", &[]).only(&[Embeddings]).shaped(&[(Rerank, &shapes::VOYAGE)]),
    // Calls for an organisation go to a custom host, `https://models.github.ai/orgs/<organisation>`.
    &full("github", "GitHub Models", "https://models.github.ai", &[CMPL, EMB]).below("/inference")
        .sends(GITHUB).lists_at("/catalog/models"),
    &plain("deepbricks", "DeepBricks", "https://api.deepbricks.ai/v1", &[IMG]),
    &plain("siliconflow", "SiliconFlow", "https://api.siliconflow.cn/v1", &[EMB])
        .shaped(&[(ImagesGenerate, &shapes::SILICONFLOW), (Rerank, &shapes::RERANK)]),
    &plain("cerebras", "Cerebras", "https://api.cerebras.ai/v1", &[]).asked().new_limit(),
    &full("inference-net", "Inference.net", "https://api.inference.net/v1", &[]),
    &plain("sambanova", "SambaNova", "https://api.sambanova.ai", &[]).below("/v1").asked(),
    &plain("lemonfox-ai", "Lemonfox", "https://api.lemonfox.ai/v1", &[IMG, STT]),
    &full("upstage", "Upstage", "https://api.upstage.ai/v1/solar", &[EMB]),
    &full("lambda", "Lambda", "https://api.lambda.ai/v1", &[CMPL]),
    &full("dashscope", "Alibaba DashScope", "https://dashscope-intl.aliyuncs.com", &[EMB]).below("/compatible-mode/v1").old_limit()
        .shaped(&[(ImagesGenerate, &shapes::DASHSCOPE), (ImagesEdit, &shapes::DASHSCOPE_EDITS), (Speech, &shapes::DASHSCOPE_SPEAKS)]),
    &full("x-ai", "xAI", "https://api.x.ai/v1", &[CMPL, EMB, RESP, IMG, FILES, LIVE]).shaped(&[(Transcription, &shapes::XAI_HEARS)]),
    &hosted("qdrant", "Qdrant", BearerIn("api-key")),
    &full("nebius", "Nebius", "https://api.studio.nebius.ai/v1", &[EMB, CMPL]),
    &full("recraft-ai", "Recraft AI", "https://external.api.recraft.ai/v1", &[]).only(&[ImagesGenerate]),
    &hosted("milvus", "Milvus", Bearer),
    &proxied("replicate", "Replicate", "https://api.replicate.com/v1", Bearer)
        .naming(Naming::Behind("models", &["predictions", "versions"])),
    &plain("lepton", "Lepton", "https://api.lepton.ai", &[CMPL, STT]).below("/api/v1").knows_developer(),
    &full("kluster-ai", "kluster.ai", "https://api.kluster.ai/v1", &[EMB, FILES, BATCH]),
    &plain("nscale", "nScale", "https://inference.api.nscale.com/v1", &[IMG]),
    &full("hyperbolic", "Hyperbolic", "https://api.hyperbolic.xyz", &[]).below("/v1")
        .shaped(&[(ImagesGenerate, &shapes::HYPERBOLIC)]),
    // Jobs that take long have a queue of their own, `https://queue.fal.run`, as custom host.
    &proxied("fal-ai", "fal", "https://fal.run", Scheme("Key")).naming(Naming::Whole)
        .shaped(&[(ImagesGenerate, &shapes::FAL)]),
    &full("bytez", "Bytez", "https://api.bytez.com", &[CMPL, RESP]).below("/models/v2/openai/v1").natively(Scheme("Key"))
        .quirk(Quirk::VendorKey).naming(Naming::Behind("v2", &["openai"])),
    &full("featherless-ai", "Featherless AI", "https://api.featherless.ai/v1", &[CMPL]),
    &full("krutrim", "Krutrim", "https://cloud.olakrutrim.com/v1", &[]),
    &plain("302ai", "302.AI", "https://api.302.ai", &[]).below("/v1").knows_developer(),
    &full("cometapi", "CometAPI", "https://api.cometapi.com/v1", &[EMB]).knows_developer(),
    &full("matterai", "MatterAI", "https://api.matterai.so/v1", &[]).knows_developer(),
    &proxied("meshy", "Meshy", "https://api.meshy.ai/openapi/v1", Bearer).naming(Naming::Elsewhere),
    &full("nextbit", "NextBit", "https://api.nextbit256.com/v1", &[CMPL]),
    &proxied("tripo3d", "Tripo3D", "https://api.tripo3d.ai/v2/openapi", Bearer).naming(Naming::Elsewhere),
    &full("modal", "Modal", "https://api.modal.com/v1", &[CMPL]),
    &full("z-ai", "Z.ai", "https://api.z.ai/api/paas/v4", &[]).old_limit(),
    &full("iointelligence", "io.net Intelligence", "https://api.intelligence.io.solutions/api/v1", &[EMB, RESP]),
    &full("aibadgr", "AI Badgr", "https://aibadgr.com/api/v1", &[]),
    &full("ovhcloud", "OVHcloud AI Endpoints", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", &[STT]).knows_developer(),
    // Claude's own Messages lie below `/api/v2/cortex/v1/messages`, and pass through.
    &CompatRow { serves: Serves::of(&[ChatCompletions]), stream_usage: StreamUsage::Asked,
           ..hosted("cortex", "Snowflake Cortex", AuthStyle::Snowflake) }.below("/api/v2/cortex/v1"),
    &CompatRow { serves: Serves::of(&[ChatCompletions, Embeddings, Responses]), stream_usage: StreamUsage::Asked,
           old_limit: true, ..hosted("workers-ai", "Cloudflare Workers AI", Bearer) }.below("/v1")
        .naming(Naming::Behind("run", &[])).shaped(&[(ImagesGenerate, &shapes::WORKERS_AI), (Transcription, &shapes::WORKERS_HEAR)]),
    &CompatRow { serves: Serves::of(&[ChatCompletions, Responses]), stream_usage: StreamUsage::Asked,
           ..hosted("oracle", "Oracle OCI Generative AI", Bearer) }.below("/20231130/actions/v1")
        .quirk(Quirk::Compartment).shaped(&[(Embeddings, &shapes::ORACLE_EMBEDS), (Rerank, &shapes::ORACLE_RERANK)]),
    &CompatRow { serves: Serves::of(&[ChatCompletions, Completions, Embeddings, Responses]),
           stream_usage: StreamUsage::Asked, old_limit: true, ..hosted("databricks", "Databricks", Bearer) }
        .below("/serving-endpoints").quirk(Quirk::Endpoints).naming(Naming::Invoked("serving-endpoints")),
    &CompatRow { serves: Serves::of(&[ChatCompletions, Embeddings, ImagesGenerate]), stream_usage: StreamUsage::Asked,
           old_limit: true, ..hosted("byteplus", "BytePlus ModelArk", Bearer) },
    // Messages lie below `/anthropic`, and pass through. China's platform is `https://api.minimaxi.com`.
    &plain("minimax", "MiniMax", "https://api.minimax.io", &[]).below("/v1").asked().quirk(Quirk::BaseResp)
        .shaped(&[(Speech, &shapes::MINIMAX)]),
    // Reached at whatever address their users give: where they are for all is not established.
    &hosted("lightning-ai", "Lightning AI", Bearer),
    &hosted("ember-cloud", "Ember Cloud", Bearer),
    &hosted("deepgram", "Deepgram", Scheme("Token")),
    &hosted("scenario-ai", "Scenario", Scheme("Basic")),
];

/// A row by its slug.
pub(crate) fn row(slug: &str) -> Option<&'static &'static CompatRow> {
    static BY_SLUG: LazyLock<AHashMap<&'static str, &'static &'static CompatRow>> =
        LazyLock::new(|| ROWS.iter().map(|row| (row.info.slug, row)).collect());
    BY_SLUG.get(slug).copied()
}
