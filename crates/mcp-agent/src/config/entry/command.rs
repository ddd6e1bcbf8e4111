//! The command of a server: program, arguments, environment and directory.

use std::path::{Path, PathBuf};

use mcp_protocol::auth::Secret;
use serde_json::Value;

use super::{Context, expanded};
use crate::config::{
    code::Code, endpoint::StdioServer, error::Fault, expand::Place, node::Node, origin::Format, rules::CommandForm,
};

/// Reads the command of an entry.
pub(super) fn read(entry: &Node<'_>, command: &Node<'_>, context: &Context<'_>) -> Result<StdioServer, Fault> {
    let form = context.rules.command_form;
    let mut server = match (form, command.value) {
        (CommandForm::Array, _) | (CommandForm::TextOrArray, Value::Array(_)) => array(command, context)?,
        (CommandForm::TextOrObject, Value::Object(_)) => object(command, context)?,
        _ => {
            let mut server = StdioServer::new(program(command, context)?);
            arguments(entry, context, &mut server)?;
            server
        }
    };
    if matches!(context.format, Format::Cursor | Format::VsCode)
        && let Some(node) = entry.get("envFile")
    {
        env_file(&node, context, &mut server)?;
    }
    environment(entry.get(context.rules.env).as_ref(), context, &mut server)?;
    if context.format == Format::Agents {
        environment(entry.get("env").as_ref(), context, &mut server)?;
    }
    if context.format == Format::Goose {
        keys_of_goose(entry, context, &mut server)?;
    }
    if let Some(node) = entry.get("cwd") {
        let directory = expanded(&node, Place::Other, context)?;
        check_text(&node, &directory)?;
        server.cwd = Some(context.base.join(directory));
    }
    Ok(server)
}

fn program(node: &Node<'_>, context: &Context<'_>) -> Result<String, Fault> {
    let program = expanded(node, Place::Other, context)?;
    if program.trim().is_empty() {
        return Err(node.fault(
            Code::InvalidCommand,
            "the command is empty",
            "write the program that starts the server",
        ));
    }
    check_text(node, &program)?;
    Ok(program)
}

fn array(command: &Node<'_>, context: &Context<'_>) -> Result<StdioServer, Fault> {
    let items = command.items()?;
    let [first, rest @ ..] = &items[..] else {
        let remedy = "write the program and its arguments as an array";
        return Err(command.fault(Code::InvalidCommand, "the command is empty", remedy));
    };
    let mut server = StdioServer::new(program(first, context)?);
    for node in rest {
        server.args.push(argument(node, context)?);
    }
    Ok(server)
}

/// Reads the older form of Zed.
fn object(command: &Node<'_>, context: &Context<'_>) -> Result<StdioServer, Fault> {
    let path = command.get("path").ok_or_else(|| {
        command.fault(Code::InvalidCommand, "the command has no `path`", "write the command as a string")
    })?;
    let mut server = StdioServer::new(program(&path, context)?);
    arguments(command, context, &mut server)?;
    environment(command.get("env").as_ref(), context, &mut server)?;
    Ok(server)
}

fn arguments(entry: &Node<'_>, context: &Context<'_>, server: &mut StdioServer) -> Result<(), Fault> {
    let Some(args) = entry.get("args") else { return Ok(()) };
    for node in args.items()? {
        server.args.push(argument(&node, context)?);
    }
    Ok(())
}

fn argument(node: &Node<'_>, context: &Context<'_>) -> Result<String, Fault> {
    let text = expanded(node, Place::Other, context)?;
    check_text(node, &text)?;
    Ok(text)
}

/// The systems accept no NUL character in a command.
fn check_text(node: &Node<'_>, text: &str) -> Result<(), Fault> {
    if text.contains('\0') {
        return Err(node.fault(Code::InvalidCommand, "the text contains a NUL character", "remove the character"));
    }
    Ok(())
}

fn environment(node: Option<&Node<'_>>, context: &Context<'_>, server: &mut StdioServer) -> Result<(), Fault> {
    let Some(node) = node else { return Ok(()) };
    for (name, node) in node.members()? {
        check_variable(name, &node)?;
        let value = match node.value {
            // VS Code removes a variable with the value null, and accepts numbers.
            Value::Null if context.format == Format::VsCode => continue,
            Value::Number(number) if context.format == Format::VsCode => number.to_string(),
            _ => expanded(&node, Place::Env, context)?,
        };
        if value.contains('\0') {
            let message = "the value of the variable contains a NUL character";
            return Err(node.fault(Code::InvalidEnvironment, message, "remove the character"));
        }
        server.env.insert(name.to_owned(), Secret::new(value));
    }
    Ok(())
}

fn check_variable(name: &str, node: &Node<'_>) -> Result<(), Fault> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message = "the name of the variable is empty or contains `=`";
        return Err(node.fault(Code::InvalidEnvironment, message, "correct the name of the variable"));
    }
    Ok(())
}

/// Reads `env_keys`. goose has the values in a keyring or in its environment; this library reads the environment.
fn keys_of_goose(entry: &Node<'_>, context: &Context<'_>, server: &mut StdioServer) -> Result<(), Fault> {
    let Some(keys) = entry.get("env_keys") else { return Ok(()) };
    for node in keys.items()? {
        let name = node.text()?;
        check_variable(name, &node)?;
        if server.env.contains_key(name) {
            continue;
        }
        match context.expander.environment.get(name) {
            Some(value) => {
                server.env.insert(name.to_owned(), Secret::new(value));
            }
            None if context.expander.variables == super::Variables::None && super::is_enabled(entry)? => {
                let message = format!("the variable `{name}` is not set");
                let remedy = format!("set the environment variable `{name}`: the keyring of goose is not read");
                return Err(node.fault(Code::UnsetVariable, message, remedy));
            }
            None => {}
        }
    }
    Ok(())
}

/// Reads a file of lines `NAME=value`.
fn env_file(node: &Node<'_>, context: &Context<'_>, server: &mut StdioServer) -> Result<(), Fault> {
    // An error shows the text of the file: a variable can be a secret.
    let (path, shown) = (expanded(node, Place::Other, context)?, node.text()?);
    if context.expander.variables == super::Variables::None {
        return Ok(());
    }
    let file: PathBuf = context.base.join(Path::new(&path));
    let text = context.expander.sources.read_file(&path, &file).map_err(|reason| {
        let message = format!("the file `{shown}` cannot be read: {reason}");
        node.fault(Code::ReferencedFile, message, "create the file, or correct the path")
    })?;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
            let message = format!("line {} of `{shown}` has no variable", number + 1);
            return Err(node.fault(Code::ReferencedFile, message, "write `NAME=value` in each line"));
        };
        let value = value.trim();
        let quoted = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        server.env.insert(name.trim().to_owned(), Secret::new(value));
    }
    Ok(())
}
