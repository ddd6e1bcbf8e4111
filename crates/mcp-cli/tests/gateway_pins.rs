//! The tools that `mcp gateway --pins` blocks.

use serde_json::json;

use super::{
    check,
    configuration::Project,
    gateway::gateway,
    policies::described,
    process::{signal, wait},
    serve::Serving,
};

#[test]
fn a_changed_definition_has_one_warning_with_its_remedy() {
    let project = Project::new("gateway-pins");
    let pins = project.root.join("pins.json").display().to_string();
    for (text, code, out, err) in
        [("Opens a door.", 0, "opened", ""), ("Opens a window.", 2, "", "lists no tool `s__open`")]
    {
        let http = described(text);
        let servers = json!({ "s": { "url": http.url } });
        let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0", "--pins", &pins]));
        check(&serving.url, "call URL s__open", code, out, err);
        if signal(&mut serving.child, "TERM") {
            wait(&mut serving.child);
        }
        let lines = std::mem::take(&mut serving.earlier).into_iter().chain(serving.stderr.by_ref());
        let warnings: Vec<String> = lines.filter(|line| line.contains("warning")).collect();
        let file = project.root.join("servers.json").display().to_string();
        let expected = format!(
            "mcp: warning: the pin of the tool `open` of the server `s` blocks the tool: the definition changed: \
             `/description` was \"Opens a door.\" and is \"Opens a window.\"; to accept the definition, run \
             `mcp call s:open --config {file} --pins {pins}` at a terminal"
        );
        let expected = if code == 0 { Vec::new() } else { vec![expected] };
        assert_eq!(warnings, expected);
    }
}
