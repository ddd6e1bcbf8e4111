//! Reads `Accept` and `Content-Type`. The most specific media range decides (RFC 9110 §12.5.1).

use http::{HeaderMap, header};

/// The types of an answer that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) json: bool,
    pub(crate) sse: bool,
}

impl Accepted {
    /// Reads all `Accept` headers. A request without the header accepts every type.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().peekable();
        // Nearly every client sends exactly this value. A second header can only add to it.
        if values.peek().is_none_or(|value| *value == "application/json, text/event-stream") {
            return Self { json: true, sse: true };
        }
        let mut json = Best::default();
        let mut sse = Best::default();
        for value in values {
            let Ok(text) = value.to_str() else { continue };
            for range in split_outside_quotes(text, b',') {
                let (media, quality) = media_range(range);
                json.consider(media, "application", "json", quality);
                sse.consider(media, "text", "event-stream", quality);
            }
        }
        Self { json: json.accepted, sse: sse.accepted }
    }
}

/// The most specific range that matches so far.
#[derive(Default)]
struct Best {
    specificity: u8,
    accepted: bool,
}

impl Best {
    fn consider(&mut self, media: &str, kind: &str, subtype: &str, accepted: bool) {
        let Some((range_kind, range_subtype)) = media.split_once('/') else { return };
        let specificity = match (range_kind, range_subtype) {
            ("*", "*") => 1,
            (k, "*") if k.eq_ignore_ascii_case(kind) => 2,
            (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subtype) => 3,
            _ => return,
        };
        if specificity > self.specificity {
            self.specificity = specificity;
            self.accepted = accepted;
        } else if specificity == self.specificity {
            // The same range with other parameters: one accepting range is enough.
            self.accepted |= accepted;
        }
    }
}

/// The media type of a range, and whether its quality is above zero.
fn media_range(range: &str) -> (&str, bool) {
    let mut parts = split_outside_quotes(range, b';');
    let media = parts.next().unwrap_or_default().trim();
    let quality = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map(|(_, value)| value.trim().parse::<f32>().unwrap_or(0.0));
    (media, quality.is_none_or(|q| q > 0.0))
}

fn split_outside_quotes(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest?;
        let mut quoted = false;
        let mut escaped = false;
        let at = current.bytes().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if !quoted && byte == separator => return true,
                _ => {}
            }
            false
        });
        match at {
            Some(at) => {
                rest = Some(&current[at + 1..]);
                Some(&current[..at])
            }
            None => rest.take(),
        }
    })
}

/// Whether `Content-Type` is JSON. The header has to be there exactly once. Its parameters, such as a charset, do not
/// matter.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(text) = value.to_str() else { return false };
    text.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_media_range_decides() {
        for (values, json, sse) in [
            (&[][..], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["text/event-stream"], false, true),
            (&["application/json"], true, false),
            (&["*/*"], true, true),
            (&["APPLICATION/JSON;charset=utf-8, Text/*"], true, true),
            (&["application/json;q=0, */*"], false, true),
            (&["*/*;q=0, text/event-stream;q=0.1"], false, true),
            (&["text/html;x=\"a, application/json\", text/event-stream"], false, true),
            (&["text/html;x=\"\\\", application/json\""], false, false),
            (&["application/json; q=zero, text/event-stream; q=0.0"], false, false),
            (&["", ",,;"], false, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT, value.parse().unwrap());
            }
            assert_eq!(Accepted::of(&headers), Accepted { json, sse }, "{values:?}");
        }
    }

    #[test]
    fn one_content_type_of_json_is_required() {
        for (values, expected) in [
            (&["application/json"][..], true),
            (&["Application/JSON; charset=utf-8"], true),
            (&["text/plain"], false),
            (&["application/jsonp"], false),
            (&["application/json", "text/plain"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(is_json(&headers), expected, "{values:?}");
        }
    }
}
