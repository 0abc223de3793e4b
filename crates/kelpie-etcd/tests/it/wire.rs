//! The real member's side of the wire, against servers that are no etcd.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_etcd::{Access, Address, Fault, Member, ProcessState, Remote, Sample, Target, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long a test waits for what should come.
const SOON: Duration = Duration::from_secs(10);

fn target(endpoint: SocketAddr, metrics: Option<SocketAddr>) -> Target {
    let address = |at: SocketAddr| Address::parse(&format!("http://{at}"), false).unwrap();
    Target {
        endpoint: address(endpoint),
        metrics: metrics.map(address),
        access: Access::new(kelpie_net::FilePaths::default()),
        user: None,
        log_in_wait: Duration::from_millis(100),
        pid: None,
    }
}

fn remote(endpoint: SocketAddr) -> Remote {
    Remote::new(target(endpoint, None))
}

/// Answers every connection in the same way.
async fn server<Serving>(serve: impl Fn(TcpStream) -> Serving + Send + 'static) -> SocketAddr
where
    Serving: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads the head of a request; false at the end of the connection.
async fn request(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}

/// Serves one page to whoever asks, over kept connections; counts these.
async fn page(answer: String) -> (SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let answer = Arc::new(answer);
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let answer = Arc::clone(&answer);
        async move {
            while request(&mut stream).await {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    })
    .await;
    (address, connections)
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn fault<T: std::fmt::Debug>(call: kelpie_etcd::Call<T>) -> Fault {
    timeout(SOON, call).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_refused_connection_is_told_as_such() {
    // A free port could be taken by a test beside this one.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let member = remote(nobody);
    assert_eq!(fault(member.serializable_read()).await, Fault::Refused);
    assert_eq!(fault(member.ping()).await, Fault::Refused);
    assert_eq!(fault(member.metrics()).await, Fault::Refused);
    assert!(!member.boot().has_answered());
}

#[tokio::test]
async fn a_server_that_closes_may_want_tls() {
    let closing = server(async |stream| drop(stream)).await;
    let told = fault(remote(closing).serializable_read()).await;
    assert!(told.is_own(), "{told:?}");
    assert!(told.to_string().contains("https://"), "{told}");
}

#[tokio::test]
async fn a_web_server_is_no_etcd() {
    let (web, _) = page(ok("<html>hello</html>")).await;
    let told = fault(remote(web).serializable_read()).await;
    assert!(told.is_own() && !told.is_answer(), "{told:?}");
}

#[tokio::test]
async fn a_name_without_address_is_trouble_of_our_own() {
    let mut target = target(SocketAddr::from(([127, 0, 0, 1], 1)), None);
    target.endpoint = Address::parse("http://no.such.host.invalid:2379", false).unwrap();
    let told = fault(Remote::new(target).serializable_read()).await;
    assert!(told.is_own(), "{told:?}");
    assert!(told.to_string().contains("no.such.host.invalid"), "{told}");
}

#[tokio::test]
async fn a_silent_server_is_waited_for() {
    let silent = server(async |mut stream| {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    let member = remote(silent);
    let waiting = timeout(Duration::from_millis(300), member.serializable_read()).await;
    assert!(waiting.is_err(), "{waiting:?}");
    assert!(!member.boot().has_answered());
}

#[tokio::test]
async fn the_metrics_page_is_read_over_one_connection() {
    let body = "etcd_disk_defrag_inflight 1\netcd_server_version{server_version=\"3.6.1\"} 1\n";
    let (address, connections) = page(ok(body)).await;
    let member = remote(address);
    let expected = Sample {
        defrag_inflight: Some(true),
        version: Some(Version(3, 6)),
        ..Sample::default()
    };
    for _ in 0..10 {
        let read = timeout(SOON, member.metrics()).await.unwrap();
        assert_eq!(read.unwrap(), expected);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_page_that_is_of_no_use_says_what_to_give() {
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_owned();
    for (name, answer) in [
        ("missing", missing),
        ("foreign", ok("<html>hello</html>")),
        ("too large", endless),
        ("not HTTP", "SSH-2.0-hello\r\n".to_owned()),
    ] {
        let (address, _) = page(answer).await;
        let told = fault(remote(address).metrics()).await;
        assert!(told.is_own(), "{name}: {told:?}");
        assert!(told.to_string().contains("--metrics-url"), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_page_without_end_is_cut_off() {
    let endless = server(async |mut stream| {
        request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let junk = vec![b'x'; 64 * 1024];
        while stream.write_all(&junk).await.is_ok() {}
    })
    .await;
    let told = fault(remote(endless).metrics()).await;
    assert!(told.to_string().contains("larger than"), "{told}");
}

#[tokio::test]
async fn a_listener_for_metrics_is_told_from_the_client_port() {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    assert!(!remote(at(2379)).has_own_metrics_listener());
    let same = Remote::new(target(at(2379), Some(at(2379))));
    assert!(!same.has_own_metrics_listener());
    let own = Remote::new(target(at(2379), Some(at(2381))));
    assert!(own.has_own_metrics_listener());
    assert_eq!(own.process(), ProcessState::Unknown);
}
