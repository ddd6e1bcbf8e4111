//! The questions of servers of each revision, for clients of each revision.

use mcp_agent::{Gateway, ServerOptions};
use mcp_protocol::ProtocolVersion;
use tokio::time::timeout;

use crate::{
    common::{SOON, client},
    rounds::{TOOLS, Turns, User, answer_of_ada, assert_not_asked, host},
};

/// Whether a revision has the question of a tool.
fn has(version: ProtocolVersion, tool: &str) -> bool {
    match tool {
        "form" => version.has_elicitation(),
        "url" => version.has_elicitation_modes(),
        _ => true,
    }
}

#[tokio::test]
async fn each_question_reaches_the_user_in_each_pair_of_revisions_that_have_it() {
    let (mut answered, mut refused) = (0, 0);
    for (down, up) in
        ProtocolVersion::ALL.iter().flat_map(|down| ProtocolVersion::ALL.iter().map(move |up| (*down, *up)))
    {
        let host = host(up, false, &Turns::default(), ServerOptions::new()).await;
        let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
        let user = client().handler(User::new("ada")).connect(&gateway).await.unwrap();
        assert_eq!(user.version(), down);
        for tool in TOOLS {
            let result = timeout(SOON, user.call_tool(format!("s__{tool}"), ()).into_future()).await.unwrap();
            if has(down, tool) && has(up, tool) {
                assert_eq!(result.unwrap().text(), answer_of_ada(tool), "{tool}: {down} to {up}");
                answered += 1;
            } else {
                assert_not_asked(result.as_ref(), up, tool);
                refused += 1;
            }
        }
    }
    // Five revisions have sampling and roots, three have forms, and two have pages.
    assert_eq!((answered, refused), (25 + 25 + 9 + 4, 16 + 21));
}
