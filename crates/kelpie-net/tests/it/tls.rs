//! Every TLS fault has its own error.

use http::HeaderMap;
use kelpie_net::{
    ClientCertRejection, ConnectError, Endpoint, EndpointError, HttpConnection, Identity,
    RequestError, Roots, TlsConfigError, TlsFault,
};
use tokio::net::TcpListener;

use crate::fixture::{Authority, OK, Server, SignedCertificate, respond_to_all, within_10s};

/// Sends a request to a server with the certificate `server`.
async fn request_with(
    authority: &Authority,
    server: &SignedCertificate,
    clients: Option<&Authority>,
    identity: Option<&SignedCertificate>,
) -> Result<u16, TlsFault> {
    let running = Server::tls(server.server(clients), |stream| respond_to_all(stream, OK)).await;
    let endpoint = running.https(authority.client(identity));
    request(&endpoint).await
}

async fn request(endpoint: &Endpoint) -> Result<u16, TlsFault> {
    let opened = within_10s(HttpConnection::open(endpoint)).await;
    let mut connection = opened.map_err(|error| match error {
        ConnectError::Tls { fault, .. } => fault,
        other => panic!("{other}"),
    })?;
    let response = within_10s(connection.get("/", &HeaderMap::new())).await;
    match response {
        Ok(response) => Ok(response.status.as_u16()),
        Err(RequestError::Tls(fault)) => Err(fault),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn trusted_server_is_accepted() {
    let authority = Authority::new();
    let server = authority.sign("127.0.0.1", false);
    assert_eq!(request_with(&authority, &server, None, None).await, Ok(200));
}

#[tokio::test]
async fn next_connection_resumes_session() {
    let authority = Authority::new();
    let pair = authority.sign("127.0.0.1", false);
    let server = Server::tls(pair.server(None), |stream| respond_to_all(stream, OK)).await;
    let endpoint = server.https(authority.client(None));
    for resumed in 0..3 {
        assert_eq!(request(&endpoint).await, Ok(200));
        assert_eq!(server.resumed(), resumed);
    }
    // A separate client does not share sessions with the first.
    let other = server.https(authority.client(None));
    assert_eq!(request(&other).await, Ok(200));
    assert_eq!(server.resumed(), 2);
}

#[tokio::test]
async fn server_of_other_authority_is_rejected() {
    let server = Authority::new().sign("127.0.0.1", false);
    let fault = request_with(&Authority::new(), &server, None, None).await;
    assert_eq!(fault, Err(TlsFault::UnknownCa));
}

#[tokio::test]
async fn expired_server_certificate_is_rejected() {
    let authority = Authority::new();
    let server = authority.sign("127.0.0.1", true);
    let fault = request_with(&authority, &server, None, None).await;
    assert_eq!(fault, Err(TlsFault::Expired));
}

#[tokio::test]
async fn server_name_must_match() {
    let authority = Authority::new();
    let server = authority.sign("api.example", false);
    let running = Server::tls(server.server(None), |stream| respond_to_all(stream, OK)).await;
    let endpoint = running.https(authority.client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::WrongName));
    let named = endpoint.clone().with_server_name("api.example").unwrap();
    assert_eq!(request(&named).await, Ok(200));
    let error = endpoint.with_server_name("not a name").unwrap_err();
    assert!(matches!(error, EndpointError::ServerName));
}

#[tokio::test]
async fn client_certificate_is_presented_on_request() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = authority.sign("127.0.0.1", false);
    let good = clients.sign("client", false);
    let expired = clients.sign("client", true);
    let stranger = Authority::new().sign("client", false);
    for (identity, expected) in [
        (Some(&good), Ok(200)),
        (None, Err(ClientCertRejection::Required)),
        (Some(&expired), Err(ClientCertRejection::Expired)),
        // All authorities share one name, so the server notices the wrong key and sends a general
        // alert.
        (Some(&stranger), Err(ClientCertRejection::Bad)),
    ] {
        let found = request_with(&authority, &server, Some(&clients), identity).await;
        match (found, expected) {
            // The key check of the server has its own alert with fewer details.
            (Err(TlsFault::Other(_)), Err(ClientCertRejection::Bad)) => {}
            (found, expected) => assert_eq!(found, expected.map_err(TlsFault::ClientCertRejected)),
        }
    }
}

#[tokio::test]
async fn plaintext_server_is_reported() {
    let response = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request";
    let running = Server::plain(move |mut stream| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let _ = stream.read(&mut [0; 512]).await;
        let _ = stream.write_all(response).await;
        let _ = stream.read(&mut [0; 512]).await;
    })
    .await;
    let endpoint = running.https(Authority::new().client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::NotTls));
}

#[tokio::test]
async fn close_during_handshake_is_reported() {
    let running = Server::plain(|mut stream| async move {
        use tokio::io::AsyncReadExt;
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await;
    let endpoint = running.https(Authority::new().client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::Closed));
}

#[tokio::test]
async fn refused_and_unresolved_are_distinct_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), None).unwrap();
    let error = within_10s(HttpConnection::open(&endpoint))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("127.0.0.1:{port}: connection refused")
    );

    let endpoint = Endpoint::new("http://nowhere.invalid:1", None).unwrap();
    let error = within_10s(HttpConnection::open(&endpoint))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
}

#[test]
fn invalid_pem_is_rejected_without_leaking_it() {
    let authority = Authority::new();
    let (one, other) = (authority.sign("a", false), authority.sign("b", false));
    let identity = |chain: &str, key: &str| {
        let error = Identity::from_pem(chain.as_bytes(), &key.as_bytes().to_vec().into());
        error.unwrap_err()
    };
    assert!(matches!(
        identity("", &one.key),
        TlsConfigError::NoCertificate
    ));
    assert!(matches!(identity(&one.chain, ""), TlsConfigError::Key));
    assert!(matches!(
        identity(&one.chain, &one.chain),
        TlsConfigError::Key
    ));
    assert!(matches!(
        identity(&one.chain, &other.key),
        TlsConfigError::Mismatch
    ));
    let cut = &one.key[..one.key.len() / 2];
    assert!(matches!(identity(&one.chain, cut), TlsConfigError::Key));
    let garbage = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    let error = identity(&one.chain, garbage);
    assert!(matches!(error, TlsConfigError::KeyKind), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("c2Vj"));
    assert!(!format!("{:?}", one.identity()).contains("PRIVATE"));

    assert!(matches!(
        Roots::from_pem(b"x"),
        Err(TlsConfigError::NoCertificate)
    ));
    let broken = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
    let error = Roots::from_pem(broken.as_bytes()).unwrap_err();
    assert!(matches!(error, TlsConfigError::Certificate(_)), "{error:?}");
}
