//! Path → operation and dialect, by one table.
//! A path that is not in the table is passed through untouched as [`Operation::Proxy`].

use http::Method;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The shape of body that a client or a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI's bodies, errors and `data:`-only event streams.
    OpenAi,
    /// Anthropic's Messages bodies, errors and named events.
    Anthropic,
    /// Google's generative API, which passes through only: the gateway's own errors are told in its form.
    Google,
}

/// How the bytes of a request travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Parsed, bounded and perhaps rewritten.
    Json,
    /// A form of parts that asks a model, files included, or JSON in its place: held, bounded and perhaps rewritten.
    Form,
    /// Relayed as it streams: multipart, audio, anything that is not JSON.
    Opaque,
    /// None expected (GET, DELETE).
    Empty,
    /// Goes up as it came, whatever it is: only what is asked for is known, for policies and records.
    Untouched,
}

/// What a call takes from limits of tokens and money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// Neither tokens nor money, such as a look at a file.
    Nothing,
    /// Nothing yet: it begins what is paid for when it was done, so there must be something left by now.
    Later,
    /// What goes in. Vectors, scores, pictures or sound come out, which are no tokens.
    Prompt,
    PromptAndAnswer,
    /// Money by units that are no tokens (pages), known when they were used.
    Units,
}

/// What an answer is made of, where it is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    Json,
    /// JSON, and events for whoever asks for a stream: then nothing else is read.
    JsonOrEvents,
    /// Sound, or what was said in it, in a format that the client chose.
    Sound,
}

/// What is known of an operation, whoever serves it.
#[derive(Clone, Copy, Debug)]
pub struct OperationFacts {
    /// That of policies' `endpoint_type` conditions and of records.
    pub name: &'static str,
    /// OpenAI's path of it below `/v1`, as far as it holds no ids.
    pub base: &'static str,
    pub dialect: Dialect,
    pub uses: Uses,
    pub answer: AnswerForm,
    /// The answer depends on nothing but the request.
    pub cacheable: bool,
    /// About a response that the provider keeps: only where it was made, and it names no model.
    pub about_kept_response: bool,
    /// A session that begins with a GET and calls a model all the same.
    pub opens_session: bool,
    /// The models that it asks for stand in a file, one on each line.
    pub models_in_file: bool,
    /// Translated for nobody, so nobody is refused it: whether the provider has it is its own answer.
    pub passed_to_all: bool,
}

const fn facts(name: &'static str, base: &'static str) -> OperationFacts {
    OperationFacts {
        name,
        base,
        dialect: Dialect::OpenAi,
        uses: Uses::PromptAndAnswer,
        answer: AnswerForm::Json,
        cacheable: false,
        about_kept_response: false,
        opens_session: false,
        models_in_file: false,
        passed_to_all: false,
    }
}

impl OperationFacts {
    const fn anthropic(self) -> Self {
        Self { dialect: Dialect::Anthropic, ..self }
    }

    const fn uses(self, uses: Uses) -> Self {
        Self { uses, ..self }
    }

    const fn answers(self, answer: AnswerForm) -> Self {
        Self { answer, ..self }
    }

    const fn cacheable(self) -> Self {
        Self { cacheable: true, ..self }
    }

    const fn about_kept_response(self) -> Self {
        Self { about_kept_response: true, ..self }
    }

    const fn opens_session(self) -> Self {
        Self { opens_session: true, ..self }
    }

    const fn models_in_file(self) -> Self {
        Self { models_in_file: true, ..self }
    }

    const fn passed_to_all(self) -> Self {
        Self { passed_to_all: true, ..self }
    }
}

macro_rules! operations {
    ($($variant:ident = $facts:expr),+ $(,)?) => {
        /// What the client asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation { $($variant),+ }

        impl Operation {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn facts(self) -> &'static OperationFacts {
                match self { $(Self::$variant => const { &$facts }),+ }
            }
        }
    };
}

use AnswerForm::{JsonOrEvents, Sound};

