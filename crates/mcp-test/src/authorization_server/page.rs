//! The pages. Each text of a client is escaped.

use std::fmt::Write as _;

use url::Url;

const STYLE: &str = "body{font-family:sans-serif;max-width:36em;margin:3em auto;padding:0 1em}dt{font-weight:bold}";

/// The content of the consent page.
pub(super) struct Consent<'a> {
    pub(super) action: &'a str,
    /// The random number of the form.
    pub(super) id: &'a str,
    pub(super) client: &'a str,
    pub(super) client_id: &'a str,
    pub(super) redirect_uri: &'a str,
    pub(super) subject: &'a str,
    pub(super) scopes: &'a [String],
    pub(super) resources: &'a [String],
}

/// Returns the page that asks the user. It names the host to which the answer goes.
pub(super) fn consent(consent: &Consent<'_>) -> String {
    let redirect = Url::parse(consent.redirect_uri).ok();
    let host = redirect.as_ref().and_then(|url| url.host_str()).unwrap_or(consent.redirect_uri);
    let rows = [
        ("Client", consent.client_id),
        ("User", consent.subject),
        ("Sends the answer to", host),
        ("Redirect URI", consent.redirect_uri),
    ];
    let hidden = [("request", consent.id)];
    let body = question(consent.client, &rows, consent.resources, consent.scopes, consent.action, &hidden);
    document("Consent", &body)
}

/// The content of the page about the request of a device.
pub(super) struct Device<'a> {
    pub(super) action: &'a str,
    /// The number that the form needs besides the cookie.
    pub(super) form: &'a str,
    pub(super) user_code: &'a str,
    pub(super) client: &'a str,
    pub(super) client_id: &'a str,
    pub(super) subject: &'a str,
    pub(super) scopes: &'a [String],
    pub(super) resources: &'a [String],
}

/// Returns the page about the request of a device.
pub(super) fn device(device: &Device<'_>) -> String {
    let rows = [("Client", device.client_id), ("User", device.subject), ("Code of the device", device.user_code)];
    let hidden = [("form", device.form), ("user_code", device.user_code)];
    let body = question(device.client, &rows, device.resources, device.scopes, device.action, &hidden);
    document("Device", &body)
}

/// Returns the page that asks for the code of a device.
pub(super) fn device_code(action: &str) -> String {
    let action = escape(action);
    let form = format!(
        "<h1>Connect a device</h1><form method=\"get\" action=\"{action}\"><label>Code \
         <input name=\"user_code\" autocomplete=\"off\"></label> <button>Continue</button></form>"
    );
    document("Device", &form)
}

/// Returns a page with a text.
pub(super) fn notice(text: &str) -> String {
    document("Done", &format!("<p>{}</p>", escape(text)))
}

/// Returns the part of a page that asks the user about a client.
fn question(
    client: &str,
    rows: &[(&str, &str)],
    resources: &[String],
    scopes: &[String],
    action: &str,
    hidden: &[(&str, &str)],
) -> String {
    let mut body = String::new();
    let _ = write!(body, "<h1>Allow {}?</h1><dl>", escape(client));
    for (name, value) in rows {
        let _ = write!(body, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    for (name, values) in [("Access to", resources), ("Scopes", scopes)] {
        let _ = write!(body, "<dt>{name}</dt>");
        for value in values {
            let _ = write!(body, "<dd>{}</dd>", escape(value));
        }
    }
    let _ = write!(body, "</dl><form method=\"post\" action=\"{}\">", escape(action));
    for (name, value) in hidden {
        let _ = write!(body, "<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value));
    }
    body.push_str(
        "<button name=\"decision\" value=\"approve\">Allow</button> \
         <button name=\"decision\" value=\"deny\">Deny</button></form>",
    );
    body
}

/// Returns a page with an error.
pub(super) fn error(description: &str) -> String {
    document("Error", &format!("<h1>The request is not valid</h1><p>{}</p>", escape(description)))
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style>\
         <body>{body}<p><small>A test authorization server.</small></p></body></html>"
    )
}

/// Replaces the characters with a meaning in HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_client_are_escaped() {
        let attack = "<script>alert('1')</script>\"&\n".to_owned();
        let html = consent(&Consent {
            action: &attack,
            id: &attack,
            client: &attack,
            client_id: &attack,
            redirect_uri: &attack,
            subject: &attack,
            scopes: std::slice::from_ref(&attack),
            resources: std::slice::from_ref(&attack),
        });
        assert!(!html.contains("<script>") && !html.contains("('1')"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp; ").count(), 9, "{html}");
        assert!(!error(&attack).contains("<script>"));
    }
}
