//! One connection: reads requests, and writes the response of each request before the next.

use std::io;

use mcp_protocol::ProtocolVersion;
use serde_json::Value;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpStream, tcp::ReadHalf},
    time::sleep,
};

use super::{HttpRequest, Shared};
use crate::peer::{
    Reply,
    pipe::write_large,
    reply::{Step, answer, around_large},
};

/// Serves the requests of one connection until a peer closes it.
pub(super) async fn serve(shared: &Shared, mut socket: TcpStream) -> io::Result<()> {
    let (reader, mut writer) = socket.split();
    let mut reader = BufReader::new(reader);
    while let Some(request) = HttpRequest::read(&mut reader).await? {
        shared.store(&request);
        let reply = reply(shared, &request);
        let mut response = ResponseWriter { shared, writer: &mut writer, request: &request, stream: None };
        // If the client closes the connection, it cancels the request.
        tokio::select! {
            keeps_open = response.write(reply) => if !keeps_open? { return Ok(()) },
            () = closed(&mut reader) => {
                shared.cancel(&request);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Waits until the client closes the connection. A pipelined request waits for its turn.
async fn closed(reader: &mut BufReader<ReadHalf<'_>>) {
    if !reader.buffer().is_empty() {
        std::future::pending::<()>().await;
    }
    let mut byte = [0];
    match reader.get_mut().peek(&mut byte).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

fn reply(shared: &Shared, request: &HttpRequest) -> Reply {
    if !shared.has_known_session(request) {
        return Reply::status(404, "");
    }
    let reply = match request.method.as_str() {
        "POST" => shared.script.take(&request.body),
        method => shared.script.take(&serde_json::json!({ "method": method })),
    };
    let is_request = request.body["method"].is_string() && !request.body["id"].is_null();
    match request.method.as_str() {
        "POST" if is_request => reply,
        "POST" if reply.steps.is_empty() => Reply::status(202, ""),
        "GET" if reply.steps.is_empty() => Reply::status(405, "").header("Allow", "POST, DELETE"),
        "DELETE" if reply.steps.is_empty() => Reply::status(200, ""),
        _ => reply,
    }
}

struct ResponseWriter<'a, W> {
    shared: &'a Shared,
    writer: &'a mut W,
    request: &'a HttpRequest,
    /// Set if the response is an event stream: whether its events have ids.
    stream: Option<bool>,
}

impl<W: AsyncWrite + Unpin> ResponseWriter<'_, W> {
    /// Writes the reply. Returns whether the connection stays open.
    async fn write(&mut self, reply: Reply) -> io::Result<bool> {
        let is_output = |step: &&Step| !matches!(step, Step::Wait(_) | Step::Events { .. });
        let streams = reply.steps.iter().filter(is_output).count() != 1
            || reply
                .steps
                .iter()
                .any(|step| matches!(step, Step::Events { .. } | Step::Message(_) | Step::CutEvent(_)));
        if reply.steps.iter().find(is_output).is_none() {
            // A silent server does not send headers either.
            std::future::pending::<()>().await;
        }
        for step in reply.steps {
            match step {
                Step::Wait(time) => sleep(time).await,
                Step::Events { ids } => self.begin(ids).await?,
                Step::Close => return Ok(false),
                Step::Status { status, headers, body } => self.status(status, &headers, &body).await?,
                Step::Raw(bytes) => {
                    self.writer.write_all(&bytes).await?;
                    return Ok(false);
                }
                Step::CutEvent(event) => {
                    self.begin(false).await?;
                    let half = event.as_bytes().get(..event.len() / 2).unwrap_or_default();
                    self.chunk(&[b"event: message\ndata: ", half].concat()).await?;
                    return Ok(false);
                }
                Step::Message(message) => self.event(&message.to_string()).await?,
                Step::Answer { body, id } => {
                    let text = answer(&body, &id.unwrap_or_else(|| self.request.body["id"].clone()));
                    if streams { self.event(&text).await? } else { self.json(&text, &body).await? }
                }
                Step::Large(bytes) => self.large(bytes).await?,
            }
        }
        if self.stream.is_some() {
            if self.request.method == "GET" {
                std::future::pending::<()>().await;
            }
            self.writer.write_all(b"0\r\n\r\n").await?;
        }
        self.writer.flush().await?;
        Ok(true)
    }

    /// Writes the headers of an event stream once.
    async fn begin(&mut self, ids: bool) -> io::Result<()> {
        if self.stream.is_none() {
            let session = self.session_header(&Value::Null);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{session}\r\n"
            );
            self.writer.write_all(head.as_bytes()).await?;
            self.writer.flush().await?;
            self.stream = Some(ids);
        }
        Ok(())
    }

    async fn event(&mut self, data: &str) -> io::Result<()> {
        self.begin(false).await?;
        let id = match self.stream {
            Some(true) => format!("id: {}\n", self.shared.next_event()),
            _ => String::new(),
        };
        self.chunk(format!("event: message\n{id}data: {data}\n\n").as_bytes()).await
    }

    async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
        self.writer.write_all(bytes).await?;
        self.writer.write_all(b"\r\n").await?;
        self.writer.flush().await
    }

    async fn json(&mut self, text: &str, body: &Value) -> io::Result<()> {
        let session = self.session_header(body);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{session}\r\n",
            text.len()
        );
        self.writer.write_all(head.as_bytes()).await?;
        self.writer.write_all(text.as_bytes()).await
    }

    async fn large(&mut self, bytes: usize) -> io::Result<()> {
        let (head, tail) = around_large(&self.request.body["id"]);
        let length = head.len() + bytes + tail.len();
        let headers = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        write_large(self.writer, &(headers + &head), bytes, tail).await
    }

    async fn status(&mut self, status: u16, headers: &[(String, String)], body: &str) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(body);
        self.writer.write_all(head.as_bytes()).await
    }

    /// Opens a session if the body is the result of `initialize`, and returns its header.
    fn session_header(&self, body: &Value) -> String {
        let version = body["result"]["protocolVersion"].as_str().and_then(ProtocolVersion::parse);
        match version.filter(|version| version.has_handshake() && self.request.calls("initialize")) {
            Some(_) => format!("Mcp-Session-Id: {}\r\n", self.shared.open_session()),
            None => String::new(),
        }
    }
}
