//! Tests of the files that `mcp new` writes.

use super::*;

#[test]
fn accepts_only_names_of_packages() {
    for (name, is_valid) in [
        ("weather", true),
        ("my_server-2", true),
        ("", false),
        ("2fast", false),
        ("a b", false),
        ("größe", false),
        ("test", false),
        ("mcp-server", false),
        (&"x".repeat(65), false),
    ] {
        assert_eq!(check_name(name).is_ok(), is_valid, "{name}");
    }
}

#[test]
fn the_error_names_a_directory_without_a_name() {
    for (directory, expected) in [
        ("a/..", "`a/..` does not end with a name; write the name of the new directory"),
        ("/", "`/` does not end with a name; write the name of the new directory"),
        ("a b", "`a b` is not a name for a package: use at most 64 letters, digits, `-` and `_`"),
    ] {
        let failure = package_name(Path::new(directory)).map_err(|failure| failure.to_string());
        assert_eq!(failure, Err(expected.to_owned()));
    }
}

#[cfg(unix)]
#[test]
fn rejects_paths_that_are_not_utf_8() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let path = Path::new(OsStr::from_bytes(b"/a/x\xff"));
    let name = package_name(path).map_err(|failure| failure.to_string());
    assert_eq!(name, Err("`x\u{fffd}` is not a name for a package: it is not UTF-8".to_owned()));
    let source = checkout(path).map_err(|failure| failure.to_string());
    assert_eq!(source, Err("the path of the checkout is not UTF-8: /a/x\u{fffd}".to_owned()));
}

#[test]
fn the_manifest_names_the_source_and_the_features() {
    let manifest = |source, has_http, is_in_workspace| {
        let text = files("x", has_http, &source, is_in_workspace).remove(0).1;
        toml::from_str::<toml::Table>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    for text in ["https://example.com/x", "a \"b\" 'c' \\ \u{7f}\n\t", "{{client}} {{", "größe"] {
        let git = manifest(Source::Git(text.to_owned()), true, false);
        assert_eq!(git["dependencies"]["mcp-server"]["git"].as_str(), Some(text));
        assert_eq!(git["dependencies"]["mcp-server"].get("default-features"), None);
        assert!(!git.contains_key("workspace"));
        let path = manifest(Source::Path(format!("/{text}")), false, true);
        let server = &path["dependencies"]["mcp-server"];
        assert_eq!(server["path"].as_str(), Some(&*format!("/{text}/crates/mcp-server")));
        assert_eq!(server["default-features"].as_bool(), Some(false));
        assert!(path.contains_key("workspace"));
    }
}

#[test]
fn every_variable_of_the_templates_has_a_value() {
    for has_http in [true, false] {
        for (name, text) in files("x", has_http, &Source::Git("https://example.com/x".to_owned()), true) {
            assert!(!text.contains("{{"), "{name}: {text}");
        }
    }
}

#[test]
fn the_readme_names_the_built_program_as_the_server() {
    for (has_http, command) in [(true, "-- target/debug/x --stdio\n"), (false, "-- target/debug/x\n")] {
        let files = files("x", has_http, &Source::Git("https://example.com/x".to_owned()), true);
        let (_, readme) = files.iter().find(|(name, _)| *name == "README.md").unwrap();
        assert_eq!(readme.matches(command).count(), 3, "{readme}");
        // A build in the command of a server would count for the limit of the connection.
        assert!(!readme.contains("-- cargo"), "{readme}");
    }
}

#[test]
fn a_failure_leaves_no_part_of_the_project() {
    let root = std::env::temp_dir().join(format!("mcp-project-{}", std::process::id()));
    fs::create_dir(&root).unwrap();
    // The second file cannot be written, because the first file has the name of its directory.
    let files = [("a", "1".to_owned()), ("a/b", "2".to_owned())];
    let failure = write_project(&root.join("new/deep/weather"), &files).map_err(|error| error.kind());
    assert!(failure.is_err_and(|kind| kind != io::ErrorKind::AlreadyExists));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);

    // A directory that exists is not changed.
    let existing = root.join("weather");
    fs::create_dir(&existing).unwrap();
    fs::write(existing.join("mine"), "1").unwrap();
    let failure = write_project(&existing, &files).map_err(|error| error.kind());
    assert_eq!(failure, Err(io::ErrorKind::AlreadyExists));
    assert_eq!(fs::read_dir(&existing).unwrap().count(), 1);
    fs::remove_dir_all(&root).unwrap();
}
