//! A balancer that does not know MCP: each request goes to the next node.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Empty, combinators::BoxBody};
use hyper::{body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::timeout,
};

/// The time in which a node accepts a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// A running balancer. The drop of this value ends it.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    task: AbortHandle,
}

/// The nodes in their order.
struct Nodes {
    addresses: Mutex<Vec<SocketAddr>>,
    next: AtomicUsize,
}

impl Balancer {
    /// Starts a balancer in front of the nodes.
    pub(crate) async fn start(addresses: Vec<SocketAddr>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let nodes = Arc::new(Nodes { addresses: Mutex::new(addresses), next: AtomicUsize::new(0) });
        let task = tokio::spawn(accept(listener, nodes)).abort_handle();
        Ok(Self { address, task })
    }

    /// The URL of the fleet.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, nodes: Arc<Nodes>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Without this option, small responses wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let nodes = nodes.clone();
        let service = service_fn(move |request| {
            let nodes = nodes.clone();
            async move { Ok::<_, hyper::Error>(forward(request, &nodes).await) }
        });
        tokio::spawn(server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

type Body = BoxBody<Bytes, hyper::Error>;

/// Sends the request to the next node. If the node does not accept the connection, the node after it receives the request.
async fn forward(request: Request<Incoming>, nodes: &Nodes) -> Response<Body> {
    let addresses = nodes.addresses.lock().clone();
    let first = nodes.next.fetch_add(1, Ordering::Relaxed);
    for attempt in 0..addresses.len() {
        let node = addresses[(first + attempt) % addresses.len()];
        if let Ok(Ok(stream)) = timeout(CONNECT_LIMIT, TcpStream::connect(node)).await {
            return exchange(request, stream).await.unwrap_or_else(|_| refusal(StatusCode::BAD_GATEWAY));
        }
    }
    refusal(StatusCode::SERVICE_UNAVAILABLE)
}

/// One request and its response over a new connection to a node.
async fn exchange(mut request: Request<Incoming>, stream: TcpStream) -> Result<Response<Body>, hyper::Error> {
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    request.headers_mut().remove(header::CONNECTION);
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| body.boxed()))
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    response
}
