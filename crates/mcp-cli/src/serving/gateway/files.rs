//! The files of a gateway: no option destroys the file of another option.

use std::path::Path;

use crate::{
    args::{GatewayOptions, Options},
    configuration,
    failure::Failure,
    files::{check_directory, identity},
    text::line,
};

/// Checks the files before one of them is written.
///
/// # Errors
/// If the gateway would write the file of another option, or if the directory of a written file does not exist.
pub(super) fn check(gateway: &GatewayOptions, options: &Options) -> Result<(), Failure> {
    let config = configuration::path(options).map(|(file, _)| file);
    let written = [("--audit", &gateway.audit), ("--spans", &gateway.spans), ("--pins", &options.pins)];
    let read = [("--config", &config), ("--auth", &gateway.auth), ("--state-keys", &gateway.state_keys)];
    let all: Vec<(&str, &Path)> = written
        .iter()
        .chain(&read)
        .filter_map(|(option, file)| Some((*option, file.as_deref()?)))
        .chain(options.policy.iter().map(|file| ("--policy", file.as_path())))
        .collect();
    let count = written.iter().filter(|(_, file)| file.is_some()).count();
    for (at, (option, file)) in all.iter().take(count).enumerate() {
        check_directory(option, file)?;
        let Some(own) = identity(file) else { continue };
        if let Some((other, _)) = all[at + 1..].iter().find(|(_, other)| identity(other).as_ref() == Some(&own)) {
            let file = file.display();
            let text = format!("{option} and {other} name the same file {file}: the gateway would overwrite it");
            return Err(Failure::usage(line(&text)));
        }
    }
    Ok(())
}
