//! Raw names: the owners of names and URIs, and the servers of links.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Catalog, Gateway, Host, Names, ServerOptions,
    pins::{Drift, PinFile, PinRules},
};
use mcp_client::transport::{BoxFuture, Connect};
use mcp_protocol::RpcError;
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::{
    common::{Late, Pipe, REVISIONS, SOON, client, complete, connect, connect_as, gateway, page},
    rounds::{Turns, asked, asking, send},
};

fn deploying(name: &'static str) -> Server {
    Server::builder(name, "1").tool(tool("deploy", move || async move { name })).build()
}

#[tokio::test]
async fn a_server_that_joins_late_does_not_take_over_a_served_name() {
    let started = Arc::new(Semaphore::new(0));
    let late: Arc<dyn Connect> = Arc::new(Late(Pipe::new(deploying("slow")), Arc::clone(&started)));
    let host = Host::builder("gateway", "1")
        .start_limit(Duration::from_millis(50))
        .server_with("slow", late, ServerOptions::new())
        .server("fast", &deploying("fast"))
        .start()
        .await
        .unwrap();
    // A strict gateway starts, because only one server has the name at its start.
    let builder = Gateway::builder(host.clone()).names(Names::Raw).strict(true);
    let observed = builder.gateway();
    let client = connect(builder, REVISIONS[1]).await;
    let deployed = async || client.call_tool("deploy", ()).await.unwrap().text();
    assert_eq!(deployed().await, "fast");
    started.add_permits(16);
    let mut changes = host.catalog_changes();
    let joined = changes.wait_for(|catalog| catalog.tools().iter().any(|tool| tool.server() == "slow"));
    timeout(SOON, joined).await.unwrap().unwrap();
    assert_eq!(deployed().await, "fast");
    let dropped = observed.diagnostics();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!((&*dropped[0].server, &*dropped[0].winner), ("slow", "fast"));
    // The name is free when its server has gone.
    host.remove("fast").await;
    assert_eq!(deployed().await, "slow");
    assert!(observed.diagnostics().is_empty());
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

#[tokio::test]
async fn a_round_continues_at_its_server_after_another_server_has_its_name() {
    for up in REVISIONS {
        let [first, second] = [(); 2].map(|()| asking(up, &Turns::default()));
        let host = Host::builder("gateway", "1");
        let host = host.server("first", Pipe::new(first.clone())).server("second", Pipe::new(second));
        let host = host.start().await.unwrap();
        let builder = Gateway::builder(host.clone()).names(Names::Raw);
        let observed = builder.gateway();
        let gateway = builder.build().unwrap().versions([REVISIONS[1]]).build();
        let user = client().connect(&gateway).await.unwrap();
        let mut params = json!({ "name": "form", "arguments": {} });
        let (key, state) = asked(&user, params.clone()).await;
        // The first server loses the tool for a moment, and the second one takes its name.
        let mut changes = host.catalog_changes();
        assert!(first.tools().remove("form"));
        let lacks = |server: &str| {
            let dropped = observed.diagnostics();
            dropped.iter().any(|item| item.name == "form" && *item.server == *server)
        };
        timeout(SOON, changes.wait_for(|_| !lacks("second"))).await.unwrap().unwrap();
        let form = async |inputs: Inputs| {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        };
        first.tools().add(tool("form", form)).unwrap();
        timeout(SOON, changes.wait_for(|_| lacks("first"))).await.unwrap().unwrap();
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": "ada" } } });
        assert_eq!(send(&user, params).await.unwrap(), "ada", "{up}");
    }
}

/// A server whose tools return links, and that can be read at each URI.
struct Linking(&'static str);

impl Source for Linking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let json = format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, self.0);
        page((list == SourceList::Tools).then_some(&*json))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let count = if self.0 == "flood" { 5_000 } else { 1 };
        let link = |n: usize| json!({ "type": "resource_link", "uri": format!("{}://{n}", self.0), "name": "n" });
        let result = json!({ "content": (0..count).map(link).collect::<Vec<_>>() });
        complete(result.to_string(), call.context().version())
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = json!({ "contents": [{ "uri": call.name(), "text": self.0 }] });
        complete(result.to_string(), call.context().version())
    }
}

