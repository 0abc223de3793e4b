//! Accepting TLS connections.

use axum::serve::Listener;
use http::HeaderMap;
use kelpie_net::{
    ClientAuth, ConnectError, Endpoint, HttpConnection, RequestError, Roots, TlsFault, TlsListener,
    TlsServer, TlsServerSettings,
};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::fixture::{Authority, OK, SignedCertificate, respond_to_all, within_10s};

async fn listen(server: &TlsServer) -> (u16, JoinSet<()>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut listener = TlsListener::new(tcp, server.clone());
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await;
            connections.spawn(respond_to_all(Box::new(stream), OK));
        }
    });
    (port, serving)
}

fn server(authority: &Authority, settings: TlsServerSettings) -> TlsServer {
    TlsServer::new(&authority.sign("127.0.0.1", false).identity(), settings).unwrap()
}

async fn get(port: u16, authority: &Authority) -> Result<u16, TlsFault> {
    get_as(port, authority, None).await
}

async fn get_as(
    port: u16,
    authority: &Authority,
    identity: Option<&SignedCertificate>,
) -> Result<u16, TlsFault> {
    let url = format!("https://127.0.0.1:{port}");
    let endpoint = Endpoint::new(&url, Some(authority.client(identity))).unwrap();
    match within_10s(HttpConnection::open(&endpoint)).await {
        Ok(mut connection) => {
            match within_10s(connection.get("/", &HeaderMap::new())).await {
                Ok(response) => Ok(response.status.as_u16()),
                // With TLS 1.3 the client is rejected after its side of the handshake.
                Err(RequestError::Tls(fault)) => Err(fault),
                Err(other) => panic!("{other}"),
            }
        }
        Err(ConnectError::Tls { fault, .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn stalled_handshakes_do_not_block_others() {
    let authority = Authority::new();
    let server = server(&authority, TlsServerSettings::default());
    let (port, _serving) = listen(&server).await;
    let mut stalling = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        }
        stalling.push(stream);
    }
    assert_eq!(get(port, &authority).await, Ok(200));
}

#[tokio::test]
async fn next_handshake_uses_replaced_certificate() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = server(&old, TlsServerSettings::default());
    let (port, _serving) = listen(&server).await;
    assert_eq!(get(port, &old).await, Ok(200));
    let identity = new.sign("127.0.0.1", false).identity();
    server.replace(&identity, ClientAuth::None).unwrap();
    assert_eq!(get(port, &old).await, Err(TlsFault::UnknownCa));
    assert_eq!(get(port, &new).await, Ok(200));
}

#[tokio::test]
async fn required_client_certificate_is_verified() {
    let (authority, other) = (Authority::new(), Authority::new());
    let roots = |authority: &Authority| Roots::from_pem(authority.pem().as_bytes()).unwrap();
    let settings = TlsServerSettings {
        clients: ClientAuth::Required(roots(&authority)),
        ..TlsServerSettings::default()
    };
    let server = server(&authority, settings);
    let (port, _serving) = listen(&server).await;
    let (known, unknown) = (authority.sign("client", false), other.sign("client", false));
    assert!(get(port, &authority).await.is_err());
    assert!(get_as(port, &authority, Some(&unknown)).await.is_err());
    assert_eq!(get_as(port, &authority, Some(&known)).await, Ok(200));

    let identity = authority.sign("127.0.0.1", false).identity();
    let clients = ClientAuth::Required(roots(&other));
    server.replace(&identity, clients).unwrap();
    assert!(get_as(port, &authority, Some(&known)).await.is_err());
    assert_eq!(get_as(port, &authority, Some(&unknown)).await, Ok(200));
}
