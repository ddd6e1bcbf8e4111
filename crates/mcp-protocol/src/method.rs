//! The requests and notifications of all revisions: a marker type for each, and who has which.

mod name;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    CallToolParams, CallToolResult, CompleteParams, CompleteResult, CreateMessageParams, CreateMessageResult,
    DiscoverResult, ElicitParams, ElicitResult, EmptyParams, EmptyResult, GetPromptParams, GetPromptResult,
    InitializeParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListRootsResult, ListToolsResult, ListenParams, ListenResult, PaginatedParams, ProtocolVersion, ReadResourceParams,
    ReadResourceResult, ResultPayload, SetLevelParams, SubscribeParams,
    skills::{GetSkillParams, GetSkillResult, ListSkillsResult, ReadDirectoryParams},
    tasks::{self, TaskParams},
};

pub use self::name::RequestName;

/// A request: its name, its parameters and its result.
pub trait Method {
    /// The method name on the wire.
    const NAME: &'static str;
    /// The parameter that the header `Mcp-Name` mirrors over HTTP (2026-07-28, and the tasks extension).
    const MIRRORED_PARAM: Option<&'static str> = None;
    /// The parameters.
    type Params: Serialize + DeserializeOwned + Send;
    /// The result, when the request is done.
    type Result: ResultPayload + DeserializeOwned + Send;
}

/// A notification: its name and its parameters.
pub trait NotificationMethod {
    /// The method name on the wire.
    const NAME: &'static str;
    /// The parameters.
    type Params: Serialize + DeserializeOwned + Send;
}

/// Whether any revision, or an extension, has a request of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    REQUESTS.iter().any(|known| known.name == name)
}

/// Whether a revision has a request of this name. Those of the tasks extension count for 2026-07-28, those of the
/// skills extension for every revision; requests that 2026-07-28 knows as inputs only do not.
#[must_use]
pub fn exists_in(name: &str, version: ProtocolVersion) -> bool {
    REQUESTS.iter().any(|known| known.name == name && (known.exists_in)(version))
}

/// Returns a hint for the replacement of a request that a revision has removed; `None` when there is no replacement.
pub(crate) fn instead_of(name: &str, version: ProtocolVersion) -> Option<&'static str> {
    if exists_in(name, version) || !version.is_stateless() {
        return None;
    }
    Some(match name {
        Initialize::NAME => "each request describes its client in `_meta`; `server/discover` describes the server",
        Ping::NAME => "any other request shows that the server is reachable",
        SetLevel::NAME => "a request sets `io.modelcontextprotocol/logLevel` in its `_meta` to receive log records",
        Subscribe::NAME => "`subscriptions/listen` names the resources in `resourceSubscriptions`",
        Unsubscribe::NAME => "subscriptions end with their `subscriptions/listen` request",
        GetTaskPayload::NAME => "`tasks/get` returns the result of a finished task",
        ListTasks::NAME => "clients keep the ids of their tasks",
        CreateMessage::NAME | ListRoots::NAME | Elicit::NAME => {
            "servers send input requests in `input_required` results"
        }
        _ => return None,
    })
}

/// Returns the parameter that `Mcp-Name` mirrors over HTTP (2026-07-28, and the tasks extension); `None` when the
/// method has none.
#[must_use]
pub fn mirrored_name_param(name: &str) -> Option<&'static str> {
    REQUESTS.iter().find(|known| known.name == name).and_then(|known| known.mirrored_param)
}

/// The declaration of a request, for a search by its name.
struct Declaration {
    name: &'static str,
    mirrored_param: Option<&'static str>,
    exists_in: fn(ProtocolVersion) -> bool,
}

