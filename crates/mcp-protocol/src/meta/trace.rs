//! The syntax of the W3C trace context and baggage values that `_meta` may carry.

/// Whether a text is a W3C `traceparent`: version, trace id, parent id and flags in lower-case hex; no id is all zeros.
#[must_use]
pub fn is_valid_traceparent(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let mut hex = |len: usize| {
        parts.next().filter(|p| p.len() == len && p.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    let (Some(version), Some(trace), Some(parent), Some(_flags)) = (hex(2), hex(32), hex(16), hex(2)) else {
        return false;
    };
    // A later version may append members; version 00 has exactly these four, and ff is not a version.
    let rest = parts.next();
    let nonzero = |id: &str| id.bytes().any(|b| b != b'0');
    version != "ff" && (version != "00" || rest.is_none()) && nonzero(trace) && nonzero(parent)
}

/// Whether a text is a W3C `tracestate`: at most 32 members `key=value`, none of them twice.
#[must_use]
pub fn is_valid_tracestate(text: &str) -> bool {
    let mut keys: Vec<&str> = Vec::new();
    for member in text.split(',').map(trim) {
        if member.is_empty() {
            continue;
        }
        let Some((key, value)) = member.split_once('=') else { return false };
        if keys.len() == 32 || keys.contains(&key) || !is_state_key(key) || !is_state_value(value) {
            return false;
        }
        keys.push(key);
    }
    !keys.is_empty()
}

/// Whether a text is a W3C `baggage`: members `key=value`, each with optional properties after semicolons.
#[must_use]
pub fn is_valid_baggage(text: &str) -> bool {
    text.split(',').all(|member| {
        let mut parts = member.split(';').map(trim);
        let Some((key, value)) = parts.next().and_then(|entry| entry.split_once('=')) else { return false };
        is_token(trim(key))
            && is_baggage_value(trim(value))
            && parts.all(|property| match property.split_once('=') {
                Some((key, value)) => is_token(trim(key)) && is_baggage_value(trim(value)),
                None => is_token(property),
            })
    })
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn is_state_key(key: &str) -> bool {
    let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
    let part = |part: &str, max: usize| (1..=max).contains(&part.len()) && part.bytes().all(allowed);
    match key.split_once('@') {
        Some((tenant, system)) => {
            part(tenant, 241) && part(system, 14) && system.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        }
        None => part(key, 256) && key.as_bytes().first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
    }
}

fn is_state_value(value: &str) -> bool {
    // `,` cannot occur: the list was split there.
    (1..=256).contains(&value.len()) && value.bytes().all(|b| matches!(b, 0x20..=0x7e) && b != b'=')
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn is_baggage_value(value: &str) -> bool {
    value.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is_valid: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(is_valid(text), "{text:?} is valid");
        }
        for text in bad {
            assert!(!is_valid(text), "{text:?} is not valid");
        }
    }

    #[test]
    fn traceparent_follows_its_grammar() {
        check(
            is_valid_traceparent,
            &[
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            ],
            &[
                "",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            ],
        );
    }

    #[test]
    fn tracestate_follows_its_grammar() {
        let many = (0..33).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let most = many.rsplit_once(',').unwrap().0;
        check(
            is_valid_tracestate,
            &["a=1", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE", "tenant@vendor=1", "a=1,,b=2", most],
            &["", "a", "A=1", "a=", "a=1,a=2", "a=é", "@x=1", "a@1=x", &many],
        );
    }

    #[test]
    fn baggage_follows_its_grammar() {
        check(
            is_valid_baggage,
            &["a=1", "a=1;p;q=2, b=%20", "a=", "userId=al%C3%ADce"],
            &["", "a", "=1", "a=b c", "a=\"b\"", "a=1,", "a=1;;", "a=é", "a=1;=1", "a=1;p=b c"],
        );
    }
}