operations! {
    ChatCompletions = facts("chatComplete", "/chat/completions").answers(JsonOrEvents).cacheable(),
    Completions = facts("complete", "/completions").answers(JsonOrEvents).cacheable(),
    Embeddings = facts("embed", "/embeddings").uses(Uses::Prompt).cacheable(),
    Messages = facts("messages", "/messages").anthropic().answers(JsonOrEvents).cacheable(),
    CountTokens = facts("messagesCountTokens", "/messages/count_tokens").anthropic().uses(Uses::Nothing),
    Moderations = facts("moderate", "/moderations").uses(Uses::Prompt).cacheable().passed_to_all(),
    Rerank = facts("rerank", "/rerank").uses(Uses::Prompt).cacheable().passed_to_all(),
    ImagesGenerate = facts("imageGenerate", "/images/generations").uses(Uses::Prompt).cacheable(),
    ImagesEdit = facts("imageEdit", "/images/edits").uses(Uses::Prompt),
    ImagesVary = facts("imageVariation", "/images/variations").uses(Uses::Prompt),
    Ocr = facts("ocr", "/ocr").uses(Uses::Units).cacheable(),
    Speech = facts("createSpeech", "/audio/speech").uses(Uses::Prompt).answers(Sound),
    Transcription = facts("createTranscription", "/audio/transcriptions").answers(Sound),
    Translation = facts("createTranslation", "/audio/translations").answers(Sound),
    Realtime = facts("realtime", "/realtime").opens_session(),
    ResponsesSession = facts("responses.session", "/responses").opens_session(),
    LiveSession = facts("live.session", "/live/sessions").opens_session(),
    // Each response and each transcript of a session has a record of its own: no path asks for them.
    RealtimeResponse = facts("realtime.response", "/realtime"),
    RealtimeTranscript = facts("realtime.transcript", "/realtime"),
    LiveAudio = facts("live.audio", "/live/sessions"),
    // Keys for browsers, which the gateway makes itself.
    RealtimeSecret = facts("realtime.clientSecret", "/realtime").uses(Uses::Nothing),
    // Calls over WebRTC and SIP that begin, whose media go round the gateway: it watches what is said in them.
    RealtimeCall = facts("realtime.call", "/realtime/calls").uses(Uses::Later),
    // What is asked of one besides: that it ends, goes elsewhere or never begins.
    RealtimeCallControl = facts("realtime.callControl", "/realtime/calls").uses(Uses::Nothing),
    Responses = facts("createModelResponse", "/responses").answers(JsonOrEvents).cacheable(),
    GetResponse = facts("getModelResponse", "/responses").about_kept_response(),
    DeleteResponse = facts("deleteModelResponse", "/responses").about_kept_response(),
    ListInputItems = facts("listResponseInputItems", "/responses").about_kept_response(),
    CancelResponse = facts("cancelModelResponse", "/responses").about_kept_response(),
    UploadFile = facts("uploadFile", "/files").uses(Uses::Nothing),
    CreateBatch = facts("createBatch", "/batches").uses(Uses::Later).models_in_file(),
    // A batch that the gateway ran has a record, written at its end: no path asks for it.
    Batch = facts("batch", "/batches").uses(Uses::Nothing),
    CreateFinetune = facts("createFinetune", "/fine_tuning/jobs").uses(Uses::Later),
    ModifyRun = facts("modifyRun", "/threads").uses(Uses::Nothing).passed_to_all(),
    CreateRun = facts("createRun", "/threads").passed_to_all(),
    CreateVectorStore = facts("createVectorStore", "/vector_stores").uses(Uses::Nothing).passed_to_all(),
    CreateFileBatch = facts("createVectorStoreFileBatch", "/vector_stores").uses(Uses::Nothing).passed_to_all(),
    ListFiles = facts("listFiles", "/files").uses(Uses::Nothing),
    RetrieveFile = facts("retrieveFile", "/files").uses(Uses::Nothing),
    DeleteFile = facts("deleteFile", "/files").uses(Uses::Nothing),
    RetrieveFileContent = facts("retrieveFileContent", "/files").uses(Uses::Nothing),
    Upload = facts("upload", "/uploads").uses(Uses::Nothing),
    ListBatches = facts("listBatches", "/batches").uses(Uses::Nothing),
    RetrieveBatch = facts("retrieveBatch", "/batches").uses(Uses::Nothing),
    CancelBatch = facts("cancelBatch", "/batches").uses(Uses::Nothing),
    GetBatchOutput = facts("getBatchOutput", "/batches").uses(Uses::Nothing),
    ListFinetunes = facts("listFinetunes", "/fine_tuning/jobs").uses(Uses::Nothing),
    RetrieveFinetune = facts("retrieveFinetune", "/fine_tuning/jobs").uses(Uses::Nothing),
    CancelFinetune = facts("cancelFinetune", "/fine_tuning/jobs").uses(Uses::Nothing),
    PauseFinetune = facts("pauseFinetune", "/fine_tuning/jobs").uses(Uses::Nothing),
    ResumeFinetune = facts("resumeFinetune", "/fine_tuning/jobs").uses(Uses::Nothing),
    ListFinetuneEvents = facts("listFinetuneEvents", "/fine_tuning/jobs").uses(Uses::Nothing),
    ListFinetuneCheckpoints = facts("listFinetuneCheckpoints", "/fine_tuning/jobs").uses(Uses::Nothing),
    // A fine-tuning job that was seen to have succeeded has a record of what it trained: no path asks for it.
    Finetune = facts("finetune", "/fine_tuning/jobs").uses(Uses::Nothing),
    VectorStore = facts("vectorStore", "/vector_stores").uses(Uses::Nothing),
    Assistant = facts("assistant", "").uses(Uses::Nothing),
    ListModels = facts("listModels", "/models").uses(Uses::Nothing),
    // Calls of MCP servers, which have a road of their own.
    McpCallTool = facts("mcp.tools/call", "").uses(Uses::Nothing),
    McpGetPrompt = facts("mcp.prompts/get", "").uses(Uses::Nothing),
    McpReadResource = facts("mcp.resources/read", "").uses(Uses::Nothing),
    McpListTools = facts("mcp.tools/list", "").uses(Uses::Nothing),
    McpListPrompts = facts("mcp.prompts/list", "").uses(Uses::Nothing),
    McpListResources = facts("mcp.resources/list", "").uses(Uses::Nothing),
    McpListTemplates = facts("mcp.resources/templates/list", "").uses(Uses::Nothing),
    // What opens, keeps and ends their sessions, and whatever was refused before its method was known.
    McpSession = facts("mcp.session", "").uses(Uses::Nothing),
    // Calls of agents, which have a road of their own too. The names are those of A2A 1.0.
    A2aSendMessage = facts("a2a.SendMessage", "").uses(Uses::Nothing),
    A2aSendStreamingMessage = facts("a2a.SendStreamingMessage", "").uses(Uses::Nothing),
    A2aGetTask = facts("a2a.GetTask", "").uses(Uses::Nothing),
    A2aListTasks = facts("a2a.ListTasks", "").uses(Uses::Nothing),
    A2aCancelTask = facts("a2a.CancelTask", "").uses(Uses::Nothing),
    A2aSubscribeToTask = facts("a2a.SubscribeToTask", "").uses(Uses::Nothing),
    A2aCreatePush = facts("a2a.CreateTaskPushNotificationConfig", "").uses(Uses::Nothing),
    A2aGetPush = facts("a2a.GetTaskPushNotificationConfig", "").uses(Uses::Nothing),
    A2aListPush = facts("a2a.ListTaskPushNotificationConfigs", "").uses(Uses::Nothing),
    A2aDeletePush = facts("a2a.DeleteTaskPushNotificationConfig", "").uses(Uses::Nothing),
    A2aExtendedCard = facts("a2a.GetExtendedAgentCard", "").uses(Uses::Nothing),
    A2aOlderSend = facts("a2a.tasks/send", "").uses(Uses::Nothing),
    // Their cards, and whatever was refused before its method was known.
    A2aCard = facts("a2a.card", "").uses(Uses::Nothing),
    // A path that no row names: whether its answer may be kept is told by the path itself.
    Proxy = facts("proxy", "").passed_to_all(),
}

