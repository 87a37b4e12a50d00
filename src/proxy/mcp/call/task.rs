//! Tasks: what a tool goes on with after its call was answered. A client's word for one is sealed, so that it leads to
//! the server that has it on any node, and is an unknown one to everybody else. What a task came to is judged as the
//! result of its call would have been; asking for it counts against no limit and leaves no record.

use super::{McpAsked, McpTurn};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::guard::{denial, with_result};
use crate::proxy::text_guard::GuardedText;
use gateway_mcp::filter::McpKind;
use gateway_mcp::task::{McpTask, TASKS_EXTENSION, begun};
use gateway_mcp::texts::each_of_result;
use gateway_mcp::{Era, RawObject, RpcError};

impl McpTurn<'_, '_> {
    /// Asks the server that has the task.
    pub(super) async fn answer_of_task(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let told = |error: RpcError| LastMessage::error(&error, Some(&asked.id));
        let served = self.served;
        if !served.targets.iter().any(|target| target.upstream.capabilities.contains(TASKS_EXTENSION)) {
            return Ok(told(RpcError::no_method(&asked.method, true)));
        }
        let Some((mut params, given)) = asked.params().and_then(|p| p.text("taskId").map(|given| (p, given))) else {
            return Ok(told(RpcError::bad_params("params.taskId must be a text")));
        };
        let unknown = || told(RpcError::unknown("task", &given.chars().take(64).collect::<String>()));
        let task = McpTask::open(&given, self.parts.state).filter(|task| task.principal == served.principal);
        let Some(task) = task else { return Ok(unknown()) };
        let drift = &self.parts.state.drift;
        let found = served.targets.iter().find(|target| {
            let hidden = drift.has(&target.upstream, McpKind::Tool, &task.tool);
            target.part() == task.part && target.allows(McpKind::Tool, &task.tool) && !hidden
        });
        let Some(target) = found.filter(|target| target.era() == Era::Modern) else { return Ok(unknown()) };
        (self.target, self.called) = (target, &target.server);
        params.set_text("taskId", &task.id);
        let params = params.to_json();
        let mut envelope = asked.envelope.clone();
        envelope.set("params", params);
        let (id, method) = (asked.id.clone(), asked.method.clone());
        let own = McpAsked { id, method, envelope: &envelope, version: asked.version, streams: asked.streams };
        let last = self.ask_modern(&own).await;
        let last = self.judged_task(asked, &task.tool, last?).await;
        self.called = &served.server;
        Ok(named(last?, &task.id, &given))
    }

    /// What a task that is over came to, as guardrails leave it.
    async fn judged_task(
        &mut self,
        asked: &McpAsked<'_>,
        tool: &str,
        last: LastMessage,
    ) -> Result<LastMessage, ClientLeft> {
        let inner = |body: &str| RawObject::parse(body).ok()?.object("result")?.raw("result").map(str::to_owned);
        let Some(result) = inner(&last.body) else { return Ok(last) };
        let mut guard = match self.guard_of(asked, tool).await? {
            Ok(Some(guard)) => guard,
            Ok(None) => return Ok(last),
            Err(refused) => return Ok(refused),
        };
        let said = self
            .down
            .client
            .during(None, guard.judge_answered(&self.parts.calls.guardrails, &result, each_of_result))
            .await?;
        let other = match said {
            GuardedText::Same => return Ok(last),
            GuardedText::Other(other) => other,
            GuardedText::Denied => denial(&guard),
        };
        let whole = RawObject::parse(&last.body).ok().and_then(|body| {
            let mut whole = body.object("result")?;
            whole.set("result", other);
            Some(whole.to_json())
        });
        // What was judged stood there.
        let body = whole.map(|whole| with_result(&last.body, &whole)).unwrap_or_default();
        Ok(LastMessage { body, ..last })
    }

    /// The result of a call that goes on as a task, with the id by which its caller finds it again.
    pub(super) fn of_begun(&self, asked: &McpAsked<'_>, result: String) -> Result<String, RpcError> {
        let Some(id) = begun(&result).filter(|_| asked.method == "tools/call") else { return Ok(result) };
        let tool = asked.params().and_then(|params| params.text("name")).unwrap_or_default();
        let task = McpTask::new(self.served.principal.clone(), self.target.part(), tool, id);
        let too_long = || RpcError::own(502, "The MCP server's name for the task is too long to be carried");
        let sealed = task.seal(self.parts.state).ok_or_else(too_long)?;
        let mut object = RawObject::parse(&result).unwrap_or_default();
        object.set_text("taskId", &sealed);
        Ok(object.to_json())
    }
}

/// The answer with the client's word for the task where the server's own stands.
fn named(last: LastMessage, own: &str, given: &str) -> LastMessage {
    let body = RawObject::parse(&last.body).ok().and_then(|body| {
        let mut result = body.object("result")?;
        if result.text("taskId").as_deref() != Some(own) {
            return None;
        }
        result.set_text("taskId", given);
        Some(result.to_json())
    });
    match body {
        Some(result) => LastMessage { body: with_result(&last.body, &result), ..last },
        None => last,
    }
}
