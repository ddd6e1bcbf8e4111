//! The policies of a host, for each caller of its gateway.

use mcp_agent::{
    Gateway, Host,
    policy::{Effect, Policy, Rule},
};
use mcp_protocol::CacheScope;
use mcp_server::{Server, resource, tool};
use serde_json::value::RawValue;

use crate::common::{REVISIONS, connect_as};

#[tokio::test]
async fn each_caller_has_the_items_that_the_policies_allow() {
    let files = Server::builder("files", "1")
        .tool(tool("read", async || "read"))
        .tool(tool("write", async || "written"))
        .resource(resource("secret:a", async || "secret"))
        .build();
    let deny = |rule: Rule| rule.principal("guest-*".parse().unwrap()).reason("Guests only read.");
    let policy = Policy::new()
        .rule(deny(Rule::new(Effect::Deny).tool("write".parse().unwrap())))
        .rule(deny(Rule::new(Effect::Deny).resource("secret:*".parse().unwrap())));
    let host = Host::builder("gateway", "1").server("files", &files).policy(policy).start().await.unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let (ada, guest) = (connect_as(&server, "ada").await, connect_as(&server, "guest-7").await);
        for (client, expected, resources) in
            [(&ada, &["files__read", "files__write"][..], 1), (&guest, &["files__read"][..], 0)]
        {
            let page = client.list_tools().page().await.unwrap();
            assert_eq!(page.items.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), expected, "{version}");
            assert_ne!(page.cache_scope, Some(CacheScope::Public));
            assert_eq!(client.list_resources().await.unwrap().len(), resources);
        }
        assert_eq!(ada.call_tool("files__write", ()).await.unwrap().text(), "written");
        let refused = guest.call_tool("files__write", ()).await.unwrap();
        assert!(refused.is_error() && refused.text().contains("Guests only read."), "{refused:?}");
        assert!(ada.read_resource("mcp://files/secret:a").await.is_ok());
        let error = guest.read_resource("mcp://files/secret:a").await.unwrap_err();
        assert!(error.to_string().contains("Guests only read."), "{error}");
    }
}

#[tokio::test]
async fn arguments_that_the_policies_cannot_read_do_not_reach_the_server() {
    let files = Server::builder("files", "1").tool(tool("read", async || "read")).build();
    let policy = Policy::new().rule(Rule::new(Effect::Allow).tool("read".parse().unwrap()));
    let host = Host::builder("gateway", "1").server("files", &files).policy(policy).start().await.unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let ada = connect_as(&server, "ada").await;
        let call = |arguments: &str| {
            let params = format!(r#"{{"name":"files__read","arguments":{arguments}}}"#);
            let params: Box<RawValue> = RawValue::from_string(params).unwrap();
            ada.request_raw("tools/call", &*params).raw_result().into_future()
        };
        assert!(call("null").await.is_ok() && call(r#"{"x":1}"#).await.is_ok());
        for invalid in [r#"{"path":"/etc/passwd","x":1e400}"#, r#"{"x":"\ud800"}"#, "[1]"] {
            let error = call(invalid).await.unwrap_err();
            assert_eq!(error.rpc().unwrap().code.0, -32602, "{invalid} {error}");
        }
    }
}
