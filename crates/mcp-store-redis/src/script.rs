//! The scripts of the store. Each write is one script, so that it is atomic.

use std::sync::LazyLock;

use redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind, Value, aio::MultiplexedConnection, cmd};

/// A script with its source.
pub(crate) struct StoredScript {
    source: String,
    hash: Script,
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)+) => {
        $(pub(crate) static $name: LazyLock<StoredScript> =
            LazyLock::new(|| StoredScript::new(concat!($(include_str!(concat!("scripts/", $file))),+)));)+
    };
}

scripts! {
    PUT = "records.lua" "put.lua";
    SWAP = "records.lua" "swap.lua";
    DELETE = "records.lua" "delete.lua";
    LIST = "list.lua";
    APPEND = "append.lua";
    EXTEND = "extend.lua";
    READ_AFTER = "read_after.lua";
    TRIM = "trim.lua";
    DELETE_LOG = "delete_log.lua";
}

/// A request of a call.
pub(crate) enum Request<'a> {
    Command(Cmd),
    Script {
        script: &'static StoredScript,
        keys: &'a [String],
        args: &'a [&'a [u8]],
        /// Waits for replicas after a write.
        acknowledgement: Option<Acknowledgement>,
    },
}

/// The number of replicas that acknowledge a write, and the milliseconds for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement {
    pub(crate) replicas: u64,
    pub(crate) millis: u64,
}

/// The reply to a request.
pub(crate) struct Reply {
    pub(crate) value: Value,
    /// The number of replicas that acknowledged the write, if the request waited for them.
    pub(crate) acknowledged: Option<u64>,
}

impl Request<'_> {
    /// Sends the request on a connection, and returns its reply.
    pub(crate) async fn run(&self, connection: &mut MultiplexedConnection) -> RedisResult<Reply> {
        match self {
            Self::Command(command) => Ok(Reply { value: command.query_async(connection).await?, acknowledged: None }),
            Self::Script { script, keys, args, acknowledgement } => {
                let value = script.run(connection, keys, args).await?;
                let acknowledged = match acknowledgement {
                    Some(Acknowledgement { replicas, millis }) if has_written(&value) => {
                        Some(cmd("WAIT").arg(*replicas).arg(*millis).query_async(connection).await?)
                    }
                    _ => None,
                };
                Ok(Reply { value, acknowledged })
            }
        }
    }
}

impl StoredScript {
    fn new(source: &str) -> Self {
        Self { source: source.to_owned(), hash: Script::new(source) }
    }

    /// Runs the script. A server without the script, for example after its restart, receives the source once.
    async fn run(&self, connection: &mut MultiplexedConnection, keys: &[String], args: &[&[u8]]) -> RedisResult<Value> {
        let command = |name: &str, script: &str| -> Cmd {
            let mut command = cmd(name);
            command.arg(script).arg(keys.len()).arg(keys).arg(args);
            command
        };
        match command("EVALSHA", self.hash.get_hash()).query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                command("EVAL", &self.source).query_async(connection).await
            }
            result => result,
        }
    }
}

/// Whether a script has written: it returns a number, or a list that begins with 1.
fn has_written(value: &Value) -> bool {
    match value {
        Value::Int(_) => true,
        Value::Array(items) => items.first() == Some(&Value::Int(1)),
        _ => false,
    }
}
