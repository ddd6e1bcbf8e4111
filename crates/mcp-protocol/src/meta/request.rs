//! Reads the metadata of a request out of raw parameters, in one scan and without building values.

use std::{borrow::Cow, fmt};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::keys;
use crate::{
    ClientCapabilities, Implementation, LoggingLevel, Meta, ProgressToken, RpcError, decode_error,
    jsonrpc::{Rejected, Scanner, describe, each_member, read_str},
};

/// The members of a request's `_meta` that its dispatch needs. All other members stay raw.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// The whole `_meta` object.
    pub raw: &'a RawValue,
    /// The revision that the request is written in; any text.
    pub protocol_version: Option<Cow<'a, str>>,
    /// The capabilities of the client: an object.
    pub client_capabilities: Option<&'a RawValue>,
    /// The identity of the client: an object.
    pub client_info: Option<&'a RawValue>,
    /// From which level on the client wants log messages.
    pub log_level: Option<LoggingLevel>,
    /// The token that progress notices must carry.
    pub progress_token: Option<ProgressToken>,
    /// Whether a key is there that only requests of 2026-07-28 and later have.
    pub is_modern: bool,
    mirrored: Mirrored<'a>,
}

/// The members of the parameters, beside `_meta`, that Streamable HTTP mirrors in a header.
#[derive(Debug, Clone, Default)]
struct Mirrored<'a> {
    name: Given<'a>,
    uri: Given<'a>,
    task_id: Given<'a>,
}

/// How often a member was given.
#[derive(Debug, Clone, Copy, Default)]
enum Given<'a> {
    #[default]
    Never,
    Once(&'a RawValue),
    Often,
}

impl<'a> Mirrored<'a> {
    fn slot(&mut self, key: &str) -> Option<&mut Given<'a>> {
        Some(match key {
            "name" => &mut self.name,
            "uri" => &mut self.uri,
            "taskId" => &mut self.task_id,
            _ => return None,
        })
    }

    /// Returns the text of a member that was given once.
    fn text(&self, member: &str) -> Option<Cow<'a, str>> {
        let given = match member {
            "name" => self.name,
            "uri" => self.uri,
            "taskId" => self.task_id,
            _ => Given::Never,
        };
        if let Given::Once(raw) = given { read_str(raw) } else { None }
    }
}

impl<'a> Given<'a> {
    fn add(&mut self, raw: &'a RawValue) {
        *self = if matches!(self, Self::Never) { Self::Once(raw) } else { Self::Often };
    }
}

/// The metadata of a request is broken.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RequestMetaError {
    /// Whether a key is there that only requests of 2026-07-28 and later have, so that the error can be answered in the
    /// form of its era.
    pub is_modern: bool,
    /// The error for the response: `-32602` with the invalid key.
    pub error: RpcError,
}

impl fmt::Display for RequestMetaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

impl std::error::Error for RequestMetaError {}

impl From<RequestMetaError> for RpcError {
    fn from(error: RequestMetaError) -> Self {
        error.error
    }
}

impl<'a> RequestMeta<'a> {
    /// Reads the metadata of raw parameters; `None` when there is no `_meta` (or a `null` one).
    ///
    /// # Errors
    /// When the parameters or `_meta` are not objects, when `_meta` or one of the keys read here is given twice, and
    /// when a value has the wrong type.
    pub fn from_params(params: Option<&'a RawValue>) -> Result<Option<Self>, RequestMetaError> {
        let Some(params) = params else { return Ok(None) };
        let refuse = |text: String| RequestMetaError { is_modern: false, error: RpcError::invalid_params(text) };
        if !params.get().starts_with('{') {
            return Err(refuse("`params` must be an object".into()));
        }
        let scanned = match ParamsScan::of(&mut Scanner::new(params.get(), usize::MAX)) {
            Ok(scanned) => scanned,
            // The parameters are nested too deep for the scanner.
            Err(Rejected) => ParamsScan::slowly(params).map_err(|e| refuse(describe(&e)))?,
        };
        scanned.into_meta()
    }