impl Operation {
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether it is of OpenAI's beta interfaces: bodies are held to the contract and go up as they came, to any path.
    pub const fn keeps_its_path(self) -> bool {
        matches!(self, Self::CreateRun | Self::ModifyRun | Self::CreateVectorStore | Self::CreateFileBatch)
    }

    /// Asks of fine-tuning jobs.
    pub const fn is_about_tuning(self) -> bool {
        matches!(
            self,
            Self::CreateFinetune
                | Self::ListFinetunes
                | Self::RetrieveFinetune
                | Self::CancelFinetune
                | Self::PauseFinetune
                | Self::ResumeFinetune
                | Self::ListFinetuneEvents
                | Self::ListFinetuneCheckpoints
        )
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }
}

/// One row of the table: `{}` stands for one path segment.
#[derive(Debug)]
pub struct OperationRow {
    pub method: Method,
    pub path: &'static str,
    pub operation: Operation,
    pub dialect: Dialect,
    pub body: Body,
}

const fn row(method: Method, path: &'static str, operation: Operation, body: Body) -> OperationRow {
    OperationRow { method, path, operation, dialect: operation.facts().dialect, body }
}

/// Paths below `/v1`. Everything else is [`Operation::Proxy`].
pub static TABLE: &[OperationRow] = &[
    row(Method::POST, "/chat/completions", Operation::ChatCompletions, Body::Json),
    row(Method::POST, "/completions", Operation::Completions, Body::Json),
    row(Method::POST, "/embeddings", Operation::Embeddings, Body::Json),
    row(Method::POST, "/messages", Operation::Messages, Body::Json),
    row(Method::POST, "/messages/count_tokens", Operation::CountTokens, Body::Json),
    row(Method::POST, "/moderations", Operation::Moderations, Body::Json),
    row(Method::POST, "/rerank", Operation::Rerank, Body::Json),
    row(Method::POST, COHERES, Operation::Rerank, Body::Json),
    row(Method::POST, "/images/generations", Operation::ImagesGenerate, Body::Json),
    row(Method::POST, "/images/edits", Operation::ImagesEdit, Body::Form),
    row(Method::POST, "/images/variations", Operation::ImagesVary, Body::Form),
    row(Method::POST, "/ocr", Operation::Ocr, Body::Json),
    row(Method::POST, "/audio/speech", Operation::Speech, Body::Json),
    row(Method::POST, "/audio/transcriptions", Operation::Transcription, Body::Form),
    row(Method::POST, "/audio/translations", Operation::Translation, Body::Form),
    row(Method::GET, "/realtime", Operation::Realtime, Body::Empty),
    row(Method::POST, "/realtime/client_secrets", Operation::RealtimeSecret, Body::Json),
    row(Method::POST, "/realtime/sessions", Operation::RealtimeSecret, Body::Json),
    row(Method::POST, "/realtime/transcription_sessions", Operation::RealtimeSecret, Body::Json),
    kept(Method::POST, "/openai/realtimeapi/sessions", Operation::RealtimeSecret),
    kept(Method::POST, "/openai/v1/realtime/client_secrets", Operation::RealtimeSecret),
    kept(Method::POST, "/openai/v1/realtime/calls", Operation::RealtimeCall),
    // Paths at which calls were made in the beta.
    kept(Method::POST, "/realtime", Operation::RealtimeCall),
    kept(Method::POST, "/openai/v1/realtime", Operation::RealtimeCall),
    row(Method::POST, "/realtime/calls", Operation::RealtimeCall, Body::Form),
    row(Method::POST, "/realtime/calls/{}/accept", Operation::RealtimeCall, Body::Json),
    row(Method::POST, "/realtime/calls/{}/refer", Operation::RealtimeCallControl, Body::Json),
    row(Method::POST, "/realtime/calls/{}/reject", Operation::RealtimeCallControl, Body::Json),
    row(Method::POST, "/realtime/calls/{}/hangup", Operation::RealtimeCallControl, Body::Empty),
    // Paths that clients made for Azure ask for.
    kept(Method::GET, "/openai/realtime", Operation::Realtime),
    kept(Method::GET, "/openai/v1/realtime", Operation::Realtime),
    row(Method::POST, "/responses", Operation::Responses, Body::Json),
    row(Method::GET, "/responses", Operation::ResponsesSession, Body::Empty),
    row(Method::GET, "/live/sessions", Operation::LiveSession, Body::Empty),
    row(Method::GET, "/responses/{}", Operation::GetResponse, Body::Empty),
    row(Method::DELETE, "/responses/{}", Operation::DeleteResponse, Body::Empty),
    row(Method::GET, "/responses/{}/input_items", Operation::ListInputItems, Body::Empty),
    row(Method::POST, "/responses/{}/cancel", Operation::CancelResponse, Body::Empty),
    row(Method::POST, "/files", Operation::UploadFile, Body::Opaque),
    row(Method::POST, "/batches", Operation::CreateBatch, Body::Json),
    row(Method::POST, "/fine_tuning/jobs", Operation::CreateFinetune, Body::Json),
    row(Method::POST, "/threads/{}/runs/{}", Operation::ModifyRun, Body::Json),
    row(Method::POST, "/threads/{}/runs", Operation::CreateRun, Body::Json),
    row(Method::POST, "/threads/runs", Operation::CreateRun, Body::Json),
    row(Method::POST, "/vector_stores", Operation::CreateVectorStore, Body::Json),
    row(Method::POST, "/vector_stores/{}/file_batches", Operation::CreateFileBatch, Body::Json),
    row(Method::GET, "/models", Operation::ListModels, Body::Empty),
    kept(Method::GET, "/files", Operation::ListFiles),
    kept(Method::GET, "/files/{}", Operation::RetrieveFile),
    kept(Method::DELETE, "/files/{}", Operation::DeleteFile),
    kept(Method::GET, "/files/{}/content", Operation::RetrieveFileContent),
    kept(Method::POST, "/uploads", Operation::Upload),
    kept(Method::POST, "/uploads/{}/parts", Operation::Upload),
    kept(Method::POST, "/uploads/{}/complete", Operation::Upload),
    kept(Method::POST, "/uploads/{}/cancel", Operation::Upload),
    kept(Method::GET, "/batches", Operation::ListBatches),
    kept(Method::GET, "/batches/{}", Operation::RetrieveBatch),
    kept(Method::GET, "/batches/{}/output", Operation::GetBatchOutput),
    kept(Method::POST, "/batches/{}/cancel", Operation::CancelBatch),
    kept(Method::GET, "/fine_tuning/jobs", Operation::ListFinetunes),
    kept(Method::GET, "/fine_tuning/jobs/{}", Operation::RetrieveFinetune),
    kept(Method::POST, "/fine_tuning/jobs/{}/cancel", Operation::CancelFinetune),
    kept(Method::POST, "/fine_tuning/jobs/{}/pause", Operation::PauseFinetune),
    kept(Method::POST, "/fine_tuning/jobs/{}/resume", Operation::ResumeFinetune),
    kept(Method::GET, "/fine_tuning/jobs/{}/events", Operation::ListFinetuneEvents),
    kept(Method::GET, "/fine_tuning/jobs/{}/checkpoints", Operation::ListFinetuneCheckpoints),
    kept(Method::GET, "/vector_stores", Operation::VectorStore),
    kept(Method::GET, "/vector_stores/{}", Operation::VectorStore),
    kept(Method::POST, "/vector_stores/{}", Operation::VectorStore),
    kept(Method::DELETE, "/vector_stores/{}", Operation::VectorStore),
    kept(Method::POST, "/vector_stores/{}/search", Operation::VectorStore),
    kept(Method::GET, "/vector_stores/{}/files", Operation::VectorStore),
    kept(Method::POST, "/vector_stores/{}/files", Operation::VectorStore),
    kept(Method::GET, "/vector_stores/{}/files/{}", Operation::VectorStore),
    kept(Method::DELETE, "/vector_stores/{}/files/{}", Operation::VectorStore),
    kept(Method::GET, "/assistants", Operation::Assistant),
    kept(Method::POST, "/assistants", Operation::Assistant),
    kept(Method::GET, "/assistants/{}", Operation::Assistant),
    kept(Method::POST, "/assistants/{}", Operation::Assistant),
    kept(Method::DELETE, "/assistants/{}", Operation::Assistant),
];

