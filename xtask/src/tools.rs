//! The cargo tools that checks run: pinned, and installed under the target folder when they are missing.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Error};

use crate::{process, workspace::Metadata};

const INSTALL_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A pinned cargo tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The package and the binary.
    name: &'static str,
    version: &'static str,
    /// Options of `cargo install` that select features.
    features: &'static [&'static str],
}

pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", features: &[] };
pub(crate) const FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", features: &[] };
pub(crate) const HACK: Tool = Tool { name: "cargo-hack", version: "0.6.46", features: &[] };
/// Without the features of its web server, which double the time of the build.
pub(crate) const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", features: &["--no-default-features", "--features=search"] };

impl Tool {
    /// The tool's command, in the folder of the workspace. The first call on a machine installs the tool.
    ///
    /// # Errors
    ///
    /// If the tool is missing and `cargo install` fails, for example without a network.
    pub(crate) fn command(&self, root: &Path) -> Result<Command, Error> {
        let Self { name, version, features } = self;
        let folder = Metadata::load(root)?.target().join("tools").join(format!("{name}-{version}"));
        let binary = folder.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if !binary.is_file() {
            println!("{name} {version} is missing: installing it into {}", folder.display());
            let mut install = process::cargo(root);
            // Without optimization: the build takes longer than the tool's run.
            install.args(["install", "--locked", "--debug", "--root"]).arg(&folder);
            install.args(*features).arg(format!("{name}@{version}"));
            process::run(&mut install, INSTALL_LIMIT).with_context(|| format!("cannot install {name} {version}"))?;
        }
        let mut command = Command::new(binary);
        command.current_dir(root);
        Ok(command)
    }
}
