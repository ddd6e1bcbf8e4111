//! The pinned peers, installed with npm and pip under the target folder.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Error};

use super::peers::Runtime;
use crate::{conformance::tools, process};

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// The Python version of the pinned packages.
const PYTHON: (u32, u32) = (3, 11);
const PYTHONS: &[&str] = &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const NPM_FILES: &[&str] = &["package.json", "package-lock.json", ".npmrc"];
const REQUIREMENTS: &str = "requirements.txt";

/// The directory of all installations and of copies of the scripts: Node.js looks for packages there.
pub(super) struct Installed {
    source: PathBuf,
    dir: PathBuf,
    manifest: serde_json::Value,
    requirements: String,
    node: Option<Result<PathBuf, String>>,
    python: Option<Result<PathBuf, String>>,
}

/// The interpreter of a script, and its folder.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) program: PathBuf,
    pub(super) dir: PathBuf,
}

impl Installed {
    /// Copies the scripts into `<target>/interop`. Installation follows on first use.
    pub(super) fn new(root: &Path, target: &Path) -> Result<Self, Error> {
        let (source, dir) = (root.join("xtask/interop"), target.join("interop"));
        // The home folder of the clients, so that they neither read nor write the user's settings.
        std::fs::create_dir_all(dir.join("home")).with_context(|| dir.display().to_string())?;
        for entry in std::fs::read_dir(&source).with_context(|| source.display().to_string())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "mjs" || extension == "py") {
                copy(&path, &dir)?;
            }
        }
        let manifest = read(&source.join("package.json"))?;
        let manifest = serde_json::from_str(&manifest).context("xtask/interop/package.json")?;
        let requirements = read(&source.join(REQUIREMENTS))?;
        Ok(Self { source, dir, manifest, requirements, node: None, python: None })
    }

    /// A name and the pinned version of its package.
    pub(super) fn title(&self, title: &str, runtime: Runtime, package: &str) -> String {
        let version = match runtime {
            Runtime::Node => self.manifest["dependencies"][package].as_str(),
            Runtime::Python => pinned(&self.requirements, package),
        };
        format!("{title} {}", version.unwrap_or("of unknown version"))
    }

    /// Installs runtimes before the builds, which take minutes. Prints each missing program, and fails if no runtime is ready.
    pub(super) fn prepare(&mut self, runtimes: &[Runtime]) -> Result<(), Error> {
        let missing: Vec<String> = runtimes.iter().filter_map(|runtime| self.runtime(*runtime).err()).collect();
        if !missing.is_empty() && missing.len() == runtimes.len() {
            return Err(Error::msg(missing.join("\n       ")));
        }
        for error in missing {
            println!("{error}\nThe peers that need this program do not run, so this command fails at its end.");
        }
        Ok(())
    }

    /// Installs the runtime of a peer once. The error names the missing program.
    pub(super) fn runtime(&mut self, runtime: Runtime) -> Result<Ready, String> {
        let program = match runtime {
            Runtime::Node => {
                let node =
                    self.node.take().unwrap_or_else(|| self.install_node().map_err(|error| format!("{error:#}")));
                self.node.insert(node).clone()
            }
            Runtime::Python => {
                let python =
                    self.python.take().unwrap_or_else(|| self.install_python().map_err(|error| format!("{error:#}")));
                self.python.insert(python).clone()
            }
        };
        Ok(Ready { program: program?, dir: self.dir.clone() })
    }

    fn install_node(&self) -> Result<PathBuf, Error> {
        let stamp = self.dir.join("npm.lock");
        let lock = read(&self.source.join("package-lock.json"))?;
        if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&lock) {
            for file in NPM_FILES {
                copy(&self.source.join(file), &self.dir)?;
            }
            tools::npm_ci(&self.dir, "the peers")?;
            std::fs::write(&stamp, lock).with_context(|| stamp.display().to_string())?;
        }
        tools::node(&self.dir.join("node_modules"))
    }

    fn install_python(&self) -> Result<PathBuf, Error> {
        let venv = self.dir.join("venv");
        let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let stamp = venv.join("installed.txt");
        if std::fs::read_to_string(&stamp).ok().as_ref() == Some(&self.requirements) && version(&python).is_some() {
            return Ok(python);
        }
        let base = PYTHONS.iter().find(|name| version(Path::new(name)).is_some_and(|found| found >= PYTHON));
        let base = base.ok_or_else(|| {
            let (major, minor) = PYTHON;
            Error::msg(format!(
                "Python {major}.{minor} or later is missing: none of {} is it. Install it, for example by `apt-get install python3-venv`",
                PYTHONS.join(", ")
            ))
        })?;
        println!("installing the Python peers into {}", venv.display());
        succeed(Command::new(base).args(["-m", "venv", "--clear"]).arg(&venv), "cannot make a virtual environment")?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]);
        pip.args(["--only-binary=:all:", "--requirement"]).arg(self.source.join(REQUIREMENTS));
        succeed(&mut pip, "pip could not install the Python peers (a reachable package index is needed once)")?;
        std::fs::write(&stamp, &self.requirements).with_context(|| stamp.display().to_string())?;
        Ok(python)
    }
}

