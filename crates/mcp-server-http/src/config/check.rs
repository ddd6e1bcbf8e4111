//! The check of a configuration: invalid settings, and settings that use one path.

use mcp_auth::ConfigError;

use super::HttpConfig;

impl HttpConfig {
    /// Checks the configuration.
    ///
    /// The methods of this type do not panic. An invalid setting has no effect, and the configuration keeps its error. Each
    /// function that serves an endpoint calls this method: our listener returns the error before it serves
    /// ([`HttpError::Config`](crate::HttpError::Config)), and [`try_into_router`](crate::HttpServer::try_into_router) and its
    /// relatives return it.
    ///
    /// The method does not require a public URL, because our listener derives it at a loopback address. The functions for other
    /// listeners also return an error for an authenticator without a public URL.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    /// use mcp_server_http::HttpConfig;
    ///
    /// let config = HttpConfig::new().authenticate(Jwt::issuer("http://as.example"));
    /// assert!(config.check().unwrap_err().to_string().starts_with("the authenticator is not configured: "));
    /// assert!(HttpConfig::new().check().is_ok());
    /// ```
    ///
    /// # Errors
    /// The first invalid setting. Also two settings with one path.
    pub fn check(&self) -> Result<(), ConfigError> {
        let checked = match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => self.check_paths(),
        };
        checked.map_err(ConfigError::new)
    }

    /// Keeps the first error of a setting.
    pub(super) fn invalid(mut self, fault: impl Into<String>) -> Self {
        self.fault.get_or_insert_with(|| fault.into());
        self
    }

    /// Keeps the error of a setting whose value is not what it must be. The text has no user, password, query or fragment of the
    /// value.
    pub(super) fn invalid_value(self, value: &str, fault: &str) -> Self {
        let location = value.split(['?', '#']).next().unwrap_or_default();
        let shown = match location.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => location.to_owned(),
        };
        self.invalid(format!("`{shown}` {fault}"))
    }

    /// Changes a setting if its value is valid.
    pub(super) fn set_if(mut self, is_valid: bool, fault: &str, set: impl FnOnce(&mut Self)) -> Self {
        if !is_valid {
            return self.invalid(fault);
        }
        set(&mut self);
        self
    }

    /// Checks that no two settings use one path.
    fn check_paths(&self) -> Result<(), String> {
        let mut paths = vec![("path", &*self.path)];
        paths.extend(self.sse.iter().flat_map(|paths| [("sse", &*paths.stream), ("sse", &*paths.messages)]));
        paths.extend(self.health.iter().map(|path| ("health", &**path)));
        paths.extend(self.readiness.iter().map(|path| ("readiness", &**path)));
        paths.extend(self.status.iter().map(|status| ("status", &*status.path)));
        for (at, (name, path)) in paths.iter().enumerate() {
            let duplicate = paths[..at].iter().find(|(other, taken)| other != name && taken == path);
            if let Some((other, _)) = duplicate {
                return Err(format!("`{other}` and `{name}` are both `{path}`: one of them could not be reached"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_auth::{ApiKeys, Jwt};
    use mcp_server_core::Server;

    use super::*;
    use crate::{HttpError, HttpServer};

    type Set = fn(HttpConfig) -> HttpConfig;

    fn fault(config: &HttpConfig) -> String {
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn an_invalid_setting_is_an_error_with_its_name() {
        let cases: &[(&str, Set)] = &[
            ("`body_limit` is zero: ", |config| config.body_limit(0)),
            ("`body_timeout` is zero: ", |config| config.body_timeout(Duration::ZERO)),
            ("`write_timeout` is zero: ", |config| config.write_timeout(Duration::ZERO)),
            ("`session_idle_timeout` is zero: ", |config| config.session_idle_timeout(Duration::ZERO)),
            ("`max_sessions` is zero: ", |config| config.max_sessions(0)),
            ("`max_sessions_per_principal` is zero: ", |config| config.max_sessions_per_principal(0)),
            ("`max_event_bytes` is zero: ", |config| config.max_event_bytes(0)),
            ("`keep_alive` is zero: ", |config| config.keep_alive(Duration::ZERO)),
            ("`max_connections` is zero: ", |config| config.max_connections(0)),
            ("`https://a.example` is not a host: ", |config| config.allowed_hosts(["https://a.example"])),
            ("`a.example` is not an origin: ", |config| config.allowed_origins(["a.example"])),
            ("`http://a.example/mcp` is not a public URL: ", |config| config.public_url("http://a.example/mcp")),
            ("the authenticator is not configured: ", |config| config.authenticate(Jwt::issuer("http://a.example"))),
            ("`max_failed_authentications` has the number zero", |config| {
                config.max_failed_authentications(0, Duration::from_secs(1))
            }),
            ("`max_failed_authentications` has the period zero", |config| {
                config.max_failed_authentications(1, Duration::ZERO)
            }),
        ];
        for (expected, set) in cases {
            let config = set(HttpConfig::new());
            assert!(fault(&config).starts_with(expected), "{}", fault(&config));
            // A later valid setting does not hide the error.
            let later = config.max_sessions(1).authenticate(ApiKeys::new()).health("/health");
            assert!(fault(&later).starts_with(expected), "{}", fault(&later));
        }
        assert!(fault(&HttpConfig::new().body_limit(0).max_sessions(0)).starts_with("`body_limit`"));
    }

    #[test]
    fn errors_contain_no_credentials_of_a_url() {
        let cases: &[Set] = &[
            |config| config.public_url("https://me:hunter2@a.example/mcp"),
            |config| config.public_url("https://a.example/mcp?key=hunter2"),
            |config| config.public_url("https://a.example/mcp#hunter2"),
            |config| config.allowed_hosts(["me:hunter2@a.example"]),
            |config| config.allowed_origins(["https://me:hunter2@a.example"]),
            |config| {
                config.public_url("https://a.example/mcp").authenticate(Jwt::issuer("https://me:hunter2@a.example"))
            },
        ];
        for set in cases {
            let config = set(HttpConfig::new());
            let text = format!("{} {config:?}", fault(&config));
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[tokio::test]
    async fn no_endpoint_serves_an_invalid_configuration() {
        let server = || Server::builder("test", "1").build();
        // Without the check, this endpoint would serve each caller.
        let config = || HttpConfig::new().public_url("https://a.example/mcp").authenticate(Jwt::issuer("a.example"));
        let error = server().serve_http_with("127.0.0.1:0", config()).await.unwrap_err();
        assert!(matches!(&error, HttpError::Config(_)), "{error}");
        for (name, made) in [
            ("try_into_router", server().try_into_router(config()).map(drop)),
            ("try_into_service", server().try_into_service(config()).map(drop)),
            ("try_metadata_router", server().try_metadata_router(&config()).map(drop)),
        ] {
            let text = made.unwrap_err().to_string();
            assert!(text.starts_with("the authenticator is not configured: "), "{name}: {text}");
        }
        for (name, make) in [
            ("into_router", Box::new(|| drop(server().into_router(config()))) as Box<dyn FnOnce()>),
            ("into_service", Box::new(|| drop(server().into_service(config())))),
            ("metadata_router", Box::new(|| drop(server().metadata_router(&config())))),
        ] {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.starts_with("the authenticator is not configured: "), "{name}: {text}");
        }
    }
}
