//! A database that is only read. Each query has limits for its time, its rows and its memory.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    params_from_iter,
    types::{Value, ValueRef},
};
use serde_json::{Value as Json, json};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// SQLite calls the check of the time limit after this number of instructions.
const CHECK_INTERVAL: i32 = 1_000;
/// The most bytes of the text of a query.
const SQL_BYTES: i32 = 64 << 10;
/// The most columns of a result.
const COLUMNS: i32 = 200;
/// The most bytes of the memory of SQLite in this process.
const MEMORY: i64 = 256 << 20;

/// The limits of the queries.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most rows of a result.
    pub rows: usize,
    /// The most bytes of a result, and of one value.
    pub bytes: usize,
    /// The longest time of a query, and the longest wait for its start.
    pub time: Duration,
    /// The most queries that run at the same time.
    pub concurrent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: 500, bytes: 1 << 20, time: Duration::from_secs(5), concurrent: 4 }
    }
}

/// A database that is only read. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Database {
    path: Arc<Path>,
    limits: Limits,
    free: Arc<Semaphore>,
}

/// The rows of a query.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Rows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values of each row.
    pub rows: Vec<Vec<Json>>,
    /// Whether the result has more rows than the limits permit.
    pub is_truncated: bool,
}

/// A table or a view.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Table {
    /// The name.
    pub name: String,
    /// The statement that creates it.
    pub sql: String,
}

/// The fault of a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Other queries run until the time limit.
    #[error("the database is busy: repeat the query later")]
    Busy,
    /// The query needs more time than the limit.
    #[error("the query ran longer than {0:?}: add conditions, or read fewer rows")]
    TooLong(Duration),
    /// The statement is not a query.
    #[error("the statement is not permitted: the database is read only, and `SELECT` is the only statement")]
    NotPermitted,
    /// The fault of SQLite.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The thread of the query ended early.
    #[error("the query failed")]
    Failed,
}

/// Ends the query when the future of the caller is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Database {
    /// Opens a database that exists.
    ///
    /// # Errors
    /// Returns the error of SQLite if the file is not a database, or cannot be read.
    pub fn open(path: impl Into<PathBuf>, limits: Limits) -> Result<Self, QueryError> {
        let path: Arc<Path> = path.into().into();
        let connection = Connection::open_with_flags(&path, read_only())?;
        // SQLite reads the file at the first query.
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
        Ok(Self { path, limits, free: Arc::new(Semaphore::new(limits.concurrent)) })
    }

    /// Runs a query with its parameters.
    ///
    /// # Errors
    /// Returns a [`QueryError`], whose text is for the model.
    pub async fn query(&self, sql: String, parameters: Vec<Value>) -> Result<Rows, QueryError> {
        let limits = self.limits;
        self.run(move |connection| read(connection, &sql, parameters, limits)).await
    }

    /// Returns the tables and views in the order of their names.
    ///
    /// # Errors
    /// Returns a [`QueryError`].
    pub async fn tables(&self) -> Result<Vec<Table>, QueryError> {
        const SQL: &str = "SELECT name, sql FROM sqlite_schema \
                           WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let tables = |connection: &Connection| {
            let mut statement = connection.prepare(SQL)?;
            let tables = statement.query_map((), |row| Ok(Table { name: row.get(0)?, sql: row.get(1)? }))?;
            tables.collect()
        };
        self.run(tables).await
    }

    /// Runs work on a connection of its own, on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, QueryError> {
        let Limits { time, .. } = self.limits;
        let permit = timeout(time, Arc::clone(&self.free).acquire_owned()).await.map_err(|_| QueryError::Busy)?;
        let permit = permit.map_err(|_| QueryError::Busy)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(Arc::clone(&is_stopped));
        let (path, limits) = (Arc::clone(&self.path), self.limits);
        let done = spawn_blocking(move || {
            let _permit = permit;
            let connection = connect(&path, limits, is_stopped)?;
            work(&connection)
        });
        done.await.map_err(|_| QueryError::Failed)?.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => QueryError::TooLong(time),
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => QueryError::NotPermitted,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => QueryError::Busy,
            _ => QueryError::Sqlite(error),
        })
    }
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Opens a connection that permits only reading.
fn connect(path: &Path, limits: Limits, is_stopped: Arc<AtomicBool>) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, read_only())?;
    connection.busy_timeout(limits.time)?;
    connection.pragma_update(None, "hard_heap_limit", MEMORY)?;
    let length = i32::try_from(limits.bytes).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, length),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES),
        (Limit::SQLITE_LIMIT_COLUMN, COLUMNS),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    let end = Instant::now() + limits.time;
    let is_over = move || is_stopped.load(Ordering::Relaxed) || Instant::now() >= end;
    connection.progress_handler(CHECK_INTERVAL, Some(is_over))?;
    connection.authorizer(Some(|context: AuthContext<'_>| permit(&context)))?;
    Ok(connection)
}

/// Permits queries and the functions of SQLite. It denies `ATTACH`, `PRAGMA`, each change, and the load of an extension.
fn permit(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        // The full-text search of SQLite (FTS5) reads this value.
        AuthAction::Pragma { pragma_name: "data_version", pragma_value: None } => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// Reads the rows of a query until a limit.
fn read(connection: &Connection, sql: &str, parameters: Vec<Value>, limits: Limits) -> rusqlite::Result<Rows> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut result = Rows { columns, ..Rows::default() };
    let mut bytes = 0;
    let mut rows = statement.query(params_from_iter(parameters))?;
    while let Some(row) = rows.next()? {
        if result.rows.len() == limits.rows {
            result.is_truncated = true;
            break;
        }
        let mut values = Vec::with_capacity(result.columns.len());
        for column in 0..result.columns.len() {
            let value = row.get_ref(column)?;
            bytes += size(value);
            if bytes > limits.bytes {
                result.is_truncated = true;
                return Ok(result);
            }
            values.push(to_json(value));
        }
        result.rows.push(values);
    }
    Ok(result)
}

/// Returns the size of a value in the result, with its separator.
fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len() + 3,
        _ => 32,
    }
}

fn to_json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => number.into(),
        // JSON has no infinity.
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!({ "blobBytes": bytes.len() }),
    }
}
