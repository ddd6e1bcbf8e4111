//! The servers of `mcp gateway` that need a login: they join after `mcp login`.

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
    let state = || -> Value {
        let status: Value = serde_json::from_str(&get(&serving.url, "/status", "").1).unwrap();
        status["servers"][0]["state"].clone()
    };
    ready("the server needs a login", || (state() == "needs-login").then_some(()));
    protected.check("login URL", 0, protected.issuer.issuer(), "opening the login page");
    ready("the server joins", || (state() == "ready").then_some(()));
    check(&serving.url, "call URL protected__whoami", 0, "ann", "");
    serving.child.kill().unwrap();
    let rest: Vec<String> = serving.stderr.by_ref().collect();
    assert!(protected.secrets().iter().all(|token| !rest.concat().contains(token)), "{rest:?}");
}