    /// Returns the text of `name`, `uri` or `taskId` in the parameters. `None`
    /// when the member is not there, given twice, or not a string.
    #[must_use]
    pub fn mirrored(&self, member: &str) -> Option<Cow<'a, str>> {
        self.mirrored.text(member)
    }

    /// Returns the revision and the capabilities that every request of 2026-07-28 must carry.
    ///
    /// # Errors
    /// `-32602` that names the key that is missing.
    pub fn required(&self) -> Result<(&str, &'a RawValue), RpcError> {
        let missing = |key: &str| RpcError::invalid_params(format!("`_meta` lacks the required `{key}`"));
        let version = self.protocol_version.as_deref().ok_or_else(|| missing(keys::PROTOCOL_VERSION))?;
        let capabilities = self.client_capabilities.ok_or_else(|| missing(keys::CLIENT_CAPABILITIES))?;
        Ok((version, capabilities))
    }

    /// Decodes the capabilities of the client. Without the member they are empty.
    ///
    /// # Errors
    /// `-32602` when a capability has the wrong type.
    pub fn capabilities(&self) -> Result<ClientCapabilities, RpcError> {
        decode(keys::CLIENT_CAPABILITIES, self.client_capabilities).map(Option::unwrap_or_default)
    }

    /// Decodes the identity of the client; `None` without the member.
    ///
    /// # Errors
    /// `-32602` when a member has the wrong type.
    pub fn implementation(&self) -> Result<Option<Implementation>, RpcError> {
        decode(keys::CLIENT_INFO, self.client_info)
    }

    /// Returns the whole metadata as values.
    #[must_use]
    pub fn to_meta(&self) -> Meta {
        // `raw` is known to be an object, and values of every JSON object can be built.
        serde_json::from_str(self.raw.get()).unwrap_or_default()
    }
}

fn decode<'a, T: Deserialize<'a>>(key: &str, raw: Option<&'a RawValue>) -> Result<Option<T>, RpcError> {
    raw.map(|raw| decode_error::decode(raw.get()))
        .transpose()
        .map_err(|problem| RpcError::invalid_params(format!("`{key}`: {problem}")))
}

/// The members of parameters that [`RequestMeta`] reads, each raw.
#[derive(Debug, Clone)]
pub(crate) struct ParamsScan<'a> {
    /// The parameters: an object.
    pub(crate) params: &'a RawValue,
    meta: Option<&'a RawValue>,
    members: Members<'a>,
    has_two_metas: bool,
    mirrored: Mirrored<'a>,
}

impl<'a> ParamsScan<'a> {
    /// Reads the object at the position of the scanner.
    pub(crate) fn of(scanner: &mut Scanner<'a>) -> Result<Self, Rejected> {
        let mut found = Self::empty(RawValue::NULL);
        let start = scanner.position();
        scanner.object(|scanner, key| {
            if key != "_meta" {
                found.add(key, scanner.value()?);
                return Ok(());
            }
            let mut members = Members::default();
            let start = scanner.position();
            if scanner.next_token()? == b'{' {
                scanner.object(|scanner, key| {
                    members.add(key, scanner.value()?);
                    Ok(())
                })?;
            } else {
                scanner.value()?;
            }
            found.add_meta(scanner.value_since(start)?, members);
            Ok(())
        })?;
        found.params = scanner.value_since(start)?;
        Ok(found)
    }

    /// Reads parameters that the scanner has rejected.
    fn slowly(params: &'a RawValue) -> serde_json::Result<Self> {
        let mut found = Self::empty(params);
        let mut metas = Vec::new();
        each_member(params.get(), |key, value| match key {
            "_meta" => metas.push(value),
            _ => found.add(key, value),
        })?;
        for raw in metas {
            let mut members = Members::default();
            if raw.get().starts_with('{') {
                each_member(raw.get(), |key, value| members.add(key, value))?;
            }
            found.add_meta(raw, members);
        }
        Ok(found)
    }

    fn empty(params: &'a RawValue) -> Self {
        Self { params, meta: None, members: Members::default(), has_two_metas: false, mirrored: Mirrored::default() }
    }

    /// See [`Mirrored::text`].
    pub(crate) fn mirrored(&self, member: &str) -> Option<Cow<'a, str>> {
        self.mirrored.text(member)
    }

    fn add(&mut self, key: &str, value: &'a RawValue) {
        if let Some(slot) = self.mirrored.slot(key) {
            slot.add(value);
        }
    }

    fn add_meta(&mut self, raw: &'a RawValue, members: Members<'a>) {
        self.has_two_metas |= self.meta.replace(raw).is_some();
        self.members = members;
    }

    /// Checks the metadata and reads its members.
    pub(crate) fn into_meta(self) -> Result<Option<RequestMeta<'a>>, RequestMetaError> {
        let Some(raw) = self.meta.filter(|raw| raw.get() != "null") else { return Ok(None) };
        let is_modern = self.members.is_modern;
        let refuse = |text: String| RequestMetaError { is_modern, error: RpcError::invalid_params(text) };
        if !raw.get().starts_with('{') {
            return Err(refuse("`_meta` must be an object".into()));
        }
        if self.has_two_metas {
            return Err(refuse("`_meta` is given twice".into()));
        }
        self.members.read(raw, self.mirrored).map_err(refuse)
    }
}

