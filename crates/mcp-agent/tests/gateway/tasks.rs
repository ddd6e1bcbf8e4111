//! Tools that run as tasks, through a gateway that declares no tasks.

use mcp_protocol::TaskSupport;
use mcp_server::prelude::*;
use tokio::time::timeout;

use crate::common::{SOON, cells, connect, gateway};

#[tokio::test]
async fn a_client_receives_the_result_of_a_tool_that_runs_as_a_task() {
    for (down, up) in cells() {
        for support in [TaskSupport::Optional, TaskSupport::Required] {
            let build = tool("build", async || "built").task(support);
            let server = Server::builder("s", "1").versions([up]).tool(build).build();
            let client = connect(gateway(&[("s", &server)]).await, down).await;
            let result = timeout(SOON, client.call_tool("s__build", ()).into_future()).await.unwrap();
            assert_eq!(result.unwrap().text(), "built", "{down} to {up}, {support:?}");
        }
    }
}
