//! Programs of one tool: their crates, the time of their cold builds, and their stripped size.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

use super::{
    figure::{Aim, Figure, OURS},
    stamp::Stamp,
};
use crate::process;

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const TREE_LIMIT: Duration = Duration::from_secs(120);
/// The folder of the workspace with programs of other libraries.
pub(super) const PEERS: &str = "xtask/bench/peers";
/// This file, which contains the programs on this library.
const OWN: &str = "xtask/src/bench/builds.rs";
/// The other libraries: the names of their packages in the workspace of peers have the suffix `-peer`.
pub(super) const LIBRARIES: [&str; 2] = ["rmcp", "tower-mcp"];

/// The folders of a measurement.
pub(super) struct Folders {
    pub(super) root: PathBuf,
    /// The build output of this workspace.
    pub(super) target: PathBuf,
}

impl Folders {
    /// The results of all measurements.
    pub(super) fn out(&self) -> PathBuf {
        self.target.join("bench")
    }

    /// The programs for the load, with link-time optimization.
    pub(super) fn programs(&self) -> PathBuf {
        self.out().join("programs")
    }

    /// The stdio servers with the default release profile.
    pub(super) fn plain(&self) -> PathBuf {
        self.out().join("plain")
    }

    fn generated(&self) -> PathBuf {
        self.target.join("bench-build")
    }

    /// The build output of the programs outside of this workspace.
    fn builds(&self) -> PathBuf {
        self.generated().join("target")
    }
}

/// A server of one tool on this library.
struct Server {
    key: &'static str,
    title: &'static str,
    /// The features of `mcp-server`.
    features: &'static [&'static str],
    /// The call that serves it.
    serve: &'static str,
    /// The flavor of its runtime. The programs of other libraries have the same.
    flavor: &'static str,
    /// The profile of the measured binary.
    profile: &'static str,
    /// The kind of the programs of other libraries beside it.
    peer: Option<&'static str>,
    /// The bounds of the crates, of both build times in seconds, and of the size in megabytes.
    aims: [Aim; 4],
}

const NONE: [Aim; 4] = [Aim::None; 4];

const SERVERS: [Server; 4] = [
    Server {
        key: "stdio",
        title: "stdio server",
        features: &[],
        serve: "serve_stdio()",
        flavor: "current_thread",
        profile: "plain",
        peer: Some("stdio"),
        aims: [Aim::AtMost(95.0), Aim::AtMost(50.0), Aim::AtMost(90.0), Aim::AtMost(6.0)],
    },
    Server {
        key: "http",
        title: "HTTP server",
        features: &["http"],
        serve: HTTP,
        flavor: "multi_thread",
        profile: "release",
        peer: Some("http"),
        aims: [Aim::AtMost(120.0), Aim::AtMost(50.0), Aim::None, Aim::AtMost(7.0)],
    },
    Server {
        key: "auth",
        title: "HTTP server with API keys",
        features: &["auth"],
        serve: WITH_KEY,
        flavor: "multi_thread",
        profile: "release",
        peer: None,
        aims: NONE,
    },
    Server {
        key: "oauth",
        title: "HTTP server with signed tokens",
        features: &["oauth"],
        serve: WITH_TOKENS,
        flavor: "multi_thread",
        profile: "release",
        peer: None,
        aims: NONE,
    },
];

const HTTP: &str = "serve_http(\"127.0.0.1:8080\")";
/// The linker removes a provider that a program does not use.
const WITH_KEY: &str = r#"serve_http_with(
        "127.0.0.1:8080",
        HttpConfig::new().authenticate(
            mcp_server::auth::ApiKeys::new()
                .key(&std::env::var("API_KEY")?, mcp_server::protocol::Principal::new("build-server")),
        ),
    )"#;
const WITH_TOKENS: &str = r#"serve_http_with(
        "127.0.0.1:8080",
        HttpConfig::new()
            .public_url("https://mcp.example.com/mcp")
            .authenticate(mcp_server::auth::Jwt::issuer("https://idp.example.com")),
    )"#;

/// The package of a program, and the arguments that select the program in it.
struct Package {
    dir: PathBuf,
    /// The name of the binary.
    name: String,
    selection: Vec<String>,
    /// The inputs of the program.
    stamp: Stamp,
}

/// The inputs of all programs.
struct Inputs {
    ours: Stamp,
    bare: Stamp,
    theirs: Stamp,
}

