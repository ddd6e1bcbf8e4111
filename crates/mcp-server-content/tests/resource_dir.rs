//! Directories as resources: listed files, readable files, and hidden files.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use crate::{
    client::{Client, names},
    temp_dir::TempDir,
};
use mcp_protocol::{ErrorCode, ProtocolVersion};
use mcp_server_content::ResourceDir;
use mcp_server_core::{Server, resource};
use serde_json::json;

fn serve(dir: ResourceDir) -> Server {
    Server::builder("t", "1").extension(dir).build()
}

fn library(test: &str) -> TempDir {
    let disk = TempDir::new(test);
    disk.write("root/b.md", "# B");
    disk.write("root/a b/ü.txt", "text");
    disk.write("root/a b/100%.json", "{}");
    disk.write("root/bytes", [0xff, 0x00]);
    disk.write("root/dot.png", "only looks like text");
    disk.write("root/.hidden", "hidden");
    disk.write("root/.git/config", "hidden");
    disk.write("secret.txt", "secret");
    disk
}

#[tokio::test]
async fn lists_files_in_order_and_reads_them() {
    let disk = library("files_are_listed");
    let server = serve(ResourceDir::new(disk.path("root")).unwatched());
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY] {
        let mut client = Client::connect(&server, version).await;
        let listed = client.list("resources/list", "resources").await;
        let expected = ["a%20b/100%25.json", "a%20b/%C3%BC.txt", "b.md", "bytes", "dot.png"];
        assert_eq!(names(&listed, "uri"), expected.map(|path| format!("file:///{path}")));
        assert_eq!(names(&listed, "name"), ["a b/100%.json", "a b/ü.txt", "b.md", "bytes", "dot.png"]);
        assert_eq!(listed[2]["mimeType"], "text/markdown");
        assert_eq!(listed[2]["size"], 3);
        assert_eq!(listed[2]["annotations"]["lastModified"].as_str().map(str::len), Some(24));
        assert!(listed[3]["mimeType"].is_null());
        for (entry, (member, content)) in listed.iter().zip([
            ("text", "{}"),
            ("text", "text"),
            ("text", "# B"),
            ("blob", "/wA="),
            ("blob", "b25seSBsb29rcyBsaWtlIHRleHQ="),
        ]) {
            let read = client.result("resources/read", json!({ "uri": entry["uri"] })).await;
            assert_eq!(read["contents"][0][member], content, "{entry}");
            assert_eq!(read["contents"][0]["uri"], entry["uri"]);
        }
    }
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let templates = client.list("resources/templates/list", "resourceTemplates").await;
    assert_eq!(names(&templates, "uriTemplate"), ["file:///{+path}"]);
    let reference = json!({ "type": "ref/resource", "uri": "file:///{+path}" });
    let params = json!({ "ref": reference, "argument": { "name": "path", "value": "b" } });
    let completed = client.result("completion/complete", params).await;
    assert_eq!(completed["completion"]["values"], json!(["b.md", "bytes"]));
}

#[tokio::test]
async fn caps_the_list_and_reads_unlisted_files() {
    let disk = library("the_list_is_capped");
    let dir = ResourceDir::new(disk.path("root")).uri_prefix("docs://x/").max_listed(2).name("docs").unwatched();
    let server = serve(dir.hidden_files());
    assert_eq!(server.resources().names(), ["docs://x/.git/config", "docs://x/.hidden"]);
    assert_eq!(server.read_resource("docs://x/b.md").await.unwrap().contents[0].as_text(), Some("# B"));
    assert_eq!(server.resource_templates().names(), ["docs://x/{+path}"]);
}

