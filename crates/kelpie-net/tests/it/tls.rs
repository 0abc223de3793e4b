//! Each fault of TLS has its name.

use http::HeaderMap;
use kelpie_net::{
    ClientRefusal, ConnectError, Connection, Endpoint, EndpointError, Identity, RequestError,
    Roots, TlsError, TlsFault,
};
use tokio::net::TcpListener;

use crate::server::{Authority, OK, Pair, Server, answer_all, soon};

/// What comes of a request to a server with certificate `server`.
async fn outcome(
    authority: &Authority,
    server: &Pair,
    clients: Option<&Authority>,
    identity: Option<&Pair>,
) -> Result<u16, TlsFault> {
    let running = Server::tls(server.server(clients), |wire| answer_all(wire, OK)).await;
    let endpoint = running.https(authority.client(identity));
    request(&endpoint).await
}

async fn request(endpoint: &Endpoint) -> Result<u16, TlsFault> {
    let opened = soon(Connection::open(endpoint)).await;
    let mut connection = opened.map_err(|error| match error {
        ConnectError::Tls { fault, .. } => fault,
        other => panic!("{other}"),
    })?;
    let answered = soon(connection.get("/", &HeaderMap::new())).await;
    match answered {
        Ok(response) => Ok(response.status.as_u16()),
        Err(RequestError::Tls(fault)) => Err(fault),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_the_authority_vouches_for_is_spoken_to() {
    let authority = Authority::new();
    let server = authority.sign("127.0.0.1", false);
    assert_eq!(outcome(&authority, &server, None, None).await, Ok(200));
}

#[tokio::test]
async fn the_next_connection_goes_on_with_the_session_of_the_last() {
    let authority = Authority::new();
    let pair = authority.sign("127.0.0.1", false);
    let server = Server::tls(pair.server(None), |wire| answer_all(wire, OK)).await;
    let endpoint = server.https(authority.client(None));
    for resumed in 0..3 {
        assert_eq!(request(&endpoint).await, Ok(200));
        assert_eq!(server.resumed(), resumed);
    }
    // Who has nothing to do with the first begins anew.
    let other = server.https(authority.client(None));
    assert_eq!(request(&other).await, Ok(200));
    assert_eq!(server.resumed(), 2);
}

#[tokio::test]
async fn a_server_signed_by_another_authority_of_the_same_name_is_refused() {
    let server = Authority::new().sign("127.0.0.1", false);
    let fault = outcome(&Authority::new(), &server, None, None).await;
    assert_eq!(fault, Err(TlsFault::UnknownCa));
}

#[tokio::test]
async fn an_expired_server_is_refused() {
    let authority = Authority::new();
    let server = authority.sign("127.0.0.1", true);
    let fault = outcome(&authority, &server, None, None).await;
    assert_eq!(fault, Err(TlsFault::Expired));
}

#[tokio::test]
async fn a_server_of_another_name_is_refused_unless_that_name_is_expected() {
    let authority = Authority::new();
    let server = authority.sign("api.example", false);
    let running = Server::tls(server.server(None), |wire| answer_all(wire, OK)).await;
    let endpoint = running.https(authority.client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::WrongName));
    let named = endpoint.clone().with_server_name("api.example").unwrap();
    assert_eq!(request(&named).await, Ok(200));
    let error = endpoint.with_server_name("not a name").unwrap_err();
    assert!(matches!(error, EndpointError::ServerName));
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_the_server_wants_one() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = authority.sign("127.0.0.1", false);
    let good = clients.sign("client", false);
    let expired = clients.sign("client", true);
    let stranger = Authority::new().sign("client", false);
    for (identity, expected) in [
        (Some(&good), Ok(200)),
        (None, Err(ClientRefusal::Required)),
        (Some(&expired), Err(ClientRefusal::Expired)),
        // The one name of all authorities again: told by its key, the alert is a general one.
        (Some(&stranger), Err(ClientRefusal::Bad)),
    ] {
        let found = outcome(&authority, &server, Some(&clients), identity).await;
        match (found, expected) {
            // The server's key check has an alert of its own, which tells less.
            (Err(TlsFault::Other(_)), Err(ClientRefusal::Bad)) => {}
            (found, expected) => assert_eq!(found, expected.map_err(TlsFault::ClientRefused)),
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_told() {
    let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request";
    let running = Server::plain(move |mut wire| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let _ = wire.read(&mut [0; 512]).await;
        let _ = wire.write_all(answer).await;
        let _ = wire.read(&mut [0; 512]).await;
    })
    .await;
    let endpoint = running.https(Authority::new().client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::NotTls));
}

#[tokio::test]
async fn a_server_that_hangs_up_in_the_handshake_is_told() {
    let running = Server::plain(|mut wire| async move {
        use tokio::io::AsyncReadExt;
        let _ = wire.read(&mut [0; 4096]).await;
    })
    .await;
    let endpoint = running.https(Authority::new().client(None));
    assert_eq!(request(&endpoint).await, Err(TlsFault::Closed));
}

#[tokio::test]
async fn nobody_listening_and_a_name_without_address_have_their_own_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), None).unwrap();
    let error = soon(Connection::open(&endpoint)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("127.0.0.1:{port}: connection refused")
    );

    let endpoint = Endpoint::new("http://nowhere.invalid:1", None).unwrap();
    let error = soon(Connection::open(&endpoint)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
}

#[test]
fn what_is_no_certificate_or_key_is_refused_without_showing_it() {
    let authority = Authority::new();
    let (one, other) = (authority.sign("a", false), authority.sign("b", false));
    let identity = |chain: &str, key: &str| {
        let error = Identity::from_pem(chain.as_bytes(), &key.as_bytes().to_vec().into());
        error.unwrap_err()
    };
    assert!(matches!(identity("", &one.key), TlsError::NoCertificate));
    assert!(matches!(identity(&one.chain, ""), TlsError::Key));
    assert!(matches!(identity(&one.chain, &one.chain), TlsError::Key));
    assert!(matches!(
        identity(&one.chain, &other.key),
        TlsError::Mismatch
    ));
    let cut = &one.key[..one.key.len() / 2];
    assert!(matches!(identity(&one.chain, cut), TlsError::Key));
    let garbage = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    let error = identity(&one.chain, garbage);
    assert!(matches!(error, TlsError::KeyKind), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("c2Vj"));
    assert!(!format!("{:?}", one.identity()).contains("PRIVATE"));

    assert!(matches!(
        Roots::from_pem(b"x"),
        Err(TlsError::NoCertificate)
    ));
    let broken = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
    let error = Roots::from_pem(broken.as_bytes()).unwrap_err();
    assert!(matches!(error, TlsError::Certificate(_)), "{error:?}");
}
