//! The subscriptions of one `subscriptions/listen` stream, and their limits.

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

/// The changes that a `subscriptions/listen` stream receives.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<Arc<str>>,
    /// The tasks that the client named. The stream looks them up when it opens.
    tasks: Vec<String>,
}

impl Filter {
    /// Returns the accepted part of a subscription request, as the response shows it and as the stream keeps it.
    ///
    /// # Errors
    /// `-32602` when the request names more resources or tasks than the limits allow. `-32021` when it names tasks and
    /// the client did not declare the extension.
    pub(crate) fn accept(
        requested: &SubscriptionFilter,
        offered: Offered,
        limits: &Limits,
        client: &ClientCapabilities,
    ) -> Result<(SubscriptionFilter, Self), RpcError> {
        let (mut accepted, mut filter) = (SubscriptionFilter::new(), Self::default());
        let wanted = |flag: Option<bool>, has: bool| flag == Some(true) && has;
        filter.tools = wanted(requested.tools_list_changed, offered.tools);
        filter.prompts = wanted(requested.prompts_list_changed, offered.prompts);
        filter.resources = wanted(requested.resources_list_changed, offered.resources);
        accepted.tools_list_changed = filter.tools.then_some(true);
        accepted.prompts_list_changed = filter.prompts.then_some(true);
        accepted.resources_list_changed = filter.resources.then_some(true);
        for uri in &requested.resource_subscriptions {
            if add_uri(&mut filter.uris, uri, limits.subscribed_uris)? {
                accepted.resource_subscriptions.push(uri.clone());
            }
        }
        if !offered.resources {
            filter.uris.clear();
            accepted.resource_subscriptions.clear();
        }
        if !requested.task_ids.is_empty() && offered.tasks {
            filter.tasks = tasks_of(requested, limits, client)?;
        }
        Ok((accepted, filter))
    }

    /// Takes the ids of the tasks that the client named.
    pub(crate) fn take_tasks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.tasks)
    }

    /// Ends the subscriptions to all other resources, and returns their URIs.
    pub(super) fn retain_uris(&mut self, accepted: &[String]) -> Vec<Arc<str>> {
        self.uris.extract_if(|uri| !accepted.iter().any(|accepted| **accepted == **uri)).collect()
    }

    pub(super) fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Updated(uri) | Change::Part { of: uri, .. } => self.uris.contains(uri),
        }
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &Arc<str>> {
        self.uris.iter()
    }
}

/// Returns the ids of the named tasks without duplicates.
fn tasks_of(
    requested: &SubscriptionFilter,
    limits: &Limits,
    client: &ClientCapabilities,
) -> Result<Vec<String>, RpcError> {
    if tasks::required().missing_from(client).is_some() {
        return Err(tasks::undeclared());
    }
    let cap = limits.subscribed_tasks;
    if requested.task_ids.len() > cap {
        return Err(RpcError::invalid_params(format!("too many subscriptions: {cap} tasks are the most")));
    }
    let mut seen = HashSet::new();
    let ids = requested.task_ids.iter().filter(|id| seen.insert(id.as_str()));
    Ok(ids.cloned().collect())
}