#[tokio::test]
async fn rejects_reads_outside_the_directory() {
    let disk = library("nothing_outside");
    let server = serve(ResourceDir::new(disk.path("root")).unwatched());
    let absolute = disk.path("secret.txt");
    for path in [
        "../secret.txt",
        "a%20b/../../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "%2e%2e%2fsecret.txt",
        "%252e%252e/secret.txt",
        "..%5csecret.txt",
        "a%20b",
        "a%20b/",
        ".",
        "%00",
        "b.md%00.txt",
        "nothing.txt",
        ".hidden",
        ".git/config",
        "./.hidden",
        absolute.to_str().unwrap(),
    ] {
        let error = server.read_resource(&format!("file:///{path}")).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{path}: {error:?}");
        assert!(!format!("{error:?}").contains(disk.path("").to_str().unwrap()) || path.starts_with('/'), "{error:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn follows_links_only_within_the_directory() {
    use std::os::unix::fs::symlink;

    let disk = library("links_are_followed");
    symlink("b.md", disk.path("root/inside.md")).unwrap();
    symlink(disk.path("root/b.md"), disk.path("root/absolute.md")).unwrap();
    symlink("a b", disk.path("root/inside")).unwrap();
    symlink("../secret.txt", disk.path("root/outside.txt")).unwrap();
    symlink(disk.path("."), disk.path("root/above")).unwrap();
    symlink("loop", disk.path("root/loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, disk.path("root/pipe"), rustix::fs::Mode::RWXU).unwrap();
    let server = serve(ResourceDir::new(disk.path("root")).unwatched());
    assert!(server.resources().names().contains(&"file:///inside.md".to_owned()));
    for unlisted in ["inside/ü.txt", "outside.txt", "above/secret.txt", "pipe", "loop"] {
        assert!(!server.resources().names().iter().any(|uri| uri.ends_with(unlisted)), "{unlisted}");
    }
    for (path, text) in [("inside.md", Some("# B")), ("absolute.md", Some("# B")), ("inside/%C3%BC.txt", Some("text"))]
    {
        let read = server.read_resource(&format!("file:///{path}")).await.unwrap();
        assert_eq!(read.contents[0].as_text(), text, "{path}");
    }
    for path in ["outside.txt", "above/secret.txt", "above/root/b.md/x", "pipe", "loop"] {
        let error = server.read_resource(&format!("file:///{path}")).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{path}");
    }
    // A client reads a listed file by its URI after the file was replaced.
    disk.remove("root/b.md");
    symlink("../secret.txt", disk.path("root/b.md")).unwrap();
    server.read_resource("file:///b.md").await.unwrap_err();
}

#[cfg(unix)]
#[tokio::test]
async fn hides_links_to_hidden_files() {
    use std::os::unix::fs::symlink;

    let disk = library("a_link_to_a_hidden_file");
    symlink(".hidden", disk.path("root/link.txt")).unwrap();
    symlink(".git", disk.path("root/link")).unwrap();
    symlink("../.git/config", disk.path("root/a b/link")).unwrap();
    symlink("b.md", disk.path("root/.link.md")).unwrap();
    let dir = || ResourceDir::new(disk.path("root")).unwatched();
    let paths = ["link.txt", "link/config", "a%20b/link", ".link.md"];
    let (without, with) = (serve(dir()), serve(dir().hidden_files()));
    for path in paths {
        let uri = format!("file:///{path}");
        assert!(!without.resources().names().contains(&uri), "{path}");
        let error = without.read_resource(&uri).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{path}");
        assert!(with.read_resource(&uri).await.is_ok(), "{path}");
        assert_eq!(with.resources().names().contains(&uri), path != "link/config", "{path}");
    }
}

#[tokio::test]
async fn limits_the_size_of_a_file() {
    let disk = TempDir::new("a_file_has_as_many_bytes");
    disk.write("ten.txt", "0123456789");
    disk.write("eleven.txt", "0123456789a");
    let server = serve(ResourceDir::new(disk.path("")).max_file_size(10).unwatched());
    assert_eq!(server.resources().names(), ["file:///ten.txt"]);
    assert_eq!(server.read_resource("file:///ten.txt").await.unwrap().contents[0].as_text(), Some("0123456789"));
    let error = server.read_resource("file:///eleven.txt").await.unwrap_err();
    assert!(error.message.contains("larger than 10 bytes"), "{error:?}");
}

#[test]
fn rejects_a_directory_that_cannot_be_served() {
    let disk = library("a_directory_that_cannot");
    let server = || Server::builder::<()>("t", "1").resource(resource("file:///b.md", async || "mine"));
    for (dir, reason) in [
        (ResourceDir::new(disk.path("nothing")), "the resource directory `"),
        (ResourceDir::new(disk.path("secret.txt")), "the resource directory `"),
        (ResourceDir::new(disk.path("root")), "the resource `file:///b.md` is already registered"),
        (ResourceDir::new(disk.path("root")).uri_prefix("no scheme"), "scheme"),
    ] {
        let error = server().try_extension(dir).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn notifies_clients_of_added_removed_and_changed_files() {
    let disk = library("clients_are_told");
    let server = serve(ResourceDir::new(disk.path("root")));
    let mut client = Client::connect(&server, ProtocolVersion::LATEST_LEGACY).await;
    for path in ["b.md", "bytes"] {
        client.result("resources/subscribe", json!({ "uri": format!("file:///{path}") })).await;
    }
    disk.write("root/b.md", "# B, and more");
    let updated = client.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "file:///b.md");
    let listed = client.list("resources/list", "resources").await;
    assert_eq!((&listed[2]["uri"], &listed[2]["size"]), (&json!("file:///b.md"), &json!(13)));
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);

    disk.write("root/new.txt", "new");
    client.notification("notifications/resources/list_changed").await;
    assert_eq!(server.resources().names().last().unwrap(), "file:///new.txt");

    disk.remove("root/bytes");
    client.notification("notifications/resources/list_changed").await;
    let updated = client.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "file:///bytes");
    assert!(!server.resources().names().contains(&"file:///bytes".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_new_file_does_not_replace_another_resource() {
    let disk = library("a_new_file_does_not");
    let server = Server::builder("t", "1")
        .resource(resource("file:///z.txt", async || "mine"))
        .extension(ResourceDir::new(disk.path("root")))
        .build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST_LEGACY).await;
    disk.write("root/y.txt", "y");
    disk.write("root/z.txt", "z");
    client.notification("notifications/resources/list_changed").await;
    // The file without a place is looked at again and again, which is no news.
    tokio::time::sleep(Duration::from_secs(10)).await;
    client.result("ping", json!({})).await;
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
    disk.write("root/y.txt", "y, changed");
    disk.write("root/z.txt", "z, changed");
    client.result("resources/subscribe", json!({ "uri": "file:///y.txt" })).await;
    client.notification("notifications/resources/updated").await;
    assert_eq!(server.read_resource("file:///z.txt").await.unwrap().contents[0].as_text(), Some("mine"));
    // The new file is registered when the URI is free.
    assert!(server.resources().remove("file:///z.txt"));
    client.notification("notifications/resources/list_changed").await;
    client.notification("notifications/resources/list_changed").await;
    assert_eq!(server.read_resource("file:///z.txt").await.unwrap().contents[0].as_text(), Some("z, changed"));
}

#[tokio::test]
async fn the_watcher_ends_with_the_server() {
    let disk = library("the_watcher_ends");
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let dir = ResourceDir::new(disk.path("root")).watch_every(Duration::from_millis(10));
    let (dropped, stopped) = (serve(dir.clone()), serve(dir));
    assert_eq!(alive(), 2);
    drop(dropped);
    stopped.shutdown();
    let gone = async {
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("a watcher runs on");
}
