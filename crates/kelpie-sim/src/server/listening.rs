//! A server that listens.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use kelpie_net::{TlsListener, TlsServer, client_certificate, serve_connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::Server;

/// A server that listens on loopback. It and its connections end when this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Listening {
    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As a kubeconfig has it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Listens on a port of loopback that is free.
    pub async fn listen(&self, tls: TlsServer) -> io::Result<Listening> {
        self.listen_on((Ipv4Addr::LOCALHOST, 0).into(), tls).await
    }

    /// Listens there: a server that went down comes back under its old address.
    pub async fn listen_on(&self, address: SocketAddr, tls: TlsServer) -> io::Result<Listening> {
        let tcp = TcpListener::bind(address).await?;
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
                            server.converse(stream, certificate.as_deref()).await;
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Listening { address, task })
    }

    /// Answers all requests of one connection: for who has a stream without a socket.
    pub async fn converse<S>(&self, stream: S, certificate: Option<&[u8]>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let answer = |request| self.respond(request, certificate);
        // A connection that breaks off is the client's business.
        let _ = serve_connection(stream, answer).await;
    }
}
