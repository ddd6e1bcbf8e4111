//! The connection to a server, as a client with the capabilities of the options.

mod server;

use std::{path::Path, sync::Arc, time::Duration};

use mcp_agent::config::{Endpoint, ServerDefinition};
use mcp_client::{
    ChildProcess, Client, ClientBuilder, Reconnect, SlowStart,
    http::{Authorizer, Http},
};
use mcp_protocol::{LoggingMessageParams, Root, notification};
use mcp_transport::Connect;
use url::Url;

use crate::{
    answers::Answers,
    approval,
    args::{Command, Options},
    elicit,
    failure::Failure,
    logs, question,
    sampling::Model,
    screen::note,
    target::{self, Target},
    text::line,
    trace::TracedConnector,
};

/// The name and the version of this program, which servers receive.
pub(crate) const NAME: &str = "mcp";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The shortest total timeout of a call. It is the default of the client.
const MIN_TOTAL_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest timeout of the request that detects the revision. It is the default of the client.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of the pings of `mcp listen`, and the number of missed pings after which the connection is lost.
const LISTEN_PING: Duration = Duration::from_secs(2);
const LISTEN_MISSED_PINGS: u32 = 2;
/// The time after which `mcp` reports that a server has not answered yet.
const START_NOTICE: Duration = Duration::from_secs(3);

/// The environment variable with hosts in private networks to which the requests of a login may go.
const ALLOWED_HOSTS: &str = "MCP_ALLOW_HOST";

/// The settings of the clients of a command. The options decide them.
#[derive(Clone)]
pub(crate) struct ClientSettings {
    pub(crate) options: Options,
    /// The answers to questions of the server. `None` for a client that declares no support for questions.
    answers: Option<Arc<Answers>>,
    listens: bool,
    roots: Vec<Root>,
    model: Option<Arc<Model>>,
}

impl ClientSettings {
    /// Returns the settings of a command that answers the questions of its server.
    pub(crate) fn new(options: &Options, answers: &Arc<Answers>, command: &Command) -> Result<Self, Failure> {
        let roots: Result<Vec<Root>, Failure> = options.root.iter().map(|root| to_root(root)).collect();
        Ok(Self {
            options: options.clone(),
            answers: Some(Arc::clone(answers)),
            listens: matches!(command, Command::Listen(_)),
            roots: roots?,
            model: options.sample_with.as_ref().map(|program| Arc::new(Model::new(program))),
        })
    }

    /// Returns the settings of a command that answers no question of a server.
    pub(crate) fn without_answers(options: &Options) -> Self {
        Self { options: options.clone(), answers: None, listens: false, roots: Vec::new(), model: None }
    }

    /// Returns the approver of requests for which a policy requires a person. `None` if the command cannot ask the user.
    pub(crate) fn approver(&self) -> Option<approval::User> {
        self.answers.as_ref().and_then(approval::User::new)
    }

    /// Returns the builder of the client of a server in a configuration file, with the limits of its definition.
    pub(crate) fn apply_to(&self, builder: ClientBuilder, server: &ServerDefinition) -> ClientBuilder {
        let builder = with_limits(self.apply(builder), server, &self.options);
        let is_command = matches!(server.endpoint, Endpoint::Stdio(_));
        match &self.answers {
            Some(_) => builder.on_slow_start(START_NOTICE, move |start| report(start, is_command)),
            None => builder,
        }
    }

    fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        let builder = basic(builder, &self.options);
        match &self.answers {
            Some(answers) => self.answer(builder, answers),
            None => builder,
        }
    }

    fn answer(&self, mut builder: ClientBuilder, answers: &Arc<Answers>) -> ClientBuilder {
        if self.listens {
            // A lost session over HTTP and a half-open connection show no other sign of the loss.
            builder = builder.ping_interval(LISTEN_PING).ping_threshold(LISTEN_MISSED_PINGS);
        }
        if let Some(level) = self.options.log_level {
            builder = builder.log_level(level);
            // `mcp listen` shows log messages with the other notifications.
            if !self.listens {
                builder = builder.on::<notification::LoggingMessage>(|message| note(log_line(&message)));
            }
        }
        if question::is_possible() || answers.is_given() {
            let answers = Arc::clone(answers);
            builder = builder.on_elicit(move |request| {
                let answers = Arc::clone(&answers);
                async move { elicit::form(request, &answers).await }
            });
        }
        // Only a user can open a page.
        if question::is_possible() || answers.declines() {
            let answers = Arc::clone(answers);
            builder = builder.on_elicit_url(move |request| {
                let answers = Arc::clone(&answers);
                async move { elicit::url(request, &answers).await }
            });
        }
        if let Some(model) = &self.model {
            let model = Arc::clone(model);
            builder = builder.on_sample(move |request| {
                let model = Arc::clone(&model);
                async move { model.answer(&request).await }
            });
        }
        if !self.roots.is_empty() {
            builder = builder.roots(self.roots.clone());
        }
        builder
    }
}

