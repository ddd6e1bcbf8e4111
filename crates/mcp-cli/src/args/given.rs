//! The options of every command that the command line has.

use super::Options;

impl Options {
    /// Returns the names of the given options, except those about the output of the program: `--json` and `--color`.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            json: _,
            color: _,
            allow_host,
            config_file,
            config_server,
            policy,
            pins,
            header,
            timeout,
            revision,
            trace,
            stderr,
            env,
            cwd,
            root,
            sample_with,
            answer,
            yes,
            decline,
            log_level,
        } = self;
        let options = [
            ("--allow-host", !allow_host.is_empty()),
            ("--config", config_file.is_some()),
            ("--server", config_server.is_some()),
            ("--policy", !policy.is_empty()),
            ("--pins", pins.is_some()),
            ("--header", !header.is_empty()),
            ("--timeout", timeout.is_some()),
            ("--revision", revision.is_some()),
            ("--trace", *trace),
            ("--stderr", *stderr),
            ("--env", !env.is_empty()),
            ("--cwd", cwd.is_some()),
            ("--root", !root.is_empty()),
            ("--sample-with", sample_with.is_some()),
            ("--answer", !answer.is_empty()),
            ("--yes", *yes),
            ("--decline", *decline),
            ("--log-level", log_level.is_some()),
        ];
        options.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
    }
}
