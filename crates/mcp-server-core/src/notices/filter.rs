//! What a reader wants to be told of, and how much of it there may be.

use std::{collections::HashSet, sync::Arc};

use mcp_protocol::{ClientCapabilities, RpcError, SubscriptionFilter};

use super::Notice;
use crate::{Server, tasks};

/// The bytes of all URIs that one reader subscribes to.
const URI_BYTES: usize = 64 << 10;

/// What a `subscriptions/listen` stream is told of.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<Arc<str>>,
    /// The tasks that were asked for; which of them there are is found out when the stream opens.
    tasks: Vec<String>,
}

impl Filter {
    /// The part of what was asked for that this server has, as it is acknowledged and as it is kept.
    ///
    /// # Errors
    /// `-32602` when more resources or tasks are named than a reader may; `-32021` for tasks when the client did not declare
    /// the extension.
    pub(crate) fn honour(
        asked: &SubscriptionFilter,
        server: &Server,
        client: &ClientCapabilities,
    ) -> Result<(SubscriptionFilter, Self), RpcError> {
        let (mut honoured, mut filter) = (SubscriptionFilter::new(), Self::default());
        let wanted = |flag: Option<bool>, has: bool| flag == Some(true) && has;
        filter.tools = wanted(asked.tools_list_changed, server.has_tools());
        filter.prompts = wanted(asked.prompts_list_changed, server.has_prompts());
        filter.resources = wanted(asked.resources_list_changed, server.has_resources());
        honoured.tools_list_changed = filter.tools.then_some(true);
        honoured.prompts_list_changed = filter.prompts.then_some(true);
        honoured.resources_list_changed = filter.resources.then_some(true);
        for uri in &asked.resource_subscriptions {
            if add_uri(&mut filter.uris, uri, server.limits().subscribed_uris)? {
                honoured.resource_subscriptions.push(uri.clone());
            }
        }
        if !server.has_resources() {
            filter.uris.clear();
            honoured.resource_subscriptions.clear();
        }
        if !asked.task_ids.is_empty() && server.has_tasks() {
            filter.tasks = tasks_of(asked, server, client)?;
        }
        Ok((honoured, filter))
    }

    /// Takes the ids of the tasks that were asked for.
    pub(crate) fn take_tasks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.tasks)
    }

    pub(super) fn wants(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Tools => self.tools,
            Notice::Prompts => self.prompts,
            Notice::Resources => self.resources,
            Notice::Updated(uri) => self.uris.contains(uri),
        }
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &Arc<str>> {
        self.uris.iter()
    }
}

/// The tasks that are asked for, each once.
fn tasks_of(asked: &SubscriptionFilter, server: &Server, client: &ClientCapabilities) -> Result<Vec<String>, RpcError> {
    if tasks::required().missing_from(client).is_some() {
        return Err(tasks::undeclared());
    }
    let cap = server.limits().subscribed_tasks;
    if asked.task_ids.len() > cap {
        return Err(RpcError::invalid_params(format!("too many subscriptions: {cap} tasks are the most")));
    }
    let mut seen = HashSet::new();
    let ids = asked.task_ids.iter().filter(|id| seen.insert(id.as_str()));
    Ok(ids.cloned().collect())
}

/// Adds a URI to those of one reader; false when it is one of them already.
pub(crate) fn add_uri(uris: &mut HashSet<Arc<str>>, uri: &str, cap: usize) -> Result<bool, RpcError> {
    if uris.contains(uri) {
        return Ok(false);
    }
    let bytes: usize = uris.iter().map(|uri| uri.len()).sum();
    if uris.len() >= cap || bytes + uri.len() > URI_BYTES {
        let text =
            format!("too many subscriptions: {cap} resources, and {URI_BYTES} bytes of their URIs, are the most");
        return Err(RpcError::invalid_params(text));
    }
    uris.insert(uri.into());
    Ok(true)
}
