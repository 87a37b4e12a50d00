//! Tasks as clients know them: the id that a client carries holds sealed who began the task, where, and by which tool,
//! so that any node can ask for it and nobody else can (extension `io.modelcontextprotocol/tasks`).

use crate::object::RawObject;
use crate::session::{LONGEST_UPSTREAM, SessionSeal, opened, sealed};
use serde::{Deserialize, Serialize};

pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Whatever else is sealed with the same key is no task.
const TAG: &str = "mcp-task-1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTask {
    tag: String,
    /// See [`crate::session::principal`].
    pub principal: String,
    /// Which server the task runs behind, named like the part of a session that belongs to that server.
    pub part: String,
    pub tool: String,
    /// The id that the server itself gave the task.
    pub id: String,
}

impl McpTask {
    pub fn new(principal: String, part: String, tool: String, id: String) -> Self {
        Self { tag: TAG.to_owned(), principal, part, tool, id }
    }

    /// The id that the client is given; `None`: it would be longer than headers carry.
    pub fn seal(&self, by: &dyn SessionSeal) -> Option<String> {
        if self.id.len() > LONGEST_UPSTREAM {
            return None;
        }
        sealed(self, by)
    }

    /// `None` for what was never given.
    pub fn open(id: &str, by: &dyn SessionSeal) -> Option<Self> {
        opened(id, by).filter(|task: &Self| task.tag == TAG)
    }
}

/// Whether a method is about a task that somebody began.
pub fn is_of_task(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

/// The id of the task that a call began; `None`: its result is its answer.
pub fn begun(result: &str) -> Option<String> {
    // Few results are tasks, and some are long.
    if !result.contains("\"task\"") {
        return None;
    }
    let object = RawObject::parse(result).ok()?;
    object.text("taskId").filter(|_| object.text("resultType").as_deref() == Some("task"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::LONGEST_SESSION;

    struct Reversed;
    impl SessionSeal for Reversed {
        fn seal(&self, plain: &str) -> String {
            plain.chars().rev().collect()
        }
        fn open(&self, sealed: &str) -> Option<String> {
            Some(sealed.chars().rev().collect())
        }
    }

    #[test]
    fn a_task_comes_back_as_it_was_and_nothing_else_is_one() {
        let task = McpTask::new("p".into(), "int".into(), "slow".into(), "t-1".into());
        let sealed = task.seal(&Reversed).expect("short");
        assert_eq!(McpTask::open(&sealed, &Reversed), Some(task.clone()));
        for other in ["t-1", "", &Reversed.seal("{}"), &sealed.replace('1', "2"), &"x".repeat(LONGEST_SESSION + 1)] {
            assert_eq!(McpTask::open(other, &Reversed), None, "{other}");
        }
        assert_eq!(McpTask { id: "x".repeat(LONGEST_UPSTREAM + 1), ..task }.seal(&Reversed), None);
    }

    #[test]
    fn a_result_says_that_it_is_a_task() {
        assert_eq!(begun(r#"{"resultType":"task","taskId":"a","status":"working"}"#).as_deref(), Some("a"));
        for other in [
            r#"{"resultType":"complete","taskId":"a"}"#,
            r#"{"content":[{"type":"text","text":"\"task\""}],"resultType":"complete"}"#,
            r#"{"resultType":"task"}"#,
            "\"task\"",
        ] {
            assert_eq!(begun(other), None, "{other}");
        }
    }
}
