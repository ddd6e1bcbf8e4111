//! The options of the program.

pub(crate) const USAGE: &str = "\
Usage: protected [OPTIONS]

Serves http://127.0.0.1:PORT/mcp to authenticated callers.

Options:
  --port PORT          the port (default 8080; 0 chooses a free port)
  --provider PROVIDER  oauth, introspection, jwt-hs256, api-key, basic or static (default oauth)
  --auto-approve       the built-in authorization server approves each login without a page
  --issuer URL         accept the tokens of this authorization server instead of the built-in server
  --anonymous          open the tool `public` and the lists to callers without credentials
  --help               print this text

To protect a server of your own, set an authenticator:
  HttpConfig::new().public_url(\"https://mcp.example.com/mcp\").authenticate(Jwt::issuer(\"https://idp.example.com\"))
docs/auth/server.md describes each provider.";

/// The authenticator of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Signed tokens of the built-in authorization server.
    OAuth,
    /// Opaque tokens of the built-in authorization server.
    Introspection,
    /// Tokens with a shared secret, which the program prints.
    JwtHs256,
    ApiKey,
    Basic,
    /// Fixed bearer tokens.
    Static,
    /// Tokens of an authorization server.
    Issuer(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) provider: Provider,
    /// Whether the built-in authorization server approves each login.
    pub(crate) auto_approve: bool,
    pub(crate) anonymous: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Options),
    Help,
}

/// Parses the arguments.
///
/// # Errors
/// A text that names the invalid argument.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options { port: 8080, provider: Provider::OAuth, auto_approve: false, anonymous: false };
    let mut issuer = None;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--port" => options.port = value()?.parse().map_err(|_| "--port needs a number below 65536".to_owned())?,
            "--provider" => options.provider = provider(&value()?)?,
            "--issuer" => issuer = Some(value()?),
            "--auto-approve" => options.auto_approve = true,
            "--anonymous" => options.anonymous = true,
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("unknown argument {argument}")),
        }
    }
    if let Some(issuer) = issuer {
        if options.provider != Provider::OAuth {
            return Err("--issuer needs the provider oauth: the others do not accept tokens of an issuer".to_owned());
        }
        options.provider = Provider::Issuer(issuer);
    }
    Ok(Command::Run(options))
}

fn provider(name: &str) -> Result<Provider, String> {
    Ok(match name {
        "oauth" => Provider::OAuth,
        "introspection" => Provider::Introspection,
        "jwt-hs256" => Provider::JwtHs256,
        "api-key" => Provider::ApiKey,
        "basic" => Provider::Basic,
        "static" => Provider::Static,
        _ => {
            return Err(format!(
                "unknown provider {name}: write oauth, introspection, jwt-hs256, api-key, basic or static"
            ));
        }
    })
}
