//! The names and the ranges of the command line. `cargo xtask bench` contains this file too, and checks them before each build.

/// The cases of the load.
pub(crate) const CASES: [&str; 17] = [
    "http-1",
    "http-32",
    "list",
    "text",
    "open-32",
    "stdio-1",
    "stdio-64",
    "stdio-64-gathered",
    "stdio-list",
    "client-1",
    "client-32",
    "client-stdio-32",
    "auth-jwt",
    "auth-api-key",
    "auth-introspection",
    "auth-dpop",
    "auth-guesses",
];
/// The series of the growth.
pub(crate) const SERIES: [&str; 7] =
    ["tools", "sessions", "streams", "subscriptions", "tasks", "connections", "payload"];
/// The figures of the gateway.
pub(crate) const GATEWAY: [&str; 7] = ["added", "cpu", "text", "lists", "checks", "memory", "children"];

/// More rounds take a day.
const MAX_ROUNDS: usize = 1_000;
const MAX_SECONDS: f64 = 20.0;

/// Checks that a name is one of some names.
pub(crate) fn check(name: &str, what: &str, names: &[&str]) -> Result<(), String> {
    if names.contains(&name) { Ok(()) } else { Err(format!("`{name}` is not a {what}: {}", names.join(", "))) }
}

/// Checks that a list does not contain a name.
pub(crate) fn check_once(name: &str, what: &str, others: &[String]) -> Result<(), String> {
    let occurs = others.iter().any(|other| other == name);
    if occurs { Err(format!("the {what} `{name}` occurs twice")) } else { Ok(()) }
}

/// Reads the number of rounds.
pub(crate) fn rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse().ok().filter(|rounds| (1..=MAX_ROUNDS).contains(rounds));
    rounds.ok_or_else(|| format!("--rounds takes 1 to {MAX_ROUNDS}, not `{text}`"))
}

/// Reads the seconds of a round.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=MAX_SECONDS).contains(seconds));
    seconds.ok_or_else(|| format!("--seconds takes 0.05 to {MAX_SECONDS}, not `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_ends() {
        for (text, is_rounds, is_seconds) in [
            ("1", true, true),
            ("0.05", false, true),
            ("0", false, false),
            ("1000", true, false),
            ("nan", false, false),
        ] {
            assert_eq!((rounds(text).is_ok(), seconds(text).is_ok()), (is_rounds, is_seconds), "{text}");
        }
        assert!(rounds("1001").is_err() && seconds("20.1").is_err());
        assert!(check("list", "case", &CASES).is_ok() && check("none", "case", &CASES).is_err());
        let others = ["list".to_owned()];
        assert!(check_once("text", "case", &others).is_ok() && check_once("list", "case", &others).is_err());
    }
}
