//! Definitions with characters that have no visible form, through a gateway.

use mcp_agent::Names;
use mcp_protocol::RpcError;
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceList, SourcePage},
};
use mcp_transport::BoxFuture;

use crate::common::{cells, connect, gateway, page};

/// A definition with a zero-width space in two texts. The library does not know the member `vendor`.
const TOOL: &str = concat!(
    r#"{"vendor":{"price":1.50},"name":"page","description":"Opens"#,
    "\u{200b}",
    r#".","inputSchema":{"type":"object","properties":{"n":{"type":"number","default":1.50,"description":"N"#,
    "\u{fe0f}",
    r#""}}},"_meta":{"ui":{"resourceUri":"ui://app/index.html"},"later":[2.50]}}"#,
);

struct Page;

impl Source for Page {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Tools).then_some(TOOL))
    }
}

#[tokio::test]
async fn a_definition_without_its_invisible_characters_keeps_all_other_members() {
    for (down, up) in cells() {
        for (names, name, ui) in [(Names::Provider, "s__page", "ui://s/app"), (Names::Raw, "page", "ui://app")] {
            let server = Server::builder::<()>("s", "1").versions([up]).source(Page).build();
            let client = connect(gateway(&[("s", &server)]).await.names(names), down).await;
            let page = client.request_raw("tools/list", ()).raw_result().await.unwrap();
            let page = std::str::from_utf8(page.bytes()).unwrap().to_owned();
            let expected = TOOL.replace(['\u{200b}', '\u{fe0f}'], "");
            let expected = expected.replace(r#""page""#, &format!("{name:?}")).replace("ui://app", ui);
            assert!(page.contains(&expected), "{down} {up} {names:?} {page}");
        }
    }
}
