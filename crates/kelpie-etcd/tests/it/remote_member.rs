//! The network client against servers that are not etcd.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_etcd::{
    EtcdError, EtcdMetrics, EtcdVersion, Member, MemberConfig, MemberUrl, ProcessState,
    RemoteMember, TlsCredentials,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Time limit for everything that should happen.
const TIMEOUT: Duration = Duration::from_secs(10);

fn config(endpoint: SocketAddr, metrics: Option<SocketAddr>) -> MemberConfig {
    let url = |at: SocketAddr| MemberUrl::parse(&format!("http://{at}"), false).unwrap();
    MemberConfig {
        connection: kelpie_etcd::ConnectionSettings::default(),
        endpoint: url(endpoint),
        metrics_url: metrics.map(url),
        tls: TlsCredentials::new(kelpie_net::TlsFilePaths::default()),
        user: None,
        login_timeout: Duration::from_millis(100),
        pid: None,
    }
}

fn remote(endpoint: SocketAddr) -> RemoteMember {
    RemoteMember::new(config(endpoint, None))
}

/// Starts a server that handles every connection with `serve`.
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

/// Reads the head of a request. Returns false at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}

/// Starts a server that sends `answer` to every request, and counts its connections.
async fn web_server(answer: String) -> (SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let answer = Arc::new(answer);
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let answer = Arc::clone(&answer);
        async move {
            while read_request(&mut stream).await {
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

async fn call_error<T: std::fmt::Debug>(call: kelpie_etcd::MemberCall<T>) -> EtcdError {
    timeout(TIMEOUT, call).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn refused_connection_is_reported() {
    // A free port could be taken by another test.
    let unused = SocketAddr::from(([127, 0, 0, 1], 1));
    let member = remote(unused);
    assert_eq!(
        call_error(member.serializable_read()).await,
        EtcdError::ConnectionRefused
    );
    assert_eq!(
        call_error(member.ping()).await,
        EtcdError::ConnectionRefused
    );
    assert_eq!(
        call_error(member.metrics()).await,
        EtcdError::ConnectionRefused
    );
    assert!(!member.boot().has_answered());
}

#[tokio::test]
async fn closing_server_suggests_tls() {
    let closing = server(async |stream| drop(stream)).await;
    let error = call_error(remote(closing).serializable_read()).await;
    assert!(error.is_probe_problem(), "{error:?}");
    assert!(error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn web_server_is_not_etcd() {
    let (web, _) = web_server(ok("<html>hello</html>")).await;
    let error = call_error(remote(web).serializable_read()).await;
    assert!(
        error.is_probe_problem() && !error.is_response(),
        "{error:?}"
    );
}

#[tokio::test]
async fn unresolvable_name_is_a_probe_problem() {
    let mut config = config(SocketAddr::from(([127, 0, 0, 1], 1)), None);
    config.endpoint = MemberUrl::parse("http://no.such.host.invalid:2379", false).unwrap();
    let error = call_error(RemoteMember::new(config).serializable_read()).await;
    assert!(error.is_probe_problem(), "{error:?}");
    assert!(
        error.to_string().contains("no.such.host.invalid"),
        "{error}"
    );
}

#[tokio::test]
async fn silent_server_does_not_fail_the_call() {
    let silent = server(async |mut stream| {
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
    })
    .await;
    let member = remote(silent);
    let waiting = timeout(Duration::from_millis(300), member.serializable_read()).await;
    assert!(waiting.is_err(), "{waiting:?}");
    assert!(!member.boot().has_answered());
}

#[tokio::test]
async fn metrics_reuse_one_connection() {
    let body = "etcd_disk_defrag_inflight 1\netcd_server_version{server_version=\"3.6.1\"} 1\n";
    let (address, connections) = web_server(ok(body)).await;
    let member = remote(address);
    let expected = EtcdMetrics {
        defrag_inflight: Some(true),
        version: Some(EtcdVersion(3, 6)),
        ..EtcdMetrics::default()
    };
    for _ in 0..10 {
        let read = timeout(TIMEOUT, member.metrics()).await.unwrap();
        assert_eq!(read.unwrap(), expected);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn unusable_metrics_page_names_the_flag() {
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_owned();
    for (name, answer) in [
        ("missing", missing),
        ("foreign", ok("<html>hello</html>")),
        ("too large", endless),
        ("not HTTP", "SSH-2.0-hello\r\n".to_owned()),
    ] {
        let (address, _) = web_server(answer).await;
        let error = call_error(remote(address).metrics()).await;
        assert!(error.is_probe_problem(), "{name}: {error:?}");
        assert!(
            error.to_string().contains("--metrics-url"),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn endless_metrics_page_is_cut_off() {
    let endless = server(async |mut stream| {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let junk = vec![b'x'; 64 * 1024];
        while stream.write_all(&junk).await.is_ok() {}
    })
    .await;
    let error = call_error(remote(endless).metrics()).await;
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn separate_metrics_listener_is_detected() {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    assert!(!remote(at(2379)).has_own_metrics_listener());
    let same = RemoteMember::new(config(at(2379), Some(at(2379))));
    assert!(!same.has_own_metrics_listener());
    let own = RemoteMember::new(config(at(2379), Some(at(2381))));
    assert!(own.has_own_metrics_listener());
    assert_eq!(own.process(), ProcessState::Unknown);
}