/// Connects to the server that the command line names. The authorizer is for a URL.
pub(crate) async fn open(
    target: &Target,
    settings: &ClientSettings,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Client, Failure> {
    let options = &settings.options;
    let connector = TracedConnector::new(connector(target, options, authorizer)?, options.trace);
    let is_command = matches!(target, Target::Command(_));
    let builder = settings.apply(Client::builder(NAME, VERSION));
    let builder = builder.on_slow_start(START_NOTICE, move |start| report(start, is_command));
    let opened = builder.connect(Arc::new(connector) as Arc<dyn Connect>).await;
    logs::keep_server_stderr();
    Ok(opened?)
}

/// Returns the connector of a server in a configuration file.
pub(crate) fn to_server(
    server: &ServerDefinition,
    options: &Options,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Arc<dyn Connect>, Failure> {
    let connector = server::connector(server, options, authorizer)?;
    Ok(Arc::new(TracedConnector::new(connector, options.trace).named(&server.name)))
}

/// Returns the connector of a caller for the authorizer with its token.
pub(crate) type ConnectorOfCaller = Box<dyn Fn(Arc<dyn Authorizer>) -> Arc<dyn Connect> + Send + Sync>;

/// Returns a function with the connectors of the callers of a server, for the authorizers with their tokens. `None` for a command.
pub(crate) fn of_callers(server: &ServerDefinition, options: &Options) -> Result<Option<ConnectorOfCaller>, Failure> {
    let (endpoint, traces) = (server::endpoint_of_callers(server, options)?, options.trace);
    let name = server.name.clone();
    Ok(endpoint.map(|endpoint| -> ConnectorOfCaller {
        Box::new(move |own| {
            let connector = TracedConnector::new(Arc::new(endpoint.clone().authorizer(own)), traces);
            Arc::new(connector.named(&name)) as Arc<dyn Connect>
        })
    }))
}

/// Reports a server that has not answered yet. From then on, new lines of its stderr are printed.
fn report(start: &SlowStart, is_command: bool) {
    note(format!("mcp: {start}"));
    if is_command && start.stderr().is_empty() {
        note("mcp: the command has written nothing to stderr");
    }
    note("mcp: Ctrl-C ends the wait");
    logs::follow_server_stderr();
}

fn connector(
    target: &Target,
    options: &Options,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Arc<dyn Connect>, Failure> {
    match target {
        Target::Url(url) => {
            if !options.env.is_empty() || options.cwd.is_some() {
                return Err(Failure::usage("--env and --cwd apply to the command of a server, not to a URL"));
            }
            let http = http(url, options)?;
            Ok(Arc::new(match authorizer {
                Some(authorizer) if !target::has_credentials(url) => http.authorizer(authorizer),
                _ => http,
            }))
        }
        Target::Command(command) => {
            let (program, args) = command.split_first().ok_or_else(|| Failure::usage("no command after `--`"))?;
            if !options.header.is_empty() {
                return Err(Failure::usage("--header applies to a URL; set variables of a command with --env"));
            }
            let variables = options.env.iter().map(|(name, value)| (name, value));
            let mut child = ChildProcess::new(program).args(args).envs(variables);
            if let Some(directory) = &options.cwd {
                child = child.current_dir(directory);
            }
            Ok(Arc::new(child))
        }
        Target::Configuration => Err(Failure::usage("choose a server with --server")),
    }
}

/// Sets the limits of a definition that the command line does not set.
fn with_limits(mut builder: ClientBuilder, server: &ServerDefinition, options: &Options) -> ClientBuilder {
    let start = server::start_limit(server, options);
    builder = builder.connect_timeout(start).probe_timeout(MAX_PROBE_TIMEOUT.min(start / 2));
    match server.call_timeout {
        Some(limit) if options.timeout.is_none() => builder.idle_timeout(limit).total_timeout(limit),
        _ => builder,
    }
}

/// Connects to a server of a configuration file, without answers to questions of the server.
pub(crate) async fn to_definition(
    server: &ServerDefinition,
    options: &Options,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Result<Client, mcp_client::Error>, Failure> {
    let connector = to_server(server, options, authorizer)?;
    let builder = with_limits(basic(Client::builder(NAME, VERSION), options), server, options);
    Ok(builder.connect(connector).await)
}

/// Returns the connection to a URL with the headers of the options.
fn http(url: &str, options: &Options) -> Result<Http, Failure> {
    let mut http = Http::new(url).map_err(|error| Failure::rejected(&error))?;
    for (name, value) in options.header.iter().flatten() {
        http = http.header(name, value).map_err(|error| Failure::rejected(&error))?;
    }
    for host in allowed_hosts(options) {
        http = http.allow_host(&host).map_err(|error| Failure::rejected(&error))?;
    }
    Ok(http)
}

/// Returns the hosts in private networks to which the requests of a login may go.
pub(crate) fn allowed_hosts(options: &Options) -> Vec<String> {
    let variable = std::env::var(ALLOWED_HOSTS).unwrap_or_default();
    options.allow_host.iter().cloned().chain(variable.split_whitespace().map(ToOwned::to_owned)).collect()
}

/// Connects to a URL, without answers to questions of the server.
pub(crate) async fn to_url(
    url: &Url,
    options: &Options,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Result<Client, mcp_client::Error>, Failure> {
    let http = http(url.as_str(), options)?;
    let http = Arc::new(match authorizer {
        Some(authorizer) => http.authorizer(authorizer),
        None => http,
    });
    let connector = Arc::new(TracedConnector::new(http, options.trace));
    Ok(basic(Client::builder(NAME, VERSION), options).connect(connector as Arc<dyn Connect>).await)
}

/// Returns the builder with the title, the revision and the timeouts of the options.
fn basic(builder: ClientBuilder, options: &Options) -> ClientBuilder {
    // The host of a configuration file does not repeat a failed start. The client of an open connection reconnects.
    let mut builder = builder.title("mcp, on the command line").reconnect(Reconnect::default());
    if let Some(version) = options.revision {
        builder = builder.versions([version]);
    }
    if let Some(time) = options.timeout {
        builder = builder.idle_timeout(time).connect_timeout(time).ping_timeout(time);
        builder = builder.total_timeout(total_timeout(time)).probe_timeout(MAX_PROBE_TIMEOUT.min(time / 2));
    }
    builder
}

/// Returns the total timeout of a call for an idle timeout. It is always the longer of the two.
fn total_timeout(idle_timeout: Duration) -> Duration {
    MIN_TOTAL_TIMEOUT.max(idle_timeout.saturating_mul(10))
}

/// Formats a log message in one line.
pub(crate) fn log_line(message: &LoggingMessageParams) -> String {
    let logger = message.logger.as_ref().map(|name| format!(" {}", line(name))).unwrap_or_default();
    let data = message.data.as_str().map_or_else(|| message.data.to_string(), ToOwned::to_owned);
    format!("[{}{logger}] {}", message.level.as_str(), line(&data))
}

fn to_root(text: &str) -> Result<Root, Failure> {
    if text.starts_with("file://") {
        return Ok(Root::new(text));
    }
    let invalid = |error: std::io::Error| Failure::usage(format!("the root {text}: {error}"));
    let path = Path::new(text).canonicalize().map_err(invalid)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let uri = Url::from_file_path(&path).map_err(|()| Failure::usage(format!("the root {text} has no URI")))?;
    let mut root = Root::new(uri);
    root.name = name;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_timeout_exceeds_the_idle_timeout() {
        for (idle, total) in [(1, 600), (60, 600), (700, 7000), (u64::MAX, u64::MAX)] {
            assert_eq!(total_timeout(Duration::from_secs(idle)).as_secs(), total, "{idle}");
        }
    }

    #[test]
    fn converts_directories_to_file_uris() {
        let root = to_root("/").unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(root.uri, "file:///");
        assert_eq!(to_root("file:///x%20y").unwrap_or_else(|_| panic!()).uri, "file:///x%20y");
        assert!(to_root("/no/such/directory").is_err());
        let directory = std::env::temp_dir().join(format!("mcp root {} é", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let root = to_root(&directory.display().to_string()).unwrap_or_else(|failure| panic!("{failure}"));
        std::fs::remove_dir(&directory).unwrap();
        assert!(root.uri.ends_with(&format!("/mcp%20root%20{}%20%C3%A9", std::process::id())), "{}", root.uri);
    }
}