macro_rules! requests {
    ($($(#[$doc:meta])* $marker:ident $name:literal $params:ty => $result:ty, $mirrored:expr, $exists:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            #[non_exhaustive]
            pub struct $marker;

            impl Method for $marker {
                const NAME: &'static str = $name;
                const MIRRORED_PARAM: Option<&'static str> = $mirrored;
                type Params = $params;
                type Result = $result;
            }
        )*

        const REQUESTS: &[Declaration] =
            &[$(Declaration { name: $name, mirrored_param: $mirrored, exists_in: $exists }),*];
    };
}

// Each row: the marker, the name, the parameters, the result, the mirrored parameter, and the revisions.
requests! {
    /// Opens a session.
    Initialize "initialize" InitializeParams => InitializeResult, None, ProtocolVersion::has_handshake;
    /// Requests an empty response, to check the connection.
    Ping "ping" EmptyParams => EmptyResult, None, ProtocolVersion::has_session_methods;
    /// Requests the revisions and capabilities of the server.
    Discover "server/discover" EmptyParams => DiscoverResult, None, ProtocolVersion::is_stateless;
    /// Subscribes to change notifications for as long as the request is open.
    Listen "subscriptions/listen" ListenParams => ListenResult, None, ProtocolVersion::has_listen;
    /// Lists tools.
    ListTools "tools/list" PaginatedParams => ListToolsResult, None, |_| true;
    /// Calls a tool.
    CallTool "tools/call" CallToolParams => CallToolResult, Some("name"), |_| true;
    /// Lists resources.
    ListResources "resources/list" PaginatedParams => ListResourcesResult, None, |_| true;
    /// Lists resource templates.
    ListResourceTemplates "resources/templates/list" PaginatedParams => ListResourceTemplatesResult, None, |_| true;
    /// Reads a resource.
    ReadResource "resources/read" ReadResourceParams => ReadResourceResult, Some("uri"), |_| true;
    /// Subscribes to updates of a resource.
    Subscribe "resources/subscribe" SubscribeParams => EmptyResult, None, ProtocolVersion::has_session_methods;
    /// Ends the subscription to a resource.
    Unsubscribe "resources/unsubscribe" SubscribeParams => EmptyResult, None, ProtocolVersion::has_session_methods;
    /// Lists prompts.
    ListPrompts "prompts/list" PaginatedParams => ListPromptsResult, None, |_| true;
    /// Fills in a prompt.
    GetPrompt "prompts/get" GetPromptParams => GetPromptResult, Some("name"), |_| true;
    /// Completes an argument.
    Complete "completion/complete" CompleteParams => CompleteResult, None, |_| true;
    /// Sets the log level of the session.
    SetLevel "logging/setLevel" SetLevelParams => EmptyResult, None, ProtocolVersion::has_session_methods;
    /// A server requests sampling from the client.
    CreateMessage "sampling/createMessage" CreateMessageParams => CreateMessageResult, None,
        ProtocolVersion::has_handshake;
    /// A server requests the roots of the client.
    ListRoots "roots/list" EmptyParams => ListRootsResult, None, ProtocolVersion::has_handshake;
    /// A server requests input from the user.
    Elicit "elicitation/create" ElicitParams => ElicitResult, None, |v| v.has_elicitation() && v.has_handshake();
    /// Requests the status of a task (2025-11-25).
    GetTask "tasks/get" TaskParams => tasks::TaskState, Some("taskId"), ProtocolVersion::has_core_tasks;
    /// Waits for the result of a task.
    GetTaskPayload "tasks/result" TaskParams => tasks::TaskPayload, None, ProtocolVersion::has_core_tasks;
    /// Lists tasks.
    ListTasks "tasks/list" PaginatedParams => tasks::ListTasksResult, None, ProtocolVersion::has_core_tasks;
    /// Cancels a task (2025-11-25).
    CancelTask "tasks/cancel" TaskParams => tasks::TaskState, Some("taskId"), ProtocolVersion::has_core_tasks;
    /// Requests the status of a task (tasks extension).
    GetDetailedTask "tasks/get" TaskParams => tasks::ext::DetailedTask, Some("taskId"), ProtocolVersion::has_extensions;
    /// Answers questions of a task (tasks extension).
    UpdateTask "tasks/update" tasks::ext::UpdateTaskParams => EmptyResult, Some("taskId"),
        ProtocolVersion::has_extensions;
    /// Cancels a task (tasks extension).
    RequestTaskCancellation "tasks/cancel" TaskParams => EmptyResult, Some("taskId"), ProtocolVersion::has_extensions;
    /// Lists skills (skills extension).
    ListSkills "skills/list" PaginatedParams => ListSkillsResult, None, |_| true;
    /// Requests one skill (skills extension).
    GetSkill "skills/get" GetSkillParams => GetSkillResult, None, |_| true;
    /// Lists the entries of a directory (skills extension).
    ReadDirectory "resources/directory/read" ReadDirectoryParams => ListResourcesResult, None, |_| true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_methods_have_a_hint_for_their_replacement() {
        for Declaration { name, exists_in: exists, .. } in REQUESTS {
            let gone = exists(ProtocolVersion::LATEST_LEGACY) && !exists(ProtocolVersion::LATEST);
            let is_in_another_form = exists_in(name, ProtocolVersion::LATEST);
            assert_eq!(instead_of(name, ProtocolVersion::LATEST).is_some(), gone && !is_in_another_form, "{name}");
            for version in ProtocolVersion::ALL.iter().filter(|version| !version.is_stateless()) {
                assert_eq!(instead_of(name, *version), None, "{name} in {version:?}");
            }
        }
    }

    #[test]
    fn each_revision_has_its_own_names() {
        // One column per revision, oldest first.
        for (name, expected) in [
            ("initialize", "++++-"),
            ("ping", "++++-"),
            ("server/discover", "----+"),
            ("subscriptions/listen", "----+"),
            ("tools/list", "+++++"),
            ("tools/call", "+++++"),
            ("resources/list", "+++++"),
            ("resources/templates/list", "+++++"),
            ("resources/read", "+++++"),
            ("resources/subscribe", "++++-"),
            ("resources/unsubscribe", "++++-"),
            ("prompts/list", "+++++"),
            ("prompts/get", "+++++"),
            ("completion/complete", "+++++"),
            ("logging/setLevel", "++++-"),
            ("sampling/createMessage", "++++-"),
            ("roots/list", "++++-"),
            ("elicitation/create", "--++-"),
            ("tasks/get", "---++"),
            ("tasks/result", "---+-"),
            ("tasks/list", "---+-"),
            ("tasks/cancel", "---++"),
            ("tasks/update", "----+"),
            ("skills/list", "+++++"),
            ("skills/get", "+++++"),
            ("resources/directory/read", "+++++"),
        ] {
            let got: String =
                ProtocolVersion::ALL.iter().rev().map(|v| if exists_in(name, *v) { '+' } else { '-' }).collect();
            assert_eq!(got, expected, "{name}");
            assert!(is_known(name));
        }
        assert!(!is_known("tools/List"));
        assert!(!exists_in("notifications/progress", ProtocolVersion::LATEST));
    }

    #[test]
    fn mirrored_parameters_depend_on_the_method() {
        for (name, param) in [
            ("tools/call", Some("name")),
            ("prompts/get", Some("name")),
            ("resources/read", Some("uri")),
            ("tasks/get", Some("taskId")),
            ("tasks/update", Some("taskId")),
            ("tasks/cancel", Some("taskId")),
            ("tools/list", None),
            ("tasks/result", None),
            ("server/discover", None),
            ("com.example/other", None),
        ] {
            assert_eq!(mirrored_name_param(name), param, "{name}");
        }
        // The rows of one name agree.
        for row in REQUESTS {
            assert_eq!(mirrored_name_param(row.name), row.mirrored_param, "{}", row.name);
        }
    }
}
