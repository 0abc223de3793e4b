//! `kelpie etcd`: the command line, and a server without a reachable etcd.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::program::{Program, transcript};

/// Returns a command without the `ETCDCTL_` variables of the test environment.
fn command(program: &Program, arguments: &[&str]) -> Command {
    let mut command = program.command(arguments);
    for name in ["ENDPOINTS", "CACERT", "CERT", "KEY", "USER", "PASSWORD"] {
        command.env_remove(format!("ETCDCTL_{name}"));
    }
    command
}

fn run(arguments: &[&str]) -> String {
    let program = Program::new("etcd");
    transcript(&command(&program, arguments).output().unwrap())
}

/// An address without a listener. A free port could be taken by another test.
const UNUSED: &str = "127.0.0.1:1";

#[test]
fn help_texts() {
    insta::assert_snapshot!(run(&["etcd", "--help"]));
    insta::assert_snapshot!(run(&["etcd", "check", "--help"]));
}

#[test]
fn usage_errors_name_flag_and_remedy() {
    let mut transcripts = Vec::new();
    for arguments in [
        &["--endpoints", "http://a:2379,http://b:2379"][..],
        &["--endpoints="],
        &["--endpoints", "ftp://a:2379"],
        &["--endpoints", "http://user:secret@a:2379"],
        &["--endpoints", "https://a:2379"],
        &["--endpoints", "http://a:2379", "--cacert", "ca.crt"],
        &["--cert", "client.crt"],
        &["--key", "client.key"],
        &["--user", "root"],
        &["--user="],
        &["--password", "secret"],
        &["--user", "root:hunter2", "--password", "secret"],
        &["--metrics-url", "metrics"],
        &["--livez-deadline", "0s"],
        &["--readyz-deadline", "1h"],
        &["--readyz-deadline", "900"],
        &["--enable", "readindex"],
        &["--disable", "livez/read_index"],
        &["--enable", "livez/raft_loop"],
        &["--pid", "0"],
        &["--listen", "0"],
        &["--listen", "unix://kelpie.sock"],
        &["--listen-client-ca", "ca.crt"],
        &["--endpoints=http://a:2379", "--insecure-transport=false"],
        &["--dial-timeout", "0s"],
        &["--keepalive-timeout", "0s"],
        &["--listen-cert", "tls.crt"],
    ] {
        let all: Vec<&str> = ["etcd"].iter().chain(arguments).copied().collect();
        let output = run(&all);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
        assert!(!output.contains("secret"), "{output}");
        assert!(!output.contains("hunter2"), "{output}");
        let line = output.lines().find(|line| line.starts_with("error: "));
        transcripts.push(format!("$ kelpie {}\n{}", all.join(" "), line.unwrap()));
    }
    insta::assert_snapshot!(transcripts.join("\n"));
}

#[test]
fn flags_override_etcdctl_environment() {
    let program = Program::new("etcd-environment");
    let mut two = command(&program, &["etcd", "check"]);
    two.env("ETCDCTL_ENDPOINTS", "http://a:1,http://b:1");
    let output = transcript(&two.output().unwrap());
    assert!(output.contains("--endpoints has 2 addresses"), "{output}");

    let mut flag = command(&program, &["etcd", "check", "--endpoints", UNUSED]);
    flag.env("ETCDCTL_ENDPOINTS", "http://a:1,http://b:1");
    // An empty variable counts as unset.
    flag.env("ETCDCTL_USER", "").env("ETCDCTL_CACERT", "");
    let output = transcript(&flag.output().unwrap());
    assert!(output.contains("connection refused"), "{output}");

    let mut user = command(&program, &["etcd", "check", "--endpoints", UNUSED]);
    user.env("ETCDCTL_USER", "root");
    let output = transcript(&user.output().unwrap());
    assert!(output.contains("--user needs a password"), "{output}");
}

