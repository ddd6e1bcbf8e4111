//! Gives values the form that a revision knows. This is the one place that drops what a revision has no member for, and
//! adds what it requires. All other code builds values of the newest form.
//!
//! Members that this library does not know, and `_meta`, are left alone: objects are open in every revision.

mod capabilities;
mod content;
mod definition;
mod object;
mod params;
mod raw;
mod sampling;

pub use self::{
    object::shape_object,
    params::shape_params,
    raw::{RawShape, shape_raw_definition, shape_raw_result},
};
use crate::{
    CacheScope, CompleteResult, DiscoverResult, ElicitParams, EmptyResult, ErrorCode, GetPromptResult,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    ProgressParams, ProtocolVersion, ReadResourceResult, RpcError,
};

/// A value that looks different in different revisions.
pub trait Shape {
    /// Drops what the revision does not know and adds what it requires. Does next to nothing for the newest revision,
    /// and nothing at all when done twice.
    fn shape(&mut self, version: ProtocolVersion);
}

impl<T: Shape> Shape for Option<T> {
    fn shape(&mut self, version: ProtocolVersion) {
        if let Some(value) = self {
            value.shape(version);
        }
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn shape(&mut self, version: ProtocolVersion) {
        self.as_mut_slice().shape(version);
    }
}

impl<T: Shape> Shape for [T] {
    fn shape(&mut self, version: ProtocolVersion) {
        for value in self {
            value.shape(version);
        }
    }
}

impl<T: Shape + ?Sized> Shape for Box<T> {
    fn shape(&mut self, version: ProtocolVersion) {
        (**self).shape(version);
    }
}

macro_rules! shape_cached {
    ($($result:ty: $($member:ident),*;)*) => {$(
        impl Shape for $result {
            fn shape(&mut self, version: ProtocolVersion) {
                $(self.$member.shape(version);)*
                shape_cache_hints(&mut self.ttl_ms, &mut self.cache_scope, version);
            }
        }
    )*};
}

shape_cached! {
    ListToolsResult: tools;
    ListPromptsResult: prompts;
    ListResourcesResult: resources;
    ListResourceTemplatesResult: resource_templates;
    ReadResourceResult:;
    DiscoverResult: capabilities;
}

fn shape_cache_hints(ttl_ms: &mut Option<u64>, scope: &mut Option<CacheScope>, version: ProtocolVersion) {
    if version.has_cache_hints() {
        ttl_ms.get_or_insert(0);
        scope.get_or_insert(CacheScope::Private);
    } else {
        *ttl_ms = None;
        *scope = None;
    }
}

impl Shape for InitializeResult {
    fn shape(&mut self, version: ProtocolVersion) {
        self.capabilities.shape(version);
        self.server_info.shape(version);
    }
}

impl Shape for GetPromptResult {
    fn shape(&mut self, version: ProtocolVersion) {
        for message in &mut self.messages {
            message.content.shape(version);
        }
    }
}

impl Shape for CompleteResult {
    fn shape(&mut self, _: ProtocolVersion) {}
}

impl Shape for EmptyResult {
    fn shape(&mut self, _: ProtocolVersion) {}
}

impl Shape for ProgressParams {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_progress_message() {
            self.message = None;
        }
    }
}

impl Shape for ElicitParams {
    /// The id of a URL elicitation exists in 2025-11-25 only, where the server must set it. Earlier revisions have no
    /// URL elicitation, so their clients do not declare it, and servers must not request it.
    fn shape(&mut self, version: ProtocolVersion) {
        let task = match self {
            Self::Form(params) => &mut params.task,
            Self::Url(params) => {
                if !version.has_elicitation_complete() {
                    params.elicitation_id = None;
                }
                &mut params.task
            }
        };
        if !version.has_core_tasks() {
            *task = None;
        }
    }
}

impl Shape for RpcError {
    /// Only 2025-11-25 has an error code that refers the user to pages. For other revisions the message lists the
    /// pages.
    fn shape(&mut self, version: ProtocolVersion) {
        if self.code != ErrorCode::URL_ELICITATION_REQUIRED || version.has_elicitation_complete() {
            return;
        }
        let pages: Vec<_> =
            self.url_elicitations().iter().map(|page| format!("{} ({})", page.url, page.message)).collect();
        if !pages.is_empty() {
            self.message = format!("{}: {}", self.message, pages.join(", "));
        }
        self.code = ErrorCode::INTERNAL_ERROR;
        self.data = None;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json};

