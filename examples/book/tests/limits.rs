//! Compares the defaults in the tables of `docs/production.md` with the code.

use std::{collections::BTreeMap, fmt::Debug, path::Path, time::Duration};

const PAGE: &str = include_str!("../../../docs/production.md");

/// A default, without its unit in the text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Default {
    Number(u64),
    Time(Duration),
}

/// Defaults by the name of their setter, or by the first cell of their row.
type Defaults = BTreeMap<String, Default>;

/// Reads a default as a page shows it: `4,096`, `4 MiB`, `60 s`.
fn shown(text: &str) -> Option<Default> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: u64 = number.replace(',', "").parse().ok()?;
    Some(match unit {
        "" => Default::Number(number),
        "KiB" => Default::Number(number << 10),
        "MiB" => Default::Number(number << 20),
        "ms" => Default::Time(Duration::from_millis(number)),
        "s" => Default::Time(Duration::from_secs(number)),
        "min" => Default::Time(Duration::from_secs(number * 60)),
        "h" => Default::Time(Duration::from_secs(number * 3600)),
        _ => return None,
    })
}

/// Reads a default as the code contains it: `4096`, `60s`, `4 << 20`, `Duration::from_secs(60)`.
fn coded(text: &str) -> Option<Default> {
    let text = text.strip_prefix("Some(").and_then(|text| text.strip_suffix(')')).unwrap_or(text).replace('_', "");
    let time = |unit: &str, end: &str| text.strip_prefix(unit)?.strip_suffix(end)?.parse().ok();
    let factors = |sign: &str| {
        let (first, second) = text.split_once(sign)?;
        Some((first.parse::<u64>().ok()?, second.parse::<u64>().ok()?))
    };
    if let Some((number, shift)) = factors(" << ") {
        return Some(Default::Number(number << shift));
    }
    if let Some((first, second)) = factors(" * ") {
        return Some(Default::Number(first * second));
    }
    if let Some(millis) = time("Duration::frommillis(", ")").or_else(|| time("", "ms")) {
        return Some(Default::Time(Duration::from_millis(millis)));
    }
    if let Some(seconds) = time("Duration::fromsecs(", ")").or_else(|| time("", "s")) {
        return Some(Default::Time(Duration::from_secs(seconds)));
    }
    text.parse().ok().map(Default::Number)
}

/// Returns each number and each duration among the fields of a value. Nested structs are left out.
fn fields(value: &impl Debug) -> Defaults {
    let text = format!("{value:#?}");
    let fields = text.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(',')?.split_once(": "));
    let fields = fields.filter(|(name, _)| !name.starts_with(' '));
    fields.filter_map(|(name, value)| Some((name.to_owned(), coded(value)?))).collect()
}

/// Returns the value of a constant or of a field in a source file.
fn source(file: &str, name: &str) -> Default {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let values = text.lines().filter_map(|line| {
        let line = line.trim().trim_end_matches([',', ';']);
        match line.split_once(&format!("const {name}: ")) {
            Some((_, constant)) => coded(constant.split_once(" = ")?.1),
            None => coded(line.strip_prefix(&format!("{name}: "))?),
        }
    });
    values.into_iter().next().unwrap_or_else(|| panic!("{file} does not set {name}"))
}

/// Adds the rows of a source file: the key of the row, and the name in the file.
fn from_source(mut defaults: Defaults, file: &str, rows: &[(&str, &str)]) -> Defaults {
    defaults.extend(rows.iter().map(|(key, name)| ((*key).to_owned(), source(file, name))));
    defaults
}

/// Replaces the names of private fields by the names of their setters.
fn renamed(mut defaults: Defaults, names: &[(&str, &str)]) -> Defaults {
    for (field, setter) in names {
        let value = defaults.remove(*field).unwrap_or_else(|| panic!("there is no field {field}"));
        defaults.insert((*setter).to_owned(), value);
    }
    defaults
}

/// Returns the rows of the table below a heading.
fn table(heading: &str) -> Defaults {
    let (_, section) = PAGE.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let rows = section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| "));
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows = rows.filter(|row| row[0] != "limit").map(|row| {
        let [limit, default, setter, effect] = row[..] else { panic!("{heading}: {row:?} has not four cells") };
        assert!(!effect.is_empty(), "{heading}: {limit} has no effect");
        let key = setter.split('`').nth(1).unwrap_or(limit);
        (key.to_owned(), shown(default).unwrap_or_else(|| panic!("{heading}: `{default}` is not a default")))
    });
    let rows: Vec<_> = rows.collect();
    let table: Defaults = rows.iter().cloned().collect();
    assert_eq!(table.len(), rows.len(), "{heading}: two rows have one setter");
    table
}

