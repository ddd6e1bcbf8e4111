//! The metadata of one request of the stateless era.

use std::sync::Arc;

use mcp_protocol::{LoggingLevel, Meta, ProgressToken, ProtocolVersion, RequestMeta, RpcError};

use crate::session::RequestClient;

/// The metadata of a request of the stateless era. The revision is not checked yet.
#[derive(Debug)]
pub struct StatelessCall {
    requested: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Arc<RequestClient>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) parsed_meta: ParsedMeta,
}

/// The metadata of a request that its handler may read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParsedMeta {
    pub(crate) raw_meta: Option<Box<str>>,
    pub(crate) progress_token: Option<ProgressToken>,
}

impl ParsedMeta {
    /// Parses the metadata.
    pub(crate) fn meta(&self) -> Option<Meta> {
        self.raw_meta.as_deref().and_then(|raw| serde_json::from_str(raw).ok())
    }

    pub(crate) fn of(meta: &RequestMeta<'_>) -> Self {
        Self { raw_meta: Some(meta.raw.get().into()), progress_token: meta.progress_token.clone() }
    }
}

impl StatelessCall {
    /// Reads the required metadata.
    ///
    /// # Errors
    /// `-32602` with the name of a missing or invalid member.
    pub fn read(meta: &RequestMeta<'_>) -> Result<Self, RpcError> {
        let (requested, _) = meta.required()?;
        Ok(Self {
            // `supported` rejects an unknown revision later.
            version: ProtocolVersion::parse(requested).unwrap_or(ProtocolVersion::LATEST),
            requested: requested.to_owned(),
            client: Arc::new(RequestClient { capabilities: meta.capabilities()?, info: meta.implementation()? }),
            log_level: meta.log_level,
            parsed_meta: ParsedMeta::of(meta),
        })
    }

    /// Returns the revision that the request names, known or unknown.
    #[must_use]
    pub fn requested(&self) -> &str {
        &self.requested
    }
}
