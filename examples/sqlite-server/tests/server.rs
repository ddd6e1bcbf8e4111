//! A client queries a database, and each limit holds.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{error::Error, iter::successors, path::PathBuf, time::Duration};

use mcp_client::{ChildProcess, Client, protocol::CompletionReference};
use rusqlite::Connection;
use serde_json::{Value, json};
use sqlite_server::database::{Database, Limits};
use tempfile::TempDir;
use tokio::time::timeout;

/// The limit of each wait. A test reaches it only if it fails.
const LIMIT: Duration = Duration::from_secs(60);

const SCHEMA: &str = "CREATE TABLE books (title TEXT, year INTEGER, price REAL, cover BLOB);
    CREATE VIEW old_books AS SELECT title FROM books WHERE year < 1900;
    INSERT INTO books VALUES ('Emma', 1815, 9.5, x'0102'), ('Ulysses', 1922, 12.0, NULL);";

fn database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("books.db");
    Connection::open(&file).unwrap().execute_batch(SCHEMA).unwrap();
    (folder, file)
}

async fn client(file: &PathBuf, limits: Limits) -> Client {
    Client::connect(&sqlite_server::server(Database::open(file, limits).unwrap())).await.unwrap()
}

/// Calls the tool `query`. Returns the structured content, or the text of the error.
async fn query(client: &Client, arguments: Value) -> Result<Value, String> {
    let call = client.call_tool("query", arguments).into_future();
    let result = timeout(LIMIT, call).await.unwrap().unwrap();
    if result.is_error { Err(result.text()) } else { Ok(result.structured_content.clone().unwrap()) }
}

#[tokio::test]
async fn the_program_names_the_fault_of_its_argument() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, text) = (folder.path().join("none.db"), folder.path().join("text.db"));
    std::fs::write(&text, "x".repeat(1024)).unwrap();
    for (file, expected) in [
        (None, "name the database: sqlite-server FILE".to_owned()),
        (Some(&missing), format!("cannot open {}: unable to open database file\n", missing.display())),
        (Some(&text), format!("cannot open {}: file is not a database\n", text.display())),
    ] {
        let program = ChildProcess::new(env!("CARGO_BIN_EXE_sqlite-server")).args(file);
        let error = timeout(LIMIT, Client::connect(program)).await.unwrap().err().unwrap();
        let causes = successors(Some(&error as &dyn Error), |error| (*error).source());
        let error: String = causes.map(|error| format!("{error}\n")).collect();
        assert!(error.contains("exit status: 1") && error.contains(&expected), "{error}");
        assert!(!error.contains("Error:"), "{error}");
    }
}

#[tokio::test]
async fn the_program_serves_queries_the_schema_and_a_prompt() {
    let (_folder, file) = database();
    let program = ChildProcess::new(env!("CARGO_BIN_EXE_sqlite-server")).arg(&file);
    let client = timeout(LIMIT, Client::connect(program)).await.unwrap().unwrap();
    let sql = "SELECT title, year, price, cover FROM books WHERE year < ? OR title = ? ORDER BY year";
    let found = query(&client, json!({ "sql": sql, "parameters": [1900, "Ulysses"] })).await.unwrap();
    let rows = json!([["Emma", 1815, 9.5, { "blobBytes": 2 }], ["Ulysses", 1922, 12.0, null]]);
    let columns = json!(["title", "year", "price", "cover"]);
    assert_eq!(found, json!({ "columns": columns, "rows": rows, "truncated": false }));

    let tables = client.call_tool("describe_tables", ()).await.unwrap().ok().unwrap().text();
    let schema = client.read_resource("sqlite://schema").await.unwrap();
    assert_eq!(schema.contents[0].as_text(), Some(tables.as_str()));
    assert!(tables.starts_with("CREATE TABLE books (") && tables.contains("CREATE VIEW old_books"), "{tables}");
    let view = client.read_resource("sqlite://schema/old_books").await.unwrap();
    let created = "CREATE VIEW old_books AS SELECT title FROM books WHERE year < 1900;\n";
    assert_eq!(view.contents[0].as_text(), Some(created));
    assert!(client.read_resource("sqlite://schema/none").await.is_err());
    let template = CompletionReference::resource_template("sqlite://schema/{table}");
    assert_eq!(client.complete(template, "table", "bo").await.unwrap().completion.values, ["books"]);
    let prompt = client.get_prompt("answer", [("question", "How many books?")]).await.unwrap();
    let text = prompt.messages[0].content.as_text().unwrap();
    assert!(text.contains("CREATE TABLE books") && text.ends_with("The question: How many books?"), "{text}");
    client.close().await;
}