fn server() -> Defaults {
    let defaults = fields(&mcp_server::Limits::default());
    let defaults = from_source(defaults, "mcp-server-core/src/engine/batch.rs", &[("messages of a batch", "MEMBERS")]);
    let completions = [("values of one completion", "COMPLETIONS")];
    let defaults = from_source(defaults, "mcp-server-core/src/engine/handle.rs", &completions);
    let parts = [("parts of subscribed resources that wait for one client", "PARTS")];
    let defaults = from_source(defaults, "mcp-server-core/src/change.rs", &parts);
    let pauses = [
        ("wait of a stream for its subscriptions at a source", "ACKNOWLEDGEMENT"),
        ("states of tasks that a stream requests from a source at the same time", "REQUESTS"),
        ("states of tasks that a stream requests from a server of a source at the same time", "OF_SERVER"),
        ("wait of a stream for the state of a task of a source", "STATE_TIMEOUT"),
        ("first pause before a stream requests the state of a task of a source again", "FIRST_PAUSE"),
        ("longest pause before a stream requests the state of a task of a source again", "LONGEST_PAUSE"),
    ];
    let defaults = from_source(defaults, "mcp-server-core/src/engine/listen_source.rs", &pauses);
    let pages = [
        ("pages of input requests that a session remembers", "PAGES"),
        ("bytes of the id of a page that a session remembers", "LONGEST_ID"),
    ];
    let defaults = from_source(defaults, "mcp-server-core/src/session/pages.rs", &pages);
    let reasons = [("bytes of the reason of a cancellation", "REASON")];
    let defaults = from_source(defaults, "mcp-server-core/src/session/in_flight.rs", &reasons);
    from_source(defaults, "mcp-server-core/src/store.rs", &[("time of one store operation", "STORE_TIMEOUT")])
}

fn questions() -> Defaults {
    let defaults = fields(&mcp_server::Limits::default().inputs);
    from_source(defaults, "mcp-server-core/src/inputs/collector.rs", &[("request state of one call", "STATE_CAP")])
}

fn nodes() -> Defaults {
    let defaults = fields(&mcp_server::Limits::default().node);
    let messages = [("bytes of a message to another node", "BODY_BYTES")];
    let defaults = from_source(defaults, "mcp-server-core/src/node/message.rs", &messages);
    let requests = [("requests of other nodes that a node runs at the same time", "RUNNING")];
    from_source(defaults, "mcp-server-core/src/node/requests.rs", &requests)
}

fn endpoint() -> Defaults {
    let names = [
        ("header_limit", "value of one header"),
        ("credential_header_limit", "value of `Authorization`, and of each other header with credentials"),
        ("session_opening", "time until `notifications/initialized`"),
        ("sessions", "max_sessions"),
        ("sessions_per_principal", "max_sessions_per_principal"),
        ("event_bytes", "max_event_bytes"),
        ("connections", "max_connections"),
    ];
    let log = [("events of one session for resumption", "EVENTS"), ("bytes of events of one session", "BYTES")];
    let defaults = renamed(fields(&mcp_server::http::HttpConfig::new()), &names);
    from_source(defaults, "mcp-server-http/src/legacy/event_log.rs", &log)
}

fn listener() -> Defaults {
    let connection = [
        ("time for the head of a request, and for an idle connection", "HEAD_TIMEOUT"),
        ("head of a request", "BUFFER"),
        ("open requests of one HTTP/2 connection", "STREAMS"),
        ("interval of HTTP/2 pings", "PING"),
    ];
    let defaults = from_source(Defaults::new(), "mcp-http-listener/src/connection.rs", &connection);
    from_source(defaults, "mcp-http-listener/src/tls.rs", &[("time of a TLS handshake", "HANDSHAKE_TIMEOUT")])
}

fn client() -> Defaults {
    let names = ["idle_timeout", "total_timeout", "connect_timeout", "probe_timeout", "ping_timeout", "ping_threshold"];
    let mut defaults = fields(&mcp_client::Limits::default());
    defaults.extend(fields(&mcp_client::Reconnect::default()));
    from_source(defaults, "mcp-client/src/config.rs", &names.map(|name| (name, name)))
}

