//! Assembles a server from its configuration and its registries.

use std::sync::{Arc, atomic::AtomicUsize};

use mcp_store::MemoryStore;

use crate::{
    Server,
    data::{Config, InstalledExtensions, ServerData},
    error,
    inputs::{self, InputServices, StateKeys},
    node::Node,
    publisher::{Fleet, Publisher, Readers},
    registry::{Entry, ListStyle, PromptEntry, Registry, ResourceEntry, TemplateEntry, ToolEntry},
    request::ServerIdentity,
    session::{ClientIdentities, Gate},
    shutdown::{RunningWork, Shutdown},
    store::ServerStore,
    tasks::TaskTable,
};

/// The warning for a fleet whose nodes have different keys.
const RANDOM_KEYS: &str = "`state_keys` is not set beside `store`: each process has random keys, so other nodes and restarted \
    processes reject the request states of input rounds. Set the same keys on all nodes";

#[track_caller]
pub(super) fn assemble(
    config: Config,
    extensions: InstalledExtensions,
    tools: Vec<ToolEntry>,
    resources: Vec<ResourceEntry>,
    templates: Vec<TemplateEntry>,
    prompts: Vec<PromptEntry>,
) -> Server {
    if config.shows_faults {
        error::warn("clients receive the details of faults, because the server uses `show_faults`");
    }
    let identity = ServerIdentity::new(config.info.clone());
    let list_style = ListStyle {
        entries: config.limits.page_entries,
        bytes: config.limits.page_bytes,
        cache: config.list_cache,
        stateless_opening: identity.opening.clone(),
    };
    let keys = match config.state_keys.clone().map_or_else(StateKeys::random, Ok) {
        Ok(keys) => keys,
        Err(error) => panic!("the system has no random numbers: {error}"),
    };
    let is_shared = config.store.is_some();
    let seals = is_shared && config.versions.iter().any(|version| version.is_stateless());
    let key_ids = match &config.state_keys {
        Some(keys) if seals => keys.ids("fleet"),
        None if seals => {
            error::warn(RANDOM_KEYS);
            Vec::new()
        }
        _ => Vec::new(),
    };
    let store = config.store.clone().unwrap_or_else(|| Arc::new(MemoryStore::new()));
    let records = ServerStore::new(store, &config.info.name);
    let node = is_shared.then(|| Arc::new(Node::new(records.clone(), &config.limits.node, key_ids)));
    let tasks = Arc::new(TaskTable::new(records.clone(), config.limits.tasks.clone(), node.clone()));
    tasks.serve_nodes();
    let readers: Arc<Readers> = Arc::default();
    let fleet = is_shared.then(|| Fleet::new(records.clone(), readers.clone(), tasks.clone()));
    let inputs = InputServices {
        limits: config.limits.inputs.clone(),
        keys,
        records,
        node: node.clone(),
        bridge: config.bridge.clone(),
        accepts_unsolicited: config.accepts_unsolicited_answers,
    };
    let inputs = Arc::new(inputs);
    inputs::serve_nodes(&inputs);
    let drain = config.limits.drain;
    let data = ServerData {
        inputs,
        identity,
        tasks,
        work: RunningWork::default(),
        listeners: AtomicUsize::new(0),
        node,
        gate: Gate::new(config.limits.handlers),
        extensions,
        config,
        tools: filled(tools),
        resources: filled(resources),
        templates: filled(templates),
        prompts: filled(prompts),
        list_style,
        publisher: Publisher::new(readers, fleet),
        clients: ClientIdentities::default(),
        shutdown: Shutdown::of_server(drain),
    };
    let server = Server { data: Arc::new(data) };
    server.data.extensions.start(&server);
    server
}

fn filled<E: Entry>(entries: Vec<E>) -> Registry<E> {
    let registry = Registry::default();
    // The builder claimed every name, so none can be taken here.
    if let Err(error) = registry.add(entries) {
        tracing::error!(%error, "an entry was lost");
    }
    registry
}
