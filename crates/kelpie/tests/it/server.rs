//! A minimal HTTP server that the program under test sends requests to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request that the server received.
pub(crate) struct FakeServerRequest {
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Returns the status and the body of a response.
type RequestHandler = dyn Fn(&FakeServerRequest) -> (u16, String) + Send + Sync;

/// Serves on a free port of loopback until the test process ends.
pub(crate) fn serve(
    handler: impl Fn(&FakeServerRequest) -> (u16, String) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handler: Arc<RequestHandler> = Arc::new(handler);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let handler = Arc::clone(&handler);
            thread::spawn(move || respond(stream.unwrap(), &*handler));
        }
    });
    address
}

/// Handles one request per connection. Returns `None` if the client closed the connection early.
fn respond(mut stream: TcpStream, handler: &RequestHandler) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let (status, body) = handler(&FakeServerRequest { path, body });
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
