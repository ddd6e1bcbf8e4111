//! Tools for the demo, for load tests, and generated tools.

use std::time::Duration;

use mcp_server::{ServerBuilder, output::Structured, prelude::*, protocol::Resource};

use crate::{app::App, notes::Notes, observations::Observations};

/// The largest text of `big`, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// The longest duration of `slow`.
const MAX_WAIT: Duration = Duration::from_secs(50);

/// Registers the tools.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    builder
        .tool(tool("echo", echo).title("Echo").read_only().closed_world())
        .tool(tool("add", add).title("Add").read_only().closed_world())
        .tool(tool("big", big).title("A large text").read_only().closed_world())
        .tool(tool("slow", slow).title("A slow call").read_only().closed_world())
        .tool(tool("write_note", write_note).title("Write a note").additive().idempotent().closed_world())
        .tool(tool("find_notes", find_notes).title("Find notes").read_only().closed_world())
}

/// Registers `count` tools that differ only in their names.
pub(crate) fn register_generated(mut builder: ServerBuilder<App>, count: u32) -> ServerBuilder<App> {
    for n in 1..=count {
        let handler = move |Args(Generated { text, limit }): Args<Generated>| async move {
            let text: String = text.chars().take(limit.unwrap_or(80)).collect();
            format!("{n}: {text}")
        };
        builder = builder.tool(tool(format!("generated_{n:04}"), handler).read_only());
    }
    builder
}

/// Say the same text again.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to say.
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

async fn add(Args(Add { a, b }): Args<Add>) -> Result<Json<Sum>, ToolError> {
    let sum = a + b;
    if sum.is_infinite() {
        return Err(ToolError::new("the sum is too large for a double"));
    }
    Ok(Json(Sum { sum }))
}

/// Make a text of a given length.
#[derive(Deserialize, JsonSchema)]
struct Big {
    /// The length in bytes, 16 MiB at most.
    #[schemars(range(max = MAX_TEXT))]
    n: usize,
}

async fn big(Args(Big { n }): Args<Big>) -> String {
    "x".repeat(n)
}

/// Take some time, and report progress ten times.
#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// The duration in milliseconds; 50 seconds at most.
    #[schemars(range(max = 50_000))]
    ms: u64,
}

async fn slow(State(observations): State<Observations>, progress: Progress, Args(Slow { ms }): Args<Slow>) -> String {
    let running = observations.start_call();
    let step = Duration::from_millis(ms).min(MAX_WAIT) / 10;
    for done in 1..=10 {
        tokio::time::sleep(step).await;
        progress.report(done, 10, None).await;
    }
    running.finish();
    format!("That took {ms} ms.")
}

/// Store a note under a title, and replace an older one. Read it as the resource `note:///{title}`.
#[derive(Deserialize, JsonSchema)]
struct WriteNote {
    /// The title of the note.
    title: String,
    /// The text of the note.
    text: String,
}

async fn write_note(State(notes): State<Notes>, Args(note): Args<WriteNote>) -> Result<&'static str, ToolError> {
    let is_new = notes.write(&note.title, note.text).visible()?;
    Ok(if is_new { "A new note." } else { "The note says something new." })
}

/// List the notes whose titles begin with a text, each with a link to read it.
#[derive(Deserialize, JsonSchema)]
struct FindNotes {
    /// The beginning of the title; all notes by default.
    #[serde(default)]
    beginning: String,
}

#[derive(Serialize, JsonSchema)]
struct Titles {
    titles: Vec<String>,
}

/// Programs read the structured titles. Users open the links.
async fn find_notes(State(notes): State<Notes>, Args(find): Args<FindNotes>) -> Structured<Titles> {
    let titles = notes.titles(&find.beginning);
    let link = |title: &String| {
        let uri = format!("note:///{}", percent_encoded(title));
        ContentBlock::resource_link(Resource::new(uri, title.as_str()).with_mime_type("text/plain"))
    };
    Structured { content: titles.iter().map(link).collect(), data: Titles { titles } }
}

/// A generated tool for tests of long lists.
#[derive(Deserialize, JsonSchema)]
struct Generated {
    /// Some text.
    text: String,
    /// The largest number of characters to return.
    limit: Option<usize>,
}

/// Encodes a text as one segment of a path (RFC 3986 section 2.3).
fn percent_encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}
