//! HTTP/1.1: paths, methods, reused connections, and invalid requests.

use crate::common;
use crate::common::{Answer, initialize, request, socket::serve, stateless};
use http::{Method, StatusCode};
use mcp_server_http::HttpConfig;
use serde_json::json;

fn list() -> http::Request<http_body_util::Full<bytes::Bytes>> {
    stateless("tools/list", json!({}), &[])
}

#[tokio::test]
async fn serves_only_the_configured_path() {
    let endpoint = serve(&common::server(), HttpConfig::new().path("tools")).await;
    for (path, status) in [
        ("/tools", 200),
        ("/tools?x=1", 200),
        ("/mcp", 404),
        ("/", 404),
        ("/tools/", 404),
        ("/Tools", 404),
        ("/tools/../x", 404),
    ] {
        let mut at_path = list();
        *at_path.uri_mut() = path.parse().unwrap();
        let answer = endpoint.exchange(at_path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(status == 200 || answer.json()["error"]["message"].as_str().unwrap().contains("/tools"), "{path}");
    }
}

#[tokio::test]
async fn answers_other_methods_with_405_and_the_allowed_methods() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    for method in ["HEAD", "PUT", "PATCH", "TRACE", "BREW"] {
        let method: Method = method.parse().unwrap();
        connection.send(request(method.clone(), &common::BASE, "")).await;
        let answer = connection.answer_to(&method).await.unwrap();
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(answer.header("allow"), Some("POST, GET, DELETE, OPTIONS"), "{method}");
    }
}

#[tokio::test]
async fn both_eras_reuse_a_connection() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    connection.send(initialize()).await;
    let session = connection.answer().await.header("mcp-session-id").unwrap().to_owned();
    for _ in 0..20 {
        connection.send(list()).await;
        assert_eq!(connection.answer().await.status, StatusCode::OK);
        connection.send(common::legacy(Some(&session), "ping", json!({}))).await;
        assert_eq!(connection.answer().await.status, StatusCode::OK);
        connection.send(stateless("no/such", json!({}), &[])).await;
        assert_eq!(connection.answer().await.status, StatusCode::NOT_FOUND);
        let params = json!({ "name": "progress", "_meta": { "progressToken": 1 } });
        connection.send(stateless("tools/call", params, &[])).await;
        assert_eq!(connection.answer().await.events().len(), 3);
    }
}

#[tokio::test]
async fn answers_pipelined_requests_in_order() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let session = endpoint.open().await;
    let mut bytes = Vec::new();
    for id in 0..10 {
        bytes.extend(common::socket::raw(common::legacy_as(id, Some(&session), "ping", json!({}))).await);
    }
    let mut connection = endpoint.connect().await;
    // In pieces that fit no boundary.
    for piece in bytes.chunks(97) {
        connection.write(piece).await;
    }
    for id in 0..10 {
        assert_eq!(connection.answer().await.json()["id"], id);
    }
}

#[tokio::test]
async fn rejects_a_body_with_two_lengths() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    for lengths in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: -1\r\n",
        "content-length: 0x2\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, gzip\r\n",
    ] {
        let mut connection = endpoint.connect().await;
        connection.write_some(format!("{head}{lengths}\r\n{{}}POST /mcp HTTP/1.1\r\n\r\n").as_bytes()).await;
        let answer = connection.answer_to(&Method::POST).await;
        assert!(
            answer.as_ref().is_none_or(|answer| answer.status == StatusCode::BAD_REQUEST),
            "{lengths:?} {answer:?}"
        );
        assert!(connection.closes_silently().await, "{lengths:?}");
    }
}

#[tokio::test]
async fn invalid_bytes_close_only_their_connection() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let mut cases: Vec<Vec<u8>> = vec![
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n".to_vec(),
        b"GET /mcp\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/9.9\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/1.1\r\nhost localhost\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/1.1\r\nhost: local\0host\r\n\r\n".to_vec(),
        b"POST /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".to_vec(),
        b"\r\n\r\n\r\n\0\0\0\0".to_vec(),
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..50 {
        let noise = (0..64).map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[0]
        });
        cases.push(noise.chain(*b"\r\n\r\n").collect());
    }
    // This client connected before the others and has sent a part of its request.
    let mut witness = endpoint.connect().await;
    let whole = common::socket::raw(list()).await;
    witness.write(&whole[..40]).await;
    for case in cases {
        let mut connection = endpoint.connect().await;
        connection.write_some(&case).await;
        let answer: Option<Answer> = connection.answer_to(&Method::POST).await;
        assert!(answer.as_ref().is_none_or(|answer| answer.status.is_client_error()), "{case:?} {answer:?}");
    }
    witness.write(&whole[40..]).await;
    assert_eq!(witness.answer().await.status, StatusCode::OK);
}
