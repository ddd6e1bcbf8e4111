//! The schema as resources: one resource for the whole schema, and a template for each table.

use mcp_server::{ServerBuilder, prelude::*};

use crate::{
    database::Database,
    tools::{for_model, statements},
};

/// Registers the resource and the template.
pub fn add_to(builder: ServerBuilder<Database>) -> ServerBuilder<Database> {
    builder
        .resource(
            resource("sqlite://schema", schema)
                .title("Schema")
                .description("The statements that create the tables and views.")
                .mime_type("application/sql"),
        )
        .resource_template(
            template("sqlite://schema/{table}", table)
                .name("table")
                .description("The statement that creates one table or view.")
                .mime_type("application/sql")
                .complete("table", complete_table),
        )
}

async fn schema(State(database): State<Database>) -> Result<String, ToolError> {
    Ok(statements(&database.tables().await.map_err(for_model)?))
}

#[derive(Deserialize, JsonSchema)]
struct ByName {
    table: String,
}

async fn table(State(database): State<Database>, Args(by): Args<ByName>) -> Result<String, ToolError> {
    let mut tables = database.tables().await.map_err(for_model)?;
    tables.retain(|table| table.name == by.table);
    if tables.is_empty() { Err(ToolError::not_found()) } else { Ok(statements(&tables)) }
}

async fn complete_table(State(database): State<Database>, completing: Completing) -> Result<Vec<String>, ToolError> {
    let tables = database.tables().await.map_err(for_model)?;
    Ok(tables.into_iter().map(|table| table.name).filter(|name| name.starts_with(&completing.value)).collect())
}
