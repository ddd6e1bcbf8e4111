//! Servers from directories: loaded files, reported problems, and the rights of commands.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, OnceLock},
};

use crate::{
    client::{Client, names},
    temp_dir::TempDir,
};
use mcp_protocol::ProtocolVersion;
use mcp_server_content::{ContentDir, server_from_dir, server_from_dir_report};
use mcp_server_core::{Server, resource, tool};
use serde_json::json;
use tracing::{
    Dispatch, Event, Subscriber,
    field::Field,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

const NO_ARGUMENTS: [(&str, &str); 0] = [];

#[tokio::test]
async fn serves_a_directory() {
    let disk = TempDir::new("a_directory_becomes");
    disk.write("files/server.toml", "name = \"docs\"\nversion = \"2.1.0\"\ninstructions = \"Read.\"\n");
    disk.write(
        "files/tools/count.toml",
        r#"
            title = "Count"
            description = "Count words."
            command = ["wc", "-w"]
            scopes = ["words"]
            [annotations]
            read_only = true
            [input_schema]
            type = "object"
            properties.text.type = "string"
            required = ["text"]
        "#,
    );
    disk.write(
        "files/tools/other.json",
        r#"{ "name": "renamed", "description": "Does nothing.", "command": ["true"] }"#,
    );
    disk.write("files/tools/README.txt", "No manifest.");
    disk.write("files/tools/nested/ignored.toml", "");
    disk.write(
        "files/prompts/review.md",
        "---\ntitle: Review\ndescription: Review code.\narguments:\n- name: focus\n  description: What matters.\n---\n\
         Review {code}.{?focus? Look at {focus}.}\n",
    );
    disk.write("files/resources/a.txt", "A");
    let (server, problems) = server_from_dir_report(disk.path("files")).unwrap();
    assert_eq!(problems, []);
    assert_eq!((server.info().name.as_str(), server.info().version.as_str()), ("docs", "2.1.0"));

    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    assert_eq!(client.opening["instructions"], "Read.");
    let tools = client.list("tools/list", "tools").await;
    assert_eq!(names(&tools, "name"), ["count", "renamed"]);
    assert_eq!(tools[0]["title"], "Count");
    assert_eq!(tools[0]["annotations"], json!({ "readOnlyHint": true }));
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["text"]));
    let prompts = client.list("prompts/list", "prompts").await;
    assert_eq!(prompts[0]["title"], "Review");
    let arguments = json!([
        { "name": "code", "required": true },
        { "name": "focus", "description": "What matters.", "required": false },
    ]);
    assert_eq!(prompts[0]["arguments"], arguments);
    let prompt = server.get_prompt("review", [("code", "x"), ("focus", "names")]).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Review x. Look at names."));
    assert_eq!(server.read_resource("file:///a.txt").await.unwrap().contents[0].as_text(), Some("A"));
}

/// Sets a subscriber for this thread. With a second subscriber in the process, `tracing` does not disable a callsite
/// for all threads.
fn subscribe(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    static OTHER: OnceLock<Dispatch> = OnceLock::new();
    OTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    tracing::dispatcher::set_default(&subscriber.into())
}

/// The fields of events, as text.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<String>>);

impl<S: Subscriber> Layer<S> for CapturedLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| writeln!(text, "{field}={value:?}").unwrap());
    }
}

