//! The answer to a form before it is sent: default values are added, and invalid answers are rejected.

use mcp_protocol::{ElicitAction, ElicitResult, FormElicitParams, RpcError};
use mcp_schema::elicitation::Form;
use serde_json::Value;

/// Adds default values to an accepted form and validates it. A schema that does not describe a form is not checked: the
/// server decides.
pub(crate) fn complete(params: &FormElicitParams, mut result: ElicitResult) -> Result<ElicitResult, RpcError> {
    if result.action != ElicitAction::Accept {
        result.content = None;
        return Ok(result);
    }
    let form = match Form::parse(&Value::from(params.requested_schema.clone())) {
        Ok(form) => form,
        Err(error) => {
            tracing::debug!(%error, "the schema of the server does not describe a form");
            return Ok(result);
        }
    };
    let mut content = result.content.take().unwrap_or_default();
    form.fill_defaults(&mut content);
    if let Err(errors) = form.validate(&Value::from(content.clone())) {
        tracing::warn!(%errors, "the answer of a handler does not fit the form and is not sent");
        return Err(RpcError::internal("the answer of the client does not fit the form"));
    }
    result.content = Some(content);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use mcp_protocol::JsonObject;
    use serde_json::json;

    use super::*;

    fn params(schema: Value) -> FormElicitParams {
        FormElicitParams::new("m", JsonObject::from_value(schema).unwrap())
    }

    #[test]
    fn inserts_defaults_and_does_not_send_invalid_answers() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer"}
        }, "required": ["age"]});
        for (content, expected) in [
            (json!({"age": 36}), Some(json!({"age": 36, "name": "Ada"}))),
            (json!({"age": 36, "name": "Bo"}), Some(json!({"age": 36, "name": "Bo"}))),
            (json!({"name": "Bo"}), None),
            (json!({"age": "old"}), None),
        ] {
            let accepted = ElicitResult::accept(JsonObject::from_value(content.clone()).unwrap());
            let sent = complete(&params(schema.clone()), accepted).ok().and_then(|result| result.content);
            assert_eq!(sent.map(Value::from), expected, "{content}");
        }
        let mut declined = ElicitResult::decline();
        declined.content = Some(JsonObject::new());
        assert_eq!(complete(&params(schema), declined).unwrap().content, None);
    }

    #[test]
    fn an_invalid_form_is_not_validated() {
        let nested = params(json!({"type": "object", "properties": {"a": {"type": "object"}}}));
        let accepted = ElicitResult::accept(JsonObject::new().with("a", json!({})));
        assert_eq!(complete(&nested, accepted.clone()).unwrap(), accepted);
    }
}
