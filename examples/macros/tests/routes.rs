//! The definitions that the attribute macros write, and calls of their functions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use mcp_client::{Client, OpenTransport, transport::memory};
use mcp_server::{
    extract::{FromRef, ResourceUri},
    prelude::*,
};
use serde_json::{Value, json};

#[derive(Clone)]
struct App {
    notes: Vec<String>,
    limit: Limit,
}

#[derive(Clone)]
struct Limit(u32);

impl FromRef<App> for Limit {
    fn from_ref(app: &App) -> Self {
        app.limit.clone()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

/// Search notes.
///
/// The search ignores case.
#[expect(clippy::too_many_arguments, reason = "the test has one parameter of each form")]
#[tool(read_only, idempotent, closed_world, title = "Search", requires_scopes = ["notes:read"])]
async fn search(
    State(app): State<App>,
    State(limit): State<Limit>,
    /// The text to find.
    text: String,
    /// The order of the results.
    #[arg(default = Order::Newest)]
    order: Order,
    #[arg(default)] exact: bool,
    #[arg(name = "type", default = "note")] kind: String,
    #[schemars(range(min = 1))] limit_of_call: Option<u32>,
    context: Context,
) -> Result<String, ToolError> {
    let count = app.notes.iter().filter(|note| note.contains(&text)).count();
    let limit = limit_of_call.unwrap_or(limit.0);
    Ok(format!("{count} {order:?} {exact} {kind} {limit} {}", context.version()))
}

/// An extractor of this program.
struct Greeting(String);

impl<S: Send + Sync> mcp_server::extract::FromCallParts<S> for Greeting {
    async fn from_call_parts(_parts: &mut mcp_server::extract::CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(Self("hello".to_owned()))
    }
}

/// The parameter and the function have one name.
#[tool(name = "greet-all", description = "Greet.")]
async fn greet(#[extract] Greeting(text): Greeting, greet: u32) -> String {
    format!("{text} {greet}")
}

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

#[tool]
async fn product(Args(pair): Args<Pair>) -> Json<i64> {
    Json(pair.a * pair.b)
}

/// The return type contains `impl Trait`.
#[tool]
async fn double(value: u32) -> Result<Json<impl Serialize + JsonSchema>, ToolError> {
    Ok(Json(value * 2))
}

/// `macro_rules!` passes the types.
macro_rules! limited_tool {
    ($name:ident, $state:ty, $argument:ty) => {
        #[tool]
        async fn $name(State(limit): $state, count: $argument) -> String {
            format!("{} {count:?}", limit.0)
        }
    };
}

limited_tool!(limited, State<Limit>, Option<u32>);

/// Plan a day.
#[prompt(title = "Plan")]
async fn plan(
    /// The date.
    date: String,
    hours: Option<u32>,
) -> String {
    format!("Plan {date} with {hours:?} hours")
}

/// The notes of a day.
#[resource("notes://{year}/{day}", name = "notes", mime_type = "text/plain")]
async fn notes(State(app): State<App>, day: u32, year: u32, uri: ResourceUri) -> String {
    format!("{} {year} {day} {}", app.notes.len(), uri.0 == "notes://2026/5")
}

#[derive(Deserialize, JsonSchema)]
struct Section {
    section: String,
    #[serde(rename = "paragraph")]
    index: String,
}

/// serde determines the names of the variables.
#[resource("books://{title}/{chapter}/{section}/{paragraph}")]
async fn book(
    #[serde(rename = "title", default)] book: String,
    #[serde(rename(deserialize = "chapter"))] number: u32,
    #[serde(flatten)] place: Section,
) -> String {
    format!("{book} {number} {} {}", place.section, place.index)
}

#[resource("notes://all", mime_type = "text/plain")]
async fn all() -> &'static str {
    "all"
}

async fn connect() -> Client {
    let app = App { notes: vec!["milk".to_owned(), "tea".to_owned()], limit: Limit(9) };
    let server = Server::builder("notes", "1.0.0")
        .tool(search::route())
        .tool(greet::route())
        .tool(product::route())
        .tool(double::route())
        .tool(limited::route())
        .prompt(plan::route().complete_from("date", ["monday"]))
        .resource(all::route())
        .resource_template(notes::route())
        .resource_template(book::route())
        .with_state(app)
        .build();
    Client::connect(&server).await.unwrap()
}

#[tokio::test]
async fn a_tool_has_the_description_and_the_schema_of_its_parameters() {
    let tools = connect().await.list_tools().await.unwrap();
    let search = serde_json::to_value(&tools[0]).unwrap();
    assert_eq!(search["name"], "search");
    assert_eq!(search["title"], "Search");
    assert_eq!(search["description"], "Search notes.\n\nThe search ignores case.");
    let hints = json!({ "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false });
    assert_eq!(search["annotations"], hints);
    let schema = &search["inputSchema"];
    assert_eq!(schema["required"], json!(["text"]));
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["text", "order", "exact", "type", "limit_of_call"]);
    assert_eq!(schema["properties"]["text"], json!({ "type": "string", "description": "The text to find." }));
    assert_eq!(schema["properties"]["order"]["description"], "The order of the results.");
    assert_eq!(schema["properties"]["type"], json!({ "type": "string", "default": "note" }));
    assert_eq!(schema["properties"]["limit_of_call"]["minimum"], 1);
    assert_eq!((tools[1].name.as_str(), tools[1].description.as_deref()), ("greet-all", Some("Greet.")));
}

#[tokio::test]
async fn a_tool_receives_arguments_defaults_and_extractors() {
    let client = connect().await;
    for (name, arguments, text) in [
        ("search", json!({ "text": "milk" }), "1 Newest false note 9"),
        (
            "search",
            json!({ "text": "x", "order": "oldest", "exact": true, "type": "y", "limit_of_call": 2 }),
            "0 Oldest true y 2",
        ),
        ("greet-all", json!({ "greet": 3 }), "hello 3"),
        ("product", json!({ "a": 6, "b": 7 }), "42"),
        ("double", json!({ "value": 4 }), "8"),
        ("limited", json!({ "count": 3 }), "9 Some(3)"),
    ] {
        let result = client.call_tool(name, arguments).await.unwrap().ok().unwrap().text();
        assert!(result.starts_with(text), "{name}: {result}");
    }
    let result = client.call_tool("search", Value::Object(serde_json::Map::new())).await.unwrap();
    assert!(result.ok().is_err_and(|error| error.to_string().contains("text")), "a required argument is missing");
}

#[tokio::test]
async fn prompts_and_templates_take_their_parameters_by_name() {
    let client = connect().await;
    let prompts = client.list_prompts().await.unwrap();
    let plan = serde_json::to_value(&prompts[0]).unwrap();
    let arguments = json!([
        { "name": "date", "description": "The date.", "required": true },
        { "name": "hours", "required": false },
    ]);
    assert_eq!((&plan["description"], &plan["arguments"]), (&json!("Plan a day."), &arguments));
    let prompt = client.get_prompt("plan", json!({ "date": "today", "hours": "3" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Plan today with Some(3) hours"));
    let templates = client.list_resource_templates().await.unwrap();
    let notes = (templates[0].name.as_str(), templates[0].description.as_deref());
    assert_eq!(notes, ("notes", Some("The notes of a day.")));
    for (uri, text) in
        [("notes://2026/5", "2 2026 5 true"), ("notes://all", "all"), ("books://emma/3/intro/7", "emma 3 intro 7")]
    {
        let read = client.read_resource(uri).await.unwrap();
        assert_eq!(read.contents[0].as_text(), Some(text), "{uri}");
    }
}

#[tokio::test]
async fn the_function_stays_callable() {
    assert_eq!(greet(Greeting("hi".to_owned()), 2).await, "hi 2");
}

#[prompt(requires_scopes = ["plans"])]
async fn secret_plan() -> &'static str {
    "secret"
}

#[prompt(requires_authentication)]
async fn known_plan() -> &'static str {
    "known"
}

#[resource("secret://plan", requires_scopes = ["plans"], mime_type = "text/plain")]
async fn secret_resource() -> &'static str {
    "secret"
}

#[resource("known://{day}", requires_authentication)]
async fn known_template(day: String) -> String {
    day
}

#[tool(requires_authentication)]
async fn known_tool() -> &'static str {
    "known"
}

#[tokio::test]
async fn access_rules_of_attributes_apply() {
    let (public, known) = (&["all"][..], &["known_plan", "known_template", "known_tool", "all"][..]);
    let granted = &["secret_plan", "known_plan", "secret_resource", "known_template", "known_tool", "all"][..];
    for (principal, expected) in [
        (None, public),
        (Some(Principal::new("ann")), known),
        (Some(Principal::new("ann").with_scopes(["plans"])), granted),
    ] {
        let server = Server::builder("plans", "1.0.0")
            .prompt(secret_plan::route())
            .prompt(known_plan::route())
            .resource(secret_resource::route())
            .resource(all::route())
            .resource_template(known_template::route())
            .tool(known_tool::route())
            .build();
        let (ours, theirs) = memory::duplex(64);
        let caller = mcp_server::Caller::remote().principal(principal.clone().map(Into::into));
        tokio::spawn(async move { server.serve_as(theirs, caller).await });
        let client = Client::connect(OpenTransport::new(ours)).await.unwrap();
        let mut names: Vec<String> = client.list_prompts().await.unwrap().into_iter().map(|entry| entry.name).collect();
        names.extend(client.list_resources().await.unwrap().into_iter().map(|entry| entry.name));
        names.extend(client.list_resource_templates().await.unwrap().into_iter().map(|entry| entry.name));
        names.extend(client.list_tools().await.unwrap().into_iter().map(|entry| entry.name));
        names.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(names, expected, "{principal:?}");
        let has_scopes = principal.is_some_and(|principal| !principal.scopes.is_empty());
        assert_eq!(client.read_resource("secret://plan").await.is_ok(), has_scopes);
    }
}
