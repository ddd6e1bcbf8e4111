//! The error that sends the user to pages first (`-32042`, 2025-11-25), through a gateway, in all four cells.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, InputContext};
use mcp_protocol::{
    ElicitResult, ErrorCode, JsonObject, ProtocolVersion, RpcError, UrlElicitParams, notification::ElicitationComplete,
};
use mcp_server::prelude::*;
use tokio::time::{Instant, timeout};

use crate::common::{Pipe, SOON, cells, client};

const PAGE: &str = "https://login.example/start";

/// A server whose tool needs a visit of a page first.
struct Private {
    server: Server,
    is_signed_in: Arc<AtomicBool>,
}

fn private(version: ProtocolVersion) -> Private {
    let is_signed_in = Arc::<AtomicBool>::default();
    let known = Arc::clone(&is_signed_in);
    let private = move || {
        let is_known = known.load(Ordering::SeqCst);
        async move {
            if is_known {
                return Ok("yours");
            }
            let page = UrlElicitParams::new("Sign in.", PAGE).with_elicitation_id("page-7");
            Err(ToolError::protocol(RpcError::url_elicitation_required([page])))
        }
    };
    Private {
        server: Server::builder("s", "1").versions([version]).tool(tool("private", private)).build(),
        is_signed_in,
    }
}

async fn gateway(server: Server, down: ProtocolVersion) -> Server {
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    Gateway::builder(host).build().unwrap().versions([down]).build()
}

async fn call(client: &Client) -> Result<String, RpcError> {
    let called = timeout(SOON, client.call_tool("s__private", ()).into_future()).await.unwrap();
    called.map(|result| result.text()).map_err(|error| error.rpc().unwrap().clone())
}

#[tokio::test]
async fn a_client_without_pages_receives_the_error_in_the_form_of_its_revision() {
    for (down, up) in cells() {
        let server = private(up).server;
        let client = client().connect(&gateway(server.clone(), down).await).await.unwrap();
        let error = call(&client).await.unwrap_err();
        if down.has_elicitation_complete() && up.has_elicitation_complete() {
            assert_eq!(error.code, ErrorCode::URL_ELICITATION_REQUIRED, "{down} to {up}: {error}");
            let page = &error.data.as_ref().unwrap()["elicitations"][0];
            assert_eq!((&page["url"], &page["elicitationId"]), (&PAGE.into(), &"s/page-7".into()), "{down} to {up}");
            // The notification about the completion has the same id.
            let mut notices = client.notifications();
            server.notify().elicitation_complete("page-7");
            let notice = timeout(SOON, notices.next()).await.unwrap().unwrap();
            let done = notice.params::<ElicitationComplete>().unwrap().unwrap();
            assert_eq!(done.elicitation_id, "s/page-7", "{down} to {up}");
        } else {
            // No other revision has the error.
            let text = format!("the user has to visit a page first: {PAGE} (Sign in.)");
            assert_eq!(error, RpcError::internal(text), "{down} to {up}");
        }
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_call_continues_after_the_user_has_visited_the_page() {
    for (down, up) in cells() {
        // Without a notification of the server, the gateway repeats the call after a wait.
        for notifies in [true, false] {
            let case = format!("{down} to {up}, with a notification: {notifies}");
            let Private { server, is_signed_in } = private(up);
            let (shown, own) = (Arc::<Mutex<Vec<UrlElicitParams>>>::default(), server.clone());
            let pages = Arc::clone(&shown);
            let user = client().on_elicit_url(move |page: InputContext<UrlElicitParams>| {
                pages.lock().unwrap().push(page.params().clone());
                is_signed_in.store(true, Ordering::SeqCst);
                if notifies {
                    own.notify().elicitation_complete("page-7");
                }
                async { Ok(ElicitResult::accept(JsonObject::new())) }
            });
            let user = user.connect(&gateway(server, down).await).await.unwrap();
            let began = Instant::now();
            let called = call(&user).await;
            let shown = shown.lock().unwrap().clone();
            if !up.has_elicitation_complete() {
                // A server of this revision asks for the page in a round.
                let error = called.unwrap_err();
                assert_eq!((error.code, shown.len()), (ErrorCode::INTERNAL_ERROR, 0), "{case}: {error}");
                continue;
            }
            assert_eq!(called.unwrap(), "yours", "{case}");
            assert_eq!(shown.iter().map(|page| &*page.url).collect::<Vec<_>>(), [PAGE], "{case}");
            // The id has the name of the server, so that another server cannot complete the page.
            let id = down.has_elicitation_complete().then_some("s/page-7");
            assert_eq!(shown[0].elicitation_id.as_deref(), id, "{case}");
            assert_eq!(began.elapsed().as_secs() < 5, notifies, "{case}: {:?}", began.elapsed());
        }
    }
}
