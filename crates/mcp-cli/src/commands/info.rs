//! Shows the server's name, revision and capabilities, and measures its response time.

use std::time::Instant;

use mcp_client::Negotiated;
use serde_json::{Value, json};

use super::Session;
use crate::{
    failure::Failure,
    output::styled,
    style::{self, Style},
    text::{line, printable},
};

pub(crate) fn info(session: &Session) -> Result<(), Failure> {
    let negotiated = session.client.negotiated();
    if session.out.json { session.out.value(&to_json(&negotiated)) } else { styled(&describe(None, &negotiated)) }
}

/// Returns the result of the handshake as JSON.
pub(crate) fn to_json(negotiated: &Negotiated) -> Value {
    json!({
        "protocolVersion": negotiated.version.as_str(),
        "serverInfo": negotiated.server_info,
        "capabilities": negotiated.capabilities,
        "instructions": negotiated.instructions,
        "supportedVersions": negotiated.supported_versions,
    })
}

/// Returns the result of the handshake as text. `entry` is the name of the server in its configuration file.
pub(crate) fn describe(entry: Option<&str>, negotiated: &Negotiated) -> String {
    let label = |text| style::out(Style::Dim, text);
    let server = &negotiated.server_info;
    let name = server.title.as_ref().unwrap_or(&server.name);
    let mut text = format!("{} {}\n", style::out(Style::Name, &line(name)), line(&server.version));
    if let Some(description) = &server.description {
        text.push_str(&format!("{}\n", printable(description)));
    }
    if let Some(url) = &server.website_url {
        text.push_str(&format!("{}\n", line(url)));
    }
    text.push('\n');
    if let Some(entry) = entry {
        text.push_str(&format!("{}         {}\n", label("entry"), line(entry)));
    }
    text.push_str(&format!("{}      {}\n", label("revision"), negotiated.version.as_str()));
    if !negotiated.supported_versions.is_empty() {
        text.push_str(&format!("{}     {}\n", label("supported"), line(&negotiated.supported_versions.join(", "))));
    }
    let capabilities = serde_json::to_value(&negotiated.capabilities).unwrap_or_default();
    text.push_str(&format!("{}  {}\n", label("capabilities"), names(&capabilities)));
    if let Some(instructions) = &negotiated.instructions {
        text.push_str(&format!("\n{}\n", printable(instructions)));
    }
    text
}

/// Returns the capabilities in words, for example `tools (listChanged), logging`.
fn names(capabilities: &Value) -> String {
    let Some(capabilities) = capabilities.as_object().filter(|capabilities| !capabilities.is_empty()) else {
        return "none".to_owned();
    };
    let capability = |(name, details): (&String, &Value)| {
        let details: Vec<&str> = details
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| **value != Value::Bool(false))
            .map(|(name, _)| name.as_str())
            .collect();
        if details.is_empty() { name.clone() } else { format!("{name} ({})", details.join(", ")) }
    };
    line(&capabilities.iter().map(capability).collect::<Vec<_>>().join(", "))
}

pub(crate) async fn ping(session: &Session, count: u32) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        session.client.ping().await?;
        let millis = start.elapsed().as_secs_f64() * 1e3;
        times.push(millis);
        if !session.out.json {
            session.out.text(&format!("{millis:.2} ms"))?;
        }
    }
    if session.out.json {
        return session.out.value(&json!({ "milliseconds": times }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_declared_capabilities() {
        let value = json!({"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": false}});
        assert_eq!(names(&value), "tools (listChanged), logging, resources");
        assert_eq!(names(&json!({})), "none");
    }
}