#[test]
fn check_without_etcd_fails_every_row() {
    let output = run(&["etcd", "check", "--endpoints", UNUSED]);
    assert!(
        output.starts_with(&format!(
            "exit code: 1\n----- stdout -----\netcd at http://{UNUSED}\n\nGROUP "
        )),
        "{output}"
    );
    let refused = output
        .lines()
        .filter(|line| line.ends_with("connection refused"));
    assert_eq!(refused.count(), 6, "{output}");
    // The other checks have nothing to look at.
    assert_eq!(output.matches(" skipped ").count(), 3, "{output}");
    assert!(
        !output.contains('\u{1b}'),
        "colours are for terminals: {output}"
    );
}

#[test]
fn json_check_is_one_object() {
    let program = Program::new("etcd-json");
    let arguments = ["etcd", "check", "--endpoints", UNUSED, "--output", "json"];
    let output = command(&program, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["endpoint"], format!("http://{UNUSED}"));
    let first = &answer["checks"][0];
    assert_eq!(first["group"], "livez");
    assert_eq!(first["name"], "serializable_read");
    assert_eq!(first["ok"], false);
    assert_eq!(first["reason"], "connection refused");
    assert!(first["milliseconds"].is_number());
}

/// A running server, killed at the end of the test.
struct EtcdServer {
    child: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl EtcdServer {
    fn start(test: &str, arguments: &[&str]) -> Self {
        let program = Program::new(test);
        let all = [&["etcd", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut child = command(&program, &all)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line.split("listening on http://").nth(1);
        let address = address.and_then(|rest| rest.split_whitespace().next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self {
            child,
            log,
            address,
        }
    }

    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends SIGTERM and returns the exit code and the rest of the log.
    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(killed.success());
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_without_etcd_until_sigterm() {
    let server = EtcdServer::start("etcd-serve", &["--endpoints", UNUSED]);
    let livez = server.get("/livez");
    assert!(livez.starts_with("HTTP/1.1 503 "), "{livez}");
    assert!(
        livez.contains("[-]serializable_read failed: connection refused\n[+]raft_loop ok\n\n"),
        "{livez}"
    );
    assert!(server.get("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(server.get("/healthz").starts_with("HTTP/1.1 404 "));
    let metrics = server.get("/metrics");
    let errors =
        r#"kelpie_etcd_healthchecks_total{type="livez",name="serializable_read",status="error"} 1"#;
    assert!(metrics.contains(errors), "{metrics}");
    assert!(
        metrics.contains("kelpie_etcd_probe_misconfigured 0\n"),
        "{metrics}"
    );
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("connection refused"), "{log}");
}

#[test]
fn missing_certificates_fail_readyz_only() {
    let endpoint = format!("https://{UNUSED}");
    let arguments = ["--endpoints", &endpoint, "--cacert", "missing.crt"];
    let server = EtcdServer::start("etcd-certificates", &arguments);
    assert!(server.get("/livez").starts_with("HTTP/1.1 200 "));
    let readyz = server.get("/readyz");
    assert!(readyz.starts_with("HTTP/1.1 503 "), "{readyz}");
    assert!(readyz.contains("missing.crt: No such file"), "{readyz}");
    assert!(
        server
            .get("/metrics")
            .contains("kelpie_etcd_probe_misconfigured 1\n")
    );
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("missing.crt"), "{log}");
}

#[test]
fn listener_waits_for_its_certificate() {
    let program = Program::new("etcd-listen-tls");
    let arguments = [
        "etcd",
        "--listen=127.0.0.1:0",
        "--listen-cert=no.crt",
        "--listen-key=no.key",
        "--log-format=json",
    ];
    let mut child = command(&program, &arguments).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let line = log
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("no.crt"));
    let _ = child.kill();
    child.wait().unwrap();
    let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
    assert_eq!(line["level"], "ERROR");
}

#[test]
fn taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["etcd", "--listen", &address]);
    assert!(output.starts_with("exit code: 1\n"), "{output}");
    assert!(
        output.contains(&format!("cannot listen on {address}")),
        "{output}"
    );
    assert!(output.contains("--listen"), "{output}");
}
