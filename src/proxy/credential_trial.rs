//! A credential tried: one cheap call to its provider, by the same translators, sign-ins and checked addresses as calls
//! of clients, and without a client. So many run at a time, each bounded in bytes and time; nothing is counted or
//! recorded.

use super::head::of_own;
use super::record::secrets;
use super::target::{Aim, Credential, go_aside};
use crate::clock;
use crate::upstream::http1::{self, PeerTimeouts, RequestBody, Response};
use crate::upstream::{Credentials, Dialer, Pass};
use bytes::{Bytes, BytesMut};
use gateway_domain::cloud::{CloudSettings, Grant};
use gateway_domain::ports::{self, CredentialTrial, CredentialUntried, CredentialVerdict, Fut};
use gateway_domain::record::mask;
use gateway_domain::{Dialect, Fault, Operation};
use gateway_providers::{Adapter, Call, Endpoint};
use http::{HeaderValue, Method};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const AT_ONCE: usize = 16;
const WITHIN: Duration = Duration::from_secs(15);
/// Lists of models of some providers are long.
const MOST_REPLY: usize = 4 << 20;
/// Characters of what a provider said.
const MOST_TOLD: usize = 500;

pub(crate) struct CredentialTester {
    dialer: Arc<Dialer>,
    credentials: Arc<Credentials>,
    seats: Semaphore,
}

/// What the provider is asked.
struct TrialCall<'a> {
    adapter: &'static dyn Adapter,
    endpoint: Endpoint,
    operation: Operation,
    method: Method,
    body: Bytes,
    model: Option<&'a str>,
    aim: Aim,
}

/// What it answered.
struct TrialAnswer {
    status: u16,
    models: Option<usize>,
    error: Option<String>,
}

impl CredentialTester {
    pub(crate) fn new(dialer: Arc<Dialer>, credentials: Arc<Credentials>) -> Self {
        Self { dialer, credentials, seats: Semaphore::new(AT_ONCE) }
    }

    async fn one(&self, trial: &CredentialTrial) -> Result<CredentialVerdict, CredentialUntried> {
        let call = TrialCall::of(trial)?;
        let _seat = self.seats.try_acquire().map_err(|_| CredentialUntried::Busy)?;
        let began = Instant::now();
        let asked = if call.model.is_some() { "chat" } else { "models" };
        let answered = tokio::time::timeout(WITHIN, self.ask(&call)).await;
        let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {} s", WITHIN.as_secs())));
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(match answered {
            Ok(TrialAnswer { status, models, error }) => {
                CredentialVerdict { asked, status: Some(status), millis, models, error }
            }
            Err(error) => CredentialVerdict { asked, status: None, millis, models: None, error: Some(error) },
        })
    }

    async fn ask(&self, call: &TrialCall<'_>) -> Result<TrialAnswer, String> {
        let said = |fault: Fault| fault.message().to_owned();
        let out = call.adapter.request(&call.of_adapter()).map_err(said)?;
        let head = of_own(&call.aim, call.method.clone(), (&call.endpoint, &out)).map_err(said)?;
        let head = match &call.aim.grant {
            None => head,
            Some(grant) => {
                let pass = self.credentials.token(grant).await.map_err(|f| format!("no token: {}", f.message()))?;
                head.admitted(&pass, grant.signing.as_ref(), &out.body).map_err(said)?
            }
        };
        let origin = self.dialer.origin(&call.aim.base).await.map_err(|e| e.to_string())?;
        // The whole call has one clock.
        let clocks = PeerTimeouts { first_byte: WITHIN, idle: WITHIN };
        let sent = http1::send(&self.dialer, &origin, head.request(), RequestBody::Held(&out.body), clocks).await;
        let mut response = sent.map_err(|e| e.to_string())?;
        let body = read(&mut response).await?;
        let body = mask::without(&body, &secrets(head.request().headers())).map_or(body, Bytes::from);
        Ok(call.judge(&response, &body))
    }
}

impl ports::CredentialTrials for CredentialTester {
    fn run<'a>(&'a self, trial: &'a CredentialTrial) -> Fut<'a, Result<CredentialVerdict, CredentialUntried>> {
        Box::pin(self.one(trial))
    }