/// The members of `_meta` that [`RequestMeta`] reads, each raw.
#[derive(Debug, Clone, Default)]
struct Members<'a> {
    protocol_version: Option<&'a RawValue>,
    client_capabilities: Option<&'a RawValue>,
    client_info: Option<&'a RawValue>,
    log_level: Option<&'a RawValue>,
    progress_token: Option<&'a RawValue>,
    is_modern: bool,
    duplicate: Option<&'static str>,
}

impl<'a> Members<'a> {
    fn slot(&mut self, key: &str) -> Option<(&'static str, &mut Option<&'a RawValue>)> {
        Some(match key {
            keys::PROTOCOL_VERSION => (keys::PROTOCOL_VERSION, &mut self.protocol_version),
            keys::CLIENT_CAPABILITIES => (keys::CLIENT_CAPABILITIES, &mut self.client_capabilities),
            keys::CLIENT_INFO => (keys::CLIENT_INFO, &mut self.client_info),
            keys::LOG_LEVEL => (keys::LOG_LEVEL, &mut self.log_level),
            keys::PROGRESS_TOKEN => (keys::PROGRESS_TOKEN, &mut self.progress_token),
            _ => return None,
        })
    }

    fn add(&mut self, key: &str, value: &'a RawValue) {
        self.is_modern |= keys::is_modern_request_key(key);
        let Some((name, slot)) = self.slot(key) else { return };
        if slot.replace(value).is_some() {
            self.duplicate.get_or_insert(name);
        }
    }

