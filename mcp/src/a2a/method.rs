//! What is asked of an agent, by the names of JSON-RPC and by the paths of HTTP with JSON, in each version.

/// Named as in version 1.0, whatever the version that it is asked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum A2aMethod {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    CreatePush,
    GetPush,
    ListPush,
    DeletePush,
    GetExtendedCard,
    /// `tasks/send` of versions before 0.3, whose clients choose the ids of tasks.
    OlderSend,
}

/// The version of a client that names none.
pub const UNNAMED: &str = "0.3";

impl A2aMethod {
    /// The method with this name in JSON-RPC, as clients of `version` write it.
    pub fn named(name: &str, version: &str) -> Option<Self> {
        Some(match (version == UNNAMED, name) {
            (true, "message/send") | (false, "SendMessage") => Self::SendMessage,
            (true, "message/stream") | (false, "SendStreamingMessage") => Self::SendStreamingMessage,
            (true, "tasks/get") | (false, "GetTask") => Self::GetTask,
            (true, "tasks/list") | (false, "ListTasks") => Self::ListTasks,
            (true, "tasks/cancel") | (false, "CancelTask") => Self::CancelTask,
            (true, "tasks/resubscribe") | (false, "SubscribeToTask") => Self::SubscribeToTask,
            (true, "tasks/pushNotificationConfig/set") | (false, "CreateTaskPushNotificationConfig") => {
                Self::CreatePush
            }
            (true, "tasks/pushNotificationConfig/get") | (false, "GetTaskPushNotificationConfig") => Self::GetPush,
            (true, "tasks/pushNotificationConfig/list") | (false, "ListTaskPushNotificationConfigs") => Self::ListPush,
            (true, "tasks/pushNotificationConfig/delete") | (false, "DeleteTaskPushNotificationConfig") => {
                Self::DeletePush
            }
            (true, "agent/getAuthenticatedExtendedCard") | (false, "GetExtendedAgentCard") => Self::GetExtendedCard,
            (true, "tasks/send") => Self::OlderSend,
            _ => return None,
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::SendMessage => "SendMessage",
            Self::SendStreamingMessage => "SendStreamingMessage",
            Self::GetTask => "GetTask",
            Self::ListTasks => "ListTasks",
            Self::CancelTask => "CancelTask",
            Self::SubscribeToTask => "SubscribeToTask",
            Self::CreatePush => "CreateTaskPushNotificationConfig",
            Self::GetPush => "GetTaskPushNotificationConfig",
            Self::ListPush => "ListTaskPushNotificationConfigs",
            Self::DeletePush => "DeleteTaskPushNotificationConfig",
            Self::GetExtendedCard => "GetExtendedAgentCard",
            Self::OlderSend => "tasks/send",
        }
    }

    /// Whether it gives the agent something to do.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendMessage | Self::SendStreamingMessage | Self::OlderSend)
    }

    pub const fn streams(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    pub const fn pushes(self) -> bool {
        matches!(self, Self::CreatePush | Self::GetPush | Self::ListPush | Self::DeletePush)
    }

    /// Whether `id` among its parameters is that of a task.
    pub const fn names_task_by_id(self, version_is_old: bool) -> bool {
        match self {
            Self::GetTask | Self::CancelTask | Self::SubscribeToTask | Self::OlderSend => true,
            Self::GetPush | Self::ListPush | Self::DeletePush => version_is_old,
            _ => false,
        }
    }
}

/// What a request of HTTP asks, with the ids that stand in its path as they are written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestCall<'a> {
    pub method: A2aMethod,
    pub task: Option<&'a str>,
    pub config: Option<&'a str>,
}

/// `path`: below the endpoint, with its slash.
pub fn rest<'a>(method: &str, path: &'a str, version: &str) -> Option<RestCall<'a>> {
    let is_old = version == UNNAMED;
    let path = if is_old { path.strip_prefix("/v1")? } else { path };
    let call = |method, task, config| Some(RestCall { method, task, config });
    let (get, post) = (method == "GET", method == "POST");
    match path {
        "/message:send" if post => return call(A2aMethod::SendMessage, None, None),
        "/message:stream" if post => return call(A2aMethod::SendStreamingMessage, None, None),
        "/tasks" if get => return call(A2aMethod::ListTasks, None, None),
        "/extendedAgentCard" if get && !is_old => return call(A2aMethod::GetExtendedCard, None, None),
        "/card" if get && is_old => return call(A2aMethod::GetExtendedCard, None, None),
        _ => {}
    }
    let mut parts = path.strip_prefix("/tasks/")?.split('/');
    let (task, below, config, more) = (parts.next()?, parts.next(), parts.next(), parts.next());
    if task.is_empty() || more.is_some() || config == Some("") {
        return None;
    }
    match below {
        None => match task.rsplit_once(':') {
            Some((task, "cancel")) if post => call(A2aMethod::CancelTask, Some(task), None),
            Some((task, "subscribe")) if post || get => call(A2aMethod::SubscribeToTask, Some(task), None),
            _ if get => call(A2aMethod::GetTask, Some(task), None),
            _ => None,
        },
        Some("pushNotificationConfigs") => match config {
            None if post => call(A2aMethod::CreatePush, Some(task), None),
            None if get => call(A2aMethod::ListPush, Some(task), None),
            Some(_) if get => call(A2aMethod::GetPush, Some(task), config),
            Some(_) if method == "DELETE" => call(A2aMethod::DeletePush, Some(task), config),
            _ => None,
        },
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_version() {
        assert_eq!(A2aMethod::named("message/send", "0.3"), Some(A2aMethod::SendMessage));
        assert_eq!(A2aMethod::named("SendMessage", "1.0"), Some(A2aMethod::SendMessage));
        assert_eq!(A2aMethod::named("tasks/send", "0.3"), Some(A2aMethod::OlderSend));
        for (name, version) in [("SendMessage", "0.3"), ("message/send", "1.0"), ("tasks/send", "1.0"), ("x", "1.0")] {
            assert_eq!(A2aMethod::named(name, version), None, "{name} {version}");
        }
    }

    #[test]
    fn paths_name_what_is_asked() {
        let at = |method: &str, path: &'static str, version: &str| rest(method, path, version);
        let call = |method, task, config| Some(RestCall { method, task, config });
        assert_eq!(at("POST", "/message:send", "1.0"), call(A2aMethod::SendMessage, None, None));
        assert_eq!(at("POST", "/v1/message:send", "0.3"), call(A2aMethod::SendMessage, None, None));
        assert_eq!(at("GET", "/tasks/t-1", "1.0"), call(A2aMethod::GetTask, Some("t-1"), None));
        assert_eq!(at("POST", "/tasks/t:1:cancel", "1.0"), call(A2aMethod::CancelTask, Some("t:1"), None));
        assert_eq!(at("GET", "/tasks/t:subscribe", "1.0"), call(A2aMethod::SubscribeToTask, Some("t"), None));
        assert_eq!(
            at("DELETE", "/tasks/t/pushNotificationConfigs/c", "1.0"),
            call(A2aMethod::DeletePush, Some("t"), Some("c"))
        );
        for (method, path, version) in [
            ("POST", "/tasks/t", "1.0"),
            ("GET", "/tasks/", "1.0"),
            ("GET", "/tasks/t/other", "1.0"),
            ("GET", "/tasks/t/pushNotificationConfigs/c/d", "1.0"),
            ("POST", "/message:send", "0.3"),
            ("GET", "/message:send", "1.0"),
            ("GET", "/", "1.0"),
        ] {
            assert_eq!(at(method, path, version), None, "{method} {path}");
        }
    }
}