/// What is asked of objects that a provider keeps: the provider's own answer, under a name of its own.
const fn kept(method: Method, path: &'static str, operation: Operation) -> OperationRow {
    row(method, path, operation, Body::Untouched)
}

/// Where a request goes, decided from method and path alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed<'a> {
    /// What the path stands for, also where it goes up untouched.
    pub operation: Operation,
    pub dialect: Dialect,
    /// The whole path, without the slash that one of the table may end with.
    pub path: &'a str,
    /// Its part below `/v1`, what is appended to a provider's base URL on pass-through.
    pub tail: &'a str,
    /// `/proxy/…` or an unknown path: no bounds, no translation.
    pub raw: bool,
    /// What the table expects of the body; `None` for what is not in it.
    pub body: Option<Body>,
}

/// The routes by which SDKs ask models. Below a second `/v1` they are still meant: a provider that has such a path of
/// its own means the same by it.
const ASKED: &[&str] =
    &["/chat/completions", "/completions", "/embeddings", "/messages", "/messages/count_tokens", "/responses"];

/// Where Cohere's clients ask for rerank, below `/v1` or beside it: they are answered in Cohere's form.
pub const COHERES: &str = "/v2/rerank";

/// `path` is the [normal form](crate::path::normal) of the whole path, without its query. `None` when it is not below
/// `/v1` and no MCP server's.
pub fn route<'a>(method: &Method, path: &'a str) -> Option<Routed<'a>> {
    let beside = (path == COHERES && *method == Method::POST).then_some(path);
    let below = path.strip_prefix("/v1").filter(|t| t.starts_with('/')).or(beside);
    let Some(tail) = below else { return mcp(method, path) };
    if let Some(agent) = agent(path, tail) {
        return Some(agent);
    }
    let (tail, prefixed) = match tail.strip_prefix("/proxy") {
        Some(rest) if rest.starts_with('/') => (rest, true),
        _ => (tail, false),
    };
    // A base URL that ends in `/v1`, in a client that adds it by itself.
    let doubled = tail.strip_prefix("/v1").filter(|rest| !prefixed && *method == Method::POST && ASKED.contains(rest));
    let tail = doubled.unwrap_or(tail);
    let known = |tail: &str| TABLE.iter().find(|r| r.method == *method && matches(r.path, tail));
    let bare = tail.strip_suffix('/').unwrap_or(tail);
    Some(match known(bare) {
        Some(r) if prefixed || r.body == Body::Untouched => {
            Routed { operation: r.operation, dialect: r.dialect, path, tail, raw: true, body: None }
        }
        Some(r) => {
            let path = &path[..path.len() - (tail.len() - bare.len())];
            Routed { operation: r.operation, dialect: r.dialect, path, tail: bare, raw: false, body: Some(r.body) }
        }
        None => Routed { operation: Operation::Proxy, dialect: dialect_of(tail), path, tail, raw: true, body: None },
    })
}

