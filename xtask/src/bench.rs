//! `cargo xtask bench`: the speed of a server as a ratio to bare limits, its memory, its build time and its size.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

use crate::{
    process,
    workspace::{self, Metadata},
};

const USAGE: &str = "\
usage: cargo xtask bench [--case NAME]... [--rounds N] [--seconds S] [--quick] [--no-build] [--no-load]
       cargo xtask bench host|memory
       cargo xtask bench fleet [--quick]
       cargo xtask bench gateway [added|cpu|text|lists|checks|memory|children]... [--quick]";

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const LOAD_LIMIT: Duration = Duration::from_secs(60 * 60);
const TREE_LIMIT: Duration = Duration::from_secs(120);

/// Runs the measurements. `--no-build` skips the builds, `--no-load` the load, `--quick` the builds and most rounds.
/// `fleet` measures only the cost of a shared store, which needs `redis-server`.
/// `host` measures only the costs of a host, `memory` only the memory of sessions and streams, `gateway` only the costs of a gateway.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let root = workspace::root();
    let target = Metadata::load(&root)?.target().to_owned();
    if let Some(only) = args.first()
        && (matches!(only.as_str(), "fleet" | "gateway")
            || (args.len() == 1 && matches!(only.as_str(), "host" | "memory")))
    {
        return process::run(Command::new(program(&root, &target)?).args(args), LOAD_LIMIT);
    }
    if !has("--no-load") {
        let bench = program(&root, &target)?;
        let mut load = Command::new(&bench);
        load.arg("load").args(args.iter().filter(|arg| !matches!(arg.as_str(), "--no-build" | "--no-load")));
        process::run(&mut load, LOAD_LIMIT)?;
        if !has("--case") {
            process::run(Command::new(&bench).arg("host"), LOAD_LIMIT)?;
            process::run(Command::new(&bench).arg("memory"), LOAD_LIMIT)?;
            process::run(Command::new(&bench).arg("gateway"), LOAD_LIMIT)?;
        }
    }
    let mut figures = Vec::new();
    for server in &SERVERS {
        let crates = server.crates(&root)?;
        let built = if has("--no-build") || has("--quick") { None } else { Some(server.build(&root, &target)?) };
        figures.push((server, crates, built));
    }
    println!("\n{:<14} {:>7} {:>12} {:>22}", "server", "crates", "cold build", "release, stripped");
    for (server, crates, built) in figures {
        let (time, size) = match built {
            Some((time, size)) => (format!("{:.0} s", time.as_secs_f64()), format!("{:.1} MiB", mebibytes(size))),
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!("{:<14} {crates:>7} {time:>12} {size:>22}", server.name);
    }
    println!(
        "crates: all that a server of one tool brings into the build at run time, ours and derive macros included"
    );
    Ok(())
}

/// Builds the measuring program in release mode.
fn program(root: &Path, target: &Path) -> Result<PathBuf, Error> {
    let mut build = process::cargo(root);
    build.args(["build", "--release", "--package", "bench"]);
    process::run(&mut build, BUILD_LIMIT)?;
    Ok(target.join("release").join(format!("bench{}", std::env::consts::EXE_SUFFIX)))
}

/// A server of one tool.
struct Server {
    name: &'static str,
    /// The features of `mcp-server`.
    features: &'static [&'static str],
    /// The call that serves it.
    serve: &'static str,
}

const SERVERS: [Server; 4] = [
    Server { name: "stdio only", features: &[], serve: "serve_stdio()" },
    Server { name: "HTTP", features: &["http"], serve: "serve_http(\"127.0.0.1:8080\")" },
    Server { name: "HTTP and auth", features: &["auth"], serve: "serve_http(\"127.0.0.1:8080\")" },
    Server { name: "HTTP and OAuth", features: &["oauth"], serve: "serve_http(\"127.0.0.1:8080\")" },
];

impl Server {
    /// The number of crates in the dependency tree of `mcp-server`, with the crate itself.
    fn crates(&self, root: &Path) -> Result<usize, Error> {
        let mut tree = process::cargo(root);
        tree.args(["tree", "--package", "mcp-server", "--no-default-features", "--features", &self.features.join(",")]);
        tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        let listed = process::capture(&mut tree, TREE_LIMIT)?;
        if !listed.status.success() {
            return Err(Error::msg(format!("cargo tree failed\n{}", listed.stderr)));
        }
        Ok(count_crates(&listed.stdout))
    }

