//! Calls of the application itself, without a transport. Checks and limits apply.

use std::{collections::BTreeMap, sync::Arc};

use mcp_protocol::{
    CallToolResult, GetPromptResult, JsonObject, Method, ProtocolVersion, ReadResourceResult, RequestId, RpcError,
    jsonrpc::Request, method,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::to_raw_value};

use crate::{
    Server,
    engine::{Engine as _, Prepared},
    json,
    request::{Output, RawOutput, Refusal, Scope},
    session::{Client, RequestClient},
};

pub(crate) async fn call_tool(server: &Server, name: &str, arguments: Value) -> Result<CallToolResult, RpcError> {
    let arguments = match arguments {
        Value::Null => JsonObject::default(),
        Value::Object(object) => object.into(),
        _ => return Err(RpcError::invalid_params("the arguments of a tool are a JSON object")),
    };
    let params = json!({ "name": name, "arguments": arguments });
    match prepare::<method::CallTool>(server, &params)?.run_for_output().await? {
        Output::Tool(result) => Ok(result),
        Output::Raw(raw) => decode(server, *raw),
        _ => Err(RpcError::internal("not a tool result")),
    }
}

pub(crate) async fn read_resource(server: &Server, uri: &str) -> Result<ReadResourceResult, RpcError> {
    match prepare::<method::ReadResource>(server, &json!({ "uri": uri }))?.run_for_output().await? {
        Output::Resource(result) => Ok(result),
        Output::Raw(raw) => decode(server, *raw),
        _ => Err(RpcError::internal("not a resource result")),
    }
}

pub(crate) async fn get_prompt(
    server: &Server,
    name: &str,
    arguments: BTreeMap<String, String>,
) -> Result<GetPromptResult, RpcError> {
    let params = json!({ "name": name, "arguments": arguments });
    match prepare::<method::GetPrompt>(server, &params)?.run_for_output().await? {
        Output::Prompt(result) => Ok(result),
        Output::Raw(raw) => decode(server, *raw),
        _ => Err(RpcError::internal("not a prompt result")),
    }
}

/// Decodes the result of a source.
fn decode<T: DeserializeOwned>(server: &Server, raw: RawOutput) -> Result<T, RpcError> {
    if raw.requires_input {
        return Err(RpcError::internal("the call needs input, and a local call has no client that answers"));
    }
    let json = raw.into_json(newest(server))?;
    json::from_slice(&json).map_err(|error| RpcError::internal(format!("the result cannot be read: {error}")))
}

/// Returns the revision of local calls.
fn newest(server: &Server) -> ProtocolVersion {
    server.versions().first().copied().unwrap_or(ProtocolVersion::LATEST)
}

fn prepare<M: Method>(server: &Server, params: &impl Serialize) -> Result<Box<Prepared>, RpcError> {
    let params = to_raw_value(params).map_err(|_| RpcError::internal("the parameters cannot be written as JSON"))?;
    let request = Request::new(RequestId::Integer(0), M::NAME, Some(&params));
    let version = newest(server);
    let client = Client::Request(Arc::new(RequestClient::default()));
    let scope = Scope::new(version, client, None).without_transport();
    server.prepare(&request, scope).map_err(Refusal::into_error)
}
