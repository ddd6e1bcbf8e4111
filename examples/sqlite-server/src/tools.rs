//! The tools of a model: a query, and the description of the tables.

use mcp_server::{ServerBuilder, prelude::*};
use rusqlite::types::Value;

use crate::database::{Database, QueryError, Table};

/// Registers the tools.
pub fn add_to(builder: ServerBuilder<Database>) -> ServerBuilder<Database> {
    builder.tool(tool("query", query).read_only()).tool(tool("describe_tables", describe_tables).read_only())
}

/// Run one SQL query (SQLite). It reads the database and cannot change it. A result has at most 500 rows and 1 MiB. A query of more
/// than 5 seconds ends with an error. For the bytes of a blob, use `hex(column)`.
#[derive(Deserialize, JsonSchema)]
struct Query {
    /// One `SELECT` statement. Write `?` for each value that is not a part of the statement.
    sql: String,
    /// The values for each `?` in their order.
    #[serde(default)]
    parameters: Vec<Parameter>,
}

/// A value for a parameter of a query.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Parameter {
    Null(()),
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl From<Parameter> for Value {
    fn from(parameter: Parameter) -> Self {
        match parameter {
            Parameter::Null(()) => Self::Null,
            Parameter::Boolean(value) => value.into(),
            Parameter::Integer(value) => value.into(),
            Parameter::Number(value) => value.into(),
            Parameter::Text(value) => value.into(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Found {
    /// The names of the columns.
    columns: Vec<String>,
    /// The values of each row, in the order of the columns.
    rows: Vec<Vec<serde_json::Value>>,
    /// Whether rows are missing because of the limits.
    truncated: bool,
}

async fn query(State(database): State<Database>, Args(query): Args<Query>) -> Result<Json<Found>, ToolError> {
    let parameters = query.parameters.into_iter().map(Value::from).collect();
    let found = database.query(query.sql, parameters).await.map_err(for_model)?;
    Ok(Json(Found { columns: found.columns, rows: found.rows, truncated: found.is_truncated }))
}

/// Describe the tables and views: the statements that create them.
#[derive(Deserialize, JsonSchema)]
struct DescribeTables {}

async fn describe_tables(
    State(database): State<Database>,
    Args(DescribeTables {}): Args<DescribeTables>,
) -> Result<String, ToolError> {
    Ok(statements(&database.tables().await.map_err(for_model)?))
}

/// Returns the statements that create tables.
pub fn statements(tables: &[Table]) -> String {
    tables.iter().map(|table| format!("{};\n", table.sql)).collect()
}

/// Returns an error that a model reads. The text of the error has the remedy.
#[expect(clippy::needless_pass_by_value, reason = "the function is an argument of `map_err`")]
pub fn for_model(error: QueryError) -> ToolError {
    ToolError::new(error.to_string())
}