#[tokio::test]
async fn no_statement_changes_the_database_or_reads_another_file() {
    let (folder, file) = database();
    let before = std::fs::read(&file).unwrap();
    let client = client(&file, Limits::default()).await;
    let other = folder.path().join("other.db").display().to_string();
    for sql in [
        "INSERT INTO books (title) VALUES ('x')",
        "UPDATE books SET year = 1",
        "DELETE FROM books",
        "DROP TABLE books",
        "CREATE TEMP TABLE copy AS SELECT * FROM books",
        "CREATE TABLE copy AS SELECT * FROM books",
        &format!("ATTACH '{other}' AS other"),
        &format!("VACUUM INTO '{other}'"),
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "BEGIN IMMEDIATE",
        "SELECT 1; DELETE FROM books",
    ] {
        let error = query(&client, json!({ "sql": sql })).await.unwrap_err();
        assert!(error.contains("the statement is not permitted"), "{sql}: {error}");
    }
    for (sql, expected) in [
        ("SELECT 1; SELECT 2", "Multiple statements"),
        ("SELECT load_extension('x')", "not authorized to use function: load_extension"),
        ("SELECT none FROM books", "no such column: none"),
        ("SELECT ?", "parameter"),
    ] {
        let error = query(&client, json!({ "sql": sql })).await.unwrap_err();
        assert!(error.contains(expected), "{sql}: {error}");
    }
    let error = query(&client, json!({ "sql": "SELECT ?", "parameters": [[1]] })).await.unwrap_err();
    assert!(error.contains("parameters"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn rows_bytes_memory_and_time_have_limits() {
    const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)";
    let (_folder, file) = database();
    let mut limits = Limits::default();
    (limits.rows, limits.bytes) = (3, 10_000);
    let client_of = async |limits| client(&file, limits).await;
    let client = client_of(limits).await;
    for (sql, rows) in [
        (format!("{ENDLESS} SELECT x FROM n"), 3),
        (format!("{ENDLESS} SELECT printf('%.*c', 4000, 'x') FROM n"), 2),
        ("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4".to_owned(), 3),
    ] {
        let found = query(&client, json!({ "sql": sql })).await.unwrap();
        assert_eq!((found["rows"].as_array().unwrap().len(), &found["truncated"]), (rows, &json!(true)), "{sql}");
    }
    for (sql, expected) in [
        ("SELECT zeroblob(20000)".to_owned(), "too big"),
        (format!("SELECT {}", vec!["1"; 300].join(",")), "too many columns"),
        (format!("SELECT '{}'", "x".repeat(70_000)), "statement too long"),
    ] {
        let error = query(&client, json!({ "sql": sql })).await.unwrap_err();
        assert!(error.contains(expected), "{sql:.100}: {error:.100}");
    }
    limits.time = Duration::from_millis(1);
    let sum = format!("{ENDLESS} SELECT sum(x) FROM n");
    let error = query(&client_of(limits).await, json!({ "sql": sum })).await.unwrap_err();
    assert!(error.contains("the query ran longer than 1ms"), "{error}");
}

#[tokio::test]
async fn a_query_searches_a_full_text_index() {
    let (_folder, file) = database();
    const INDEX: &str =
        "CREATE VIRTUAL TABLE texts USING fts5(body); INSERT INTO texts VALUES ('A red door.'), ('A hat.');";
    Connection::open(&file).unwrap().execute_batch(INDEX).unwrap();
    let client = client(&file, Limits::default()).await;
    let sql = "SELECT body FROM texts WHERE texts MATCH ?";
    let found = query(&client, json!({ "sql": sql, "parameters": ["door"] })).await.unwrap();
    assert_eq!(found["rows"], json!([["A red door."]]));
}

#[tokio::test]
async fn a_dropped_query_ends_and_frees_its_place() {
    let (_folder, file) = database();
    let mut limits = Limits::default();
    (limits.time, limits.concurrent) = (LIMIT, 1);
    let database = Database::open(&file, limits).unwrap();
    let sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(x) FROM n";
    // The query holds the only place when the future is dropped.
    tokio::select! {
        biased;
        _ = database.query(sql.to_owned(), Vec::new()) => panic!("the query ended"),
        () = tokio::task::yield_now() => {}
    }
    let found = timeout(LIMIT / 2, database.query("SELECT 1".to_owned(), Vec::new())).await.unwrap().unwrap();
    assert_eq!(found.rows, [[json!(1)]]);
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "This is not a database, but a text of more than a few bytes.").unwrap();
    for (file, expected) in [(text, "file is not a database"), (folder.path().join("none"), "unable to open")] {
        let error = Database::open(&file, Limits::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
