//! What a reader wants to be told of, and how much of it there may be.

use std::{collections::HashSet, sync::Arc};

use mcp_protocol::{ClientCapabilities, RpcError, SubscriptionFilter};

use crate::{
    Limits,
    change::{Change, add_uri},
    tasks,
};

/// The parts of a server that a stream can subscribe to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) tasks: bool,
}

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
        offered: Offered,
        limits: &Limits,
        client: &ClientCapabilities,
    ) -> Result<(SubscriptionFilter, Self), RpcError> {
        let (mut honoured, mut filter) = (SubscriptionFilter::new(), Self::default());
        let wanted = |flag: Option<bool>, has: bool| flag == Some(true) && has;
        filter.tools = wanted(asked.tools_list_changed, offered.tools);
        filter.prompts = wanted(asked.prompts_list_changed, offered.prompts);
        filter.resources = wanted(asked.resources_list_changed, offered.resources);
        honoured.tools_list_changed = filter.tools.then_some(true);
        honoured.prompts_list_changed = filter.prompts.then_some(true);
        honoured.resources_list_changed = filter.resources.then_some(true);
        for uri in &asked.resource_subscriptions {
            if add_uri(&mut filter.uris, uri, limits.subscribed_uris)? {
                honoured.resource_subscriptions.push(uri.clone());
            }
        }
        if !offered.resources {
            filter.uris.clear();
            honoured.resource_subscriptions.clear();
        }
        if !asked.task_ids.is_empty() && offered.tasks {
            filter.tasks = tasks_of(asked, limits, client)?;
        }
        Ok((honoured, filter))
    }

    /// Takes the ids of the tasks that were asked for.
    pub(crate) fn take_tasks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.tasks)
    }

    pub(super) fn wants(&self, notice: &Change) -> bool {
        match notice {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Updated(uri) => self.uris.contains(uri),
        }
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &Arc<str>> {
        self.uris.iter()
    }
}

/// The tasks that are asked for, each once.
fn tasks_of(asked: &SubscriptionFilter, limits: &Limits, client: &ClientCapabilities) -> Result<Vec<String>, RpcError> {
    if tasks::required().missing_from(client).is_some() {
        return Err(tasks::undeclared());
    }
    let cap = limits.subscribed_tasks;
    if asked.task_ids.len() > cap {
        return Err(RpcError::invalid_params(format!("too many subscriptions: {cap} tasks are the most")));
    }
    let mut seen = HashSet::new();
    let ids = asked.task_ids.iter().filter(|id| seen.insert(id.as_str()));
    Ok(ids.cloned().collect())
}
