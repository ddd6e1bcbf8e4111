//! Scanners for the forms of variables.

use super::Refusal;

type Lookup<'a> = &'a dyn Fn(&str) -> Result<String, Refusal>;

/// Replaces each `${…}`. If `nests`, a variable may contain other variables. The function receives the text between the
/// braces, and whether it may contain variables.
pub(super) fn braces(
    text: &str,
    nests: bool,
    value: &dyn Fn(&str, bool) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let end = if nests { matching(inner) } else { inner.find('}') };
        let end = end.ok_or_else(|| Refusal::invalid("${"))?;
        out.push_str(&value(&inner[..end], nests)?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the position of the brace that closes a variable.
fn matching(inner: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let bytes = inner.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes[at - 1] == b'$' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Replaces each `${…}` that the format knows. Other texts stay unchanged.
pub(super) fn known_braces(
    text: &str,
    value: &dyn Fn(&str) -> Result<Option<String>, Refusal>,
) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let Some(end) = inner.find('}') else {
            if inner.starts_with("env:") || inner.starts_with("input:") {
                return Err(Refusal::invalid(&rest[start..start + 2 + inner.find(':').unwrap_or_default()]));
            }
            out.push_str(&rest[start..]);
            return Ok(out);
        };
        match value(&inner[..end])? {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[start..start + end + 3]),
        }
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces each `$VAR` and `${VAR}`. With a refusal of substitutions, `$(` and a backtick are faults.
pub(super) fn dollars(text: &str, value: Lookup<'_>, substitution: Option<Refusal>) -> Result<String, Refusal> {
    if let Some(refusal) = substitution
        && (text.contains("$(") || text.contains('`'))
    {
        return Err(refusal);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        out.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        if let Some(inner) = after.strip_prefix('{') {
            let end = inner.find('}').ok_or_else(|| Refusal::invalid("${"))?;
            out.push_str(&value(&inner[..end])?);
            rest = &inner[end + 1..];
            continue;
        }
        let length = after.find(|c: char| !is_name(c)).unwrap_or(after.len());
        if length == 0 || after.starts_with(|c: char| c.is_ascii_digit()) {
            out.push('$');
            rest = after;
            continue;
        }
        out.push_str(&value(&after[..length])?);
        rest = &after[length..];
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Replaces each `%VAR%`.
pub(super) fn percents(text: &str, value: Lookup<'_>) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        match after.find('%').filter(|end| *end > 0 && after[..*end].chars().all(is_name)) {
            Some(end) => {
                out.push_str(&value(&after[..end])?);
                rest = &after[end + 1..];
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces each `{env:VAR}` and `{file:path}`.
pub(super) fn open_code(text: &str, value: &dyn Fn(&str, &str) -> Result<String, Refusal>) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 1..];
        let Some(kind) = ["env", "file"]
            .into_iter()
            .find(|kind| inner.strip_prefix(kind).is_some_and(|inner| inner.starts_with(':')))
        else {
            out.push('{');
            rest = inner;
            continue;
        };
        let inner = &inner[kind.len() + 1..];
        let end = inner.find('}').ok_or_else(|| Refusal::invalid(&format!("{{{kind}:")))?;
        out.push_str(&value(kind, inner[..end].trim())?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces each `${{ … }}`.
pub(super) fn double_braces(text: &str, value: Lookup<'_>) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 3..];
        let end = inner.find("}}").ok_or_else(|| Refusal::invalid("${{"))?;
        out.push_str(&value(&inner[..end])?);
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}