impl Inputs {
    fn read(root: &Path) -> Result<Self, Error> {
        Ok(Self {
            ours: Stamp::read(root, &["crates/", "Cargo.", OWN])?,
            bare: Stamp::read(root, &[OWN])?,
            theirs: Stamp::read(root, &[PEERS])?,
        })
    }
}

/// The cold builds of a program.
struct Built {
    dev: Duration,
    release: Duration,
    size: u64,
}

/// The values of a server: the start of the id, the title and the unit.
const MEASURED: [(&str, &str, &str); 4] = [
    ("crates", "crates of", "crates"),
    ("dev", "cold dev build of", "s"),
    ("release", "cold release build of", "s"),
    ("size", "stripped size of", "MB"),
];

/// Whether [`measure`] measures a figure.
pub(super) fn is_of_builds(figure: &Figure) -> bool {
    let mut ids = SERVERS.iter().flat_map(|server| MEASURED.map(|(kind, ..)| server.id(kind)));
    ids.any(|id| id == figure.id)
}

/// Counts the crates of each server. If `cold`, it measures the cold builds and the sizes too, and keeps the binaries. It calls `before`
/// before each cold build.
pub(super) fn measure(
    folders: &Folders,
    peers: bool,
    cold: bool,
    before: &dyn Fn() -> Result<(), Error>,
) -> Result<Vec<Figure>, Error> {
    let (inputs, mut figures) = (Inputs::read(&folders.root)?, Vec::new());
    for server in &SERVERS {
        let mut packages = vec![(OURS, server.generate(folders, &inputs)?)];
        for library in LIBRARIES.into_iter().filter(|_| peers) {
            if let Some(kind) = server.peer {
                packages.push((library, peer(folders, library, kind, &inputs)));
            }
        }
        let mut values: [BTreeMap<String, f64>; 4] = Default::default();
        for (name, package) in &packages {
            let mut add = |at: usize, value: f64| values[at].insert((*name).to_owned(), value);
            add(0, package.crates(folders)? as f64);
            if cold {
                println!("{name}, {}: a cold build for development, and one for release", server.title);
                let built = package.build_cold(folders, server.profile, before)?;
                add(1, built.dev.as_secs_f64());
                add(2, built.release.as_secs_f64());
                add(3, built.size as f64 / 1e6);
            }
        }
        for (((id, title, unit), mut values), aim) in MEASURED.into_iter().zip(values).zip(server.aims) {
            if let Some(ours) = values.remove(OURS) {
                let (id, title) = (server.id(id), format!("{title} the {}", server.title));
                figures.push(Figure { peers: values, ..Figure::new(id, title, ours, unit, aim) });
            }
        }
    }
    Ok(figures)
}

