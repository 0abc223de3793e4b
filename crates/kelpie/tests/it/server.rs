//! A tiny HTTP server for the program to ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A question and what it is about.
pub(crate) struct Question {
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: String,
}

type Answers = dyn Fn(&Question) -> (u16, String) + Send + Sync;

/// Answers on a port of its own until the tests are over.
pub(crate) fn serve(
    answer: impl Fn(&Question) -> (u16, String) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers: Arc<Answers> = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answers = Arc::clone(&answers);
            thread::spawn(move || reply(stream.unwrap(), &*answers));
        }
    });
    address
}

/// One question per connection. Who hangs up early misses the answer, and that is all.
fn reply(mut stream: TcpStream, answers: &Answers) -> Option<()> {
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
    let (status, body) = answers(&Question { path, body });
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
