//! Serving the requests of one connection.

use bytes::Bytes;
use http::{Request, Response};
use kelpie_net::{ResponseBody, serve_connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::fixture::within_10s;

/// Answers with the body of the request, but does not answer `/silence`.
async fn echo(request: Request<Bytes>) -> Option<Response<ResponseBody>> {
    let text = String::from_utf8(request.body().to_vec()).unwrap();
    (request.uri().path() != "/silence").then(|| Response::new(ResponseBody::full(text)))
}

async fn post(client: &mut DuplexStream, path: &str, text: &str) -> String {
    let length = text.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{text}");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![0; 4096];
    let read = within_10s(client.read(&mut response)).await.unwrap();
    String::from_utf8(response[..read].to_vec()).unwrap()
}

#[tokio::test]
async fn requests_are_served_in_order() {
    let (mut client, server) = duplex(65_536);
    let serving = tokio::spawn(serve_connection(server, echo));
    for text in ["one", "two"] {
        let response = post(&mut client, "/", text).await;
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
        assert!(response.ends_with(text), "{response}");
    }
    drop(client);
    within_10s(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn missing_response_closes_connection() {
    let (mut client, server) = duplex(65_536);
    let serving = tokio::spawn(serve_connection(server, echo));
    assert_eq!(post(&mut client, "/silence", "").await, "");
    assert!(within_10s(serving).await.unwrap().is_err());
}
