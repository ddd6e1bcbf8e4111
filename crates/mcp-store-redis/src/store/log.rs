//! [`Log`] on streams, with sequences of the store: the record `n` has the id `n-0`.

use std::{sync::Arc, time::Duration};

use mcp_store::{Log, LogPage, Record, Retain, StoreError, StoreFuture, limits};
use redis::Value;

use super::{RedisStore, millis};
use crate::{error::unexpected, link::Effect, script};

/// The bytes of data after which a page ends before its limit.
const PAGE_BYTES: &str = "4194304";
/// The greatest sequence that a script represents exactly.
const MAX_SEQUENCE: u64 = (1 << 53) - 1;

impl RedisStore {
    fn log(&self, log: &str) -> [String; 2] {
        [self.names().stream(log), self.names().numbers(log)]
    }
}

impl Log for RedisStore {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            let ttl = millis(ttl);
            self.acknowledged(&script::APPEND, &self.log(log), &[&data, ttl.as_bytes(), b"", b""]).await
        })
    }

    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>> {
        Box::pin(async move {
            limits::name(log)?;
            limits::number(number)?;
            limits::ttl(ttl)?;
            let (ttl, writer, number) = (millis(ttl), format!("{writer:x}"), number.to_string());
            let most = limits::MAX_WRITERS.to_string();
            let args = [&*data, ttl.as_bytes(), writer.as_bytes(), number.as_bytes(), most.as_bytes()];
            let sequence: u64 = self.acknowledged(&script::APPEND, &self.log(log), &args).await?;
            Ok((sequence > 0).then_some(sequence))
        })
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            let ttl = millis(ttl);
            self.script(Effect::Write, &script::EXTEND, &self.log(log), &[ttl.as_bytes()]).await
        })
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        Box::pin(async move {
            limits::name(log)?;
            let limit = limits::page(limit)?.to_string();
            let after = after.min(MAX_SEQUENCE).to_string();
            let args = [after.as_bytes(), limit.as_bytes(), PAGE_BYTES.as_bytes()];
            let reply: Vec<Value> = self.script(Effect::Read, &script::READ_AFTER, &self.log(log), &args).await?;
            page(reply)
        })
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            let bound = |bound: Option<u64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
            let (records, bytes) = (bound(retain.records), bound(retain.bytes));
            let args = [records.as_bytes(), bytes.as_bytes()];
            self.script(Effect::Write, &script::TRIM, &self.log(log), &args).await
        })
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(log)?;
            let deleted: u64 = self.script(Effect::Write, &script::DELETE_LOG, &self.log(log), &[]).await?;
            Ok(deleted > 0)
        })
    }
}

fn page(reply: Vec<Value>) -> Result<LogPage, StoreError> {
    let number = |value: Option<Value>| match value {
        Some(Value::Int(number)) => u64::try_from(number).map_err(|_| unexpected("read_after")),
        _ => Err(unexpected("read_after")),
    };
    let mut reply = reply.into_iter();
    let (missed, more) = (number(reply.next())?, number(reply.next())? > 0);
    let mut records = Vec::with_capacity(reply.len() / 2);
    while let Some(sequence) = reply.next() {
        let Some(Value::BulkString(data)) = reply.next() else { return Err(unexpected("read_after")) };
        records.push(Record::new(number(Some(sequence))?, data.into()));
    }
    Ok(LogPage::new(records, missed, more))
}
