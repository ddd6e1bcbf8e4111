//! The policies, the pins and the tools for models of a new host.

use std::path::Path;

use super::HostBuilder;
use crate::{
    characters::Characters,
    pins::{PinRules, PinStore},
    policy::{Approver, AuditSink, Effect, Gate, Policy, PolicyFile, PolicyHook},
    search::Deferral,
};

impl HostBuilder {
    /// Adds a policy, after the other policies and hooks. The policies decide each call, each read of a resource and each prompt
    /// before its arguments leave the host.
    ///
    /// The order is: the policies and hooks in the order of the builder, then the rules of the server
    /// ([`ServerOptions::rule`](crate::ServerOptions::rule), and the lists of its definition), then the default effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mcp_server::{Server, tool};
    /// # let git = Server::builder("git", "1").tool(tool("push", async || "pushed")).tool(tool("push_tags", async || "none")).build();
    /// use mcp_agent::{
    ///     CallError, Host,
    ///     policy::{AuditEvent, PendingApproval, Policy},
    /// };
    ///
    /// let policy = Policy::parse("policy.toml", "[[rule]]\ntool = \"push*\"\neffect = \"ask\"\n")?;
    /// let host = Host::builder("my-app", "1.0")
    ///     .server("git", &git)
    ///     .policy(policy)
    ///     .approver(|call: PendingApproval| async move { call.input.tool == "push" })
    ///     .audit(|event: &AuditEvent| println!("{} {:?}", event.tool, event.outcome))
    ///     .start()
    ///     .await?;
    /// assert_eq!(host.call("git:push", ()).await?.text(), "pushed");
    /// let refused = host.call("git:push_tags", ()).await.unwrap_err();
    /// assert!(matches!(refused, CallError::Refused(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.gate = self.gate.policy(policy);
        self
    }

    /// Adds the policy of a file, after the other policies and hooks. The host fails to start if the file is missing or invalid.
    /// The function blocks the thread for the time of the read.
    pub fn policy_file(mut self, path: impl AsRef<Path>) -> Self {
        match PolicyFile::load(path) {
            Ok(file) => self.gate = self.gate.policy_file(file),
            Err(error) => _ = self.error.get_or_insert(error.into()),
        }
        self
    }

    /// Adds a hook that decides calls in code, after the other policies and hooks.
    pub fn policy_hook(mut self, hook: impl PolicyHook) -> Self {
        self.gate = self.gate.hook(hook);
        self
    }

    /// Sets the effect for calls that no policy, no hook and no rule of the server decides. Default: allow.
    pub fn default_effect(mut self, effect: Effect) -> Self {
        self.gate = self.gate.default_effect(effect);
        self
    }

    /// Sets the approver for calls with the effect `ask`. Without one, the host refuses these calls.
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.gate = self.gate.approver(approver);
        self
    }

    /// Sets the receiver of audit events: one for each decision.
    pub fn audit(mut self, sink: impl AuditSink) -> Self {
        self.gate = self.gate.audit(sink);
        self
    }

    /// Refuses each call whose audit event the receiver does not store ([`Gate::require_audit`]). Default: the calls run.
    pub fn require_audit(mut self) -> Self {
        self.gate = self.gate.require_audit();
        self
    }

    /// Pins the definition of each tool on its first use, and compares each later list with the pins.
    ///
    /// A changed definition is in the notes of [`ServerStatus`](crate::ServerStatus), and in
    /// [`CatalogTool::pin_state`](crate::CatalogTool::pin_state). With [`Drift::Warn`](crate::pins::Drift::Warn), the host uses
    /// it. With `ask`, models do not receive it, and a call asks the approver. An approval of the call accepts the definition.
    /// With `block`, the host refuses calls until [`Host::accept_definition`](crate::Host::accept_definition). Servers of project files always block.
    ///
    /// The host fails to start if the file of pins is invalid.
    ///
    /// ```
    /// use mcp_agent::{
    ///     Host,
    ///     pins::{Drift, PinFile, PinRules},
    /// };
    ///
    /// let rules = PinRules::new().drift(Drift::Ask);
    /// let builder = Host::builder("my-app", "1.0").pins(PinFile::new("pins.json"), rules);
    /// # let _ = builder;
    /// ```
    pub fn pins(mut self, store: impl Into<PinStore>, rules: PinRules) -> Self {
        self.settings.pins = Some((store.into(), rules));
        self
    }

    /// Sets the treatment of invisible characters in the definitions for models. Default: [`Characters::Strip`]. In each case the
    /// notes of [`ServerStatus`](crate::ServerStatus) and [`CatalogTool::flags`](crate::CatalogTool::flags) report them.
    pub fn characters(mut self, characters: Characters) -> Self {
        self.settings.characters = characters;
        self
    }

    /// Defers tools above a budget ([`Host::toolset`](crate::Host::toolset)). Patterns are for display names. Default: no tool is deferred.
    pub fn deferral(mut self, deferral: Deferral) -> Self {
        self.deferral = deferral;
        self
    }

    /// Replaces all policies, hooks, limits, the approver and the receiver of audit events by those of a gate. The host and the
    /// clones of the gate share the open questions.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }
}
