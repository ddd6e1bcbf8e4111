//! The pages of the repository as doc tests, so that each Rust block of a page compiles.
//!
//! The pages are outside of the published packages, so that those packages cannot include them.

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/introduction.md")]
    mod introduction {}
    #[doc = include_str!("../../../docs/handlers.md")]
    mod handlers {}
    #[doc = include_str!("../../../docs/questions.md")]
    mod questions {}
    #[doc = include_str!("../../../docs/long-work.md")]
    mod long_work {}
    #[doc = include_str!("../../../docs/auth/server.md")]
    mod auth_server {}
    #[doc = include_str!("../../../docs/auth/auth0.md")]
    mod auth_auth0 {}
    #[doc = include_str!("../../../docs/auth/cognito.md")]
    mod auth_cognito {}
    #[doc = include_str!("../../../docs/auth/entra.md")]
    mod auth_entra {}
    #[doc = include_str!("../../../docs/auth/github.md")]
    mod auth_github {}
    #[doc = include_str!("../../../docs/auth/google.md")]
    mod auth_google {}
    #[doc = include_str!("../../../docs/auth/keycloak.md")]
    mod auth_keycloak {}
    #[doc = include_str!("../../../docs/auth/okta.md")]
    mod auth_okta {}
    #[doc = include_str!("../../../docs/auth/client.md")]
    mod auth_client {}
    #[doc = include_str!("../../../docs/configuration.md")]
    mod configuration {}
    #[doc = include_str!("../../../docs/layers.md")]
    mod layers {}
    #[doc = include_str!("../../../docs/reliability.md")]
    mod reliability {}
    #[doc = include_str!("../../../docs/telemetry.md")]
    mod telemetry {}
    #[doc = include_str!("../../../docs/content.md")]
    mod content {}
    #[doc = include_str!("../../../docs/clients.md")]
    mod clients {}
    #[doc = include_str!("../../../docs/host.md")]
    mod host {}
    #[doc = include_str!("../../../docs/gateway.md")]
    mod gateway {}
    #[doc = include_str!("../../../docs/policy.md")]
    mod policy {}
    #[doc = include_str!("../../../docs/migrating-from-rmcp.md")]
    mod migrating_from_rmcp {}
    #[doc = include_str!("../../../docs/tutorial.md")]
    mod tutorial {}
    #[doc = include_str!("../../../docs/testing.md")]
    mod testing {}
    #[doc = include_str!("../../../docs/production.md")]
    mod production {}
    #[doc = include_str!("../../../docs/performance.md")]
    mod performance {}
    #[doc = include_str!("../../../docs/troubleshooting.md")]
    mod troubleshooting {}
}
