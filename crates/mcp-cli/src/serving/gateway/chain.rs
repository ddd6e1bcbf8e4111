//! The chain of gateways that start each other over stdio. A gateway that would start itself again would start processes without end.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{args::Options, configuration, failure::Failure, text::line};

/// The variable with the configuration files of the gateways above this process. A gateway sets it for the commands of its servers.
const FILES: &str = "MCP_GATEWAY_FILES";

/// Returns the options of the servers: their commands receive the configuration files of the gateways above them.
///
/// # Errors
/// If a gateway above this process has the same configuration file.
pub(super) fn of_servers(options: &Options) -> Result<Options, Failure> {
    let mut options = options.clone();
    if let Some((file, _)) = configuration::path(&options) {
        let chain = extended(env::var_os(FILES).as_ref(), &file)?;
        options.env.push((FILES.to_owned(), chain));
    }
    Ok(options)
}

/// Returns the chain with one more file.
fn extended(above: Option<&OsString>, file: &Path) -> Result<OsString, Failure> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut files: Vec<PathBuf> = above.into_iter().flat_map(env::split_paths).collect();
    if files.contains(&file) {
        return Err(Failure::usage(line(&format!(
            "a gateway with the configuration file {} has started this gateway with the same file: remove the entry that starts it",
            file.display()
        ))));
    }
    files.push(file);
    // A path with a separator cannot be in a list. The chain then ends here.
    Ok(env::join_paths(files).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_a_chain_once() {
        let files = [Path::new("/a/mcp.json"), Path::new("/b/mcp.json")];
        let mut chain = None;
        for file in files {
            chain = Some(extended(chain.as_ref(), file).unwrap_or_default());
        }
        assert_eq!(chain.iter().flat_map(env::split_paths).collect::<Vec<_>>(), files);
        for file in files {
            let error = extended(chain.as_ref(), file).map_err(|failure| failure.to_string()).unwrap_err();
            assert!(error.contains(&*file.to_string_lossy()), "{error}");
        }
    }
}
