//! Skills of a directory: their lists in every revision, and their files.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::{
    client::{Client, code_and_text, names},
    temp_dir::TempDir,
};
use mcp_protocol::ProtocolVersion;
use mcp_server_content::{Skill, Skills};
use mcp_server_core::{Server, tool};
use serde_json::{Value, json};

const REFUNDS: &str = "---\nname: refunds\ndescription: Refund customers.\nlicense: MIT\nmetadata:\n  version: 1.5\n---\n\
                       Ask first.\n";

fn refunds() -> Skill {
    Skill::new("acme/billing/refunds", REFUNDS)
        .file("templates/eu mail.md", "Dear")
        .file("templates/logo.png", [0x89, 0xff])
}

fn hello(name: &str) -> Skill {
    Skill::new(name, format!("---\nname: {name}\ndescription: Greets.\n---\n"))
}

fn server() -> Server {
    Server::builder("t", "1").extension(Skills::new().skill(refunds()).skill(hello("hello"))).build()
}

#[tokio::test]
async fn declares_lists_and_reads_skills_in_every_revision() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        let declared = &client.opening["capabilities"];
        assert_eq!(declared["extensions"]["io.modelcontextprotocol/skills"], json!({ "directoryRead": true }));
        assert!(declared["resources"].is_object());

        let skills = client.list("skills/list", "skills").await;
        assert_eq!(names(&skills, "uri"), ["skill://acme/billing/refunds/SKILL.md", "skill://hello/SKILL.md"]);
        let frontmatter = json!({
            "name": "refunds", "description": "Refund customers.", "license": "MIT", "metadata": { "version": 1.5 },
        });
        assert_eq!(skills[0]["frontmatter"], frontmatter);
        let files = skills[0]["resources"].as_array().unwrap();
        let base = "skill://acme/billing/refunds";
        let expected =
            ["SKILL.md", "templates/eu%20mail.md", "templates/logo.png"].map(|file| format!("{base}/{file}"));
        assert_eq!(names(files, "uri"), expected);
        assert_eq!(files[1]["size"], 4);

        let got = client.result("skills/get", json!({ "uri": skills[0]["uri"] })).await;
        assert_eq!(got["skill"], skills[0]);
        assert!(got["nextCursor"].is_null());
        let page = client.result("skills/list", json!({})).await;
        for result in [got, page] {
            let is_stateless = version.is_stateless();
            let marks = [&result["ttlMs"], &result["cacheScope"], &result["resultType"]];
            assert!(marks.iter().all(|mark| mark.is_null() != is_stateless), "{version}: {result}");
        }

        for (uri, member, content, mime_type) in [
            (&files[0]["uri"], "text", REFUNDS, "text/markdown"),
            (&files[1]["uri"], "text", "Dear", "text/markdown"),
            (&files[2]["uri"], "blob", "if8=", "image/png"),
        ] {
            let read = client.result("resources/read", json!({ "uri": uri })).await;
            assert_eq!(read["contents"][0][member], content);
            assert_eq!(read["contents"][0]["mimeType"], mime_type);
        }
        let listed = client.list("resources/list", "resources").await;
        assert_eq!(names(&listed, "name"), ["refunds", "hello"]);
        assert_eq!(listed[0]["description"], "Refund customers.");
        assert_eq!(listed[0]["size"], REFUNDS.len());
    }
}

#[test]
fn digests_match_the_bytes() {
    let server = Server::builder::<()>("t", "1")
        .extension(Skills::new().skill(hello("hello").file("abc", "abc").file("empty", "")))
        .build();
    let digests = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
        let skills = client.list("skills/list", "skills").await;
        names(skills[0]["resources"].as_array().unwrap(), "digest")
    });
    assert_eq!(
        digests[1..],
        [
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ]
    );
}

