//! Skills: the client reads no file before a skill is loaded, and rejects content that differs from the declaration.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_client::{
    Client, Error,
    protocol::{
        ProtocolVersion,
        skills::{Skill, SkillFile},
    },
};
use mcp_server::{
    content::{Skill as Served, Skills},
    prelude::*,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::common::{Peer, Peers, builder, connected_as, start};

const TEXT: &str = "---\nname: commits\ndescription: How we commit.\nmetadata:\n  version: 1.0\n---\nSmall ones.\n";
const URI: &str = "skill://acme/commits/SKILL.md";
const STYLE: &str = "skill://acme/commits/refs/style.md";

fn server(version: ProtocolVersion) -> Server {
    let skill = Served::new("acme/commits", TEXT).file("refs/style.md", "# Style\n").file("logo.bin", [0, 255]);
    let other = Served::new("other", "---\nname: other\ndescription: Another one.\n---\n");
    Server::builder("real", "1")
        .versions([version])
        .page_size(1)
        .extension(Skills::new().skill(skill).skill(other))
        .build()
}

async fn loads(client: &Client) {
    let skills = client.list_skills().await.unwrap();
    let uris: Vec<&str> = skills.iter().map(|skill| &*skill.uri).collect();
    assert_eq!(uris, [URI, "skill://other/SKILL.md"]);
    assert_eq!(client.skill(URI).await.unwrap(), skills[0]);
    assert!(client.skill("skill://nobody/SKILL.md").await.unwrap_err().rpc().is_some());

    let loaded = client.load_skill(skills[0].clone()).await.unwrap();
    assert_eq!((loaded.text(), loaded.instructions()), (TEXT, "Small ones.\n"));
    assert_eq!((loaded.skill(), loaded.files().len()), (&skills[0], 3));
    assert_eq!(loaded.read("refs/style.md").await.unwrap(), b"# Style\n");
    assert_eq!(loaded.read(STYLE).await.unwrap(), b"# Style\n");
    assert_eq!(loaded.read("logo.bin").await.unwrap(), [0, 255]);
    assert!(loaded.read("skill://other/SKILL.md").await.unwrap_err().is_unverified());
}

#[tokio::test]
async fn loads_skills_in_every_revision() {
    for &version in ProtocolVersion::ALL {
        let server = server(version);
        let client = builder().connect(&server).await.unwrap();
        assert_eq!(client.version(), version);
        loads(&client).await;
    }
}

#[tokio::test]
async fn loads_skills_over_http() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = server(version);
        let serving = start(async move { server.serve_http_on(listener, HttpConfig::new()).await.unwrap() });
        let client = builder().connect(&url).await.unwrap();
        loads(&client).await;
        client.close().await;
        serving.abort();
    }
}

#[tokio::test]
async fn does_not_request_skills_without_the_capability() {
    let server = Server::builder("plain", "1").build();
    let client = builder().connect(&server).await.unwrap();
    assert!(client.list_skills().await.unwrap_err().is_unsupported());
    assert!(client.skill(URI).await.unwrap_err().is_unsupported());
}

/// The entries of the real server.
async fn entry() -> Skill {
    let server = server(ProtocolVersion::LATEST);
    builder().connect(&server).await.unwrap().skill(URI).await.unwrap()
}

/// A client of a scripted server that does not declare the skills capability.
async fn tricky() -> (Client, Peer, Peers) {
    connected_as(builder().ignore_capabilities(), ProtocolVersion::LATEST).await
}

/// Expects the read of a file and returns this text.
async fn serve(peer: &mut Peer, uri: &str, text: &str) {
    let request = peer.recv().await;
    assert_eq!((&request["method"], &request["params"]["uri"]), (&json!("resources/read"), &json!(uri)), "{request}");
    let contents = json!([{ "uri": uri, "text": text }]);
    let result = json!({ "resultType": "complete", "contents": contents, "ttlMs": 0, "cacheScope": "private" });
    peer.answer(request["id"].clone(), result).await;
}

#[tokio::test(start_paused = true)]
async fn loads_one_file_on_demand() {
    let entry = entry().await;
    let (client, mut peer, _peers) = tricky().await;
    let listing = start(client.list_skills());
    let id = peer.expect("skills/list").await;
    let page = json!({ "resultType": "complete", "skills": [entry], "ttlMs": 0, "cacheScope": "private" });
    peer.answer(id, page).await;
    let listed = listing.await.unwrap().unwrap();
    // The next message is the ping, so the client sent no other message.
    let pinging = start({
        let client = client.clone();
        async move { client.ping().await }
    });
    peer.discovered().await;
    pinging.await.unwrap().unwrap();
    let loading = start({
        let client = client.clone();
        async move { client.load_skill(listed[0].clone()).await }
    });
    serve(&mut peer, URI, TEXT).await;
    let loaded = loading.await.unwrap().unwrap();
    let reading = start(async move { loaded.read("refs/style.md").await });
    serve(&mut peer, STYLE, "# Style!").await;
    assert!(reading.await.unwrap().unwrap_err().is_unverified());
}

/// Loads a skill with this `SKILL.md`.
async fn load(entry: Skill, text: &str) -> Result<(), Error> {
    let (client, mut peer, _peers) = tricky().await;
    let loading = start(async move { client.load_skill(entry).await });
    serve(&mut peer, URI, text).await;
    loading.await.unwrap().map(drop)
}

#[tokio::test(start_paused = true)]
async fn rejects_a_skill_that_differs_from_its_digest() {
    let entry = entry().await;
    assert!(load(entry.clone(), TEXT).await.is_ok());
    let swapped = TEXT.replace("Small", "Large");
    assert_eq!(swapped.len(), TEXT.len());
    for (text, reason) in
        [(swapped, "digest"), (format!("{TEXT}More.\n"), "bytes instead of"), (String::new(), "0 bytes")]
    {
        let error = load(entry.clone(), &text).await.unwrap_err();
        assert!(error.is_unverified() && error.to_string().contains(reason), "{text:?}: {error}");
    }
    // The digest matches, and the declared front matter does not.
    let mut changed: Value = serde_json::to_value(&entry).unwrap();
    changed["frontmatter"]["description"] = json!("Something else.");
    let error = load(serde_json::from_value(changed).unwrap(), TEXT).await.unwrap_err();
    assert!(error.is_unverified() && error.to_string().contains("front matter"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rejects_invalid_entries_unread() {
    let (client, mut peer, _peers) = tricky().await;
    let mut elsewhere = entry().await;
    elsewhere.resources = mcp_client::protocol::skills::SkillResources::Files(vec![SkillFile::new(STYLE, "", 0)]);
    let mut dynamic = entry().await;
    dynamic.resources = mcp_client::protocol::skills::SkillResources::Dynamic;
    for entry in [elsewhere, dynamic] {
        assert!(client.load_skill(entry).await.unwrap_err().is_unverified());
    }
    drop(client);
    assert_eq!(peer.next().await, None);
}
