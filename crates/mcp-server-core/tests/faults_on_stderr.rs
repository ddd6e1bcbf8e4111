//! A process without a `tracing` subscriber prints its faults to stderr. The test runs such a process.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{io, time::Duration};

use mcp_server_core::{
    Invocation, Next, Outcome, RegistrationError, Server, ToolError,
    engine::flush_faults,
    extension::{MethodRoute, Registrar, ServerExtension},
    from_fn, prompt, resource, template, tool,
};
use serde_json::json;
use tracing::subscriber::NoSubscriber;

use crate::{
    child_process,
    common::{Connection, initialize, legacy},
};

/// The mode of the child process.
const MODE: &str = "MCP_TEST_FAULTS_ON_STDERR";

/// An extension whose methods panic.
struct Methods;

impl ServerExtension for Methods {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        registrar.method(MethodRoute::new("example/later", async |_| panic!("a broken method")))?;
        registrar.method(MethodRoute::immediate("example/now", |_| panic!("a broken method")))
    }
}

fn failing(shows_faults: bool) -> Server {
    let layer =
        async |invocation: Invocation, next: Next| -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
            match invocation.name() {
                "layered" => Err("a broken layer".into()),
                "layer-panics" => panic!("a broken lock"),
                _ => Ok(next.run(invocation).await?),
            }
        };
    let builder = Server::builder("failing", "1")
        .tool(tool("fails", async || -> Result<String, ToolError> {
            Err(io::Error::other("a broken\ndisk\u{1b}[2J"))?
        }))
        .tool(tool("panics", async || -> String { panic!("a broken invariant") }))
        .resource(resource("fails://resource", async || -> String { panic!("a broken resource") }))
        .resource_template(template("fails://{id}/part", async || -> Result<String, ToolError> {
            Err(io::Error::other("a broken template"))?
        }))
        .prompt(prompt("plan", async || -> String { panic!("a broken prompt") }))
        .tool(tool("layered", async || "layered"))
        .tool(tool("layer-panics", async || "layered"))
        .extension(Methods)
        .layer(from_fn(layer));
    if shows_faults { builder.show_faults().build() } else { builder.build() }
}

/// The child process: it calls each tool and each method, and prints the texts for the client to stdout. Without the variable it does nothing.
#[test]
fn runs_as_a_child_process() {
    let Ok(mode) = std::env::var(MODE) else { return };
    if mode != "none" && mode != "shows" {
        tracing::subscriber::set_global_default(NoSubscriber::new()).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = failing(mode.starts_with("shows"));
    runtime.block_on(async {
        for name in ["fails", "panics", "layered", "layer-panics"] {
            let text = match server.call_tool(name, json!({})).await {
                Ok(result) => result.content[0].as_text().unwrap().to_owned(),
                Err(error) => error.message,
            };
            println!("\nclient: {text}");
        }
        let mut connection = Connection::connect(&server);
        connection.exchange(initialize("2025-11-25")).await;
        for (method, params) in [
            ("example/later", json!({})),
            ("example/now", json!({})),
            ("resources/read", json!({ "uri": "fails://resource" })),
            ("resources/read", json!({ "uri": "fails://hunter2/part" })),
            ("prompts/get", json!({ "name": "plan" })),
        ] {
            let response = connection.exchange(legacy(method, method, params)).await;
            println!("\nclient: {}", response["error"]["message"].as_str().unwrap());
        }
    });
    assert!(flush_faults(Duration::from_secs(30)));
}

fn lines(mode: &str) -> (Vec<String>, Vec<String>) {
    let output = child_process::run("faults_on_stderr::runs_as_a_child_process", MODE, mode);
    assert!(output.status.success(), "{output:?}");
    let read = |bytes: Vec<u8>, start: &str| {
        let text = String::from_utf8(bytes).unwrap();
        text.lines().filter_map(|line| line.strip_prefix(start)).map(str::to_owned).collect()
    };
    (read(output.stdout, "client: "), read(output.stderr, "mcp-server: "))
}

#[test]
fn a_process_without_a_subscriber_prints_each_fault_to_stderr() {
    let (client, printed) = lines("none");
    let expected = [
        ("a handler failed in the tool `fails`", r"a broken\ndisk\u{1b}[2J"),
        ("a handler panicked in the tool `panics`", "a broken invariant"),
        ("a layer failed in the tool `layered`", "a broken layer"),
        ("a layer panicked in the tool `layer-panics`", "a broken lock"),
        ("a method of an extension panicked in the method `example/later`", "a broken method"),
        ("a method of an extension panicked in the method `example/now`", "a broken method"),
        ("a handler panicked in the resource `fails://resource`", "a broken resource"),
        ("a handler failed in the resource template `fails://{id}/part`", "a broken template"),
        ("a handler panicked in the prompt `plan`", "a broken prompt"),
    ];
    assert_eq!((client.len(), printed.len()), (9, 9), "{client:?} {printed:?}");
    for ((client, printed), (event, details)) in client.iter().zip(&printed).zip(expected) {
        let reference = client.strip_prefix("the call failed on the server ").unwrap();
        assert_eq!(*printed, format!("{event} {reference}: {details}"));
    }
}

#[test]
fn a_server_that_shows_faults_prints_a_warning() {
    let (client, printed) = lines("shows");
    assert!(client.iter().all(|text| text.contains("): a broken")), "{client:?}");
    assert_eq!(printed.len(), 10, "{printed:?}");
    assert_eq!(printed[0], "warning: clients receive the details of faults, because the server uses `show_faults`");
    let (client, printed) = lines("shows and subscriber");
    assert_eq!((client.len(), printed.len()), (9, 0), "{printed:?}");
}

#[test]
fn a_process_with_a_subscriber_prints_no_fault() {
    let (client, printed) = lines("subscriber");
    assert_eq!((client.len(), printed.len()), (9, 0), "{printed:?}");
}
