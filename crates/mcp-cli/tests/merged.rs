//! Commands over the merged catalog of several servers of a configuration file.

use mcp_server::prelude::*;
use serde_json::{Value, json};

use super::{Http, configuration::Project, fixture};

/// A server with items that the fixture does not have, and with one resource, template and prompt of the same name.
fn library() -> Server {
    Server::builder("library", "2.0")
        .tool(tool("lend", async || "lent"))
        .resource(resource("library://shelves", async || "three shelves"))
        .resource(resource("config://app", async || "colour = red"))
        .resource_template(template("book://{title}", async || "a book"))
        .prompt(prompt("summary", async || "Summarize the book."))
        .prompt(prompt("review", async || "Review the book."))
        .build()
}

fn project(name: &str) -> (Project, Http, String) {
    let project = Project::new(name);
    let http = Http::serve(library(), HttpConfig::new());
    let servers = json!({
        "local": { "command": fixture() }, "web": { "url": http.url }, "gone": { "command": "no-such-program-anywhere" }
    });
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    (project, http, file)
}

#[test]
fn lists_have_the_items_of_all_servers() {
    let (project, _http, file) = project("merged-lists");
    let list = |command: &str| {
        let (code, out, err) = project.run(&[command, "--json", "--config", &file]);
        assert_eq!(code, Some(0), "{err}");
        assert!(err.contains("the server `gone` failed"), "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let pairs = |items: &Value, key: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        items.as_array().unwrap().iter().map(|item| (text(&item["server"]), text(&item[key]))).collect()
    };
    let has = |items: &[(String, String)], server: &str, name: &str| {
        assert!(items.contains(&(server.to_owned(), name.to_owned())), "{server} {name}: {items:?}");
    };
    let found = list("resources");
    let resources = pairs(&found["resources"], "uri");
    has(&resources, "local", "config://app");
    has(&resources, "web", "config://app");
    has(&resources, "web", "library://shelves");
    let templates = pairs(&found["resourceTemplates"], "uriTemplate");
    has(&templates, "local", "note://{id}");
    has(&templates, "web", "book://{title}");
    let prompts = pairs(&list("prompts"), "name");
    has(&prompts, "local", "local:review");
    has(&prompts, "web", "web:summary");
    let info = list("info");
    assert_eq!((&info[0]["server"], &info[0]["serverInfo"]["name"]), (&json!("local"), &json!("fixture")));
    assert_eq!((&info[1]["server"], &info[1]["serverInfo"]["name"]), (&json!("web"), &json!("library")));
    assert_eq!(info.as_array().unwrap().len(), 2);

    for (command, lines) in [
        ("resources", &["SERVER", "local   config://app", "web     book://{title}"][..]),
        ("prompts", &["local:review", "web:review", "web:summary"]),
        ("info", &["fixture 1.0", "entry         local", "library 2.0", "entry         web"]),
    ] {
        let (code, out, _) = project.run(&[command, "--config", &file]);
        assert_eq!(code, Some(0));
        assert!(lines.iter().all(|line| out.contains(line)), "{command}: {out}");
    }
}

#[test]
fn a_name_or_a_uri_selects_its_server() {
    let (project, _http, file) = project("merged-names");
    let gone = "the server `gone` failed";
    for (words, out) in [
        (&["read", "library://shelves"][..], "three shelves"),
        (&["read", "book://emma"], "a book"),
        (&["read", "config://app", "--server", "local"], "dark = true"),
        (&["prompt", "summary"], "Summarize the book."),
        (&["prompt", "web:review"], "Review the book."),
        (&["prompts", "summary"], "web:summary"),
        (&["prompts", "web:review"], "review"),
        (&["complete", "note://{id}", "id=o"], "one"),
        (&["complete", "local:review", "name=m"], ""),
    ] {
        let (code, found, err) = project.run(&[words, &["--config", &file]].concat());
        assert_eq!(code, Some(0), "{words:?}: {err}");
        assert!(found.contains(out), "{words:?}: {found}");
        // A command for one server does not concern the others.
        let is_chosen =
            words.iter().any(|word| *word == "--server" || word.starts_with("web:") || word.starts_with("local:"));
        assert_eq!(err.contains(gone), !is_chosen, "{words:?}: {err}");
    }
    for (words, err) in [
        (
            &["read", "config://app"][..],
            "several servers have the resource `config://app`; choose a server with --server: local, web\n",
        ),
        (
            &["read", "nowhere://x"],
            "no server lists the resource `nowhere://x`; choose a server with --server: local, web, gone\n",
        ),
        (&["prompt", "review"], "several servers have the prompt `review`: local:review, web:review\n"),
        (&["prompt", "summry"], "no server lists the prompt `summry`; did you mean summary?\n"),
        (&["prompt"], "the name of a prompt is required"),
        (&["complete", "{x}", "x=1"], "no server lists the resource template `{x}`; choose a server with --server"),
        (&["resources", "more"], "unexpected argument `more`"),
        (&["listen"], "choose a server with --server: local, web, gone"),
    ] {
        let (code, _, found) = project.run(&[words, &["--config", &file]].concat());
        assert_eq!(code, Some(2), "{words:?}: {found}");
        assert!(found.contains(err), "{words:?}: {found}");
    }
}

#[test]
fn the_scheme_of_a_template_is_not_the_name_of_a_server() {
    let project = Project::new("merged-scheme");
    let http = Http::serve(library(), HttpConfig::new());
    let servers = json!({ "note": { "url": http.url }, "local": { "command": fixture() } });
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    project.check(&["complete", "note://{id}", "id=o", "--config", &file], 0, "one", "");
}