fn client_over_http() -> Defaults {
    let names = ["connect_timeout", "response_timeout", "max_message", "max_requests"];
    let defaults = from_source(Defaults::new(), "mcp-client-http/src/config.rs", &names.map(|name| (name, name)));
    from_source(defaults, "mcp-transport/src/child.rs", &[("end_within", "END_WITHIN")])
}

fn gateway() -> Defaults {
    let parked = [
        ("parked calls of one principal", "PER_PRINCIPAL"),
        ("parked calls of all principals", "TOTAL"),
        ("time of a parked call since its last round", "LIFETIME"),
        ("bytes of the open questions and waiting results of one principal", "BYTES_PER_PRINCIPAL"),
        ("bytes of the open questions and waiting results of all principals", "TOTAL_BYTES"),
    ];
    let call = [
        ("open questions of one parked call", "OPEN"),
        ("questions of one parked call", "QUESTIONS"),
        ("time in which further questions join a round", "GATHER"),
        ("time for which a result stays after another node received it, or without a round", "SHORT"),
    ];
    let used = [
        ("used states of approved calls of one principal", "PER_PRINCIPAL"),
        ("used states of approved calls of all principals", "TOTAL"),
    ];
    let followed = [("followed tasks of one principal", "OF_PRINCIPAL"), ("followed tasks of all principals", "TASKS")];
    let streams = [
        ("tasks of streams of one principal", "OF_PRINCIPAL"),
        ("subscriptions to tasks at one server", "OF_SERVER"),
        ("tasks of streams of all principals", "TASKS"),
        ("wait for a server that acknowledges a task of a stream", "ACKNOWLEDGEMENT"),
        (
            "first wait before the gateway requests the state of a task of a stream from a lost server again",
            "FIRST_RETRY",
        ),
        (
            "longest wait before the gateway requests the state of a task of a stream from a lost server again",
            "LONGEST_RETRY",
        ),
    ];
    let pages = [
        ("watched pages of input requests of one principal", "OF_PRINCIPAL"),
        ("watched pages of input requests of all principals", "PAGES"),
        ("watched pages of one error `-32042`", "OF_ERROR"),
        ("bytes of the id of a watched page", "LONGEST_ID"),
    ];
    let tools = [
        ("known tools of tasks, for lists of tasks of callers with policies", "TASKS"),
        ("bytes of the names of these tasks and tools", "BYTES"),
    ];
    let views = [("callers with lists that the policies shorten", "CALLERS"), ("bytes of these lists", "BYTES")];
    let links = [
        ("resource links of one server for one client, with raw names", "URIS"),
        ("bytes of the resource links of one server for one client", "BYTES"),
        ("bytes of one resource link", "LONGEST"),
        ("clients with resource links", "OWNERS"),
        ("bytes of the resource links of all clients", "TOTAL_BYTES"),
    ];
    let merged =
        [("items of a page of a merged list", "PAGE_ITEMS"), ("bytes of a page of a merged list", "PAGE_BYTES")];
    let lists = [("items of a list of one server", "ITEMS"), ("bytes of a list of one server", "BYTES")];
    let state = [("wait for a server that accepts the log level and the roots of a session", "LIMIT")];
    let task_questions = [
        ("wait of the state of a task for the first question of a server of the session era", "FIRST"),
        ("wait of the state of a task for further questions", "FURTHER"),
    ];
    let subscriptions = [
        ("first wait before a lost subscription to a resource is opened again", "FIRST_RETRY"),
        ("longest wait before a lost subscription to a resource is opened again", "LONGEST_RETRY"),
        ("time for which the URI of an ended subscription is not in the updates of other users", "REMEMBERED"),
        ("remembered ended subscriptions", "ENDED"),
        ("remembered ended subscriptions of one principal", "ENDED_OF_PRINCIPAL"),
    ];
    let task_list = [
        ("pages of the tasks of one connection, in a list of tasks", "PAGES"),
        ("connections of one server, in a list of tasks", "CONNECTIONS"),
    ];
    let files: [(&str, &[(&str, &str)]); 21] = [
        ("catalog/entries.rs", &lists),
        ("gateway/parked.rs", &parked),
        ("gateway/parked/call.rs", &call),
        ("gateway/questions.rs", &[("notifications of one call that wait for its client", "WAITING")]),
        ("gateway/relay.rs", &[("wait of a result for a client that reads the notifications before it", "LAST")]),
        ("gateway/task_form.rs", &[("time for which a task keeps its connection", "LONGEST")]),
        (
            "registry/runner.rs",
            &[("answer of a client to a question of a server of the session era", "CALLER_ANSWERS")],
        ),
        ("gateway/used.rs", &used),
        ("gateway/fleet.rs", &[("time in which a shared store accepts the use of a state", "STORE_LIMIT")]),
        ("gateway/task_questions.rs", &task_questions),
        ("gateway/task_list.rs", &task_list),
        ("gateway/subscriptions.rs", &subscriptions),
        ("gateway/hops.rs", &[("gateways through which a request passes", "LONGEST")]),
        ("gateway/task_notices.rs", &followed),
        ("gateway/task_subscriptions.rs", &streams),
        ("gateway/pages.rs", &pages),
        ("gateway/task_policy.rs", &tools),
        ("gateway/views.rs", &views),
        ("gateway/links.rs", &links),
        ("gateway/merged.rs", &merged),
        ("registry/sessions.rs", &state),
    ];
    let reports = [
        ("time between two reports of progress of an answer for a server of the session era", "INTERVAL"),
        ("wait of an answer for the transmission of its last report of progress", "LAST"),
    ];
    let defaults = from_source(Defaults::new(), "mcp-client/src/inbound/reports.rs", &reports);
    let turns = [
        ("subscriptions of one stream that begin at a server at the same time", "AT_ONCE"),
        (
            "wait of a request of such a subscription for an answer, while the stream has another subscription",
            "PATIENCE",
        ),
        (
            "longest such wait, at a slow server, and while subscriptions wait for a turn at the same server",
            "LONGEST_PATIENCE",
        ),
        ("requests of one stream without an answer of a server", "SILENT"),
    ];
    let defaults = from_source(defaults, "mcp-server-core/src/source/turns.rs", &turns);
    files
        .into_iter()
        .fold(defaults, |defaults, (file, names)| from_source(defaults, &format!("mcp-agent/src/{file}"), names))
}

