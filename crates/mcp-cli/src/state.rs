//! The files of this program that outlive it.

use std::path::PathBuf;

/// Returns the path of a file or a directory in the state directory of the XDG specification.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .or_else(|| absolute("LOCALAPPDATA"))?;
    Some(state.join("mcp").join(name))
}
