//! The guard against requests that run in a circle: each gateway adds its id to the metadata of a request.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use mcp_protocol::{Meta, RpcError, meta::keys};
use serde_json::Value;

/// The member of the metadata with the ids of the gateways of a request, the first one first.
const HOPS: &str = "mcp-gateway/hops";
/// The largest number of gateways of a request.
const LONGEST: usize = 16;

/// The id of a gateway.
#[derive(Debug, Clone)]
pub(super) struct HopId(Arc<str>);

impl HopId {
    /// Returns a random id.
    pub(super) fn new() -> Self {
        // Two gateways must differ, and the id is not a secret.
        let [first, second] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()));
        Self(format!("{first:016x}{second:016x}").into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the metadata of a request for the next server: without the keys of the protocol, except for the trace context, and
    /// with the id of this gateway.
    ///
    /// # Errors
    /// `-32600` if the request came through this gateway before, or through too many gateways.
    pub(super) fn forward(&self, meta: &Meta) -> Result<Meta, RpcError> {
        let is_forwarded = |key: &str| {
            matches!(key, keys::TRACEPARENT | keys::TRACESTATE | keys::BAGGAGE) || !keys::is_reserved_key(key)
        };
        let mut forwarded = Meta::new();
        for (key, value) in meta.iter().filter(|(key, _)| is_forwarded(key) && *key != HOPS) {
            forwarded.insert(key.clone(), value.clone());
        }
        let mut hops = match meta.get(HOPS) {
            Some(Value::Array(hops)) => hops.clone(),
            _ => Vec::new(),
        };
        if hops.iter().any(|hop| hop.as_str() == Some(&*self.0)) {
            tracing::warn!("a request came back to this gateway: one of its servers leads to the gateway itself");
            return Err(RpcError::invalid_request(
                "the request came back to this gateway: one of its servers leads to the gateway itself",
            ));
        }
        if hops.len() >= LONGEST {
            return Err(RpcError::invalid_request(format!("the request came through more than {LONGEST} gateways")));
        }
        hops.push((*self.0).into());
        forwarded.insert(HOPS.to_owned(), hops.into());
        Ok(forwarded)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_comes_back_is_rejected() {
        let (first, second) = (HopId::new(), HopId::new());
        let meta = Meta::new().with("com.example/tenant", "t").with("progressToken", 7).with("traceparent", "00-1");
        let meta = meta.with("io.modelcontextprotocol/related-task", json!({}));
        let once = first.forward(&meta).unwrap();
        let keys: Vec<&str> = once.keys().map(String::as_str).collect();
        assert_eq!(keys, ["com.example/tenant", "traceparent", HOPS]);
        let twice = second.forward(&once).unwrap();
        assert_eq!(twice[HOPS], json!([&*first.0, &*second.0]));
        assert_eq!(first.forward(&twice).unwrap_err().code.0, -32600);
        let far = Meta::new().with(HOPS, json!(vec!["x"; LONGEST]));
        assert_eq!(first.forward(&far).unwrap_err().code.0, -32600);
        // Another form of the value is not that of a gateway.
        assert!(first.forward(&Meta::new().with(HOPS, "x")).is_ok());
    }
}
