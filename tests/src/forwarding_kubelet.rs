//! A kubelet that does nothing but forward ports, so that a port-forward of a real API server ends
//! at a process of the test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::KubeApiServer;
use crate::folder::Folder;
use crate::pki::TestCa;

/// The subprotocol of a port-forward: each message begins with its channel.
const PROTOCOL: &str = "v4.channel.k8s.io";
const PROTOCOL_HEADER: &str = "Sec-WebSocket-Protocol";
/// The channel for the data of the first port, and that for its errors.
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// The kubelet of one node. Every port of every pod on it leads to the same address.
pub struct ForwardingKubelet {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl ForwardingKubelet {
    /// Starts the kubelet on loopback. It forwards to `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let serving = TestCa::new()?.serving()?;
        let certificate = CertificateDer::from_pem_slice(serving.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn(accept(listener, tls, target));
        Ok(Self {
            address,
            _task: task,
        })
    }

    /// Creates the node of this kubelet, and a pod on it that serves its metrics on this port.
    pub async fn add_pod(
        &self,
        api: &KubeApiServer,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "forwarding"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": self.address.ip()}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.address.port()}},
            },
        });
        let port = json!({"name": "metrics", "containerPort": port});
        let container = json!({"name": "prober", "image": "kelpie", "ports": [port]});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": namespace},
            "spec": {"nodeName": "forwarding", "containers": [container]},
        });
        let folder = Folder::new("forwarding-kubelet")?;
        for (name, object) in [("node", node), ("pod", pod)] {
            let file = folder.path().join(name);
            fs::write(&file, object.to_string())?;
            let file = format!("--filename={}", file.display());
            api.kubectl(&["create", &file]).await?;
        }
        Ok(())
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, target: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        connections.spawn(async move {
            // The API server sees a broken connection, and so does the test.
            let _ = forward(stream, &tls, target).await;
        });
    }
}

async fn forward(stream: TcpStream, tls: &TlsAcceptor, target: SocketAddr) -> Result<()> {
    let stream = tls.accept(stream).await?;
    let mut port = 0_u16;
    #[expect(clippy::result_large_err, reason = "the signature is the library's")]
    let answer = |request: &Request, mut response: Response| {
        let query = request.uri().query().unwrap_or_default().split('&');
        let ports = query.filter_map(|pair| pair.strip_prefix("port"));
        let mut ports = ports.filter_map(|rest| rest.split_once('=')?.1.parse().ok());
        port = ports.next().unwrap_or_default();
        let protocol = http::HeaderValue::from_static(PROTOCOL);
        response.headers_mut().insert(PROTOCOL_HEADER, protocol);
        Ok(response)
    };
    let mut socket = accept_hdr_async(stream, answer).await?;
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERROR] {
        let hello = vec![channel, low, high];
        socket.send(Message::Binary(hello.into())).await?;
    }
    copy(socket, TcpStream::connect(target).await?).await
}

/// Copies bytes in both directions until one side ends.
async fn copy(mut socket: WebSocketStream<TlsStream<TcpStream>>, pod: TcpStream) -> Result<()> {
    let (mut reader, mut writer) = pod.into_split();
    let mut buffer = vec![0; 16 << 10];
    loop {
        tokio::select! {
            read = reader.read(&mut buffer) => {
                let length = read?;
                if length == 0 {
                    socket.close(None).await?;
                    return Ok(());
                }
                let mut message = vec![DATA];
                message.extend_from_slice(&buffer[..length]);
                socket.send(Message::Binary(message.into())).await?;
            }
            message = socket.next() => {
                let message = message.context("the API server has closed the connection")??;
                if let Message::Binary(bytes) = message
                    && let Some((&DATA, data)) = bytes.split_first()
                {
                    writer.write_all(data).await?;
                }
            }
        }
    }
}