/// Calls of saved prompts, which are chat requests once they were rendered.
const PROMPTS: &[&str] = &["/prompts/{}/completions", "/prompts/{}/generate", "/prompts/{}/render"];

/// Where everything is one MCP server that a caller may use.
pub const ALL_MCP_SERVERS: &str = "/mcp";

/// MCP servers lie beside `/v1`, each by its slug, and all of them as one.
pub fn is_mcp_server(path: &str) -> bool {
    let slug = path.strip_prefix('/').and_then(|rest| rest.strip_suffix("/mcp"));
    path == ALL_MCP_SERVERS || slug.is_some_and(|slug| !slug.is_empty() && !slug.contains('/'))
}

fn mcp<'a>(method: &Method, path: &'a str) -> Option<Routed<'a>> {
    let served = matches!(*method, Method::GET | Method::POST | Method::DELETE);
    let (operation, dialect) = (Operation::McpSession, Dialect::OpenAi);
    let routed = Routed { operation, dialect, path, tail: path, raw: false, body: None };
    (served && is_mcp_server(path)).then_some(routed)
}

/// Agents lie below one path, each by its slug; what stands behind that is the agent's.
fn agent<'a>(path: &'a str, tail: &'a str) -> Option<Routed<'a>> {
    let slug = tail.strip_prefix("/agent/")?.split('/').next()?;
    let (operation, dialect) = (Operation::A2aCard, Dialect::OpenAi);
    (!slug.is_empty()).then_some(Routed { operation, dialect, path, tail: path, raw: false, body: None })
}