#[tokio::test]
async fn the_links_of_a_caller_lead_to_their_server_for_this_caller_only() {
    let linking = |name| Server::builder::<()>(name, "1").source(Linking(name)).build();
    let (link, flood) = (linking("link"), linking("flood"));
    let gateway = gateway(&[("link", &link), ("flood", &flood)]).await.names(Names::Raw);
    let gateway = gateway.build().unwrap().versions([REVISIONS[1]]).build();
    let (ada, grace) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "grace").await);
    let read = async |client: &mcp_client::Client, uri: &str| match client.read_resource(uri).await {
        Ok(result) => result.contents[0].as_text().unwrap().to_owned(),
        Err(error) => {
            assert!(error.is_resource_not_found(), "{error}");
            "not found".to_owned()
        }
    };
    ada.call_tool("link", ()).await.unwrap();
    assert_eq!(read(&ada, "link://0").await, "link");
    assert_eq!(read(&grace, "link://0").await, "not found");
    // The links of another caller, and those of another server, evict no link.
    for client in [&grace, &ada] {
        client.call_tool("flood", ()).await.unwrap();
        assert_eq!(read(client, "flood://4999").await, "flood");
        assert_eq!(read(&ada, "link://0").await, "link");
    }
}

#[tokio::test]
async fn a_link_does_not_lead_to_a_removed_server() {
    // Without a link, the URI belongs to the only server that is left.
    for names in [&["first", "second", "third"][..], &["first", "second"]] {
        let mut host = Host::builder("gateway", "1");
        for name in names {
            host = host.server(*name, &Server::builder::<()>(*name, "1").source(LinkingToOne(name)).build());
        }
        let host = host.start().await.unwrap();
        let client = connect(Gateway::builder(host.clone()).names(Names::Raw), REVISIONS[1]).await;
        let read = async || client.read_resource("x:1").await.map(|read| read.contents[0].as_text().map(str::to_owned));
        for server in ["first", "second"] {
            client.call_tool(server, ()).await.unwrap();
            assert_eq!(read().await.unwrap().as_deref(), Some("first"), "{server} of {names:?}");
        }
        host.remove("first").await;
        assert!(read().await.unwrap_err().is_resource_not_found(), "{names:?}");
        client.call_tool("second", ()).await.unwrap();
        assert_eq!(read().await.unwrap().as_deref(), Some("second"), "{names:?}");
    }
}

/// A server whose tool `deploy` receives further members when the test changes it.
#[derive(Clone)]
struct Changing {
    members: &'static str,
    is_changed: Arc<AtomicBool>,
}