#[tokio::test]
async fn lists_directories_one_level_at_a_time() {
    let server = server();
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY] {
        let mut client = Client::connect(&server, version).await;
        for (directory, expected) in [
            ("skill://acme", json!([["skill://acme/billing", "billing", "inode/directory"]])),
            (
                "skill://acme/billing/refunds",
                json!([
                    ["skill://acme/billing/refunds/SKILL.md", "refunds", "text/markdown"],
                    ["skill://acme/billing/refunds/templates", "templates", "inode/directory"],
                ]),
            ),
            (
                "skill://acme/billing/refunds/templates",
                json!([
                    ["skill://acme/billing/refunds/templates/eu%20mail.md", "eu mail.md", "text/markdown"],
                    ["skill://acme/billing/refunds/templates/logo.png", "logo.png", "image/png"],
                ]),
            ),
        ] {
            let read = client.result("resources/directory/read", json!({ "uri": directory })).await;
            let children: Vec<Value> = read["resources"].as_array().unwrap().iter().map(short).collect();
            assert_eq!(Value::Array(children), expected, "{directory}");
        }
    }
}

fn short(resource: &Value) -> Value {
    json!([resource["uri"], resource["name"], resource["mimeType"]])
}

#[tokio::test]
async fn an_unknown_skill_is_an_invalid_parameter() {
    let server = server();
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY] {
        let mut client = Client::connect(&server, version).await;
        for (method, params) in [
            ("skills/get", json!({ "uri": "skill://none/SKILL.md" })),
            ("skills/get", json!({ "uri": "skill://acme/billing/refunds" })),
            ("skills/get", json!({ "uri": "skill://acme/billing/refunds/templates/logo.png" })),
            ("skills/get", json!({})),
            ("skills/list", json!({ "cursor": "made up" })),
            ("resources/directory/read", json!({ "uri": "skill://hello/SKILL.md" })),
            ("resources/directory/read", json!({ "uri": "skill://hello/" })),
            ("resources/directory/read", json!({ "uri": "skill://none" })),
            ("resources/directory/read", json!({ "uri": "skill://hello", "cursor": "made up" })),
            ("resources/directory/read", json!({})),
        ] {
            let error = client.error(method, params.clone()).await;
            assert_eq!(code_and_text(&error).0, -32602, "{method} {params}: {error}");
        }
        client.error("resources/read", json!({ "uri": "skill://hello/none" })).await;
        client.error("resources/read", json!({ "uri": "skill://hello" })).await;
    }
}

#[tokio::test]
async fn page_boundaries_are_between_skills() {
    let mut builder = Server::builder("t", "1").page_size(2);
    for name in ["a", "b", "c", "d", "e"] {
        builder =
            builder.extension(Skills::new().skill(hello(name).file("x/1", "1").file("x/2", "2").file("x/3", "3")));
    }
    let server = builder.build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let page = client.result("skills/list", json!({})).await;
    assert_eq!(page["skills"].as_array().unwrap().len(), 2);
    assert_eq!(client.list("skills/list", "skills").await.len(), 5);
    let first = client.result("resources/directory/read", json!({ "uri": "skill://a/x" })).await;
    assert_eq!(names(first["resources"].as_array().unwrap(), "name"), ["1", "2"]);
    let params = json!({ "uri": "skill://a/x", "cursor": first["nextCursor"] });
    let second = client.result("resources/directory/read", params).await;
    assert_eq!(names(second["resources"].as_array().unwrap(), "name"), ["3"]);
    assert!(second["nextCursor"].is_null());
}

#[tokio::test]
async fn a_server_without_skills_does_not_declare_them() {
    let server = Server::builder("t", "1").tool(tool("x", async || "x")).build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    assert!(client.opening["capabilities"]["extensions"].is_null());
    for method in ["skills/list", "skills/get", "resources/directory/read"] {
        assert_eq!(code_and_text(&client.error(method, json!({ "uri": "skill://a" })).await).0, -32601);
    }
}

