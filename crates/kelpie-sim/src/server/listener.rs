//! Serving an API server on a socket or a stream.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use kelpie_net::{TlsListener, TlsServer, client_certificate, serve_connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::SimServer;

/// A server on loopback. It stops, with its connections, when this is dropped.
#[derive(Debug)]
pub struct ListenerHandle {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ListenerHandle {
    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's URL, as in a kubeconfig.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SimServer {
    /// Listens on a free port of loopback.
    pub async fn listen(&self, tls: TlsServer) -> io::Result<ListenerHandle> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = tcp.local_addr()?;
        let mut listener = TlsListener::new(tcp, tls);
        let server = self.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    (stream, _) = listener.accept() => {
                        let certificate = client_certificate(&stream).map(<[u8]>::to_vec);
                        let server = server.clone();
                        connections.spawn(async move {
                            server.serve_connection(stream, certificate.as_deref()).await;
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(ListenerHandle { address, task })
    }

    /// Serves all requests of one connection over any stream.
    pub async fn serve_connection<S>(&self, stream: S, certificate: Option<&[u8]>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let respond = |request| self.respond(request, certificate);
        // The client notices a broken connection by itself.
        let _ = serve_connection(stream, respond).await;
    }
}
