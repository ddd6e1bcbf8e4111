//! What all results have in common: metadata, and the `resultType` of 2026-07-28.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    CallToolResult, CompleteResult, CreateMessageResult, DiscoverResult, ElicitResult, EmptyResult, GetPromptResult,
    InitializeResult, InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListRootsResult, ListToolsResult, ListenResult, Meta, ReadResourceResult, RpcError, json::write, jsonrpc::describe,
    tasks,
};

/// The kinds of result that 2026-07-28 tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultType {
    /// The request is done. An absent `resultType` means this.
    Complete,
    /// The server needs answers first.
    InputRequired,
    /// The request became a task (tasks extension).
    Task,
    /// A kind that this library does not know: an invalid response, unless an extension says otherwise.
    Other(String),
}

impl ResultType {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
            Self::Other(word) => word,
        }
    }

    /// The kind of a raw result.
    ///
    /// # Errors
    /// When the result is not an object, or its `resultType` is not a string.
    pub fn of(result: &RawValue) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Peek<'a> {
            #[serde(default, borrow)]
            result_type: Option<Cow<'a, str>>,
        }
        // A derived reader would take an array for the members in their order.
        if !result.get().starts_with('{') {
            return Err(RpcError::invalid_request("the result is not an object"));
        }
        let peek: Peek<'_> = serde_json::from_str(result.get())
            .map_err(|error| RpcError::invalid_request(format!("the result is not valid: {}", describe(&error))))?;
        Ok(match peek.result_type.as_deref() {
            None | Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some("task") => Self::Task,
            Some(word) => Self::Other(word.to_owned()),
        })
    }
}

/// A result of some method: a value that becomes a JSON object with room for metadata.
pub trait ResultPayload: Serialize {
    /// Its metadata.
    fn meta_mut(&mut self) -> &mut Option<Meta>;

    /// Its kind in 2026-07-28.
    fn result_type(&self) -> ResultType {
        ResultType::Complete
    }

    /// Appends it as JSON, the same bytes that `serde_json` writes; results that hold large texts do it faster.
    ///
    /// # Errors
    /// When a value in it has no JSON form; a part of the result is appended then.
    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(out, self)
    }
}

/// A result with its `resultType` as first member, as 2026-07-28 wants it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Typed<'a, R>(pub &'a R);

impl<'a, R: ResultPayload> Typed<'a, R> {
    /// A result with its kind.
    pub fn new(result: &'a R) -> Self {
        Self(result)
    }
}

impl<R: ResultPayload> Serialize for Typed<'_, R> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a, R> {
            result_type: &'a str,
            #[serde(flatten)]
            result: &'a R,
        }
        let kind = self.0.result_type();
        Members { result_type: kind.as_str(), result: self.0 }.serialize(serializer)
    }
}

macro_rules! result_payload {
    ($($result:ty $(=> $kind:ident)?),* $(,)?) => {$(
        impl ResultPayload for $result {
            fn meta_mut(&mut self) -> &mut Option<Meta> {
                &mut self.meta
            }
            $(fn result_type(&self) -> ResultType {
                ResultType::$kind
            })?
        }
    )*};
}

result_payload! {
    CompleteResult,
    CreateMessageResult,
    DiscoverResult,
    ElicitResult,
    EmptyResult,
    GetPromptResult,
    InitializeResult,
    InputRequiredResult => InputRequired,
    ListPromptsResult,
    ListResourceTemplatesResult,
    ListResourcesResult,
    ListRootsResult,
    ListToolsResult,
    ListenResult,
    tasks::CreateTaskResult,
    tasks::ListTasksResult,
    tasks::TaskPayload,
    tasks::TaskState,
    tasks::ext::CreateTaskResult => Task,
    tasks::ext::DetailedTask,
}

impl ResultPayload for CallToolResult {
    fn meta_mut(&mut self) -> &mut Option<Meta> {
        &mut self.meta
    }

    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let Self { content, structured_content, is_error, meta } = self;
        out.extend_from_slice(b"{\"content\":[");
        for (n, block) in content.iter().enumerate() {
            write::separate(out, n);
            block.write_json(out)?;
        }
        out.push(b']');
        if let Some(value) = structured_content {
            write::opening(out, "structuredContent");
            write::value(out, value)?;
        }
        write::member(out, "isError", is_error.then_some(&true))?;
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(())
    }
}

