//! The chain of gateways that start each other over stdio. A gateway that would start itself again would start processes without end.

use std::{env, fs, path::Path};

use crate::{args::Options, configuration, failure::Failure, text::line};

/// The variable with the configuration files of the gateways above this process, as a JSON array. A gateway sets it for the commands of
/// its servers.
const FILES: &str = "MCP_GATEWAY_FILES";

/// Returns the options of the servers: their commands receive the configuration files of the gateways above them.
///
/// # Errors
/// If a gateway above this process has the same configuration file.
pub(super) fn of_servers(options: &Options) -> Result<Options, Failure> {
    let mut options = options.clone();
    if let Some((file, _)) = configuration::path(&options) {
        let chain = extended(env::var(FILES).ok().as_deref(), &file)?;
        options.env.push((FILES.to_owned(), chain.into()));
    }
    Ok(options)
}

/// Returns the chain with one more file. A chain that another program wrote, and that is not a chain, counts as empty.
fn extended(above: Option<&str>, file: &Path) -> Result<String, Failure> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).to_string_lossy().into_owned();
    let mut files: Vec<String> = above.and_then(|above| serde_json::from_str(above).ok()).unwrap_or_default();
    if files.contains(&file) {
        return Err(Failure::usage(line(&format!(
            "a gateway with the configuration file {file} has started this gateway with the same file: remove the entry that starts it"
        ))));
    }
    files.push(file);
    Ok(serde_json::json!(files).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_a_chain_once() {
        let files = ["/a/mcp.json", "/b:c;\"d\"/mcp.json"];
        let mut chain = "not a chain".to_owned();
        for file in files {
            chain = extended(Some(&chain), Path::new(file)).unwrap_or_default();
        }
        for file in files {
            let error = extended(Some(&chain), Path::new(file)).map_err(|failure| failure.to_string()).unwrap_err();
            assert!(error.contains(file), "{error}");
        }
        assert!(extended(Some(&chain), Path::new("/c/mcp.json")).is_ok());
    }
}
