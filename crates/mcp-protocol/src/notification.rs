//! The notifications of all revisions: a marker type for each, and who has which.

use crate::{
    CancelledParams, ElicitationCompleteParams, EmptyParams, LoggingMessageParams, NotificationMethod, ProgressParams,
    ProtocolVersion, ResourceUpdatedParams, SubscriptionsAcknowledgedParams, tasks,
};

/// Whether any revision, or the tasks extension, has a notification of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    NOTIFICATIONS.iter().any(|(known, _)| *known == name)
}

/// Whether a revision has a notification of this name. That of the tasks extension counts for 2026-07-28.
#[must_use]
pub fn exists_in(name: &str, version: ProtocolVersion) -> bool {
    NOTIFICATIONS.iter().any(|(known, exists)| *known == name && exists(version))
}

macro_rules! notifications {
    ($($(#[$doc:meta])* $marker:ident $name:literal $params:ty, $exists:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            #[non_exhaustive]
            pub struct $marker;

            impl NotificationMethod for $marker {
                const NAME: &'static str = $name;
                type Params = $params;
            }
        )*

        const NOTIFICATIONS: &[(&str, fn(ProtocolVersion) -> bool)] = &[$(($name, $exists)),*];
    };
}

notifications! {
    /// The client is ready.
    Initialized "notifications/initialized" EmptyParams, ProtocolVersion::has_handshake;
    /// The sender no longer waits for a request.
    Cancelled "notifications/cancelled" CancelledParams, |_| true;
    /// The progress of a request.
    Progress "notifications/progress" ProgressParams, |_| true;
    /// A log message.
    LoggingMessage "notifications/message" LoggingMessageParams, |_| true;
    /// The list of tools changed.
    ToolListChanged "notifications/tools/list_changed" EmptyParams, |_| true;
    /// The list of prompts changed.
    PromptListChanged "notifications/prompts/list_changed" EmptyParams, |_| true;
    /// The list of resources changed.
    ResourceListChanged "notifications/resources/list_changed" EmptyParams, |_| true;
    /// A resource changed.
    ResourceUpdated "notifications/resources/updated" ResourceUpdatedParams, |_| true;
    /// The list of roots changed.
    RootsListChanged "notifications/roots/list_changed" EmptyParams, ProtocolVersion::has_handshake;
    /// The user is done at a URL.
    ElicitationComplete "notifications/elicitation/complete" ElicitationCompleteParams,
        ProtocolVersion::has_elicitation_complete;
    /// The status of a task changed (2025-11-25).
    TaskStatus "notifications/tasks/status" tasks::TaskState, ProtocolVersion::has_core_tasks;
    /// The status of a task changed (tasks extension).
    Task "notifications/tasks" tasks::ext::DetailedTask, ProtocolVersion::has_extensions;
    /// A subscription is open.
    SubscriptionsAcknowledged "notifications/subscriptions/acknowledged" SubscriptionsAcknowledgedParams,
        ProtocolVersion::has_listen;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_has_its_own_names() {
        // One column per revision, oldest first.
        for (name, expected) in [
            ("notifications/initialized", "++++-"),
            ("notifications/cancelled", "+++++"),
            ("notifications/progress", "+++++"),
            ("notifications/message", "+++++"),
            ("notifications/tools/list_changed", "+++++"),
            ("notifications/prompts/list_changed", "+++++"),
            ("notifications/resources/list_changed", "+++++"),
            ("notifications/resources/updated", "+++++"),
            ("notifications/roots/list_changed", "++++-"),
            ("notifications/elicitation/complete", "---+-"),
            ("notifications/tasks/status", "---+-"),
            ("notifications/tasks", "----+"),
            ("notifications/subscriptions/acknowledged", "----+"),
        ] {
            let got: String =
                ProtocolVersion::ALL.iter().rev().map(|v| if exists_in(name, *v) { '+' } else { '-' }).collect();
            assert_eq!(got, expected, "{name}");
            assert!(is_known(name));
        }
        assert!(!is_known("tools/call"));
    }
}
