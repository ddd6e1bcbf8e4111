//! Completes arguments of prompts and variables of resource templates.

use mcp_protocol::{CompleteParams, CompletionArgument, CompletionContext, CompletionReference};

use super::{Session, names::completion_failure};
use crate::{arguments, failure::Failure, requests::RequestError, screen::note, text::line};

const USAGE: &str = "mcp complete [URL] PROMPT|TEMPLATE ARGUMENT... [-- SERVER COMMAND]";

pub(crate) async fn complete(session: &Session, words: &[String]) -> Result<(), Failure> {
    let missing = || Failure::usage("a prompt or a template and an argument are required").with_line(USAGE);
    let (named, words) = words.split_first().ok_or_else(missing)?;
    let mut known = arguments::string_arguments(words, &session.input)
        .await
        .map_err(|failure| failure.with_line(USAGE))?
        .into_iter();
    let (name, value) = known.next().ok_or_else(missing)?;
    // Only the URI of a template contains braces.
    let reference = if named.contains('{') {
        CompletionReference::resource_template(named)
    } else {
        CompletionReference::prompt(named)
    };
    let mut params = CompleteParams::new(reference, CompletionArgument::new(name, value));
    if known.len() > 0 {
        params.context = Some(CompletionContext::new(known.collect()));
    }
    let completion = match session.requests.complete(&params).await {
        Ok(result) => result.completion,
        Err(RequestError::Client(error)) => return Err(completion_failure(session, named, error).await),
        Err(RequestError::Host(failure)) => return Err(failure),
    };
    if session.out.json {
        return session.out.value(&completion);
    }
    for value in &completion.values {
        session.out.text(&line(value))?;
    }
    if completion.has_more == Some(true) {
        let total = completion.total.map_or_else(String::new, |total| format!(" of {total}"));
        note(format!("({}{total}; the server has more)", completion.values.len()));
    }
    Ok(())
}