    fn read(self, raw: &'a RawValue, mirrored: Mirrored<'a>) -> Result<Option<RequestMeta<'a>>, String> {
        if let Some(key) = self.duplicate {
            return Err(format!("`{key}` is given twice in `_meta`"));
        }
        let given = |slot: Option<&'a RawValue>| slot.filter(|raw| raw.get() != "null");
        let object = |key: &str, slot| match given(slot) {
            Some(raw) if !raw.get().starts_with('{') => Err(format!("`{key}` must be an object")),
            raw => Ok(raw),
        };
        let text = |key: &str, slot| {
            given(slot).map(|raw| read_str(raw).ok_or_else(|| format!("`{key}` must be a string"))).transpose()
        };
        let log_level = match text(keys::LOG_LEVEL, self.log_level)? {
            Some(name) => Some(name.parse().map_err(|error| format!("`{}`: {error}", keys::LOG_LEVEL))?),
            None => None,
        };
        let progress_token = match given(self.progress_token) {
            Some(raw) => Some(
                serde_json::from_str(raw.get())
                    .map_err(|_| format!("`{}` must be a string or an integer", keys::PROGRESS_TOKEN))?,
            ),
            None => None,
        };
        Ok(Some(RequestMeta {
            raw,
            protocol_version: text(keys::PROTOCOL_VERSION, self.protocol_version)?,
            client_capabilities: object(keys::CLIENT_CAPABILITIES, self.client_capabilities)?,
            client_info: object(keys::CLIENT_INFO, self.client_info)?,
            log_level,
            progress_token,
            is_modern: self.is_modern,
            mirrored,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    /// Reads metadata in each of the three ways: from parameters, without the scanner, and from a whole message.
    fn check(cases: &[(&str, &str)]) {
        for (params, expected) in cases {
            let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
            check_one(params, RequestMeta::from_params(Some(&raw)), expected);
            if params.starts_with('{') {
                check_one(params, ParamsScan::slowly(&raw).unwrap().into_meta(), expected);
            }
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"m"}}"#);
            let Message::Request(request) = Message::parse(message.as_bytes()).unwrap() else { panic!("{message}") };
            assert_eq!(request.params.map(RawValue::get), Some(*params));
            check_one(params, request.meta(), expected);
        }
    }

    fn check_one(params: &str, meta: Result<Option<RequestMeta<'_>>, RequestMetaError>, expected: &str) {
        let got = match meta {
            Ok(None) => "none".into(),
            Ok(Some(m)) => format!(
                "modern={} version={:?} capabilities={:?} info={:?} level={:?} token={:?}",
                m.is_modern,
                m.protocol_version,
                m.client_capabilities.map(RawValue::get),
                m.client_info.map(RawValue::get),
                m.log_level,
                m.progress_token
            ),
            Err(e) => format!("{} modern={} {e}", e.error.code, e.is_modern),
        };
        assert_eq!(got, expected, "{params}");
    }

    #[test]
    fn reads_the_metadata_of_both_eras() {
        check(&[
            ("{}", "none"),
            (r#"{"_meta":null}"#, "none"),
            (r#"{"a":{"_meta":{}}}"#, "none"),
            (r#"{"_meta":{}}"#, "modern=false version=None capabilities=None info=None level=None token=None"),
            (
                r#"{"name":"x","_meta":{"progressToken":7,"other":[1,{"a":2}]}}"#,
                "modern=false version=None capabilities=None info=None level=None token=Some(7)",
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities":{"roots":{}},"progressToken":"7",
                    "io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"info"}}"#,
                r#"modern=true version=Some("2026-07-28") capabilities=Some("{\"roots\":{}}") info=Some("{\"name\":\"c\"}") level=Some(Info) token=Some("7")"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v\u0031"}}"#,
                r#"modern=true version=Some("v1") capabilities=None info=None level=None token=None"#,
            ),
            (
                r#"{"\u005fmeta":{"io.modelcontextprotocol/logLevel":null,"progressToken":null}}"#,
                "modern=true version=None capabilities=None info=None level=None token=None",
            ),
        ]);
    }

    #[test]
    fn invalid_metadata_is_rejected_with_its_key() {
        check(&[
            ("[]", "-32602 modern=false `params` must be an object"),
            (r#"{"_meta":[]}"#, "-32602 modern=false `_meta` must be an object"),
            (
                r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info"},"_meta":{}}"#,
                "-32602 modern=false `_meta` is given twice",
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#,
                "-32602 modern=true `io.modelcontextprotocol/protocolVersion` must be a string",
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":[]}}"#,
                "-32602 modern=true `io.modelcontextprotocol/clientCapabilities` must be an object",
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/clientInfo":"me"}}"#,
                "-32602 modern=true `io.modelcontextprotocol/clientInfo` must be an object",
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}"#,
                "-32602 modern=true `io.modelcontextprotocol/logLevel`: not a log level: one of debug, info, notice, \
                 warning, error, critical, alert, emergency",
            ),
            (r#"{"_meta":{"progressToken":{}}}"#, "-32602 modern=false `progressToken` must be a string or an integer"),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/protocolVersion":"b"}}"#,
                "-32602 modern=true `io.modelcontextprotocol/protocolVersion` is given twice in `_meta`",
            ),
        ]);
        assert!(RequestMeta::from_params(None).unwrap().is_none());
        let deep = format!(r#"{{"_meta":{{"progressToken":1}},"a":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        check_one(
            &deep,
            RequestMeta::from_params(Some(&serde_json::from_str::<Box<RawValue>>(&deep).unwrap())),
            "modern=false version=None capabilities=None info=None level=None token=Some(1)",
        );
    }

    #[test]
    fn a_stateless_request_needs_version_and_capabilities() {
        for (params, missing) in [
            (r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#, Some(keys::PROTOCOL_VERSION)),
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}"#, Some(keys::CLIENT_CAPABILITIES)),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"x","io.modelcontextprotocol/clientCapabilities":{}}}"#,
                None,
            ),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
            let meta = RequestMeta::from_params(Some(&raw)).unwrap().unwrap();
            match (meta.required(), missing) {
                (Ok((version, capabilities)), None) => assert_eq!((version, capabilities.get()), ("x", "{}")),
                (Err(error), Some(key)) => assert!(error.message.contains(key), "{error}"),
                (other, _) => panic!("{params}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_scan_for_metadata_collects_mirrored_members() {
        for (params, expected) in [
            (r#"{"_meta":{},"name":"a","uri":"b\u0062","taskId":"c"}"#, [Some("a"), Some("bb"), Some("c")]),
            (r#"{"name":7,"uri":null,"_meta":{"name":"x"}}"#, [None; 3]),
            (r#"{"_meta":{},"arguments":{"name":"x"}}"#, [None; 3]),
            (r#"{"_meta":{},"name":"a","uri":"b","name":"a"}"#, [None, Some("b"), None]),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
            let meta = RequestMeta::from_params(Some(&raw)).unwrap().unwrap();
            let got = ["name", "uri", "taskId"].map(|member| meta.mirrored(member));
            assert_eq!(got.each_ref().map(Option::as_deref), expected, "{params}");
            assert_eq!(meta.mirrored("_meta"), None);
        }
    }

    #[test]
    fn raw_members_are_decoded() {
        let raw: Box<RawValue> = serde_json::from_str(
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{"tools":{}}},
                "io.modelcontextprotocol/clientInfo":{"name":7},"a/b":1}}"#,
        )
        .unwrap();
        let meta = RequestMeta::from_params(Some(&raw)).unwrap().unwrap();
        assert!(meta.capabilities().unwrap().supports_sampling_tools());
        assert!(meta.implementation().unwrap_err().message.starts_with("`io.modelcontextprotocol/clientInfo`: "));
        assert_eq!(meta.to_meta().get("a/b"), Some(&1.into()));
    }
}
