//! The common members of all results: metadata, and the `resultType` of 2026-07-28.

use std::{borrow::Cow, mem};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    CallToolResult, CompleteResult, ContentBlock, CreateMessageResult, DiscoverResult, ElicitResult, EmptyResult,
    GetPromptResult, InitializeResult, InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListRootsResult, ListToolsResult, ListenResult, Meta, ReadResourceResult, RpcError,
    json::write, jsonrpc::describe, skills, tasks,
};

/// The kinds of result in 2026-07-28.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultType {
    /// The request is done. An absent `resultType` means this.
    Complete,
    /// The server needs answers first.
    InputRequired,
    /// The request became a task (tasks extension).
    Task,
    /// A kind that is unknown to this library: an invalid response, unless an extension defines it.
    Other(String),
}

impl ResultType {
    /// Returns the word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
            Self::Other(word) => word,
        }
    }

    /// Returns the kind of a raw result.
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
        // A derived reader would accept an array as the members in their order.
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

    /// Like [`write_json`](Self::write_json), but without one large text that is the same in JSON, so that it can be
    /// sent from where it lies. Returns it with the place in `out` where it belongs.
    ///
    /// # Errors
    /// See [`write_json`](Self::write_json).
    fn write_json_apart(self, out: &mut Vec<u8>) -> Result<Option<(usize, String)>, serde_json::Error>
    where
        Self: Sized,
    {
        self.write_json(out).map(|()| None)
    }
}

/// Finds a text that is to be sent from where it lies, and takes it out: which it was, and the text.
fn take_apart<'a>(bulks: impl Iterator<Item = Option<&'a mut String>>) -> Option<(usize, String)> {
    let apart = |bulk: Option<&'a mut String>| bulk.filter(|bulk| write::stands_apart(bulk));
    bulks.enumerate().find_map(|(n, bulk)| Some((n, mem::take(apart(bulk)?))))
}

/// A result with its `resultType` as first member, as 2026-07-28 wants it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Typed<'a, R>(pub &'a R);

impl<'a, R: ResultPayload> Typed<'a, R> {
    /// Returns a result with its kind.
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
    skills::GetSkillResult,
    skills::ListSkillsResult,
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
        self.write_json_around(None, out).map(|_| ())
    }

    fn write_json_apart(mut self, out: &mut Vec<u8>) -> Result<Option<(usize, String)>, serde_json::Error> {
        let Some((nth, bulk)) = take_apart(self.content.iter_mut().map(ContentBlock::bulk_mut)) else {
            return self.write_json(out).map(|()| None);
        };
        Ok(Some((self.write_json_around(Some(nth), out)?, bulk)))
    }
}

impl CallToolResult {
    /// Returns where in `out` the bulk of one of the blocks begins.
    fn write_json_around(&self, nth: Option<usize>, out: &mut Vec<u8>) -> Result<usize, serde_json::Error> {
        let Self { content, structured_content, is_error, meta } = self;
        let mut start = 0;
        out.extend_from_slice(b"{\"content\":[");
        for (n, block) in content.iter().enumerate() {
            write::separate(out, n);
            let at = block.write_json(out)?;
            if nth == Some(n) {
                start = at;
            }
        }
        out.push(b']');
        if let Some(value) = structured_content {
            write::opening(out, "structuredContent");
            write::value(out, value)?;
        }
        write::member(out, "isError", is_error.then_some(&true))?;
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(start)
    }
}

impl ResultPayload for ReadResourceResult {
    fn meta_mut(&mut self) -> &mut Option<Meta> {
        &mut self.meta
    }

    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        self.write_json_around(None, out).map(|_| ())
    }

    fn write_json_apart(mut self, out: &mut Vec<u8>) -> Result<Option<(usize, String)>, serde_json::Error> {
        let bulks = self.contents.iter_mut().map(|contents| Some(contents.bulk_mut()));
        let Some((nth, bulk)) = take_apart(bulks) else {
            return self.write_json(out).map(|()| None);
        };
        Ok(Some((self.write_json_around(Some(nth), out)?, bulk)))
    }
}

impl ReadResourceResult {
    /// Returns where in `out` the bulk of one of the contents begins.
    fn write_json_around(&self, nth: Option<usize>, out: &mut Vec<u8>) -> Result<usize, serde_json::Error> {
        let Self { contents, ttl_ms, cache_scope, meta } = self;
        let mut start = 0;
        out.extend_from_slice(b"{\"contents\":[");
        for (n, contents) in contents.iter().enumerate() {
            write::separate(out, n);
            let at = contents.write_json(out)?;
            if nth == Some(n) {
                start = at;
            }
        }
        out.push(b']');
        write::member(out, "ttlMs", ttl_ms.as_ref())?;
        write::member(out, "cacheScope", cache_scope.as_ref())?;
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceContents;

    #[test]
    fn the_result_type_is_the_first_member() {
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
    fn the_result_type_is_read() {
        for (json, expected) in [
            ("{}", Ok(ResultType::Complete)),
            (r#"{"content":[],"resultType":"complete"}"#, Ok(ResultType::Complete)),
            (r#"{"resultType":null}"#, Ok(ResultType::Complete)),
            (r#"{"resultType":"input_required"}"#, Ok(ResultType::InputRequired)),
            (r#"{"resultType":"t\u0061sk"}"#, Ok(ResultType::Task)),
            (r#"{"resultType":"later"}"#, Ok(ResultType::Other("later".into()))),
            (r#"{"resultType":1}"#, Err(())),
            ("[]", Err(())),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            assert_eq!(ResultType::of(&raw).map_err(|_| ()), expected, "{json}");
        }
    }

    #[track_caller]
    fn check_written(result: &impl ResultPayload) {
        let mut out = b"before".to_vec();
        result.write_json(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("before{}", serde_json::to_string(result).unwrap()));
    }

    #[track_caller]
    fn check_apart(result: &(impl ResultPayload + Clone), expected: Option<&str>) {
        let mut out = b"before".to_vec();
        let apart = result.clone().write_json_apart(&mut out).unwrap();
        assert_eq!(apart.as_ref().map(|(_, text)| text.as_str()), expected);
        if let Some((at, text)) = apart {
            out.splice(at..at, text.into_bytes());
        }
        assert!(out == format!("before{}", serde_json::to_string(result).unwrap()).into_bytes());
    }

    #[test]
    fn a_large_text_without_escapes_is_written_apart() {
        let large = "é".repeat(20 << 10);
        let data = "A".repeat(40 << 10);
        let escaped = format!("{large}\n");
        let image = ContentBlock::Image(crate::ImageContent::new(&data, "image/png"));
        let mut blob = ResourceContents::blob("file:///a", "").with_mime_type("x/y");
        data.clone_into(blob.bulk_mut());
        check_apart(&CallToolResult::text("small"), None);
        check_apart(&CallToolResult::text(&escaped), None);
        check_apart(&CallToolResult::error(&large), Some(&large));
        check_apart(&CallToolResult::new(vec![ContentBlock::text(&escaped), image.clone()]), Some(&data));
        check_apart(&CallToolResult::new(vec![ContentBlock::text(&large), image]), Some(&large));
        check_apart(&CallToolResult::new(vec![ContentBlock::resource(blob.clone())]), Some(&data));
        check_apart(&ReadResourceResult::new(vec![ResourceContents::text("file:///b", "b"), blob]), Some(&data));
        check_apart(&ReadResourceResult::new(vec![ResourceContents::text("file:///b", &escaped)]), None);
        check_apart(&EmptyResult::default(), None);
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
