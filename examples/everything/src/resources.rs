//! Resources and resource templates: the fixtures of the conformance suites, and text, binary and JSON resources.

use std::collections::BTreeMap;

use mcp_server::{ServerBuilder, output::Blob, prelude::*};
use serde_json::json;

use crate::{
    app::{App, WATCHED, Watched},
    media,
    notes::Notes,
};

/// Registers the resources. The suites read the first resource of the list.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    fixtures(builder)
        .resource(
            resource("demo://about.md", about)
                .title("About this server")
                .description("What this server shows, in Markdown.")
                .mime_type("text/markdown"),
        )
        .resource(
            resource("demo://settings", settings)
                .title("Settings")
                .description("Settings as JSON, made from a typed value."),
        )
        .resource(
            resource("demo://dot.png", dot)
                .title("A red dot")
                .description("An image of one pixel.")
                .mime_type("image/png"),
        )
        .resource_template(
            template("note:///{title}", note)
                .name("note")
                .title("Note")
                .description("A note that was kept with `write_note`.")
                .mime_type("text/plain")
                .complete("title", complete_title),
        )
        .resource_template(
            template("demo://cities/{country}/{city}", city)
                .name("city")
                .title("City")
                .description("A few cities of a few countries.")
                .complete_from("country", CITIES.iter().map(|(country, _)| *country))
                .complete("city", complete_city),
        )
}

fn fixtures(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    builder
        .resource(
            resource("test://static-text", static_text)
                .name("static-text")
                .description("A text that never changes.")
                .mime_type("text/plain"),
        )
        .resource(
            resource("test://static-binary", dot)
                .name("static-binary")
                .description("An image that never changes.")
                .mime_type("image/png"),
        )
        .resource(
            resource(WATCHED, watched)
                .name("watched-resource")
                .description("A text that changes every three seconds: subscribe to it.")
                .mime_type("text/plain"),
        )
        .resource_template(
            template("test://template/{id}/data", template_data)
                .name("template-data")
                .description("Data by its number.")
                .mime_type("application/json"),
        )
}

async fn static_text() -> &'static str {
    "This is the content of the static text resource."
}

async fn watched(State(watched): State<Watched>) -> String {
    format!("Watched resource content, change {}.", watched.number())
}

#[derive(Deserialize, JsonSchema)]
struct ById {
    id: String,
}

async fn template_data(Args(ById { id }): Args<ById>) -> Json<serde_json::Value> {
    Json(json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }))
}

async fn about() -> &'static str {
    "# Everything\n\nTexts, bytes, JSON and templates as resources; typed tools; prompts with and without code.\n"
}

#[derive(Serialize)]
struct Settings {
    language: &'static str,
    limits: BTreeMap<&'static str, u32>,
}

async fn settings() -> Json<Settings> {
    Json(Settings { language: "en", limits: BTreeMap::from([("notes", 1_000), ("title_bytes", 100)]) })
}

async fn dot() -> Blob {
    Blob::new(media::PNG)
}

#[derive(Deserialize, JsonSchema)]
struct ByTitle {
    title: String,
}

async fn note(State(notes): State<Notes>, Args(ByTitle { title }): Args<ByTitle>) -> Result<String, ToolError> {
    notes.read(&title).ok_or_else(ToolError::not_found)
}

/// Completes the current titles, for the template and for a prompt.
pub(crate) async fn complete_title(State(notes): State<Notes>, completing: Completing) -> Vec<String> {
    notes.titles(&completing.value)
}

/// The cities of the template.
const CITIES: &[(&str, &[(&str, &str)])] = &[
    ("france", &[("lyon", "Where the Rhône meets the Saône."), ("paris", "The capital, on the Seine.")]),
    ("japan", &[("kyoto", "The capital until 1868."), ("tokyo", "The capital since 1868.")]),
    ("kenya", &[("mombasa", "The port on the Indian Ocean."), ("nairobi", "The capital, 1,795 m above the sea.")]),
];

fn cities_of(country: &str) -> &'static [(&'static str, &'static str)] {
    CITIES.iter().find(|(name, _)| *name == country).map_or(&[], |(_, cities)| *cities)
}

#[derive(Deserialize, JsonSchema)]
struct City {
    country: String,
    city: String,
}

async fn city(Args(City { country, city }): Args<City>) -> Result<&'static str, ToolError> {
    let found = cities_of(&country).iter().find(|(name, _)| *name == city);
    found.map(|(_, text)| *text).ok_or_else(ToolError::not_found)
}

/// Completes the cities of the known country, or of all countries.
async fn complete_city(completing: Completing) -> Vec<&'static str> {
    let country = completing.context.get("country");
    let countries = CITIES.iter().filter(|(name, _)| country.is_none_or(|wanted| wanted == name));
    let cities = countries.flat_map(|(_, cities)| cities.iter().map(|(name, _)| *name));
    cities.filter(|name| name.starts_with(&completing.value)).collect()
}
