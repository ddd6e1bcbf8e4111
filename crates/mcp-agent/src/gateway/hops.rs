//! The guard against gateways that reach themselves: by the ids in the metadata of a request, and by the ids that servers declare.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use mcp_protocol::{Meta, RpcError};
use mcp_server_core::StateKeys;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::members::Members;
use crate::registry::{MAX_GATEWAYS, is_forwarded};

/// The member of the metadata with the ids of the gateways of a request, the first one first.
const HOPS: &str = "mcp-gateway/hops";
/// The largest number of gateways of a request.
const LONGEST: usize = 16;
/// The `reason` in the data of the error for a request that came back.
pub(super) const LOOP: &str = "gateway_loop";

/// The ids of a gateway, and those of its fleet.
#[derive(Debug, Clone)]
pub(super) struct HopId {
    /// The ids in the metadata of requests.
    hops: Ids,
    /// The ids that the gateway declares to its clients. Its servers receive the ids of hops only, so they cannot declare these.
    declared: Ids,
}

#[derive(Debug, Clone)]
struct Ids {
    own: Arc<str>,
    /// An id for each state key that the nodes of a fleet share.
    fleet: Arc<[String]>,
}

impl Ids {
    /// Returns a random id.
    fn new() -> Self {
        let [first, second] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()));
        Self { own: format!("{first:016x}{second:016x}").into(), fleet: Arc::default() }
    }

    fn of_fleet(&self, keys: &StateKeys, purpose: &str) -> Self {
        Self { own: Arc::clone(&self.own), fleet: keys.ids(purpose).into() }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.own).chain(self.fleet.iter().map(String::as_str))
    }

    fn include(&self, id: &str) -> bool {
        self.all().any(|own| own == id)
    }
}

impl HopId {
    /// Returns random ids.
    pub(super) fn new() -> Self {
        Self { hops: Ids::new(), declared: Ids::new() }
    }

    /// Returns the ids of a node of a fleet. Nodes with a common key lead to each other.
    pub(super) fn of_fleet(&self, keys: &StateKeys) -> Self {
        Self {
            hops: self.hops.of_fleet(keys, "gateway hop"),
            declared: self.declared.of_fleet(keys, "declared gateway"),
        }
    }

    /// Returns the id of this gateway in the metadata of requests.
    pub(super) fn as_str(&self) -> &str {
        &self.hops.own
    }