/// The route of a path, for people and traces: as the table writes it, and for what is the provider's alone by its
/// beginning.
pub fn template(method: &str, path: &str) -> Cow<'static, str> {
    let bare = path.strip_suffix('/').unwrap_or(path);
    if bare == COHERES && method == "POST" {
        return Cow::Borrowed(COHERES);
    }
    let tail = bare.strip_prefix("/v1").filter(|tail| tail.starts_with('/'));
    let is_mcp = || Method::from_bytes(method.as_bytes()).is_ok_and(|method| mcp(&method, bare).is_some());
    let Some(tail) = tail else { return Cow::Borrowed(if is_mcp() { "/{slug}/mcp" } else { "/*" }) };
    if agent(path, tail).is_some() {
        return Cow::Borrowed("/v1/agent/{slug}");
    }
    if let Some(prompt) = PROMPTS.iter().find(|p| method == "POST" && matches(p, tail)) {
        return written("/v1", prompt);
    }
    let known = |tail: &str| TABLE.iter().find(|r| r.method == *method && matches(r.path, tail));
    match tail.strip_prefix("/proxy").filter(|rest| rest.starts_with('/')) {
        Some(rest) => known(rest).map_or(Cow::Borrowed("/v1/proxy/*"), |r| written("/v1/proxy", r.path)),
        None => known(tail).map_or(Cow::Borrowed("/v1/*"), |r| written("/v1", r.path)),
    }
}