impl Source for Changing {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let is_changed = self.is_changed.load(Ordering::SeqCst);
        let members = if is_changed { self.members } else { r#""inputSchema":{"type":"object"}"# };
        let deploy = format!(r#"{{"name":"deploy",{members}}}"#);
        page((list == SourceList::Tools).then_some(&*deploy))
    }
}

#[tokio::test]
async fn a_name_without_a_usable_definition_stays_that_of_its_server() {
    for (members, invalid) in [
        (r#""inputSchema":{"type":"object"},"later":1,"later":2"#, 1),
        // The host leaves these definitions out.
        (r#""inputSchema":{"type":"object"},"description":"a","description":"b""#, 0),
        (r#""inputSchema":7"#, 0),
        // The pin blocks this definition.
        (r#""inputSchema":{"type":"object"},"description":"another""#, 0),
    ] {
        let source = Changing { members, is_changed: Arc::default() };
        let first = Server::builder::<()>("first", "1").source(source.clone()).build();
        let third = Server::builder("third", "1").tool(tool("t", async || "t")).build();
        let directory = tempfile::tempdir().unwrap();
        let (pins, rules) = (directory.path().join("pins.json"), PinRules::new().drift(Drift::Block));
        let start = async || {
            let host = Host::builder("gateway", "1").pins(PinFile::new(&pins), rules).server("first", &first);
            let host = host.server("second", &deploying("second")).server("third", &third).start().await.unwrap();
            let builder = Gateway::builder(host).names(Names::Raw);
            (builder.gateway(), connect(builder, REVISIONS[1]).await)
        };
        let (gateway, client) = start().await;
        let facts = |gateway: &Gateway| {
            let owners = gateway.diagnostics().iter().map(|item| item.winner.to_string()).collect::<Vec<_>>();
            (owners, gateway.invalid_items().len())
        };
        let owner = || vec!["first".to_owned()];
        assert_eq!(facts(&gateway), (owner(), 0), "{members}");
        let mut changes = gateway.host().catalog_changes();
        let former = changes.current();
        let is_changed = |catalog: &Catalog| {
            let deploy = |catalog: &Catalog| catalog.tools().iter().find(|tool| tool.server() == "first").cloned();
            deploy(catalog).is_none_or(|tool| deploy(&former).is_some_and(|former| !Arc::ptr_eq(&former, &tool)))
        };
        source.is_changed.store(true, Ordering::SeqCst);
        first.notify().tools_changed();
        timeout(SOON, changes.wait_for(is_changed)).await.unwrap().unwrap();
        assert_eq!(facts(&gateway), (owner(), invalid), "{members}");
        // A later merge has the same owner, and a gateway that starts now.
        third.tools().add(tool("other", async || "x")).unwrap();
        let is_merged = changes.wait_for(|catalog| catalog.tools().iter().any(|tool| tool.original_name() == "other"));
        timeout(SOON, is_merged).await.unwrap().unwrap();
        let (later_gateway, later_client) = start().await;
        for (gateway, client) in [(&gateway, &client), (&later_gateway, &later_client)] {
            assert_eq!(facts(gateway), (owner(), invalid), "{members}");
            let listed = client.list_tools().await.unwrap();
            assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["t", "other"], "{members}");
            assert!(client.call_tool("deploy", ()).await.is_err(), "{members}");
        }
    }
}

#[tokio::test]
async fn a_link_of_the_only_server_does_not_lead_to_its_successor() {
    for successor in ["other", "only"] {
        let linking = |name| Server::builder::<()>("s", "1").source(LinkingToOne(name)).build();
        let host = Host::builder("gateway", "1").server("only", &linking("only")).start().await.unwrap();
        let client = connect(Gateway::builder(host.clone()).names(Names::Raw), REVISIONS[1]).await;
        let read = async || client.read_resource("x:1").await.map(|read| read.contents[0].as_text().map(str::to_owned));
        client.call_tool("only", ()).await.unwrap();
        assert_eq!(read().await.unwrap().as_deref(), Some("only"));
        let new: Arc<dyn Connect> = Arc::new(Pipe::new(linking("new")));
        if successor == "only" {
            // Another definition with the same name.
            let options = ServerOptions::new().filter(mcp_agent::filter::ToolFilter::new().deny("x".parse().unwrap()));
            host.replace("only", new, options).await.unwrap();
        } else {
            host.remove("only").await;
            host.add("other", new, ServerOptions::new()).unwrap();
        }
        let mut changes = host.catalog_changes();
        let has_joined = changes.wait_for(|catalog| catalog.tools().iter().any(|tool| tool.original_name() == "new"));
        timeout(SOON, has_joined).await.unwrap().unwrap();
        assert!(read().await.unwrap_err().is_resource_not_found(), "{successor}");
        client.call_tool("new", ()).await.unwrap();
        assert_eq!(read().await.unwrap().as_deref(), Some("new"), "{successor}");
    }
}

/// A server whose tool returns a link to one resource, which each such server has.
struct LinkingToOne(&'static str);

impl Source for LinkingToOne {
    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(async move { Linking(self.0).list(list, call).await })
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = json!({ "content": [{ "type": "resource_link", "uri": "x:1", "name": "n" }] });
        complete(result.to_string(), call.context().version())
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move { Linking(self.0).read_resource(call).await })
    }
}

/// A server with resources that its list does not contain.
struct Unlisted;

impl Source for Unlisted {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Resources).then_some(r#"{"name":"a","uri":"x:a"}"#))
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = json!({ "contents": [{ "uri": call.name(), "text": "unlisted" }] });
        complete(result.to_string(), call.context().version())
    }
}

#[tokio::test]
async fn a_server_that_leads_to_the_gateway_has_no_resources_for_clients() {
    for names in [Names::Raw, Names::Provider] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let docs = Server::builder::<()>("docs", "1").source(Unlisted).build();
        let host = Host::builder("gateway", "1")
            .start_limit(Duration::from_millis(100))
            .server("docs", &docs)
            .server("itself", url)
            .start()
            .await
            .unwrap();
        let builder = Gateway::builder(host.clone()).names(names);
        let observed = builder.gateway();
        let server = builder.build().unwrap().versions([REVISIONS[1]]).build();
        let served = server.clone();
        tokio::spawn(async move { served.serve_http_on(listener, HttpConfig::new()).await });
        host.restart("itself");
        let mut changes = host.catalog_changes();
        let reached = changes.wait_for(|_| !observed.circular_servers().is_empty());
        timeout(SOON, reached).await.unwrap().unwrap();
        let client = client().connect(&server).await.unwrap();
        if names == Names::Raw {
            let read = client.read_resource("x:unlisted").await.unwrap();
            assert_eq!(read.contents[0].as_text(), Some("unlisted"));
        } else {
            let error = client.read_resource("mcp://itself/x:a").await.unwrap_err();
            assert!(error.is_resource_not_found(), "{error}");
        }
    }
}