fn stores() -> Defaults {
    let rules = [
        ("bytes of the name of a record, a log or a topic", "MAX_NAME_BYTES"),
        ("bytes of a message on a topic", "MAX_MESSAGE_BYTES"),
        ("entries on one page", "MAX_PAGE"),
        ("queued messages of one subscription", "MAX_CAPACITY"),
    ];
    let checks =
        [("interval of checks of Redis", "HEARTBEAT"), ("time without any byte of Redis during a check", "SILENCE")];
    let connection = [("time of one attempt to connect to Redis", "CONNECT_TIME")];
    let defaults = from_source(Defaults::new(), "mcp-store/src/limits.rs", &rules);
    let defaults = from_source(defaults, "mcp-store-redis/src/options.rs", &[("call_time_limit", "CALL_TIME")]);
    let defaults = from_source(defaults, "mcp-store-redis/src/dial.rs", &connection);
    from_source(defaults, "mcp-store-redis/src/link.rs", &checks)
}

#[test]
fn the_tables_of_limits_contain_each_default_of_the_code() {
    let tables: [(&str, Defaults); 12] = [
        ("Server", server()),
        ("Questions", questions()),
        ("Tasks", fields(&mcp_server::Limits::default().tasks)),
        ("Nodes of a fleet", nodes()),
        ("HTTP endpoint", endpoint()),
        ("Listener", listener()),
        ("Stdio", fields(&mcp_server::transport::ndjson::Options::default())),
        ("Store in memory", fields(&mcp_server::store::MemoryLimits::default())),
        ("Stores of a fleet", stores()),
        ("Client", client()),
        ("Client over HTTP and child processes", client_over_http()),
        ("Gateway", gateway()),
    ];
    for (heading, code) in &tables {
        assert_eq!(&table(heading), code, "the table `{heading}` (left) differs from the code (right)");
    }
    let headings = PAGE.split_once("\n## Limits\n").unwrap().1.lines().filter_map(|line| line.strip_prefix("### "));
    assert_eq!(headings.collect::<Vec<_>>(), tables.map(|(heading, _)| heading));
}

#[tokio::test]
async fn the_listener_has_the_defaults_of_the_endpoint() {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!("{:#?}", mcp_server::http::listener::serve(tcp, ()));
    let limits = text.split_once("limits: Limits ").unwrap().1.replace("\n    ", "\n");
    let names = [("connections", "max_connections")];
    let listener = renamed(fields(&format_args!("{limits}")), &names);
    let endpoint = endpoint();
    assert_eq!(listener.len(), 3);
    for (name, default) in listener {
        assert_eq!(endpoint.get(&name), Some(&default), "{name}");
    }
}
