//! Parsers of the option values.

use std::{ffi::OsString, fs, time::Duration};

use mcp_protocol::{LoggingLevel, ProtocolVersion};

/// The headers of one `--header` option.
pub(crate) type Headers = Vec<(String, String)>;

pub(super) fn headers(text: &str) -> Result<Headers, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(vec![header(text)?]) };
    let text = read_secret(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    // The error does not show an invalid line, because the line may be a secret.
    lines.map(|line| header(line).map_err(|_| format!("{file} has a line that is not `Name: value`"))).collect()
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is `Name: value`")?;
    let value = match value.trim().strip_prefix('@') {
        Some(file) => read_secret(file)?.trim().to_owned(),
        None => value.trim().to_owned(),
    };
    Ok((name.trim().to_owned(), value))
}

/// Reads a file with a secret.
pub(crate) fn read_secret(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
}

pub(super) fn variable(text: &str) -> Result<(String, OsString), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("a variable is `NAME=value`, or `NAME` to pass its current value".to_owned());
    }
    let value = value.ok_or_else(|| format!("{name} has no current value; write `{name}=value`"))?;
    Ok((name.to_owned(), value))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is required".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("the timeout must be greater than zero".to_owned()) } else { Ok(time) }
}

pub(super) fn revision(text: &str) -> Result<ProtocolVersion, String> {
    ProtocolVersion::parse(text).ok_or_else(|| {
        let known: Vec<&str> = ProtocolVersion::ALL.iter().map(|version| version.as_str()).collect();
        format!("the revisions are {}", known.join(", "))
    })
}

pub(super) fn level(text: &str) -> Result<LoggingLevel, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "the levels are debug, info, notice, warning, error, critical, alert, emergency".to_owned())
}

pub(super) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err("a number greater than zero is required".to_owned()),
    }
}