    /// Returns the ids that the gateway declares: its own ones first, and those that its servers declare.
    pub(super) fn declared<'a>(&'a self, behind: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let behind: BTreeSet<&str> = behind.filter(|id| !self.declared.include(id)).collect();
        self.declared.all().chain(behind).take(MAX_GATEWAYS).collect()
    }

    /// Whether a declared id is that of this gateway or of its fleet.
    pub(super) fn has_declared(&self, id: &str) -> bool {
        self.declared.include(id)
    }

    /// Returns decoded metadata in the form of [`HopId::forward`].
    pub(super) fn forward_decoded(&self, meta: &Meta) -> Result<Meta, RpcError> {
        let unwritable = |_| RpcError::internal("the metadata cannot be written");
        self.forward(Some(&to_raw_value(meta).map_err(unwritable)?))
    }

    /// Returns the metadata of a request for the next server: without the keys of the protocol, except for the trace context, and
    /// with the id of this gateway.
    ///
    /// # Errors
    /// `-32600` if the request came through this gateway before, or through too many gateways.
    pub(super) fn forward(&self, meta: Option<&RawValue>) -> Result<Meta, RpcError> {
        let unreadable =
            |error: serde_json::Error| RpcError::invalid_params(format!("`_meta` cannot be read: {error}"));
        let meta = meta.map(RawValue::get).filter(|meta| *meta != "null");
        let meta = meta.map(Members::read).transpose().map_err(unreadable)?.unwrap_or_default();
        let mut forwarded = Meta::new();
        for (key, value) in meta.iter().filter(|(key, _)| is_forwarded(key) && *key != HOPS) {
            forwarded.insert(key.to_owned(), serde_json::from_str(value.get()).map_err(unreadable)?);
        }
        let mut hops: Vec<Value> = meta.decode(HOPS).unwrap_or_default();
        if hops.iter().any(|hop| hop.as_str().is_some_and(|hop| self.hops.include(hop))) {
            tracing::warn!("a request came back to this gateway: remove the server that leads to the gateway itself");
            return Err(RpcError::invalid_request(
                "the request came back to this gateway: one of its servers leads to the gateway itself, so remove that server",
            )
            .with_data(json!({ "reason": LOOP })));
        }
        if hops.len() >= LONGEST {
            tracing::warn!(gateways = hops.len(), "a request came through too many gateways");
            let text = format!("the request came through {} gateways, and {LONGEST} is the limit", hops.len());
            return Err(RpcError::invalid_request(text));
        }
        hops.push(self.hops.fleet.first().map_or(&*self.hops.own, String::as_str).into());
        forwarded.insert(HOPS.to_owned(), hops.into());
        Ok(forwarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_gateway_cannot_declare_its_ids() {
        let gateway = HopId::new().of_fleet(&StateKeys::new([[1; 32]]));
        let sent = gateway.forward(None).unwrap();
        let hop = sent[HOPS][0].as_str().unwrap();
        assert!(!gateway.has_declared(hop) && !gateway.has_declared(gateway.as_str()));
        // Many foreign ids do not replace the own ones.
        let foreign: Vec<String> = (0..2 * MAX_GATEWAYS).map(|n| format!("{n:064}")).collect();
        let declared = gateway.declared(foreign.iter().map(String::as_str));
        assert_eq!(declared.len(), MAX_GATEWAYS);
        assert!(declared[..2].iter().all(|id| gateway.has_declared(id)));
        let other = HopId::new();
        assert!(other.declared(declared.into_iter()).iter().any(|id| gateway.has_declared(id)));
    }

    #[test]
    fn a_request_that_comes_back_is_rejected() {
        let (first, second) = (HopId::new(), HopId::new());
        let meta = Meta::new().with("com.example/tenant", "t").with("progressToken", 7).with("traceparent", "00-1");
        let meta = meta.with("io.modelcontextprotocol/related-task", json!({}));
        let forward = HopId::forward_decoded;
        let once = forward(&first, &meta).unwrap();
        let keys: Vec<&str> = once.keys().map(String::as_str).collect();
        assert_eq!(keys, ["com.example/tenant", "traceparent", HOPS]);
        let twice = forward(&second, &once).unwrap();
        assert_eq!(twice[HOPS], json!([first.as_str(), second.as_str()]));
        assert_eq!(forward(&first, &twice).unwrap_err().code.0, -32600);
        for count in [LONGEST - 1, LONGEST, LONGEST + 1] {
            let forwarded = forward(&first, &Meta::new().with(HOPS, json!(vec!["x"; count])));
            let error = forwarded.map(drop).map_err(|error| (error.code.0, error.message));
            let text = format!("the request came through {count} gateways, and 16 is the limit");
            assert_eq!(error, if count < LONGEST { Ok(()) } else { Err((-32600, text)) });
        }
        // The nodes of a fleet reject the requests of each other, also while its keys change.
        let fleet = |keys: &[u8]| HopId::new().of_fleet(&StateKeys::new(keys.iter().map(|key| [*key; 32])));
        let sent = forward(&fleet(&[1]), &meta).unwrap();
        for (keys, is_rejected) in [(&[1][..], true), (&[2, 1], true), (&[2], false)] {
            assert_eq!(forward(&fleet(keys), &sent).is_err(), is_rejected, "{keys:?}");
        }
        // Another form of the value is not that of a gateway.
        assert!(forward(&first, &Meta::new().with(HOPS, "x")).is_ok());
        let none = [None, Some(to_raw_value(&()).unwrap())].map(|meta| first.forward(meta.as_deref()).unwrap().len());
        assert_eq!(none, [1, 1]);
        assert_eq!(first.forward(Some(&to_raw_value("x").unwrap())).unwrap_err().code.0, -32602);
    }
}
