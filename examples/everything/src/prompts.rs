//! Prompts: the fixtures of the conformance suites, a declarative prompt and a handler.

use mcp_server::{
    MessageTemplate, PromptRoute, ServerBuilder, prelude::*, prompt_template, protocol::PromptArgument,
    protocol::ResourceContents,
};

use crate::{app::App, media, notes::Notes, resources};

/// Registers the prompts.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    fixtures(builder).prompt(review_code()).prompt(
        prompt("summarize_note", summarize_note)
            .title("Summarize a note")
            .complete("title", resources::complete_title)
            .complete_from("audience", ["a child", "an expert", "an executive"]),
    )
}

fn fixtures(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    builder
        .prompt(prompt("test_simple_prompt", simple).description("One message."))
        .prompt(
            prompt("test_prompt_with_arguments", with_arguments)
                .complete_from("arg1", ["test", "text", "other"])
                .complete_from("arg2", ["test", "text", "other"]),
        )
        .prompt(prompt("test_prompt_with_embedded_resource", with_resource))
        .prompt(prompt("test_prompt_with_image", with_image).description("An image and a question about it."))
}

async fn simple() -> &'static str {
    "This is a simple prompt for testing."
}

/// Two arguments in one message.
#[derive(Deserialize, JsonSchema)]
struct TwoArguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

async fn with_arguments(Args(TwoArguments { arg1, arg2 }): Args<TwoArguments>) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// A resource and a question about it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WithResource {
    /// URI of the resource to embed
    resource_uri: String,
}

async fn with_resource(Args(WithResource { resource_uri }): Args<WithResource>) -> Vec<PromptMessage> {
    let contents = ResourceContents::text(resource_uri, "Embedded resource content for testing.");
    vec![
        PromptMessage::user(contents.with_mime_type("text/plain")),
        PromptMessage::user("Please process the embedded resource above."),
    ]
}

async fn with_image() -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(ContentBlock::image(media::PNG, "image/png")),
        PromptMessage::user("Please analyze the image above."),
    ]
}

/// A prompt without a handler. `{name}` inserts an argument, and `{?focus? … }` appears only with a focus.
fn review_code() -> PromptRoute<App> {
    prompt_template(
        "review_code",
        [
            MessageTemplate::user(
                "Review this {language} code.{?focus? Look at {focus} above all.} \
                 Name each problem with its line, the worst first.\n\n```{language}\n{code}\n```",
            ),
            MessageTemplate::assistant("These are the problems, the worst first:"),
        ],
    )
    .title("Review code")
    .description("Ask for a code review.")
    .arguments([
        PromptArgument::new("language").with_description("The programming language.").required(),
        PromptArgument::new("code").with_description("The code.").required(),
        PromptArgument::new("focus").with_description("What matters most, such as `error handling`."),
    ])
    .complete_from("language", ["go", "javascript", "python", "rust", "typescript"])
    .complete_from("focus", ["error handling", "naming", "performance", "security"])
}

/// Summarize a note for an audience.
#[derive(Deserialize, JsonSchema)]
struct SummarizeNote {
    /// The title of the note.
    title: String,
    /// The audience; everybody by default.
    audience: Option<String>,
}

async fn summarize_note(
    State(notes): State<Notes>,
    Args(SummarizeNote { title, audience }): Args<SummarizeNote>,
) -> Result<Vec<PromptMessage>, ToolError> {
    let unknown = || ToolError::protocol(RpcError::invalid_params(format!("there is no note `{title}`")));
    let text = notes.read(&title).ok_or_else(unknown)?;
    let audience = audience.as_deref().unwrap_or("everybody");
    Ok(vec![
        PromptMessage::user(ResourceContents::text(format!("note:///{title}"), text).with_mime_type("text/plain")),
        PromptMessage::user(format!("Summarize the note above for {audience}, in three sentences at most.")),
    ])
}