#[tokio::test]
async fn only_the_log_names_a_command_that_cannot_start() {
    let disk = TempDir::new("a_command_that_cannot");
    disk.write("files/tools/gone.toml", "description = \"x\"\ncommand = [\"bin/gone\"]");
    disk.write("files/bin/gone", "");
    #[cfg(unix)]
    std::fs::set_permissions(disk.path("files/bin/gone"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (server, problems) = server_from_dir_report(disk.path("files")).unwrap();
    assert_eq!(problems, []);
    disk.remove("files/bin/gone");
    let captured = CapturedLog::default();
    let _listening = subscribe(tracing_subscriber::registry().with(captured.clone()));
    let result = server.call_tool("gone", json!({})).await.unwrap();
    let text = result.content[0].as_text().unwrap();
    assert!(result.is_error && text.contains("reference") && !text.contains("bin/"), "{text}");
    let captured = captured.0.lock().unwrap();
    assert!(captured.contains("files/bin/gone` cannot be started in `"), "{captured}");
}

#[tokio::test]
async fn missing_directories_register_nothing() {
    let disk = TempDir::new("what_is_missing");
    disk.write("bare/.keep", "");
    let (server, problems) = server_from_dir_report(disk.path("bare")).unwrap();
    assert_eq!(problems, []);
    assert_eq!(server.info().name, "bare");
    assert!(server.tools().names().is_empty() && server.prompts().names().is_empty());

    let error = server_from_dir(disk.path("nothing")).unwrap_err();
    assert_eq!(error.path(), disk.path("nothing"));
    disk.write("file", "");
    let error = server_from_dir(disk.path("file")).unwrap_err();
    assert_eq!((error.path(), error.reason()), (&*disk.path("file"), "it is not a directory"));
    assert_eq!(format!("{error:?}"), error.to_string());
    let (_, problems) = ContentDir::new(disk.path("nothing")).add_to(Server::builder::<()>("t", "1"));
    assert_eq!(problems.len(), 1);
    disk.write("bare/server.toml", "name = \"\"\n");
    let error = server_from_dir(disk.path("bare")).unwrap_err();
    assert_eq!(error.reason(), "`name` of the server is empty");
    disk.write("bare/server.toml", "nome = \"x\"\n");
    let error = server_from_dir(disk.path("bare")).unwrap_err();
    assert!(error.reason().contains("unknown field `nome`") && error.path().ends_with("server.toml"), "{error}");
}

#[tokio::test]
async fn reports_an_invalid_file_and_serves_the_others() {
    let disk = TempDir::new("a_bad_file");
    let good = r#"{ "description": "d", "command": ["true"] }"#;
    disk.write("tools/good.json", good);
    disk.write("tools/z-good.json", good);
    disk.write("prompts/good.md", "Hello.");
    let with = |more: &str| format!(r#"{{ "description": "d", "command": ["true"], {more} }}"#);
    let cases = [
        ("tools/key.json", with(r#""colour": 1"#), "unknown field `colour`"),
        ("tools/key.toml", "description = 'd'\ncommand = ['true']\ncolour = 1".to_owned(), "unknown field `colour`"),
        ("tools/syntax.json", "{".to_owned(), "EOF"),
        ("tools/twice.json", with(r#""name": "good""#), "already registered"),
        ("tools/name.json", with(r#""name": "no spaces""#), "a name has"),
        ("tools/schema.json", with(r#""input_schema": { "type": "nonsense" }"#), "input schema"),
        ("tools/empty.json", r#"{ "description": "d", "command": [] }"#.to_owned(), "`command` is empty"),
        ("tools/none.json", r#"{ "description": "d", "command": ["./none"] }"#.to_owned(), "there is no file"),
        ("tools/cwd.json", with(r#""cwd": "none""#), "there is no directory"),
        ("tools/timeout.json", with(r#""timeout": 0"#), "`timeout` is 0"),
        ("tools/running.json", with(r#""max_running": 0"#), "`max_running` is 0"),
        ("tools/output.json", with(r#""max_output": 18446744073709551615"#), "`max_output` is 18446744073709551615"),
        ("tools/form.json", with(r#""output": "text", "output_schema": { "type": "object" }"#), "no `output_schema`"),
        ("tools/large.json", " ".repeat(1024 * 1024 + 1), "larger than 1048576 bytes"),
        ("prompts/yaml.md", "---\na: [\n---\nx".to_owned(), "front matter"),
        ("prompts/brace.md", "Hi {unclosed".to_owned(), "the brace of `{unclosed` is not closed"),
        ("prompts/empty.md", "---\nname: x\n---\n".to_owned(), "no text"),
    ];
    for (path, content, _) in &cases {
        disk.write(path, content);
    }
    disk.write("prompts/bytes.md", [0xff]);
    let builder = Server::builder::<()>("t", "1").tool(tool("mine", async || "x"));
    let (builder, problems) = ContentDir::new(disk.path("")).add_to(builder);
    let server = builder.build();
    assert_eq!(server.tools().names(), ["mine", "good", "z-good"]);
    assert_eq!(server.prompts().names(), ["good"]);
    let reason = |path: &str| problems.iter().find(|problem| problem.path() == disk.path(path)).unwrap().reason();
    for (path, _, expected) in &cases {
        assert!(reason(path).contains(expected), "{path}: {}", reason(path));
    }
    assert_eq!(reason("prompts/bytes.md"), "it is not UTF-8");
    assert_eq!(problems.len(), cases.len() + 1, "{problems:?}");
    server.get_prompt("good", NO_ARGUMENTS).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reports_a_file_with_a_registered_uri_and_serves_the_others() {
    let disk = TempDir::new("a_file_whose_uri_is_taken");
    for name in ["a", "b", "c"] {
        disk.write(&format!("resources/{name}"), name);
    }
    let builder = Server::builder("t", "1").resource(resource("file:///a", async || "mine"));
    let (builder, problems) = ContentDir::new(disk.path("")).add_to(builder);
    assert_eq!(problems.iter().map(|problem| problem.path()).collect::<Vec<_>>(), [disk.path("resources/a")]);
    assert!(problems[0].reason().contains("already registered"), "{problems:?}");
    let server = builder.build();
    assert_eq!(server.resources().names(), ["file:///a", "file:///b", "file:///c"]);
    let mut client = Client::connect(&server, ProtocolVersion::LATEST_LEGACY).await;
    // The server watches the directory. Removing a file does not remove entries from elsewhere.
    disk.remove("resources/a");
    disk.remove("resources/b");
    client.notification("notifications/resources/list_changed").await;
    assert_eq!(server.resources().names(), ["file:///a", "file:///c"]);
}

#[cfg(feature = "skills")]
#[tokio::test]
async fn serves_the_skills_of_a_directory() {
    let disk = TempDir::new("skills_of_a_directory");
    disk.write("skills/a/SKILL.md", "---\nname: a\ndescription: d\n---\n");
    disk.write("skills/b/SKILL.md", "---\nname: a\ndescription: d\n---\n");
    let (server, problems) = server_from_dir_report(disk.path("")).unwrap();
    assert_eq!(problems.iter().map(|problem| problem.path()).collect::<Vec<_>>(), [disk.path("skills/b")]);
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let skills = client.list("skills/list", "skills").await;
    assert_eq!(names(&skills, "uri"), ["skill://a/SKILL.md"]);
}

#[cfg(unix)]
mod commands {
    //! The input and the output of commands.
    #![allow(clippy::verbose_file_reads, reason = "a pipe is read, from where it is")]

    use std::{
        io::Read as _,
        os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
        path::Path,
        time::Duration,
    };

    use serde_json::{Value, json};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn script(disk: &TempDir, name: &str, more: Value, text: &str) {
        let mut manifest = json!({ "description": "d", "command": [format!("bin/{name}"), "one two", "$HOME"] });
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        manifest["input_schema"] = json!({ "type": "object" });
        disk.write(&format!("tools/{name}.json"), manifest.to_string());
        let path = disk.path(&format!("bin/{name}"));
        disk.write(&format!("bin/{name}"), format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[tokio::test]
    async fn a_command_receives_json_and_its_output_is_the_result() {
        let disk = TempDir::new("a_command_gets_json");
        script(&disk, "stdin", json!({}), "cat");
        script(&disk, "arguments", json!({}), "echo \"$1|$2|$#\"");
        script(&disk, "nothing", json!({}), ":");
        script(&disk, "cwd", json!({ "cwd": "bin" }), "pwd");
        script(&disk, "env", json!({ "env": ["CARGO_MANIFEST_DIR"] }), "env | cut -d = -f 1 | sort | tr '\\n' ' '");
        script(&disk, "data", json!({ "output": "json" }), "echo '{\"a\": [1]}'");
        script(&disk, "no_data", json!({ "output": "json" }), "echo oops");
        script(&disk, "failing", json!({}), "echo 'told the model'; echo 'told the log' >&2; exit 3");
        script(&disk, "silent", json!({}), "echo 'told the log' >&2; exit 3");
        script(&disk, "bytes", json!({}), "printf '\\377'");
        script(&disk, "at_the_limit", json!({ "max_output": 5 }), "printf 12345");
        script(&disk, "over_the_limit", json!({ "max_output": 5 }), "printf 123456; exec sleep 1000");
        script(&disk, "endless", json!({}), "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
        script(
            &disk,
            "loud",
            json!({}),
            "i=0; while [ $i -lt 20000 ]; do echo 0123456789 >&2; i=$((i+1)); done; echo ok",
        );
        script(&disk, "background", json!({}), "sleep 1000 & echo done");
        let (server, problems) = server_from_dir_report(disk.path("")).unwrap();
        assert_eq!(problems, []);
        let home = disk.path("bin").to_string_lossy().into_owned();
        for (tool, is_error, expected) in [
            ("stdin", false, r#"{"text":"ü \"$(id)\""}"#),
            ("arguments", false, "one two|$HOME|2"),
            ("nothing", false, ""),
            ("cwd", false, home.as_str()),
            ("env", false, "CARGO_MANIFEST_DIR PATH PWD "),
            ("data", false, r#"{"a": [1]}"#),
            ("no_data", true, "the command did not write JSON"),
            ("failing", true, "told the model"),
            ("silent", true, "the command failed (exit status: 3)"),
            ("bytes", true, "the output of the command is not UTF-8"),
            ("at_the_limit", false, "12345"),
            ("over_the_limit", true, "the command wrote more than 5 bytes"),
            ("endless", true, "the command wrote more than 1048576 bytes"),
            ("loud", false, "ok"),
            ("background", false, "done"),
        ] {
            let call = server.call_tool(tool, json!({ "text": "ü \"$(id)\"" }));
            let result = tokio::time::timeout(DEADLINE, call).await.expect(tool).unwrap();
            let text = result.content[0].as_text().unwrap();
            let shown = text.replace("_ ", "").replace("OLDPWD ", "").replace("SHLVL ", "");
            assert_eq!((shown.as_str(), result.is_error), (expected, is_error), "{tool}");
            let data = (tool == "data").then(|| json!({ "a": [1] }));
            assert_eq!(result.structured_content, data, "{tool}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_process_outside_the_group_does_not_delay_the_call() {
        let disk = TempDir::new("what_leaves_the_group");
        // The process keeps every pipe open and does not read more than a pipe buffers.
        let text = "exec 3<&0; setsid sh -c 'echo >started; exec sleep 30' <&3 &\n\
                    while ! [ -e started ]; do sleep 0.01; done; echo done";
        script(&disk, "outside", json!({}), text);
        let server = server_from_dir(disk.path("")).unwrap();
        let call = server.call_tool("outside", json!({ "text": "x".repeat(1 << 20) }));
        let result = tokio::time::timeout(DEADLINE, call).await.expect("the process delays the call").unwrap();
        assert_eq!((result.content[0].as_text(), result.is_error), (Some("done"), false));
    }

    #[tokio::test]
    async fn runs_as_many_commands_concurrently_as_configured() {
        let disk = TempDir::new("as_many_run_at_once");
        // The command that finds the file of another command reports it.
        script(
            &disk,
            "alone",
            json!({ "max_running": 1 }),
            "mkdir running && sleep 0.2 && rmdir running && echo alone",
        );
        let server = server_from_dir(disk.path("")).unwrap();
        let call = || server.call_tool("alone", json!({}));
        for result in <[_; 3]>::from(tokio::join!(call(), call(), call())) {
            assert_eq!(result.unwrap().content[0].as_text(), Some("alone"));
        }
    }

    #[tokio::test]
    async fn validates_structured_output() {
        let disk = TempDir::new("structured_output");
        let schema = json!({ "output_schema": { "type": "object", "required": ["a"] } });
        script(&disk, "fits", schema.clone(), "echo '{\"a\": 1}'");
        script(&disk, "fits_not", schema, "echo '{}'");
        let server = server_from_dir(disk.path("")).unwrap();
        let fits = server.call_tool("fits", json!({})).await.unwrap();
        assert_eq!(fits.structured_content, Some(json!({ "a": 1 })));
        assert!(server.call_tool("fits_not", json!({})).await.unwrap().is_error);
    }

    #[test]
    fn reports_a_command_that_is_not_a_program() {
        let disk = TempDir::new("a_command_that_is_no_program");
        disk.write("bin/plain", "#!/bin/sh\n");
        for (program, expected) in [
            ("no-such-program-anywhere", "there is no program `no-such-program-anywhere` in PATH"),
            ("bin/plain", "bin/plain` cannot be executed"),
        ] {
            disk.write("tools/x.json", json!({ "description": "d", "command": [program] }).to_string());
            let (server, problems) = server_from_dir_report(disk.path("")).unwrap();
            assert!(problems.len() == 1 && problems[0].reason().ends_with(expected), "{problems:?}");
            assert!(server.tools().names().is_empty());
        }
    }

    #[tokio::test]
    async fn a_command_that_cannot_start_discloses_nothing_about_the_server() {
        let disk = TempDir::new("a_command_that_cannot");
        // Only running the program shows that its interpreter is missing.
        disk.write("bin/x", "#!/no-such-program-anywhere\n");
        std::fs::set_permissions(disk.path("bin/x"), std::fs::Permissions::from_mode(0o755)).unwrap();
        disk.write("tools/x.json", r#"{ "description": "d", "command": ["bin/x"] }"#);
        let server = server_from_dir(disk.path("")).unwrap();
        let result = server.call_tool("x", json!({})).await.unwrap();
        let text = result.content[0].as_text().unwrap();
        assert!(result.is_error && text.contains("reference") && !text.contains("no-such"), "{text}");
    }

    /// Opens a named pipe for reading. The end for writing stays open, too, so that neither open blocks.
    fn open(pipe: &Path, and_write: bool) -> std::fs::File {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        std::fs::OpenOptions::new().read(true).write(and_write).custom_flags(flags).open(pipe).unwrap()
    }

    /// Waits until the pipe has data or has no writer. Returns the number of bytes.
    async fn read(pipe: &mut std::fs::File) -> usize {
        for _ in 0..2000 {
            match pipe.read(&mut [0; 64]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                read => return read.unwrap(),
            }
        }
        panic!("the pipe is empty and still has a writer");
    }

    /// Runs a command that starts another process. Waits until both have closed the pipe.
    async fn ends_with_all_it_started(test: &str, cancel: bool) {
        let disk = TempDir::new(test);
        let wait = json!({ "timeout": 50 });
        script(&disk, "slow", wait, "exec 3> pipe; sleep 1000 & echo started >&3; sleep 1000");
        let pipe = disk.path("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let server = server_from_dir(disk.path("")).unwrap();
        let mut call = Box::pin(server.call_tool("slow", json!({})));
        let mut started = open(&pipe, true);
        tokio::select! {
            result = &mut call => panic!("{result:?}"),
            length = read(&mut started) => assert_eq!(length, "started\n".len()),
        }
        let mut rest = open(&pipe, false);
        drop(started);
        if cancel {
            drop(call);
        } else {
            // The paused clock jumps to the time limit. Then the real clock runs for the end of the processes.
            tokio::time::pause();
            let result = call.await.unwrap();
            tokio::time::resume();
            assert!(result.content[0].as_text().unwrap().contains("took longer than 50s"), "{result:?}");
        }
        assert_eq!(read(&mut rest).await, 0);
    }

    #[tokio::test]
    async fn a_timeout_ends_a_command_with_all_its_processes() {
        ends_with_all_it_started("takes_too_long", false).await;
    }

    #[tokio::test]
    async fn a_cancellation_ends_a_command_with_all_its_processes() {
        ends_with_all_it_started("is_cancelled", true).await;
    }
}
