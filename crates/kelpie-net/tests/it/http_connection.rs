//! Sequential requests on one connection, and misbehaving peers.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{HeaderMap, Method};
use kelpie_net::{Endpoint, HttpConnection, RequestError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::fixture::{Authority, ByteStream, OK, Server, request, respond_to_all, within_10s};

async fn get(connection: &mut HttpConnection) -> Result<Bytes, RequestError> {
    let response = within_10s(connection.get("/", &HeaderMap::new())).await?;
    within_10s(response.collect(1_000)).await
}

/// Starts a server that sends `response` once and then waits for the client to disconnect.
async fn respond_once(response: impl Into<Vec<u8>>) -> Server {
    let response = response.into();
    Server::plain(move |mut stream| {
        let response = response.clone();
        async move {
            if request(&mut stream).await.is_some() {
                let _ = stream.write_all(&response).await;
                let _ = stream.read(&mut [0]).await;
            }
        }
    })
    .await
}

async fn error_of(response: impl Into<Vec<u8>>) -> RequestError {
    let server = respond_once(response).await;
    let mut connection = server.open().await;
    let error = get(&mut connection).await.unwrap_err();
    assert!(!connection.is_usable());
    let again = get(&mut connection).await.unwrap_err();
    assert!(matches!(again, RequestError::Unusable), "{again:?}");
    error
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let authority = Authority::new();
    let config = authority.sign("127.0.0.1", false).server(None);
    let server = Server::tls(config, |stream| respond_to_all(stream, OK)).await;
    let endpoint = server.https(authority.client(None));
    let mut connection = HttpConnection::open(&endpoint).await.unwrap();
    for _ in 0..50 {
        assert!(connection.is_usable());
        assert_eq!(get(&mut connection).await.unwrap(), "ok");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn request_has_expected_head_and_body() {
    let server = Server::plain(|mut stream| async move {
        let head = request(&mut stream).await.unwrap();
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        let echo = format!("{head}{}", str::from_utf8(&body).unwrap());
        let length = echo.len();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{echo}");
        stream.write_all(response.as_bytes()).await.unwrap();
    })
    .await;
    let url = format!("http://127.0.0.1:{}/base/", server.port);
    let endpoint = Endpoint::new(&url, None).unwrap();
    let mut connection = HttpConnection::open(&endpoint).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-one", HeaderValue::from_static("1"));
    headers.insert(HOST, HeaderValue::from_static("another"));
    let body = Bytes::from_static(b"body");
    let sent = connection.send(Method::POST, "/p?q=1", &headers, body);
    let echo = within_10s(within_10s(sent).await.unwrap().collect(1_000))
        .await
        .unwrap();
    let echo = String::from_utf8(echo.to_vec()).unwrap().to_lowercase();
    let mut lines: Vec<_> = echo.split("\r\n").collect();
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{}", server.port);
    let expected = [
        "",
        "body",
        "content-length: 4",
        &host,
        "post /base/p?q=1 http/1.1",
        "x-one: 1",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn invalid_path_leaves_connection_usable() {
    let server = Server::plain(|stream| respond_to_all(stream, OK)).await;
    let mut connection = server.open().await;
    for path in ["", "version", "/a b", "http://other/"] {
        let error = connection.get(path, &HeaderMap::new()).await.unwrap_err();
        assert!(
            matches!(error, RequestError::Invalid(_)),
            "{path}: {error:?}"
        );
    }
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
}

#[tokio::test]
async fn connection_closed_by_peer_is_unusable() {
    let (closing, mut closed) = tokio::sync::mpsc::channel(1);
    let server = Server::plain(move |mut stream| {
        let closing = closing.clone();
        async move {
            request(&mut stream).await.unwrap();
            stream.write_all(OK).await.unwrap();
            drop(stream);
            closing.send(()).await.unwrap();
        }
    })
    .await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    within_10s(closed.recv()).await.unwrap();
    within_10s(async {
        while connection.is_usable() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn connection_close_header_ends_connection() {
    let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let server = respond_once(response).await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn dropped_request_makes_connection_unusable() {
    // Answers each request with its number, the first one late.
    let server = Server::plain(|mut stream| async move {
        for number in 1.. {
            if request(&mut stream).await.is_none() {
                return;
            }
            if number == 1 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let mut connection = server.open().await;
    let headers = HeaderMap::new();
    let given_up = connection.get("/", &headers);
    assert!(timeout(Duration::from_millis(10), given_up).await.is_err());
    assert!(!connection.is_usable());
    let error = get(&mut connection).await.unwrap_err();
    assert!(matches!(error, RequestError::Unusable));
}

#[tokio::test]
async fn unread_response_makes_connection_unusable() {
    let server = Server::plain(|stream| respond_to_all(stream, OK)).await;
    let mut connection = server.open().await;
    drop(
        within_10s(connection.get("/", &HeaderMap::new()))
            .await
            .unwrap(),
    );
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn extra_response_ends_connection() {
    let server = respond_once([OK, OK].concat()).await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    assert!(!connection.is_usable());
    let error = get(&mut connection).await.unwrap_err();
    assert!(matches!(error, RequestError::Unusable), "{error:?}");
}

#[tokio::test]
async fn silent_server_does_not_time_out() {
    let server = Server::plain(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let mut connection = server.open().await;
    let headers = HeaderMap::new();
    let waiting = connection.get("/", &headers);
    assert!(timeout(Duration::from_millis(50), waiting).await.is_err());
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "",
    ] {
        let server = Server::plain(move |mut stream: Box<dyn ByteStream>| async move {
            request(&mut stream).await.unwrap();
            stream.write_all(cut.as_bytes()).await.unwrap();
        })
        .await;
        let error = get(&mut server.open().await).await.unwrap_err();
        assert!(matches!(error, RequestError::Broken(_)), "{cut}: {error:?}");
    }
}

#[tokio::test]
async fn body_over_limit_is_rejected() {
    let mut huge = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".to_vec();
    let error = error_of(huge.clone()).await;
    assert_eq!(error.to_string(), "the response is larger than 1000 bytes");
    huge = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n".to_vec();
    huge.extend([b'x'; 0x3e9]);
    let error = error_of(huge).await;
    assert!(matches!(error, RequestError::BodyTooLarge { limit: 1_000 }));
    // Without a declared length the body ends with the connection. The limit applies there too.
    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    endless.resize(70_000, b'x');
    let error = error_of(endless).await;
    assert!(matches!(error, RequestError::BodyTooLarge { limit: 1_000 }));
}

#[tokio::test]
async fn body_at_limit_is_accepted() {
    let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec();
    response.extend([b'x'; 1_000]);
    let server = respond_once(response).await;
    assert_eq!(get(&mut server.open().await).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn oversized_headers_are_rejected() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let error = error_of(long).await;
    assert!(matches!(error, RequestError::HeadTooLarge), "{error:?}");
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(200));
    let error = error_of(many).await;
    assert!(matches!(error, RequestError::HeadTooLarge), "{error:?}");
}

#[tokio::test]
async fn malformed_responses_are_rejected() {
    for response in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",
    ] {
        let error = error_of(response).await;
        let is_right = match &error {
            RequestError::Malformed(_) => true,
            // hyper reports a broken chunk as a broken body.
            RequestError::Broken(_) => response.contains("chunked"),
            _ => false,
        };
        assert!(is_right, "{response}: {error:?}");
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let server =
        respond_once("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n").await;
    let mut connection = server.open().await;
    let response = within_10s(connection.get("/", &HeaderMap::new()))
        .await
        .unwrap();
    assert_eq!(response.status, 302);
    assert_eq!(response.header(&http::header::LOCATION), Some("/x"));
    assert_eq!(within_10s(response.collect(0)).await.unwrap(), "");
    assert_eq!(server.accepted(), 1);
    assert!(connection.is_usable());
}
