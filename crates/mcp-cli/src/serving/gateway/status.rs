//! The status document of a gateway.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_agent::{DroppedItem, Gateway, Host, InvalidItem, ServerState, ServerStatus};
use mcp_protocol::Excerpt;
use serde_json::{Value, json};

use super::{logins::Renewable, unusable::Unusable};
use crate::connection::VERSION;

/// The most dropped items of a document, and the most invalid ones.
const ITEMS: usize = 1000;

/// Returns the states of all servers, and the items that the gateway does not serve. The lines of their stderr are not a part of it,
/// because they may contain secrets.
pub(super) fn document(gateway: &Gateway, unusable: &Unusable, renewable: &Renewable) -> Value {
    let host = gateway.host();
    let servers: Vec<Value> =
        host.statuses().iter().map(|status| server(host, renewable, status)).chain(unusable.states()).collect();
    let faults: Vec<String> = host.file_faults().into_iter().chain(unusable.faults().iter().cloned()).collect();
    // A request must not wait for the merge of a large catalog.
    let (circular, dropped, invalid) = gateway.newest_diagnostics(ITEMS);
    let dropped: Vec<Value> = dropped.iter().map(of_dropped).collect();
    let invalid: Vec<Value> = invalid.iter().map(of_invalid).collect();
    json!({
        "version": VERSION,
        "servers": servers,
        "faults": faults,
        "circular": circular,
        "dropped": dropped,
        "invalid": invalid,
    })
}

fn of_dropped(item: &DroppedItem) -> Value {
    json!({ "kind": item.kind.to_string(), "name": shown(&item.name), "server": item.server, "winner": item.winner })
}

fn of_invalid(item: &InvalidItem) -> Value {
    json!({
        "kind": item.kind.to_string(),
        "name": shown(&item.name),
        "server": item.server,
        "reason": shown(&item.reason),
    })
}

/// Returns the start of a name or a URI, whose length its server chooses.
fn shown(name: &str) -> String {
    Excerpt::new(name).to_string()
}

fn server(host: &Host, renewable: &Renewable, status: &ServerStatus) -> Value {
    let needs_login = status.state == ServerState::NeedsLogin;
    json!({
        "name": status.name,
        "state": status.state,
        "since": seconds(status.since),
        "reason": status.reason,
        "remedy": needs_login.then(|| renewable.remedy(host, &status.name)),
        "tools": status.tools,
        "estimatedTokens": status.estimated_tokens,
        "required": status.is_required,
        "diagnostics": status.diagnostics,
        "notes": status.notes,
    })
}

/// Returns the seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use mcp_agent::Names;
    use mcp_protocol::RpcError;
    use mcp_server::{
        Server,
        source::{Source, SourceCall, SourceDefinition, SourceList, SourcePage},
    };
    use mcp_transport::BoxFuture;

    use super::*;

    /// A server with a valid resource and an invalid one, whose URIs are long.
    struct Long;

    impl Source for Long {
        fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
            let uri = "u".repeat(100_000);
            let all = [
                format!(r#"{{"uri":"x:valid{uri}","name":"n"}}"#),
                format!(r#"{{"uri":"x:invalid{uri}","name":"n","later":1,"later":2}}"#),
            ];
            let definitions = all.into_iter().filter(|_| list == SourceList::Resources);
            let page = SourcePage::new(definitions.map(|json| SourceDefinition::new(json).unwrap()));
            Box::pin(std::future::ready(Ok(page)))
        }
    }

    #[tokio::test]
    async fn the_document_has_the_starts_of_long_uris() {
        let server = || Server::builder::<()>("s", "1").source(Long).build();
        let host = Host::builder("gateway", "1").server("first", &server()).server("second", &server());
        let gateway = Gateway::builder(host.start().await.unwrap()).names(Names::Raw).gateway();
        // The first diagnostics cause the merge.
        let _ = gateway.diagnostics();
        let (_, dropped, invalid) = gateway.newest_diagnostics(ITEMS);
        let (dropped, invalid) = (of_dropped(&dropped[0]), of_invalid(&invalid[0]));
        for (item, start) in [(dropped, "x:validuu"), (invalid, "x:invaliduu")] {
            let name = item["name"].as_str().unwrap();
            assert!(name.starts_with(start) && name.len() < 200, "{}", name.len());
        }
    }
}
