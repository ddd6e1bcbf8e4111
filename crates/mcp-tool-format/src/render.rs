//! Tool definitions for a request.

use std::collections::HashMap;

use mcp_protocol::Tool;
use serde_json::{Map, Value};

use crate::{
    DiagnosticKind as Kind, Options, Provider, Rendered, Rules, check,
    diagnostic::Log,
    keys::Keys,
    name,
    rendered::Entry,
    schema::{self, Node},
    shape::{self, Definition},
    strict::Used,
    text,
};

/// The most schemas of a strict tool. A larger one is written without `strict`, so that it is written once.
const MAX_STRICT: usize = 2_500;

/// Writes tool definitions for a provider.
///
/// Each item is a name for the model and a tool. The caller chooses the names, for example by
/// [`qualified_name`](crate::qualified_name). A name that the provider refuses is replaced by
/// [`safe_name`](crate::safe_name). The order of the tools is kept.
///
/// Each definition is compared with the [`Rules`] of the provider. A tool that cannot be rewritten is left out, with a
/// diagnostic.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool};
/// use mcp_tool_format::{Options, Provider, render};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "at": { "type": ["string", "null"], "format": "date-time" } },
/// });
/// let tool = Tool::new("remind", JsonObject::from_value(schema).unwrap_or_default());
/// let rendered = render([("remind", &tool)], &Options::new(Provider::Gemini));
///
/// let at = &rendered.value[0]["functionDeclarations"][0]["parameters"]["properties"]["at"];
/// assert_eq!(at, &json!({ "type": "string", "nullable": true, "description": "format: \"date-time\"" }));
/// ```
pub fn render<'a>(tools: impl IntoIterator<Item = (&'a str, &'a Tool)>, options: &Options) -> Rendered {
    let provider = options.provider;
    let rules = Rules::of(provider);
    let mut max_tools = options.max_tools.unwrap_or(usize::MAX).min(rules.max_tools.unwrap_or(usize::MAX));
    let can_defer = matches!(provider, Provider::Anthropic | Provider::OpenAiResponses);
    if can_defer && !options.deferred.is_empty() {
        // The search tool is a tool of the request.
        max_tools = max_tools.saturating_sub(1);
    }
    let mut rendered = Rendered {
        provider,
        value: Value::Null,
        diagnostics: Vec::new(),
        entries: Vec::new(),
        by_provider_name: HashMap::new(),
        validated: provider == Provider::Gemini && options.strict == Some(true),
    };
    let (mut definitions, mut bytes, mut any_deferred, mut used) = (Vec::new(), 0usize, false, Used::default());
    for (name, tool) in tools {
        let mut log = Log::default();
        let provider_name = name::safe_name(name);
        let result = if rendered.by_provider_name.contains_key(&provider_name) {
            Err((Kind::LeftOut, format!("another tool of the request has the name {provider_name}")))
        } else if definitions.len() >= max_tools {
            Err((Kind::OverBudget, format!("the request has {max_tools} tools already")))
        } else {
            let mut result = one(&provider_name, tool, options, options.strict_rules(), &mut log);
            if let (Some(rules), Ok((parts, ..))) = (options.strict_rules(), &result)
                && parts.strict
                && let Err(reason) = used.add(&parts.schema, rules.strict_budget)
            {
                log = Log::default();
                log.add(Kind::NotStrict, "", reason);
                result = one(&provider_name, tool, options, None, &mut log);
            }
            result.map_err(|message| (Kind::LeftOut, message))
        };
        let fitted = result.and_then(|(mut parts, node, keys)| {
            parts.deferred = options.deferred.contains(name) && can_defer;
            if options.deferred.contains(name) && !can_defer {
                log.add(Kind::NotDeferred, "", format!("{provider} has no deferred tools"));
            }
            let deferred = parts.deferred;
            let definition = shape::definition(provider, parts);
            if let Some(max) = options.max_bytes {
                let size = definition.to_string().len();
                if bytes + size > max {
                    return Err((Kind::OverBudget, format!("the tools of the request exceed {max} bytes")));
                }
                bytes += size;
            }
            any_deferred |= deferred;
            Ok((definition, node, keys))
        });
        match fitted {
            Ok((definition, node, keys)) => {
                if provider_name != name {
                    log.add(Kind::NameChanged, "", format!("the name is {provider_name} in the request"));
                }
                rendered.by_provider_name.insert(provider_name.clone(), rendered.entries.len());
                rendered.entries.push(Entry { name: name.to_owned(), provider_name, node, keys });
                definitions.push(definition);
            }
            Err((kind, message)) => {
                log = Log::default();
                log.add(kind, "", message);
            }
        }
        log.finish(name, &mut rendered.diagnostics);
    }
    rendered.value = shape::list(provider, definitions, any_deferred, options.cached);
    rendered
}

/// Rewrites one tool, and checks the result. The error is a sentence.
fn one(
    name: &str,
    tool: &Tool,
    options: &Options,
    strict: Option<&Rules>,
    log: &mut Log,
) -> Result<(Definition, Node, Keys), String> {
    let provider = options.provider;
    let rules = Rules::of(provider);
    let node = schema::read(&tool.input_schema, log)?;
    let mut description =
        tool.description.clone().filter(|text| !text.trim().is_empty()).or_else(|| tool.title.clone());
    if let (Some(max), Some(text)) = (rules.max_description, &mut description)
        && text::shorten(text, max)
    {
        log.add(Kind::Shortened, "", format!("the description was cut to {max} characters"));
    }
    let finish = |schema: Map<String, Value>, strict| Definition {
        name: name.to_owned(),
        description: description.clone(),
        schema,
        strict,
        deferred: false,
    };
    if let Some(strict) = strict {
        let mut strict_log = log.clone();
        let written = if node.size() > MAX_STRICT {
            Err(format!("the schema has more than {MAX_STRICT} parts"))
        } else {
            let written = schema::write(&node, strict, &mut strict_log);
            match &written.obstacle {
                Some(obstacle) => Err(obstacle.clone()),
                None => match check::schema(strict, &written.schema).into_iter().next() {
                    Some((_, message)) => Err(message),
                    None => Ok(written),
                },
            }
        };
        match written {
            Ok(written) => {
                *log = strict_log;
                return Ok((finish(written.schema, true), node, written.keys));
            }
            Err(reason) if options.strict == Some(true) => {
                log.add(Kind::NotStrict, "", format!("the tool is not eligible for `strict`: {reason}"));
            }
            Err(_) => {}
        }
    }
    let written = schema::write(&node, rules, log);
    if let Some(obstacle) = written.obstacle {
        return Err(obstacle);
    }
    if !(provider == Provider::Gemini && written.schema.get("properties").is_none())
        && let Some((pointer, message)) = check::schema(rules, &written.schema).into_iter().next()
    {
        return Err(format!("the rewritten schema breaks a rule of {provider} at `{pointer}`: {message}"));
    }
    Ok((finish(written.schema, false), node, written.keys))
}