/// A program to build: its package, its profile, and the folder for its binary.
type Wanted = (Package, &'static str, PathBuf);

/// Builds the stdio servers of the starts that are missing, or that have another compiler or other sources.
pub(super) fn prepare_start(folders: &Folders, peers: bool) -> Result<(), Error> {
    let inputs = Inputs::read(&folders.root)?;
    let mut wanted: Vec<Wanted> = Vec::new();
    if !inputs.bare.is_of(&folders.plain().join(file_name("bare-stdio"))) {
        wanted.push((bare(folders, &inputs)?, "plain", folders.plain()));
    }
    if !inputs.ours.is_of(&folders.plain().join(file_name("ours-stdio"))) {
        wanted.push((SERVERS[0].generate(folders, &inputs)?, "plain", folders.plain()));
    }
    if peers {
        wanted.extend(others(folders, &inputs, &["stdio"], "plain", &folders.plain()));
    }
    build_all(folders, wanted)
}

/// Builds the programs of other libraries of some kinds, as [`prepare_start`] builds the servers of the starts.
pub(super) fn prepare_load(folders: &Folders, kinds: &[&str]) -> Result<(), Error> {
    let inputs = Inputs::read(&folders.root)?;
    build_all(folders, others(folders, &inputs, kinds, "release", &folders.programs()))
}

/// The programs of other libraries that are not current.
fn others(folders: &Folders, inputs: &Inputs, kinds: &[&str], profile: &'static str, folder: &Path) -> Vec<Wanted> {
    let pairs = LIBRARIES.into_iter().flat_map(|library| kinds.iter().map(move |kind| (library, *kind)));
    pairs
        .filter(|(library, kind)| !inputs.theirs.is_of(&folder.join(file_name(&format!("{library}-{kind}")))))
        .map(|(library, kind)| (peer(folders, library, kind, inputs), profile, folder.to_owned()))
        .collect()
}

fn build_all(folders: &Folders, wanted: Vec<Wanted>) -> Result<(), Error> {
    let builds = folders.builds();
    for (package, profile, folder) in wanted {
        package.build(&builds, profile)?;
        package.keep(&builds, profile, &folder)?;
    }
    remove(&builds)
}

fn file_name(program: &str) -> String {
    format!("{program}{}", std::env::consts::EXE_SUFFIX)
}

fn remove(dir: &Path) -> Result<(), Error> {
    if dir.exists() { fs::remove_dir_all(dir).with_context(|| dir.display().to_string()) } else { Ok(()) }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// The program of another library.
fn peer(folders: &Folders, library: &str, kind: &str, inputs: &Inputs) -> Package {
    let name = format!("{library}-{kind}");
    let package = format!("{library}-peer");
    let selection = ["--locked", "--package", &package, "--features", kind].map(str::to_owned).to_vec();
    Package { dir: folders.root.join(PEERS), name, selection, stamp: inputs.theirs.clone() }
}

/// A program that returns each line: the bare limit of a cold start.
fn bare(folders: &Folders, inputs: &Inputs) -> Result<Package, Error> {
    let dir = folders.generated().join("bare");
    let name = "bare-stdio";
    write(&dir.join("Cargo.toml"), &manifest(name, ""))?;
    write(&dir.join("src/main.rs"), BARE_MAIN)?;
    Ok(Package { dir, name: name.to_owned(), selection: Vec::new(), stamp: inputs.bare.clone() })
}

/// The manifest of a program outside of the workspace, so that its build has no other members.
fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {dependencies}\n[profile.release]\nlto = \"thin\"\ncodegen-units = 4\nstrip = true\n\n\
         # The values of the default profile `release`, without symbols.\n\
         [profile.plain]\ninherits = \"release\"\nlto = false\ncodegen-units = 16\n"
    )
}

impl Server {
    /// Writes the package of the server.
    fn generate(&self, folders: &Folders, inputs: &Inputs) -> Result<Package, Error> {
        let dir = folders.generated().join(self.key);
        write(&dir.join("Cargo.toml"), &self.manifest(&folders.root.join("crates/mcp-server")))?;
        write(&dir.join("src/main.rs"), &self.main())?;
        // The same versions as here.
        let lock = dir.join("Cargo.lock");
        fs::copy(folders.root.join("Cargo.lock"), &lock).with_context(|| lock.display().to_string())?;
        Ok(Package { dir, name: self.name(), selection: Vec::new(), stamp: inputs.ours.clone() })
    }

    /// The source of the program.
    fn main(&self) -> String {
        MAIN.replace("SERVE", self.serve).replace("FLAVOR", self.flavor)
    }

    fn name(&self) -> String {
        format!("{OURS}-{}", self.key)
    }

    /// The id of the figure with a measured value.
    fn id(&self, kind: &str) -> String {
        format!("{kind}-{}", self.key)
    }

    fn manifest(&self, server: &Path) -> String {
        // JSON's strings and arrays of strings are TOML's too.
        let (path, features) = (serde_json::json!(server), serde_json::json!(self.features));
        let runtime = if self.flavor == "multi_thread" { "rt-multi-thread" } else { "rt" };
        let dependencies = format!(
            "mcp-server = {{ path = {path}, default-features = false, features = {features} }}\n\
             schemars = {{ version = \"1\", default-features = false, features = [\"derive\", \"std\"] }}\n\
             serde = {{ version = \"1\", features = [\"derive\"] }}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"{runtime}\"] }}\n"
        );
        manifest(&self.name(), &dependencies)
    }
}

impl Package {
    fn cargo(&self, command: &str, builds: &Path) -> Command {
        let mut cargo = process::cargo(&self.dir);
        cargo.arg(command).args(&self.selection);
        process::use_own_profiles(&mut cargo, builds);
        // Cargo builds the crates of a path with a cache for later changes, and those of a registry without it. Without the cache for all
        // of them, the crates of this library have the builds of published crates.
        cargo.env("CARGO_INCREMENTAL", "0");
        cargo
    }

