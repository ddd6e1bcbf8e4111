//! Completes arguments of prompts and variables of templates.

use std::collections::BTreeMap;

use mcp_protocol::{CompleteParams, CompletionArgument, CompletionContext, CompletionReference};

use super::Session;
use crate::{failure::Failure, output::line, screen::note};

const USAGE: &str = "mcp complete [URL] PROMPT|TEMPLATE KEY=VALUE... [-- SERVER COMMAND]";

pub(crate) async fn complete(session: &Session, words: &[String]) -> Result<(), Failure> {
    let [reference, typed, known @ ..] = words else {
        return Err(Failure::usage(format!("a prompt or a template and key=value are expected\n     {USAGE}")));
    };
    let pair = |word: &str| {
        let (key, value) =
            word.split_once('=').ok_or_else(|| Failure::usage(format!("`{word}` is not key=value\n     {USAGE}")))?;
        Ok::<_, Failure>((key.to_owned(), value.to_owned()))
    };
    let (name, value) = pair(typed)?;
    let known: BTreeMap<String, String> = known.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
    // Only a template has braces.
    let reference = if reference.contains('{') {
        CompletionReference::resource_template(reference)
    } else {
        CompletionReference::prompt(reference)
    };
    let mut params = CompleteParams::new(reference, CompletionArgument::new(name, value));
    if !known.is_empty() {
        params.context = Some(CompletionContext::new(known));
    }
    let completion = session.client.complete_with(&params).await?.completion;
    if session.out.json {
        return session.out.value(&completion);
    }
    for value in &completion.values {
        session.out.text(&line(value))?;
    }
    if completion.has_more == Some(true) {
        let total = completion.total.map_or_else(String::new, |total| format!(" of {total}"));
        note(format!("({}{total}, there are more)", completion.values.len()));
    }
    Ok(())
}