    fn header<'a>(&'a self, grant: &'a Arc<Grant>) -> Fut<'a, Result<HeaderValue, String>> {
        Box::pin(async move {
            match self.credentials.token(grant).await {
                Ok(Pass::Header(value)) => Ok(value),
                Ok(_) => Err("the sign-in led to no token".to_owned()),
                Err(fault) => Err(fault.message().to_owned()),
            }
        })
    }
}

impl<'a> TrialCall<'a> {
    fn of(trial: &'a CredentialTrial) -> Result<Self, CredentialUntried> {
        let unfit = |why: &str| CredentialUntried::Unfit(why.to_owned());
        let model = trial.model.as_deref();
        let upstream = trial.upstream.for_model(model);
        let family = gateway_providers::adapter(upstream.provider.slug);
        let family = family.ok_or_else(|| unfit("is of no use: nothing is known of this family"))?;
        let settings = upstream.settings.clone();
        let adapter = family.at(&settings).unwrap_or(family);
        let (operation, method, body) = match model {
            None => (Operation::ListModels, Method::GET, Bytes::new()),
            Some(model) => (Operation::ChatCompletions, Method::POST, chat(model)),
        };
        let endpoint = adapter.endpoint(operation, Dialect::OpenAi).ok_or_else(|| match model {
            None => unfit("is needed: this family has no list of models that could be asked for"),
            Some(_) => unfit("is of no use: this family answers no chat"),
        })?;
        let base = upstream.base.clone().ok_or_else(|| unfit("is of no use: the family needs a custom host"))?;
        let mut aim = Aim {
            adapter,
            base,
            credential: Credential::None,
            virtual_key: Arc::default(),
            model: model.map(Into::into),
            origin: 0,
            settings,
            grant: upstream.grant.clone(),
        };
        aim.credential = Credential::Managed(upstream);
        go_aside(&mut aim, operation);
        Ok(Self { adapter, endpoint, operation, method, body, model, aim })
    }

    fn of_adapter(&self) -> Call<'_> {
        let settings: &CloudSettings = &self.aim.settings;
        Call {
            operation: self.operation,
            dialect: Dialect::OpenAi,
            method: &self.method,
            tail: if self.model.is_some() { "chat/completions" } else { "models" },
            query: None,
            body: &self.body,
            form: None,
            sound_ms: None,
            model: self.model,
            // Written by `chat`.
            model_span: self.model.map(|model| MODEL_AT..MODEL_AT + Value::from(model).to_string().len()),
            stream: false,
            wants_usage: false,
            strict: true,
            now_ms: clock::now().micros() / 1000,
            dice: 0,
            origin: 0,
            settings,
            keeps: None,
        }
    }

    fn judge(&self, response: &Response, body: &Bytes) -> TrialAnswer {
        let status = response.status();
        let failed = |why: &str| {
            let error = Some(why.chars().take(MOST_TOLD).collect());
            TrialAnswer { status, models: None, error }
        };
        if !(200..300).contains(&status) {
            let failure = self.adapter.failed(&self.of_adapter(), status, response.head().headers(), body);
            return failed(&failure.message);
        }
        match self.adapter.response(&self.of_adapter(), body) {
            Err(failure) => failed(&failure.message),
            Ok(_) if self.model.is_some() => TrialAnswer { status, models: None, error: None },
            Ok(reply) => {
                let list: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                match list["data"].as_array() {
                    Some(models) => TrialAnswer { status, models: Some(models.len()), error: None },
                    None => failed("the answer is no list of models"),
                }
            }
        }
    }
}

const MODEL_AT: usize = r#"{"model":"#.len();

/// A chat request for as few tokens as every model can be asked for: some refuse less than 16.
fn chat(model: &str) -> Bytes {
    let model = Value::from(model).to_string();
    let rest = r#""messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":16"#;
    format!(r#"{{"model":{model},{rest}}}"#).into()
}

async fn read(response: &mut Response) -> Result<Bytes, String> {
    let mut body = BytesMut::new();
    while !response.is_done() {
        let Some(piece) = response.read().await.map_err(|e| e.to_string())? else { break };
        if body.len() + piece.len() > MOST_REPLY {
            return Err(format!("the answer is larger than {MOST_REPLY} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}