impl ResultPayload for ReadResourceResult {
    fn meta_mut(&mut self) -> &mut Option<Meta> {
        &mut self.meta
    }

    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let Self { contents, ttl_ms, cache_scope, meta } = self;
        out.extend_from_slice(b"{\"contents\":[");
        for (n, contents) in contents.iter().enumerate() {
            write::separate(out, n);
            contents.write_json(out)?;
        }
        out.push(b']');
        write::member(out, "ttlMs", ttl_ms.as_ref())?;
        write::member(out, "cacheScope", cache_scope.as_ref())?;
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentBlock, ResourceContents};

    #[test]
    fn the_kind_is_the_first_member() {
        let mut result = CallToolResult::text("a");
        result.meta_mut().get_or_insert_default().insert("k".into(), 1.into());
        assert_eq!(
            serde_json::to_string(&Typed::new(&result)).unwrap(),
            r#"{"resultType":"complete","content":[{"type":"text","text":"a"}],"_meta":{"k":1}}"#
        );
        assert_eq!(
            serde_json::to_string(&Typed::new(&InputRequiredResult::default().with_request_state("s"))).unwrap(),
            r#"{"resultType":"input_required","requestState":"s"}"#
        );
        let task = tasks::ext::CreateTaskResult::new(tasks::ext::Task::new("t", "a"));
        assert!(
            serde_json::to_string(&Typed::new(&task)).unwrap().starts_with(r#"{"resultType":"task","taskId":"t","#)
        );
    }

    #[test]
    fn kinds_are_read() {
        for (wire, expected) in [
            ("{}", Ok(ResultType::Complete)),
            (r#"{"content":[],"resultType":"complete"}"#, Ok(ResultType::Complete)),
            (r#"{"resultType":null}"#, Ok(ResultType::Complete)),
            (r#"{"resultType":"input_required"}"#, Ok(ResultType::InputRequired)),
            (r#"{"resultType":"t\u0061sk"}"#, Ok(ResultType::Task)),
            (r#"{"resultType":"later"}"#, Ok(ResultType::Other("later".into()))),
            (r#"{"resultType":1}"#, Err(())),
            ("[]", Err(())),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(wire).unwrap();
            assert_eq!(ResultType::of(&raw).map_err(|_| ()), expected, "{wire}");
        }
    }

    #[track_caller]
    fn check_written(result: &impl ResultPayload) {
        let mut out = b"before".to_vec();
        result.write_json(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("before{}", serde_json::to_string(result).unwrap()));
    }

    #[test]
    fn results_with_large_texts_are_written_as_serde_json_writes_them() {
        let mut meta = Meta::default();
        meta.insert("a/b".into(), serde_json::json!({ "c": "\"" }));
        let annotations = crate::Annotations { priority: Some(0.5), ..crate::Annotations::default() };
        let texts = ResourceContents::text("file:///a\"", "b\n").with_mime_type("text/plain");
        let mut blobs = ResourceContents::blob("file:///a", [1, 2, 3]);
        blobs.meta = Some(meta.clone());
        let unknown = serde_json::json!({ "type": "later", "x": [1, "\t"] });
        let blocks = [
            ContentBlock::text("a\"\n"),
            ContentBlock::text("a").with_annotations(annotations.clone()),
            ContentBlock::image([1, 2, 3], "image/\"png"),
            ContentBlock::image([1, 2, 3], "image/png").with_annotations(annotations.clone()),
            ContentBlock::audio([1, 2, 3], "audio/wav"),
            ContentBlock::audio([1, 2, 3], "audio/wav").with_annotations(annotations.clone()),
            ContentBlock::resource_link(crate::Resource::new("file:///a", "a")),
            ContentBlock::resource(texts.clone()),
            ContentBlock::resource(blobs.clone()).with_annotations(annotations),
            serde_json::from_value(unknown).unwrap(),
        ];
        check_written(&CallToolResult::default());
        check_written(&CallToolResult::new(blocks.to_vec()));
        for block in blocks {
            let mut with_meta = block.clone();
            match &mut with_meta {
                ContentBlock::Text(block) => block.meta = Some(meta.clone()),
                ContentBlock::Image(block) => block.meta = Some(meta.clone()),
                ContentBlock::Audio(block) => block.meta = Some(meta.clone()),
                ContentBlock::Resource(block) => block.meta = Some(meta.clone()),
                _ => {}
            }
            check_written(&CallToolResult::new(vec![with_meta, block]));
        }
        let mut result = CallToolResult::structured(serde_json::json!({ "a": ["\"", null, 1.5] }));
        result.is_error = true;
        result.meta = Some(meta.clone());
        check_written(&result);
        result.structured_content = Some(serde_json::Value::Null);
        check_written(&result);

        check_written(&ReadResourceResult::default());
        let mut result = ReadResourceResult::new(vec![texts, blobs]);
        check_written(&result);
        result.ttl_ms = Some(7);
        result.cache_scope = Some(crate::CacheScope::Private);
        result.meta = Some(meta);
        check_written(&result);
        check_written(&EmptyResult::default());
    }
}
