//! One connection, served.

use bytes::Bytes;
use http::{Request, Response};
use kelpie_net::{ServedBody, serve_connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::server::soon;

/// `/silence` gets no answer, everything else an echo of its body.
async fn echo(request: Request<Bytes>) -> Option<Response<ServedBody>> {
    let text = String::from_utf8(request.body().to_vec()).unwrap();
    (request.uri().path() != "/silence").then(|| Response::new(ServedBody::whole(text)))
}

async fn ask(client: &mut DuplexStream, path: &str, text: &str) -> String {
    let length = text.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{text}");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = soon(client.read(&mut answer)).await.unwrap();
    String::from_utf8(answer[..read].to_vec()).unwrap()
}

#[tokio::test]
async fn requests_are_answered_one_after_the_other() {
    let (mut client, server) = duplex(65_536);
    let serving = tokio::spawn(serve_connection(server, echo));
    for text in ["one", "two"] {
        let answer = ask(&mut client, "/", text).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.ends_with(text), "{answer}");
    }
    drop(client);
    soon(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_without_an_answer_ends_the_connection() {
    let (mut client, server) = duplex(65_536);
    let serving = tokio::spawn(serve_connection(server, echo));
    assert_eq!(ask(&mut client, "/silence", "").await, "");
    assert!(soon(serving).await.unwrap().is_err());
}
