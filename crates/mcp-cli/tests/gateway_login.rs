//! The servers of `mcp gateway` that need a login: they join after `mcp login`.

use mcp_client::Client;
use serde_json::{Value, json};

use super::{
    check,
    configuration::Project,
    gateway::{gateway, get},
    login::Protected,
    process::ready,
    serve::Serving,
};

#[test]
fn a_server_joins_after_a_login_while_the_gateway_runs() {
    let protected = Protected::start("gateway");
    let project = Project::new("gateway-login");
    let servers = json!({ "protected": { "url": protected.url } });
    let mut command = gateway(&project, &servers, &["--port", "0"]);
    command.env("XDG_STATE_HOME", &protected.state);
    let mut serving = Serving::start(command);
    assert!(serving.line.contains(" of 1 server (0 connected, 1 without a login) is"), "{}", serving.line);
    let file = project.root.join("servers.json").display().to_string();
    let remedy = format!("run `mcp login protected --config {file}` as the user of the gateway");
    let diagnostic = format!("mcp: warning: the server `protected` needs a login: {remedy}");
    assert!(serving.earlier.iter().any(|line| line.starts_with(&diagnostic)), "{:?}", serving.earlier);
    let server = || -> Value {
        let status: Value = serde_json::from_str(&get(&serving.url, "/status", "").1).unwrap();
        status["servers"][0].clone()
    };
    let state = || server()["state"].clone();
    ready("the server needs a login", || (state() == "needs-login").then_some(()));
    assert!(server()["remedy"].as_str().unwrap().starts_with(&remedy), "{}", server());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(async {
        let client = Client::builder("client", "1").connect(serving.url.as_str()).await.unwrap();
        client.call_tool("protected__whoami", ()).await.unwrap_err()
    });
    let refused = refused.rpc().unwrap();
    let data = json!({ "server": "protected", "state": "needs-login", "retryable": false });
    let text = "the server \"protected\" needs a login of the operator of the gateway";
    assert_eq!((&*refused.message, refused.data.as_ref()), (text, Some(&data)));
    // The command of the diagnostic finds the server.
    let login = format!("login protected --config {file}");
    protected.check(&login, 0, protected.issuer.issuer(), "opening the login page");
    ready("the server joins", || (state() == "ready").then_some(()));
    assert_eq!(server()["remedy"], Value::Null);
    check(&serving.url, "call URL protected__whoami", 0, "ann", "");
    serving.child.kill().unwrap();
    let rest: Vec<String> = serving.stderr.by_ref().collect();
    assert!(protected.secrets().iter().all(|token| !rest.concat().contains(token)), "{rest:?}");
}
