//! A prompt with the schema, for a question about the data.

use mcp_server::{ServerBuilder, prelude::*};

use crate::{
    database::Database,
    tools::{for_model, statements},
};

/// Registers the prompt.
pub fn add_to(builder: ServerBuilder<Database>) -> ServerBuilder<Database> {
    builder.prompt(prompt("answer", answer).title("Answer a question from the database"))
}

/// Answer a question with queries of the database.
#[derive(Deserialize, JsonSchema)]
struct Answer {
    /// The question.
    question: String,
}

async fn answer(
    State(database): State<Database>,
    Args(Answer { question }): Args<Answer>,
) -> Result<String, ToolError> {
    let schema = statements(&database.tables().await.map_err(for_model)?);
    Ok(format!(
        "Answer the question with the tool `query`. Pass values as parameters. If a result is truncated, add conditions or \
         aggregate.\n\nThe schema:\n\n{schema}\nThe question: {question}"
    ))
}
