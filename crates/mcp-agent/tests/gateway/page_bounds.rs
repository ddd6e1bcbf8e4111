//! The gateway forwards the completions of a limited number of pages.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Notifications};
use mcp_protocol::{LoggingLevel, ProtocolVersion, notification::ElicitationComplete};
use mcp_server::prelude::*;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    common::{Pipe, SOON, client, connect_client_as},
    rounds::User,
};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const PAGES: usize = 1024;
const OF_PRINCIPAL: usize = 256;

#[derive(Deserialize, JsonSchema)]
struct Page {
    id: String,
}

async fn visit(client: &Client, id: &str) {
    let visited = timeout(SOON, client.call_tool("s__visit", json!({ "id": id })).into_future()).await.unwrap();
    assert_eq!(visited.unwrap().text(), "agreed");
}

/// Returns the page of the next notification, if the notification names a page.
async fn completed(notices: &mut Notifications) -> Option<String> {
    let notice = timeout(SOON, notices.next()).await.unwrap().unwrap();
    notice.params::<ElicitationComplete>().map(|done| done.unwrap().elicitation_id)
}

#[tokio::test]
async fn the_completion_of_further_pages_is_not_forwarded() {
    let visit_page = async |inputs: Inputs, Args(Page { id }): Args<Page>| {
        inputs.elicit_page("page", "Please log in", "https://login.example/start", id).await?;
        Ok::<_, ToolError>("agreed")
    };
    let server = Server::builder("s", "1").versions([VERSION]).tool(tool("visit", visit_page)).build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server.clone())).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
    let mut users = Vec::new();
    for user in 0..=PAGES / OF_PRINCIPAL {
        let name = format!("user-{user}");
        users.push(connect_client_as(client().handler(User::new(&name)), &gateway, &name).await);
    }
    for (user, client) in users[..PAGES / OF_PRINCIPAL].iter().enumerate() {
        for page in 0..OF_PRINCIPAL {
            visit(client, &format!("{user}-{page}")).await;
        }
    }
    // The bound of all principals.
    let (first, last) = (&users[0], &users[PAGES / OF_PRINCIPAL]);
    let (mut of_first, mut of_last) = (first.notifications(), last.notifications());
    visit(last, "further").await;
    server.notify().elicitation_complete("further");
    // A session remembers its latest pages.
    let open = format!("0-{}", OF_PRINCIPAL - 1);
    server.notify().elicitation_complete(&open);
    assert_eq!(completed(&mut of_first).await, Some(format!("s/{open}")));
    gateway.notify().log(LoggingLevel::Error, "no completion was before this record");
    assert_eq!(completed(&mut of_last).await, None);

    // A page that is completed makes room for another page.
    visit(last, "later").await;
    server.notify().elicitation_complete("later");
    assert_eq!(completed(&mut of_last).await.unwrap(), "s/later");
}