fn written(prefix: &str, path: &str) -> Cow<'static, str> {
    Cow::Owned(format!("{prefix}{}", path.replace("{}", "{id}")))
}

/// Errors of a raw call still speak the dialect that the path belongs to.
fn dialect_of(tail: &str) -> Dialect {
    if tail == "/messages" || tail.starts_with("/messages/") {
        Dialect::Anthropic
    } else if is_of_google(tail) {
        Dialect::Google
    } else {
        Dialect::OpenAi
    }
}

/// Its versions stand before everything (`/v1` is the gateway's own), its verbs behind the model. Below `/openai` it
/// speaks as OpenAI does.
fn is_of_google(tail: &str) -> bool {
    let versioned = tail.starts_with("/v1beta/") && !tail.starts_with("/v1beta/openai/");
    let verb = tail.rsplit_once('/').and_then(|(_, last)| last.split_once(':')).map(|(_, verb)| verb);
    versioned
        || verb.is_some_and(|verb| verb.ends_with("Content") || verb.ends_with("Contents") || verb == "countTokens")
}

fn matches(pattern: &str, path: &str) -> bool {
    if !pattern.contains('{') {
        return pattern == path;
    }
    let (mut want, mut have) = (pattern.split('/'), path.split('/'));
    loop {
        match (want.next(), have.next()) {
            (None, None) => return true,
            (Some("{}"), Some(h)) if !h.is_empty() => {}
            (Some(w), Some(h)) if w == h => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let at = |m: Method, p: &'static str| route(&m, p).map(|r| (r.operation, r.raw, r.tail));
        assert_eq!(
            at(Method::POST, "/v1/chat/completions"),
            Some((Operation::ChatCompletions, false, "/chat/completions"))
        );
        assert_eq!(at(Method::POST, "/v1/v1/messages"), Some((Operation::Messages, false, "/messages")));
        assert_eq!(at(Method::POST, "/v1/proxy/v1/messages").map(|r| r.1), Some(true));
        assert_eq!(at(Method::GET, "/v1/v1/models"), Some((Operation::Proxy, true, "/v1/models")), "Cohere has it");
        assert_eq!(at(Method::POST, "/v1/models/m:generateContent").map(|r| r.1), Some(true));
        let dialect = |p: &'static str| route(&Method::POST, p).map(|r| r.dialect);
        assert_eq!(dialect("/v1/models/gemini:generateContent"), Some(Dialect::Google));
        assert_eq!(dialect("/v1/proxy/v1beta/openai/chat/completions"), Some(Dialect::OpenAi));
        let proxied = Some((Operation::ChatCompletions, true, "/chat/completions"));
        assert_eq!(at(Method::POST, "/v1/proxy/chat/completions"), proxied, "counted as what it is, and untouched");
        assert_eq!(at(Method::POST, "/v1/proxy/chat/completions/").map(|r| r.2), Some("/chat/completions/"));
        assert_eq!(at(Method::GET, "/v1/proxy/chat/completions").map(|r| r.0), Some(Operation::Proxy));
        assert_eq!(at(Method::POST, "/v1/proxy").map(|r| (r.0, r.2)), Some((Operation::Proxy, "/proxy")));
        assert_eq!(at(Method::PUT, "/v1/anything/else"), Some((Operation::Proxy, true, "/anything/else")));
        assert_eq!(at(Method::POST, "/v1/threads/t/runs/r"), Some((Operation::ModifyRun, false, "/threads/t/runs/r")));
        assert_eq!(
            at(Method::POST, "/v1/threads/t/runs/r/cancel"),
            Some((Operation::Proxy, true, "/threads/t/runs/r/cancel"))
        );
        let slashed = route(&Method::POST, "/v1/chat/completions/").map(|r| (r.operation, r.path, r.tail));
        assert_eq!(slashed, Some((Operation::ChatCompletions, "/v1/chat/completions", "/chat/completions")));
        assert_eq!(at(Method::POST, "/v1/brand/new/"), Some((Operation::Proxy, true, "/brand/new/")));
        assert_eq!(at(Method::POST, "/v1/Chat/completions").map(|r| r.0), Some(Operation::Proxy), "case counts");
        assert_eq!(at(Method::GET, "/v1/"), Some((Operation::Proxy, true, "/")));
        for coheres in ["/v2/rerank", "/v1/v2/rerank"] {
            assert_eq!(at(Method::POST, coheres), Some((Operation::Rerank, false, "/v2/rerank")), "{coheres}");
        }
        assert_eq!((at(Method::GET, "/v2/rerank"), at(Method::POST, "/v2/other")), (None, None));
        assert_eq!(
            at(Method::GET, "/v1/files/f/content"),
            Some((Operation::RetrieveFileContent, true, "/files/f/content"))
        );
        assert_eq!(at(Method::GET, "/v1"), None);
        assert_eq!(at(Method::GET, "/metrics"), None);
        assert_eq!(at(Method::GET, "/v1beta/x"), None);
        assert_eq!(at(Method::POST, "/files/mcp"), Some((Operation::McpSession, false, "/files/mcp")));
        assert_eq!(at(Method::POST, "/mcp"), Some((Operation::McpSession, false, "/mcp")));
        for (method, path) in [(Method::PUT, "/files/mcp"), (Method::POST, "//mcp"), (Method::POST, "/a/b/mcp")] {
            assert_eq!(at(method, path), None, "{path}");
        }
    }

    #[test]
    fn routes_are_few() {
        for (method, path, route) in [
            ("POST", "/v1/chat/completions", "/v1/chat/completions"),
            ("POST", "/v1/chat/completions/", "/v1/chat/completions"),
            ("POST", "/v1/proxy/chat/completions", "/v1/proxy/chat/completions"),
            ("GET", "/v1/responses/resp_1/input_items", "/v1/responses/{id}/input_items"),
            ("POST", "/v1/brand/new", "/v1/*"),
            ("POST", "/v1/proxy/brand/new", "/v1/proxy/*"),
            ("GET", "/v1/chat/completions", "/v1/*"),
            ("POST", "/v1/prompts/pp-a/completions", "/v1/prompts/{id}/completions"),
            ("GET", "/other", "/*"),
        ] {
            assert_eq!(template(method, path), route, "{method} {path}");
        }
    }

    #[test]
    fn a_row_lies_where_its_operation_does() {
        for row in TABLE {
            let base = row.operation.facts().base;
            let path = row.path.strip_prefix("/openai").map_or(row.path, |path| path.trim_start_matches("/v1"));
            let is_call = (path, base) == ("/realtime", "/realtime/calls");
            assert!(path.starts_with(base) || row.path == COHERES || is_call, "{} begins with {base}", row.path);
        }
    }

    #[test]
    fn names_round_trip() {
        assert!(Operation::ALL.iter().all(|op| Operation::parse(op.name()) == Some(*op)));
    }
}
