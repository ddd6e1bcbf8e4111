//! The parser of `WWW-Authenticate`. It accepts deviations of real servers, and it never fails.

use super::Challenge;

/// The largest number of challenges that are read. No server needs more.
const MAX_CHALLENGES: usize = 16;
/// The largest number of parameters of one challenge that are read.
const MAX_PARAMS: usize = 32;

impl Challenge {
    /// Parses the values of all `WWW-Authenticate` headers of a response, in their order. One value may contain several
    /// challenges.
    ///
    /// The first of two parameters with one name counts. A part that is not a challenge is skipped. Beyond 16
    /// challenges, or 32 parameters of one challenge, the rest is skipped.
    ///
    /// ```
    /// use mcp_protocol::Challenge;
    ///
    /// let challenges = Challenge::parse([r#"Basic realm="a, b", Bearer error="invalid_token""#, "Negotiate YWI="]);
    /// assert_eq!(challenges.len(), 3);
    /// assert_eq!(challenges[0].realm.as_deref(), Some("a, b"));
    /// assert_eq!(challenges[1].error.as_deref(), Some("invalid_token"));
    /// assert_eq!(challenges[2].token68.as_deref(), Some("YWI="));
    /// ```
    pub fn parse<'v>(values: impl IntoIterator<Item = &'v str>) -> Vec<Self> {
        let mut challenges = Vec::new();
        for value in values {
            parse_value(value, &mut challenges);
        }
        challenges
    }

    /// Stores a parameter, unless the challenge has it already.
    fn set(&mut self, name: &str, value: String) {
        let name = name.to_ascii_lowercase();
        let known = match name.as_str() {
            "realm" => &mut self.realm,
            "error" => &mut self.error,
            "error_description" => &mut self.error_description,
            "scope" => &mut self.scope,
            "resource_metadata" => &mut self.resource_metadata,
            "algs" => &mut self.algs,
            _ => {
                if self.params.len() < MAX_PARAMS && !self.params.iter().any(|(known, _)| *known == name) {
                    self.params.push((name, value));
                }
                return;
            }
        };
        known.get_or_insert(value);
    }
}

fn parse_value(value: &str, challenges: &mut Vec<Challenge>) {
    let mut input = Input(value);
    // A parameter belongs to a challenge of the same header only.
    let mut current: Option<Challenge> = None;
    loop {
        input.skip(|c| [' ', '\t', ','].contains(&c));
        let name = input.take(is_token_char);
        if name.is_empty() {
            if input.0.is_empty() {
                break;
            }
            input.skip_item();
            continue;
        }
        let after_name = input.0;
        input.skip(|c| matches!(c, ' ' | '\t'));
        if let Some(rest) = input.0.strip_prefix('=') {
            input.0 = rest;
            input.skip(|c| matches!(c, ' ' | '\t'));
            let value = input.value();
            if let (Some(challenge), Some(value)) = (&mut current, value) {
                challenge.set(name, value);
            }
            continue;
        }
        if challenges.len() + usize::from(current.is_some()) >= MAX_CHALLENGES {
            break;
        }
        challenges.extend(current.take());
        let mut challenge = Challenge::new(name);
        if after_name.starts_with([' ', '\t']) {
            challenge.token68 = input.token68();
        }
        current = Some(challenge);
    }
    challenges.extend(current);
}

/// The rest of a header value.
struct Input<'a>(&'a str);

impl<'a> Input<'a> {
    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        self.0 = self.0.trim_start_matches(skipped);
    }

    fn take(&mut self, taken: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !taken(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Skips a part that is neither a scheme nor a parameter.
    fn skip_item(&mut self) {
        if self.0.starts_with('"') {
            self.value();
        } else {
            // At least one character, so that the parser makes progress.
            let mut chars = self.0.chars();
            chars.next();
            self.0 = chars.as_str();
            self.skip(|c| !matches!(c, ',' | ' ' | '\t'));
        }
    }

    /// Takes the value of a parameter. `None` for a quoted string without an end.
    fn value(&mut self) -> Option<String> {
        let Some(quoted) = self.0.strip_prefix('"') else {
            // Servers also send values without quotes that are not tokens, for example URLs.
            return Some(self.take(|c| !matches!(c, ',' | ' ' | '\t')).to_owned());
        };
        let mut text = String::new();
        let mut chars = quoted.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => {
                    self.0 = chars.as_str();
                    return Some(text);
                }
                '\\' => text.extend(chars.next()),
                c => text.push(c),
            }
        }
        self.0 = "";
        None
    }

    /// Takes the value of a scheme without parameters, if the value ends the challenge.
    fn token68(&mut self) -> Option<String> {
        let mut ahead = Input(self.0);
        let end = ahead.0.find([',', ' ', '\t']).unwrap_or(ahead.0.len());
        let (token, rest) = ahead.0.split_at(end);
        ahead.0 = rest;
        ahead.skip(|c| matches!(c, ' ' | '\t'));
        let is_end = ahead.0.is_empty() || ahead.0.starts_with(',');
        if !is_end || !is_token68(token) {
            return None;
        }
        self.0 = ahead.0;
        Some(token.to_owned())
    }
}