#[tokio::test]
async fn serves_a_directory_of_skills() {
    let disk = TempDir::new("a_directory_of_skills");
    disk.write("skills/acme/billing/refunds/SKILL.md", REFUNDS);
    disk.write("skills/acme/billing/refunds/inner/SKILL.md", "---\nname: inner\ndescription: d\n---\n");
    disk.write("skills/acme/billing/refunds/.cache/x", "hidden");
    disk.write("skills/wrong/SKILL.md", "---\nname: right\ndescription: d\n---\n");
    disk.write("skills/bad/SKILL.md", "---\nname: [\n---\n");
    disk.write("skills/README.md", "No skill.");
    disk.write("skills/zoo/SKILL.md", "\u{feff}---\r\nname: zoo\r\ndescription: 'd'\r\n---\r\n");
    let (builder, problems) = Skills::new().dir(disk.path("skills")).add_to(Server::builder("t", "1")).unwrap();
    let mut reported: Vec<_> = problems.iter().map(|problem| (problem.path().to_owned(), problem.reason())).collect();
    reported.sort();
    assert_eq!(reported[0].0, disk.path("skills/bad"));
    assert!(reported[0].1.contains("front matter"), "{reported:?}");
    assert_eq!(reported[1].0, disk.path("skills/wrong"));
    assert!(reported[1].1.contains("its name is `right`"), "{reported:?}");
    assert_eq!(reported.len(), 2);

    let server = builder.build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let skills = client.list("skills/list", "skills").await;
    let mut uris = names(&skills, "uri");
    uris.sort();
    let refunds = "skill://acme/billing/refunds";
    assert_eq!(uris, [&format!("{refunds}/SKILL.md"), &format!("{refunds}/inner/SKILL.md"), "skill://zoo/SKILL.md"]);
    // The files of an inner skill also belong to the outer skill.
    let outer = client.result("skills/get", json!({ "uri": format!("{refunds}/SKILL.md") })).await;
    assert_eq!(outer["skill"]["resources"].as_array().unwrap().len(), 2);

    let (builder, problems) = Skills::new().dir(disk.path("nothing")).add_to(Server::builder("t", "1")).unwrap();
    assert_eq!(problems.len(), 1);
    let mut client = Client::connect(&builder.build(), ProtocolVersion::LATEST).await;
    assert_eq!(client.list("skills/list", "skills").await, [] as [Value; 0]);
}

#[tokio::test]
async fn serves_a_skill_within_a_rejected_one() {
    let disk = TempDir::new("a_skill_inside_of_one");
    let good = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    disk.write("skills/outer/SKILL.md", good("other"));
    disk.write("skills/outer/middle/SKILL.md", "---\n");
    disk.write("skills/outer/middle/inner/SKILL.md", good("inner"));
    disk.write("skills/outer/middle/inner/deep/SKILL.md", good("deep"));
    disk.write("skills/outer-most/SKILL.md", good("outer-most"));
    let (builder, problems) = Skills::new().dir(disk.path("skills")).add_to(Server::builder("t", "1")).unwrap();
    let reported: Vec<_> = problems.iter().map(|problem| problem.path().to_owned()).collect();
    assert_eq!(reported, [disk.path("skills/outer"), disk.path("skills/outer/middle")]);
    let mut client = Client::connect(&builder.build(), ProtocolVersion::LATEST).await;
    let mut uris = names(&client.list("skills/list", "skills").await, "uri");
    uris.sort();
    let inner = "skill://outer/middle/inner";
    assert_eq!(uris, ["skill://outer-most/SKILL.md", &format!("{inner}/SKILL.md"), &format!("{inner}/deep/SKILL.md")]);
}

#[test]
fn serves_a_file_once() {
    let skills = || Skills::new().skill(refunds());
    let taken = Server::builder::<()>("t", "1").extension(skills()).try_extension(skills()).unwrap_err();
    assert_eq!(taken.to_string(), "the file `acme/billing/refunds/SKILL.md` of a skill is already served");
}