    /// The number of crates below the program at run time, with derive macros.
    fn crates(&self, folders: &Folders) -> Result<usize, Error> {
        let mut tree = self.cargo("tree", &folders.builds());
        tree.args(["--quiet", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        let listed = process::capture(&mut tree, TREE_LIMIT)?;
        if !listed.status.success() {
            return Err(Error::msg(format!("cargo tree failed\n{}", listed.stderr)));
        }
        // The program itself is the first line.
        Ok(count_crates(&listed.stdout).saturating_sub(1))
    }

    fn build(&self, builds: &Path, profile: &str) -> Result<Duration, Error> {
        let mut cargo = self.cargo("build", builds);
        cargo.args(["--quiet", "--bin", &self.name, "--profile", profile]);
        let start = Instant::now();
        process::run(&mut cargo, BUILD_LIMIT)?;
        Ok(start.elapsed())
    }

    /// Builds the program twice in an empty folder, and keeps the release binary.
    fn build_cold(
        &self,
        folders: &Folders,
        profile: &str,
        before: &dyn Fn() -> Result<(), Error>,
    ) -> Result<Built, Error> {
        let builds = folders.builds();
        remove(&builds)?;
        before()?;
        let dev = self.build(&builds, "dev")?;
        remove(&builds)?;
        before()?;
        let release = self.build(&builds, profile)?;
        let folder = if profile == "plain" { folders.plain() } else { folders.programs() };
        let size = self.keep(&builds, profile, &folder)?;
        remove(&builds)?;
        Ok(Built { dev, release, size })
    }

    /// Copies the binary into a folder. Returns its size in bytes.
    fn keep(&self, builds: &Path, profile: &str, folder: &Path) -> Result<u64, Error> {
        let binary = builds.join(profile).join(file_name(&self.name));
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        self.stamp.store(&binary, &folder.join(file_name(&self.name)))
    }
}

const MAIN: &str = r#"//! A server of one tool.
use mcp_server::prelude::*;

/// Say the text again.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return.
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

#[tokio::main(flavor = "FLAVOR")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("bench", "1.0.0").tool(tool("echo", echo).title("Echo").read_only()).build();
    Ok(server.SERVE.await?)
}
"#;

const BARE_MAIN: &str = r#"//! A program that returns each line.
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let (mut input, mut output, mut line) = (io::stdin().lock(), io::stdout().lock(), String::new());
    while input.read_line(&mut line)? > 0 {
        output.write_all(line.as_bytes())?;
        output.flush()?;
        line.clear();
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

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
            assert_eq!(manifest["profile"]["plain"]["codegen-units"].as_integer(), Some(16));
            assert!(MAIN.contains("server.SERVE.await"));
        }
    }

    #[test]
    fn a_program_with_authentication_uses_a_provider() {
        for server in &SERVERS {
            let main = server.main();
            assert_eq!(main.contains(".authenticate("), ["auth", "oauth"].contains(&server.key), "{main}");
            assert_eq!(main.contains("Jwt::issuer"), server.features == ["oauth"], "{main}");
            assert!(!main.contains("SERVE") && !main.contains("FLAVOR"), "{main}");
        }
    }

    #[test]
    fn each_program_of_a_peer_exists() {
        let root = workspace::root();
        for library in LIBRARIES {
            let manifest = fs::read_to_string(root.join(PEERS).join(library).join("Cargo.toml")).unwrap();
            let manifest: toml::Table = toml::from_str(&manifest).unwrap();
            assert_eq!(manifest["package"]["name"].as_str(), Some(&*format!("{library}-peer")));
            for kind in ["stdio", "http", "client"] {
                assert!(manifest["features"].get(kind).is_some(), "{library} {kind}");
            }
        }
    }

    #[test]
    fn a_build_has_the_profiles_of_its_manifest() {
        let stamp = Stamp::read(&workspace::root(), &[]).unwrap();
        let package = Package { dir: PathBuf::from("."), name: "a".to_owned(), selection: Vec::new(), stamp };
        let cargo = package.cargo("build", Path::new("/builds"));
        let variables: Vec<_> = cargo.get_envs().filter(|(_, value)| value.is_some()).collect();
        let expected = [("CARGO_INCREMENTAL", "0"), ("CARGO_TARGET_DIR", "/builds")];
        assert_eq!(variables, expected.map(|(name, value)| (name.as_ref(), Some(value.as_ref()))));
    }
}