    use super::*;

    /// Shapes `full` for each revision and compares it with the expected values, oldest revision first. The last value
    /// holds for all newer revisions.
    pub(crate) fn check<T: Shape + Serialize + DeserializeOwned + Clone>(full: &Value, expected: impl AsRef<[Value]>) {
        let value: T = serde_json::from_value(full.clone()).unwrap();
        let expected = expected.as_ref();
        for (index, &version) in ProtocolVersion::ALL.iter().rev().enumerate() {
            let expected = expected.get(index).or(expected.last()).unwrap();
            let mut shaped = value.clone();
            shaped.shape(version);
            let once = serde_json::to_value(&shaped).unwrap();
            assert_eq!(once, *expected, "{version}");
            shaped.shape(version);
            assert_eq!(serde_json::to_value(&shaped).unwrap(), once, "{version} twice");
        }
    }

    #[test]
    fn older_revisions_have_no_cache_hints() {
        let legacy = json!({"tools": []});
        let kept = json!({"tools": [], "ttlMs": 5, "cacheScope": "public"});
        check::<ListToolsResult>(&kept, [legacy.clone(), legacy.clone(), legacy.clone(), legacy.clone(), kept.clone()]);
        let filled = json!({"tools": [], "ttlMs": 0, "cacheScope": "private"});
        check::<ListToolsResult>(&legacy, [legacy.clone(), legacy.clone(), legacy.clone(), legacy.clone(), filled]);
        let read = json!({"contents": [], "_meta": {"a": 1}});
        let filled = json!({"contents": [], "_meta": {"a": 1}, "ttlMs": 0, "cacheScope": "private"});
        check::<ReadResourceResult>(&read, [read.clone(), read.clone(), read.clone(), read.clone(), filled]);
    }

    #[test]
    fn members_of_lists_are_shaped() {
        let mut page = ListPromptsResult::new(vec![crate::Prompt::new("p").with_title("P")]);
        page.shape(ProtocolVersion::V2024_11_05);
        assert_eq!(serde_json::to_value(&page).unwrap(), json!({"prompts": [{"name": "p"}]}));
    }

    #[test]
    fn the_first_revision_has_no_progress_messages() {
        let full = json!({"progressToken": 1, "progress": 1, "total": 2, "message": "m"});
        let first = json!({"progressToken": 1, "progress": 1, "total": 2});
        check::<ProgressParams>(&full, [first, full.clone(), full.clone(), full.clone(), full.clone()]);
    }

    #[test]
    fn url_mode_parameters_depend_on_the_revision() {
        let full = json!({"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "e", "task": {}});
        let bare = json!({"mode": "url", "message": "m", "url": "https://a.example"});
        check::<ElicitParams>(&full, [bare.clone(), bare.clone(), bare.clone(), full.clone(), bare]);
    }

    #[test]
    fn an_error_with_pages_lists_them_in_its_message() {
        let page = json!({"mode": "url", "message": "log in", "url": "https://a.example", "elicitationId": "e"});
        for (pages, message) in [(vec![page], "m: https://a.example (log in)"), (vec![], "m")] {
            let full = json!({"code": -32042, "message": "m", "data": {"elicitations": pages}});
            let bare = json!({"code": -32603, "message": message});
            check::<RpcError>(&full, [bare.clone(), bare.clone(), bare.clone(), full.clone(), bare]);
        }
    }

    #[test]
    fn prompt_messages_are_shaped() {
        let full =
            json!({"messages": [{"role": "user", "content": {"type": "audio", "data": "AAE=", "mimeType": "a/b"}}]});
        let mut result: GetPromptResult = serde_json::from_value(full).unwrap();
        result.shape(ProtocolVersion::V2024_11_05);
        assert_eq!(result.messages[0].content.as_text(), Some("[audio: a/b, 2 bytes]"));
    }
}