    /// Builds the server in its own target folder. Returns the time of the first build (profile `dev`) and the size of the
    /// stripped binary in bytes (profile `release`).
    fn build(&self, root: &Path, target: &Path) -> Result<(Duration, u64), Error> {
        let dir = self.generate(root, &target.join("bench-build"))?;
        let builds = dir.join("target");
        if builds.exists() {
            std::fs::remove_dir_all(&builds).with_context(|| builds.display().to_string())?;
        }
        let cargo = |profile: &str| {
            let mut command = process::cargo(&dir);
            command.args(["build", "--quiet", "--profile", profile]).env("CARGO_TARGET_DIR", &builds);
            command
        };
        println!("{}: a cold build, then one for release", self.name);
        let start = Instant::now();
        process::run(&mut cargo("dev"), BUILD_LIMIT)?;
        let time = start.elapsed();
        process::run(&mut cargo("release"), BUILD_LIMIT)?;
        let binary = builds.join("release").join(format!("server{}", std::env::consts::EXE_SUFFIX));
        let size = std::fs::metadata(&binary).with_context(|| binary.display().to_string())?.len();
        Ok((time, size))
    }

    /// Writes the package of the server. It is outside of the workspace, so the build has no other members.
    fn generate(&self, root: &Path, below: &Path) -> Result<PathBuf, Error> {
        let dir = below.join(self.name.replace(' ', "-"));
        let source = dir.join("src");
        std::fs::create_dir_all(&source).with_context(|| source.display().to_string())?;
        let write = |path: PathBuf, text: &str| std::fs::write(&path, text).with_context(|| path.display().to_string());
        write(dir.join("Cargo.toml"), &self.manifest(&root.join("crates/mcp-server")))?;
        write(source.join("main.rs"), &MAIN.replace("SERVE", self.serve))?;
        // The same versions as here.
        let lock = dir.join("Cargo.lock");
        std::fs::copy(root.join("Cargo.lock"), &lock).with_context(|| lock.display().to_string())?;
        Ok(dir)
    }

    fn manifest(&self, server: &Path) -> String {
        // JSON's strings and arrays of strings are TOML's too.
        let (path, features) = (serde_json::json!(server), serde_json::json!(self.features));
        format!(
            "[package]\nname = \"server\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             mcp-server = {{ path = {path}, default-features = false, features = {features} }}\n\
             schemars = {{ version = \"1\", default-features = false, features = [\"derive\", \"std\"] }}\n\
             serde = {{ version = \"1\", features = [\"derive\"] }}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n\
             [profile.release]\nlto = \"thin\"\ncodegen-units = 4\nstrip = true\n"
        )
    }
}

const MAIN: &str = r#"//! A server of one tool.
use mcp_server::prelude::*;

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

async fn add(Args(Add { a, b }): Args<Add>) -> String {
    (a + b).to_string()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("size", "1.0.0").tool(tool("add", add).read_only()).build();
    Ok(server.SERVE.await?)
}
"#;

/// Counts the distinct crates in the output of `cargo tree`, which repeats crates with a mark.
fn count_crates(tree: &str) -> usize {
    let crates: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    crates.len()
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_counted_once_per_version() {
        let tree = "mcp-server v0.1.0 (/x)\nserde v1.0.1\nserde_derive v1.0.1 (proc-macro)\nsyn v2.0.0\n\
                    serde v1.0.1 (*)\nsyn v3.0.0\n\n";
        assert_eq!(count_crates(tree), 5);
        assert_eq!(count_crates(""), 0);
    }

    #[test]
    fn the_generated_manifest_is_valid_toml() {
        for server in &SERVERS {
            let manifest: toml::Table = toml::from_str(&server.manifest(Path::new("/a \"b\"\\c"))).unwrap();
            assert_eq!(manifest["dependencies"]["mcp-server"]["path"].as_str(), Some("/a \"b\"\\c"));
            assert!(MAIN.contains("server.SERVE.await"));
        }
    }
}