/// Whether a text is a `token68` (RFC 9110 §11.2).
pub(super) fn is_token68(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && body.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c))
}

/// Whether a text is a `token` (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(scheme: &str, params: &[(&str, &str)]) -> Challenge {
        let mut challenge = Challenge::new(scheme);
        for (name, value) in params {
            challenge.set(name, (*value).to_owned());
        }
        challenge
    }

    #[test]
    fn challenges_are_parsed() {
        let token68 = |token: &str| Challenge { token68: Some(token.into()), ..Challenge::new("Negotiate") };
        for (values, expected) in [
            (&[][..], vec![]),
            (&[""], vec![]),
            (&[" , ,"], vec![]),
            (&["Bearer"], vec![param("Bearer", &[])]),
            (&["bearer"], vec![param("bearer", &[])]),
            (&["Bearer, Basic"], vec![param("Bearer", &[]), param("Basic", &[])]),
            (&["Bearer", "Basic"], vec![param("Bearer", &[]), param("Basic", &[])]),
            (&[r#"Bearer realm="r""#], vec![param("Bearer", &[("realm", "r")])]),
            (&[r#"Bearer  realm = "r" , error="e""#], vec![param("Bearer", &[("realm", "r"), ("error", "e")])]),
            (&[r#"Bearer REALM=r,Scope="a b""#], vec![param("Bearer", &[("realm", "r"), ("scope", "a b")])]),
            (
                &[r#"Bearer realm="a, Basic realm=\"b\"", x=1"#],
                vec![param("Bearer", &[("realm", "a, Basic realm=\"b\""), ("x", "1")])],
            ),
            (&[r#"Bearer realm="\\\"\a""#], vec![param("Bearer", &[("realm", "\\\"a")])]),
            (&[r#"Bearer realm="""#], vec![param("Bearer", &[("realm", "")])]),
            (
                &[r#"Basic realm="b", charset="UTF-8", DPoP algs="ES256 PS256", error="use_dpop_nonce""#],
                vec![
                    param("Basic", &[("realm", "b"), ("charset", "UTF-8")]),
                    param("DPoP", &[("algs", "ES256 PS256"), ("error", "use_dpop_nonce")]),
                ],
            ),
            (&["Negotiate YWI="], vec![token68("YWI=")]),
            (&["Negotiate YWI== , Bearer x=y"], vec![token68("YWI=="), param("Bearer", &[("x", "y")])]),
            (&["Negotiate abc"], vec![token68("abc")]),
            (&["Negotiate a=b"], vec![param("Negotiate", &[("a", "b")])]),
            // Without quotes, as some servers send it.
            (
                &["Bearer resource_metadata=https://a.example/.well-known/x?y=z, error=e"],
                vec![param("Bearer", &[("resource_metadata", "https://a.example/.well-known/x?y=z"), ("error", "e")])],
            ),
            // Without commas.
            (&[r#"Bearer realm="r" error="e""#], vec![param("Bearer", &[("realm", "r"), ("error", "e")])]),
            // The first of two equal parameters counts.
            (&[r#"Bearer scope="a", scope="b", x=1, X=2"#], vec![param("Bearer", &[("scope", "a"), ("x", "1")])]),
            // A parameter without a challenge, also at the start of a second header.
            (&[r#"realm="r", Bearer"#, "error=e"], vec![param("Bearer", &[])]),
            // Parts that are not challenges.
            (&[r#"Bearer realm="unfinished"#], vec![param("Bearer", &[])]),
            (&[r#""quoted, Basic", Bearer"#], vec![param("Bearer", &[])]),
            (&["Bearer \u{e4}, (x), error=e"], vec![param("Bearer", &[("error", "e")])]),
            (&["=, ==, Bearer"], vec![param("Bearer", &[])]),
        ] {
            assert_eq!(Challenge::parse(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn written_challenges_are_parsed_again() {
        let challenge = Challenge::bearer()
            .with_realm("r")
            .with_error("e")
            .with_description("d")
            .with_scopes(["a", "b"])
            .with_resource_metadata("u")
            .with_algs(["ES256"])
            .with_param("x", "y");
        let second = Challenge { token68: Some("YWI=".into()), ..Challenge::new("Negotiate") };
        let header = format!("{challenge}, {second}");
        assert_eq!(Challenge::parse([header.as_str()]), [challenge, second]);
    }

    #[test]
    fn the_number_of_challenges_and_parameters_is_bounded() {
        let many = "Bearer, ".repeat(1_000);
        assert_eq!(Challenge::parse([many.as_str(), many.as_str()]).len(), MAX_CHALLENGES);
        let many: String = (0..1_000).map(|n| format!("p{n}=x, ")).collect();
        assert_eq!(Challenge::parse([format!("Bearer {many}").as_str()])[0].params.len(), MAX_PARAMS);
    }

    #[test]
    fn any_text_is_parsed_without_a_panic() {
        // All texts of six symbols that have a meaning.
        let symbols = ["a", " ", "=", ",", "\"", "\\", "\u{e4}"];
        for number in 0..symbols.len().pow(6) {
            let text: String = (0..6).map(|place| symbols[number / symbols.len().pow(place) % symbols.len()]).collect();
            let _ = Challenge::parse([text.as_str()]);
        }
    }
}