/// Runs an installer and prints its output only if it fails.
fn succeed(command: &mut Command, otherwise: &str) -> Result<(), Error> {
    let done = process::capture(command, INSTALL_LIMIT).with_context(|| otherwise.to_owned())?;
    if done.status.success() {
        return Ok(());
    }
    Err(Error::msg(format!("{otherwise}:\n{}{}", done.stdout, done.stderr)))
}

/// The major and minor version of a Python, if it is one.
fn version(python: &Path) -> Option<(u32, u32)> {
    let output = process::capture(Command::new(python).arg("--version"), VERSION_LIMIT).ok()?;
    python_version(&output.stdout)
}

fn python_version(output: &str) -> Option<(u32, u32)> {
    let mut parts = output.trim().strip_prefix("Python ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The version that a list of requirements pins a package to.
fn pinned<'a>(requirements: &'a str, package: &str) -> Option<&'a str> {
    let pins = requirements.lines().filter_map(|line| line.split_once("=="));
    let (_, rest) = pins.into_iter().find(|(name, _)| *name == package)?;
    rest.split_whitespace().next()
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn copy(file: &Path, dir: &Path) -> Result<(), Error> {
    let name = file.file_name().unwrap_or(file.as_os_str());
    std::fs::copy(file, dir.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        interop::{
            peers::{Login, PEERS},
            servers::SUBJECTS,
        },
        workspace,
    };

    #[test]
    fn every_peer_is_pinned_and_every_client_has_its_script() {
        let source = workspace::root().join("xtask/interop");
        let manifest: serde_json::Value = serde_json::from_str(&read(&source.join("package.json")).unwrap()).unwrap();
        let requirements = read(&source.join(REQUIREMENTS)).unwrap();
        let clients = PEERS.iter().map(|peer| (peer.runtime, peer.package));
        let servers = SUBJECTS.iter().map(|subject| (subject.runtime, subject.package));
        for (runtime, package) in clients.chain(servers) {
            let version = match runtime {
                Runtime::Node => manifest["dependencies"][package].as_str(),
                Runtime::Python => pinned(&requirements, package),
            };
            assert!(version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())), "{package}");
        }
        for script in SUBJECTS.iter().filter_map(|subject| subject.protected) {
            assert!(source.join(script).is_file(), "{script}");
        }
        for peer in PEERS {
            assert!(source.join(peer.script).is_file(), "{}", peer.script);
            if let Login::Script(script) = peer.login {
                assert!(source.join(script).is_file(), "{script}");
            }
        }
    }

    #[test]
    fn parses_pinned_versions() {
        let requirements =
            "# comment\nmcp-types==2.3.0 \\\n    --hash=sha256:00\nmcp==2.3.1 \\\n    --hash=sha256:00\n";
        assert_eq!(pinned(requirements, "mcp"), Some("2.3.1"));
        assert_eq!(pinned(requirements, "cp"), None);
        for (output, version) in
            [("Python 3.11.7\n", Some((3, 11))), ("Python 2.7.18", Some((2, 7))), ("3.11", None), ("Python x.y", None)]
        {
            assert_eq!(python_version(output), version, "{output}");
        }
    }
}
