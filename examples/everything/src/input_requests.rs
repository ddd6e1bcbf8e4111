//! Tools and a prompt that send input requests. The conformance suites define the names and texts.

use mcp_server::{
    ServerBuilder,
    inputs::InputError,
    prelude::*,
    protocol::{CreateMessageParams, SamplingBlock, SamplingMessage},
    schema::elicitation::Form,
};
use serde_json::{Value, json};

use crate::app::App;

/// Registers the tools and the prompt.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    builder
        // A scenario of the suite sends an answer in its first request, and expects the result.
        .accept_unsolicited_answers()
        .tool(tool("test_sampling", sampling))
        .tool(tool("test_elicitation", elicitation))
        .tool(tool("test_elicitation_sep1034_defaults", defaults).description("Asks with a default for every field."))
        .tool(
            tool("test_elicitation_sep1330_enums", enums)
                .description("Asks for choices in every form of the specification."),
        )
        .tool(tool("sign_in", sign_in).description("Sends the user to a page, like a sign-in."))
        .tool(tool("test_input_required_result_elicitation", greet).description("Asks the user for a name."))
        .tool(tool("test_input_required_result_sampling", capital).description("Asks the model a question."))
        .tool(tool("test_input_required_result_list_roots", roots).description("Asks the client for its roots."))
        .tool(tool("test_input_required_result_request_state", confirm).description("Asks the user to confirm."))
        .tool(tool("test_input_required_result_tampered_state", confirm).description("Asks the user to confirm."))
        .tool(
            tool("test_input_required_result_multiple_inputs", several)
                .description("Asks the user, the model and the client at once."),
        )
        .tool(tool("test_input_required_result_multi_round", rounds).description("Asks twice, one after the other."))
        .tool(
            tool("test_input_required_result_capabilities", able)
                .description("Asks the user or, if the client cannot, the model."),
        )
        .prompt(
            prompt("test_input_required_result_prompt", context)
                .description("Asks the user for the context of the prompt."),
        )
}

/// Ask the client's model.
#[derive(Deserialize, JsonSchema)]
struct Ask {
    /// The question for the model.
    prompt: String,
}

async fn sampling(inputs: Inputs, Args(Ask { prompt }): Args<Ask>) -> Result<String, ToolError> {
    Ok(format!("LLM response: {}", ask_model(&inputs, "answer", &prompt, 100).await?))
}

/// Ask the user for a name and an address.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// The message for the user.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Account {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

async fn elicitation(inputs: Inputs, Args(Question { message }): Args<Question>) -> Result<String, ToolError> {
    let Account { username, email } = inputs.elicit("account", message).await?;
    Ok(format!("User response: action=accept, username={username}, email={email}"))
}

async fn sign_in(inputs: Inputs) -> Result<&'static str, ToolError> {
    match inputs.elicit_url("page", "Please sign in", "https://example.com/sign-in").await {
        Ok(()) => Ok("The user went to the page."),
        Err(error) if error.is_declined() => Ok("The user did not want to go."),
        Err(error) => Err(error.into()),
    }
}

async fn defaults(inputs: Inputs) -> Result<String, ToolError> {
    let properties = json!({
        "name": { "type": "string", "description": "User name", "default": "John Doe" },
        "age": { "type": "integer", "description": "User age", "default": 30 },
        "score": { "type": "number", "description": "User score", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Verification status", "default": true },
    });
    ask_form(&inputs, "Please review the defaults", properties).await
}

async fn enums(inputs: Inputs) -> Result<String, ToolError> {
    let titled = |word: &str, key: &str| -> Value {
        ["First", "Second", "Third"]
            .iter()
            .zip(1..)
            .map(|(place, number)| json!({ "const": format!("{key}{number}"), "title": format!("{place} {word}") }))
            .collect()
    };
    let options = json!(["option1", "option2", "option3"]);
    let properties = json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option", "value") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice", "value") } },
    });
    ask_form(&inputs, "Please choose", properties).await
}

/// Sends a form that is built at run time, and returns the action of the user.
async fn ask_form(inputs: &Inputs, message: &str, properties: Value) -> Result<String, ToolError> {
    let form = Form::parse(&json!({ "type": "object", "properties": properties })).visible()?;
    match inputs.elicit_form("form", message, &form).await {
        Ok(content) => Ok(format!("Elicitation completed: action=accept, content={}", Value::from(content))),
        Err(error) if error.is_declined() => Ok("Elicitation completed: action=decline, content={}".into()),
        Err(error) if error.is_cancelled() => Ok("Elicitation completed: action=cancel, content={}".into()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Background {
    context: String,
}

async fn greet(inputs: Inputs) -> Result<String, ToolError> {
    let Name { name } = inputs.elicit("user_name", "What is your name?").await?;
    Ok(format!("Hello, {name}!"))
}

async fn capital(inputs: Inputs) -> Result<String, ToolError> {
    ask_model(&inputs, "capital_question", "What is the capital of France?", 100).await.map_err(Into::into)
}

async fn roots(inputs: Inputs) -> Result<String, ToolError> {
    let roots = inputs.roots("client_roots").await?;
    Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join("\n"))
}

async fn confirm(inputs: Inputs) -> Result<String, ToolError> {
    let Confirmation { ok } = inputs.elicit("confirm", "Please confirm").await?;
    Ok(if ok { "state-ok: confirmed" } else { "state-ok: not confirmed" }.into())
}

async fn several(inputs: Inputs) -> Result<String, ToolError> {
    let (name, greeting, roots) = tokio::join!(
        inputs.elicit::<Name>("user_name", "What is your name?"),
        ask_model(&inputs, "greeting", "Generate a greeting", 50),
        inputs.roots("client_roots"),
    );
    Ok(format!("{} {}, you work in {} places.", greeting?, name?.name, roots?.len()))
}

async fn rounds(inputs: Inputs) -> Result<String, ToolError> {
    let Name { name } = inputs.elicit("step1", "Step 1: What is your name?").await?;
    let Color { color } = inputs.elicit("step2", "Step 2: What is your favorite color?").await?;
    Ok(format!("{name} likes {color}."))
}

/// Asks the user if the client supports it, and otherwise the model.
async fn able(inputs: Inputs) -> Result<String, ToolError> {
    match inputs.elicit::<Name>("user_name", "What is your name?").await {
        Err(error) if error.is_unsupported() => Ok(ask_model(&inputs, "name", "Make up a name.", 50).await?),
        answer => Ok(answer?.name),
    }
}

async fn context(inputs: Inputs) -> Result<String, ToolError> {
    let Background { context } = inputs.elicit("user_context", "What context should the prompt use?").await?;
    Ok(format!("Answer with this in mind: {context}"))
}

async fn ask_model(inputs: &Inputs, key: &str, question: &str, max_tokens: u64) -> Result<String, InputError> {
    let message = SamplingMessage::user(SamplingBlock::text(question));
    Ok(inputs.sample(key, CreateMessageParams::new(vec![message], max_tokens)).await?.content.text())
}
