//! The gateway forwards the completions of a limited number of pages.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Notifications};
use mcp_protocol::{
    ErrorCode, LoggingLevel, ProtocolVersion, RpcError, UrlElicitParams, notification::ElicitationComplete,
};
use mcp_server::prelude::*;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    common::{Pipe, SOON, client, connect_client_as},
    rounds::User,
};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const URL: &str = "https://login.example/start";
const PAGES: usize = 1024;
const OF_PRINCIPAL: usize = 256;
const OF_ERROR: usize = 8;

#[derive(Deserialize, JsonSchema)]
struct Page {
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct PagesFirst {
    ids: Vec<String>,
}

/// Starts a server and its gateway. One tool asks for the visit of a page, and the error of the other tool names pages.
async fn gateway() -> (Server, Server) {
    let visit = async |inputs: Inputs, Args(Page { id }): Args<Page>| {
        inputs.elicit_page("page", "Please log in", URL, id).await?;
        Ok::<_, ToolError>("agreed")
    };
    let refuse = async |Args(PagesFirst { ids }): Args<PagesFirst>| {
        let pages = ids.into_iter().map(|id| UrlElicitParams::new("Please log in", URL).with_elicitation_id(id));
        Err::<String, _>(ToolError::protocol(RpcError::url_elicitation_required(pages)))
    };
    let server = Server::builder("s", "1").versions([VERSION]).tool(tool("visit", visit)).tool(tool("refuse", refuse));
    let server = server.build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server.clone())).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
    (server, gateway)
}

/// Receives the error that names these pages.
async fn refused(client: &Client, ids: &[String]) {
    let refused = timeout(SOON, client.call_tool("s__refuse", json!({ "ids": ids })).into_future()).await.unwrap();
    let error = refused.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, ErrorCode::URL_ELICITATION_REQUIRED, "{error}");
    assert_eq!(error.url_elicitations().len(), ids.len());
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
async fn a_page_beyond_the_bound_of_all_principals_displaces_an_older_one() {
    let (server, gateway) = gateway().await;
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
    let (first, last) = (&users[0], &users[PAGES / OF_PRINCIPAL]);
    let (mut of_first, mut of_last) = (first.notifications(), last.notifications());
    visit(last, "further").await;
    server.notify().elicitation_complete("further");
    assert_eq!(completed(&mut of_last).await.unwrap(), "s/further");
    // A session remembers its latest pages.
    let open = format!("0-{}", OF_PRINCIPAL - 1);
    server.notify().elicitation_complete(&open);
    assert_eq!(completed(&mut of_first).await, Some(format!("s/{open}")));
}

#[tokio::test]
async fn the_completion_of_a_page_with_a_long_id_is_not_forwarded() {
    const LONGEST_ID: usize = 1024;
    let (server, gateway) = gateway().await;
    let user = connect_client_as(client().handler(User::new("ada")), &gateway, "ada").await;
    let mut notices = user.notifications();
    let ids = [LONGEST_ID + 1, LONGEST_ID].map(|length| "i".repeat(length - "s/".len()));
    for id in &ids {
        visit(&user, id).await;
        server.notify().elicitation_complete(id);
    }
    let completed = completed(&mut notices).await.unwrap();
    assert_eq!(completed.len(), LONGEST_ID);
}

#[tokio::test]
async fn the_pages_of_an_error_take_few_places_of_the_principal() {
    let (server, gateway) = gateway().await;
    let user = connect_client_as(client().handler(User::new("ada")), &gateway, "ada").await;
    let without_pages = connect_client_as(client(), &gateway, "ada").await;
    let ids = |prefix: &str, number: usize| (0..number).map(|page| format!("{prefix}-{page}")).collect::<Vec<_>>();
    refused(&without_pages, &ids("many", OF_PRINCIPAL)).await;
    let mut of_user = user.notifications();
    visit(&user, "later").await;
    server.notify().elicitation_complete("later");
    assert_eq!(completed(&mut of_user).await.unwrap(), "s/later");

    // The completion of the first pages is forwarded.
    refused(&without_pages, &ids("few", OF_ERROR + 1)).await;
    let mut notices = without_pages.notifications();
    for page in [OF_ERROR, 0, OF_ERROR - 1] {
        server.notify().elicitation_complete(&format!("few-{page}"));
    }
    let mut pages = [completed(&mut notices).await.unwrap(), completed(&mut notices).await.unwrap()];
    pages.sort();
    assert_eq!(pages, ["s/few-0", "s/few-7"]);
}

#[tokio::test]
async fn a_page_of_repeated_errors_takes_one_place_of_the_principal() {
    let (server, gateway) = gateway().await;
    let user = connect_client_as(client().handler(User::new("ada")), &gateway, "ada").await;
    let without_pages = connect_client_as(client(), &gateway, "ada").await;
    for _ in 0..=OF_PRINCIPAL {
        refused(&without_pages, &["same".to_owned()]).await;
    }
    let (mut of_user, mut notices) = (user.notifications(), without_pages.notifications());
    visit(&user, "later").await;
    server.notify().elicitation_complete("later");
    assert_eq!(completed(&mut of_user).await.unwrap(), "s/later");
    server.notify().elicitation_complete("same");
    assert_eq!(completed(&mut notices).await.unwrap(), "s/same");
    gateway.notify().log(LoggingLevel::Error, "one notification was before this record");
    assert_eq!(completed(&mut notices).await, None);
}
