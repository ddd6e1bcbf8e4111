//! [`KeyValue`] on strings, with a sorted set of all keys.

use std::{sync::Arc, time::Duration};

use mcp_store::{KeyPage, KeyValue, StoreError, StoreFuture, Swap, limits};
use redis::{Value, cmd};

use super::{RedisStore, millis};
use crate::{error::unexpected, link::Effect, script};

/// The bytes of values after which a page ends before its limit.
const PAGE_BYTES: &str = "4194304";

impl RedisStore {
    fn record(&self, key: &str) -> [String; 3] {
        let names = self.names();
        [names.value(key), names.index(), names.expiries()]
    }
}

impl KeyValue for RedisStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            limits::name(key)?;
            let mut get = cmd("GET");
            get.arg(self.names().value(key));
            let value: Option<Vec<u8>> = self.command(Effect::Read, get).await?;
            Ok(value.map(Arc::from))
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(key)?;
            limits::ttl(ttl)?;
            let ttl = millis(ttl);
            let args = [key.as_bytes(), &value, ttl.as_bytes()];
            self.script(Effect::Write, &script::PUT, &self.record(key), &args).await
        })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            limits::name(key)?;
            limits::ttl(ttl)?;
            let flag = |is_some: bool| if is_some { &b"1"[..] } else { b"0" };
            let ttl = millis(ttl);
            let args = [
                key.as_bytes(),
                flag(expected.is_some()),
                expected.unwrap_or_default(),
                flag(new.is_some()),
                new.as_deref().unwrap_or_default(),
                ttl.as_bytes(),
            ];
            let reply: Vec<Value> = self.acknowledged(&script::SWAP, &self.record(key), &args).await?;
            let mut reply = reply.into_iter();
            match (reply.next(), reply.next()) {
                (Some(Value::Int(1)), None) => Ok(Swap::Done),
                (Some(Value::Int(0)), None) => Ok(Swap::Lost { current: None }),
                (Some(Value::Int(0)), Some(Value::BulkString(current))) => {
                    Ok(Swap::Lost { current: Some(current.into()) })
                }
                _ => Err(unexpected("compare-and-swap")),
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(key)?;
            let deleted: u64 =
                self.script(Effect::Write, &script::DELETE, &self.record(key), &[key.as_bytes()]).await?;
            Ok(deleted > 0)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async move {
            limits::prefix(prefix)?;
            limits::prefix(after.unwrap_or_default())?;
            let limit = limits::page(limit)?;
            let (lower, upper) = bounds(prefix, after);
            let (names, limit) = (self.names(), limit.to_string());
            let keys = [names.index(), names.expiries()];
            let values = names.values();
            let args = [values.as_bytes(), &lower, &upper, limit.as_bytes(), PAGE_BYTES.as_bytes()];
            // A listing also removes expired keys from the index, which may run twice.
            let reply: Vec<Vec<u8>> = self.script(Effect::Read, &script::LIST, &keys, &args).await?;
            page(reply)
        })
    }
}

/// The bounds of `ZRANGEBYLEX`, which compares bytes. No key has the byte 0xff, because keys are UTF-8.
fn bounds(prefix: &str, after: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let lower = match after {
        Some(after) if after >= prefix => [b"(", after.as_bytes()].concat(),
        _ if prefix.is_empty() => b"-".to_vec(),
        _ => [b"[", prefix.as_bytes()].concat(),
    };
    let upper = if prefix.is_empty() { b"+".to_vec() } else { [b"(", prefix.as_bytes(), b"\xff"].concat() };
    (lower, upper)
}

fn page(reply: Vec<Vec<u8>>) -> Result<KeyPage, StoreError> {
    let text = |bytes| String::from_utf8(bytes).map_err(|_| unexpected("list"));
    let mut reply = reply.into_iter();
    let next = text(reply.next().ok_or_else(|| unexpected("list"))?)?;
    let mut entries = Vec::with_capacity(reply.len() / 2);
    while let (Some(key), Some(value)) = (reply.next(), reply.next()) {
        entries.push((text(key)?, value.into()));
    }
    Ok(KeyPage::new(entries, Some(next).filter(|next| !next.is_empty())))
}
