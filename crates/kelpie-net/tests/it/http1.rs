//! One connection, one request after the other, and all that a peer may do to it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{HeaderMap, Method};
use kelpie_net::{Connection, Endpoint, RequestError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::server::{Authority, OK, Server, Wire, answer_all, request, soon};

async fn get(connection: &mut Connection) -> Result<Bytes, RequestError> {
    let response = soon(connection.get("/", &HeaderMap::new())).await?;
    soon(response.collect(1_000)).await
}

/// A server that sends `answer` once and then waits for the client to leave.
async fn once(answer: impl Into<Vec<u8>>) -> Server {
    let answer = answer.into();
    Server::plain(move |mut wire| {
        let answer = answer.clone();
        async move {
            if request(&mut wire).await.is_some() {
                let _ = wire.write_all(&answer).await;
                let _ = wire.read(&mut [0]).await;
            }
        }
    })
    .await
}

async fn error_of(answer: impl Into<Vec<u8>>) -> RequestError {
    let server = once(answer).await;
    let mut connection = server.open().await;
    let error = get(&mut connection).await.unwrap_err();
    assert!(!connection.is_usable());
    let again = get(&mut connection).await.unwrap_err();
    assert!(matches!(again, RequestError::Unusable), "{again:?}");
    error
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let authority = Authority::new();
    let config = authority.sign("127.0.0.1", false).server(None);
    let server = Server::tls(config, |wire| answer_all(wire, OK)).await;
    let endpoint = server.https(authority.client(None));
    let mut connection = Connection::open(&endpoint).await.unwrap();
    for _ in 0..50 {
        assert!(connection.is_usable());
        assert_eq!(get(&mut connection).await.unwrap(), "ok");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_request_says_what_it_should_and_nothing_else() {
    let server = Server::plain(|mut wire| async move {
        let head = request(&mut wire).await.unwrap();
        let mut body = [0; 4];
        wire.read_exact(&mut body).await.unwrap();
        let echo = format!("{head}{}", str::from_utf8(&body).unwrap());
        let length = echo.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{echo}");
        wire.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let url = format!("http://127.0.0.1:{}/base/", server.port);
    let endpoint = Endpoint::new(&url, None).unwrap();
    let mut connection = Connection::open(&endpoint).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-one", HeaderValue::from_static("1"));
    headers.insert(HOST, HeaderValue::from_static("another"));
    let body = Bytes::from_static(b"body");
    let sent = connection.send(Method::POST, "/p?q=1", &headers, body);
    let echo = soon(soon(sent).await.unwrap().collect(1_000))
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
async fn a_path_that_is_none_is_the_callers_fault_and_costs_nothing() {
    let server = Server::plain(|wire| answer_all(wire, OK)).await;
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
async fn a_connection_that_the_peer_closed_between_requests_is_not_usable() {
    let (closing, mut closed) = tokio::sync::mpsc::channel(1);
    let server = Server::plain(move |mut wire| {
        let closing = closing.clone();
        async move {
            request(&mut wire).await.unwrap();
            wire.write_all(OK).await.unwrap();
            drop(wire);
            closing.send(()).await.unwrap();
        }
    })
    .await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    soon(closed.recv()).await.unwrap();
    soon(async {
        while connection.is_usable() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_announces_the_close_ends_the_connection() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let server = once(answer).await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn a_request_that_was_given_up_leaves_no_answer_for_the_next() {
    // Answers each request with its number, the first one late.
    let server = Server::plain(|mut wire| async move {
        for number in 1.. {
            if request(&mut wire).await.is_none() {
                return;
            }
            if number == 1 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            if wire.write_all(answer.as_bytes()).await.is_err() {
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
async fn an_answer_that_was_not_read_leaves_nothing_for_the_next() {
    let server = Server::plain(|wire| answer_all(wire, OK)).await;
    let mut connection = server.open().await;
    drop(soon(connection.get("/", &HeaderMap::new())).await.unwrap());
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn two_answers_to_one_request_end_the_connection() {
    let server = once([OK, OK].concat()).await;
    let mut connection = server.open().await;
    assert_eq!(get(&mut connection).await.unwrap(), "ok");
    assert!(!connection.is_usable());
    let error = get(&mut connection).await.unwrap_err();
    assert!(matches!(error, RequestError::Unusable), "{error:?}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_the_callers_to_give_up() {
    let server = Server::plain(|mut wire| async move {
        let _ = wire.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let mut connection = server.open().await;
    let headers = HeaderMap::new();
    let waiting = connection.get("/", &headers);
    assert!(timeout(Duration::from_millis(50), waiting).await.is_err());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_body() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "",
    ] {
        let server = Server::plain(move |mut wire: Box<dyn Wire>| async move {
            request(&mut wire).await.unwrap();
            wire.write_all(cut.as_bytes()).await.unwrap();
        })
        .await;
        let error = get(&mut server.open().await).await.unwrap_err();
        assert!(matches!(error, RequestError::Broken(_)), "{cut}: {error:?}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_by_its_length_or_while_it_is_read() {
    let mut huge = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".to_vec();
    let error = error_of(huge.clone()).await;
    assert_eq!(error.to_string(), "the answer is larger than 1000 bytes");
    huge = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n".to_vec();
    huge.extend([b'x'; 0x3e9]);
    let error = error_of(huge).await;
    assert!(matches!(error, RequestError::BodyTooLarge { limit: 1_000 }));
    // Without either, the body ends with the connection: the limit holds there too.
    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    endless.resize(70_000, b'x');
    let error = error_of(endless).await;
    assert!(matches!(error, RequestError::BodyTooLarge { limit: 1_000 }));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_taken() {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec();
    answer.extend([b'x'; 1_000]);
    let server = once(answer).await;
    assert_eq!(get(&mut server.open().await).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn headers_beyond_all_measure_are_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let error = error_of(long).await;
    assert!(matches!(error, RequestError::HeadTooLarge), "{error:?}");
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(200));
    let error = error_of(many).await;
    assert!(matches!(error, RequestError::HeadTooLarge), "{error:?}");
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    for answer in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",
    ] {
        let error = error_of(answer).await;
        let is_right = match &error {
            RequestError::Malformed(_) => true,
            // hyper gives a broken chunk as a broken body.
            RequestError::Broken(_) => answer.contains("chunked"),
            _ => false,
        };
        assert!(is_right, "{answer}: {error:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let server = once("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n").await;
    let mut connection = server.open().await;
    let response = soon(connection.get("/", &HeaderMap::new())).await.unwrap();
    assert_eq!(response.status, 302);
    assert_eq!(response.header(&http::header::LOCATION), Some("/x"));
    assert_eq!(soon(response.collect(0)).await.unwrap(), "");
    assert_eq!(server.accepted(), 1);
    assert!(connection.is_usable());
}
