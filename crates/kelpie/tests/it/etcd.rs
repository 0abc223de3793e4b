//! `kelpie etcd`: the command line, and a process without an etcd to speak to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::program::{Program, transcript};

/// Without what the environment of the tests may say about an etcd.
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

/// An address where nobody listens. A free port could be taken by a test beside this one.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn its_help_teaches() {
    insta::assert_snapshot!(run(&["etcd", "--help"]));
    insta::assert_snapshot!(run(&["etcd", "check", "--help"]));
}

#[test]
fn mistakes_name_the_flag_and_the_remedy() {
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
        &["--pid", "0"],
        &["--listen", "0"],
        &["--listen-cert", "tls.crt"],
    ] {
        let all: Vec<&str> = ["etcd"].iter().chain(arguments).copied().collect();
        let said = run(&all);
        assert!(said.starts_with("exit code: 2\n"), "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        let line = said.lines().find(|line| line.starts_with("error: "));
        transcripts.push(format!("$ kelpie {}\n{}", all.join(" "), line.unwrap()));
    }
    insta::assert_snapshot!(transcripts.join("\n"));
}

#[test]
fn the_environment_is_that_of_etcdctl_and_a_flag_wins() {
    let program = Program::new("etcd-environment");
    let mut two = command(&program, &["etcd", "check"]);
    two.env("ETCDCTL_ENDPOINTS", "http://a:1,http://b:1");
    let said = transcript(&two.output().unwrap());
    assert!(said.contains("--endpoints has 2 addresses"), "{said}");

    let mut flag = command(&program, &["etcd", "check", "--endpoints", NOBODY]);
    flag.env("ETCDCTL_ENDPOINTS", "http://a:1,http://b:1");
    // Empty is as good as unset.
    flag.env("ETCDCTL_USER", "").env("ETCDCTL_CACERT", "");
    let said = transcript(&flag.output().unwrap());
    assert!(said.contains("connection refused"), "{said}");

    let mut user = command(&program, &["etcd", "check", "--endpoints", NOBODY]);
    user.env("ETCDCTL_USER", "root");
    let said = transcript(&user.output().unwrap());
    assert!(said.contains("--user needs a password"), "{said}");
}

#[test]
fn a_check_of_nobody_fails_row_by_row() {
    let said = run(&["etcd", "check", "--endpoints", NOBODY]);
    assert!(
        said.starts_with("exit code: 1\n----- stdout -----\nGROUP "),
        "{said}"
    );
    let refused = said
        .lines()
        .filter(|line| line.ends_with("connection refused"));
    assert_eq!(refused.count(), 5, "{said}");
    assert!(
        !said.contains('\u{1b}'),
        "colours are for terminals: {said}"
    );
}

#[test]
fn a_check_for_scripts_is_one_object() {
    let program = Program::new("etcd-json");
    let arguments = ["etcd", "check", "--endpoints", NOBODY, "--output", "json"];
    let output = command(&program, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["endpoint"], format!("http://{NOBODY}"));
    let first = &answer["checks"][0];
    assert_eq!(first["group"], "livez");
    assert_eq!(first["name"], "serializable_read");
    assert_eq!(first["ok"], false);
    assert_eq!(first["reason"], "connection refused");
    assert!(first["milliseconds"].is_number());
}

/// A process that serves, and is ended with the test.
struct Serving {
    child: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
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

    /// SIGTERM; the exit code and the rest of the log.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(killed.success());
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn without_an_etcd_it_serves_and_ends_by_sigterm() {
    let serving = Serving::start("etcd-serve", &["--endpoints", NOBODY]);
    let livez = serving.get("/livez");
    assert!(livez.starts_with("HTTP/1.1 503 "), "{livez}");
    assert!(
        livez.contains("[-]serializable_read failed: connection refused\n\n"),
        "{livez}"
    );
    assert!(serving.get("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(serving.get("/healthz").starts_with("HTTP/1.1 404 "));
    let metrics = serving.get("/metrics");
    let errors =
        r#"kelpie_etcd_healthchecks_total{type="livez",name="serializable_read",status="error"} 1"#;
    assert!(metrics.contains(errors), "{metrics}");
    assert!(
        metrics.contains("kelpie_etcd_probe_misconfigured 0\n"),
        "{metrics}"
    );
    let (code, log) = serving.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("connection refused"), "{log}");
}

#[test]
fn missing_certificates_fail_readyz_and_never_livez() {
    let endpoint = format!("https://{NOBODY}");
    let arguments = ["--endpoints", &endpoint, "--cacert", "missing.crt"];
    let serving = Serving::start("etcd-certificates", &arguments);
    assert!(serving.get("/livez").starts_with("HTTP/1.1 200 "));
    let readyz = serving.get("/readyz");
    assert!(readyz.starts_with("HTTP/1.1 503 "), "{readyz}");
    assert!(readyz.contains("missing.crt: No such file"), "{readyz}");
    assert!(
        serving
            .get("/metrics")
            .contains("kelpie_etcd_probe_misconfigured 1\n")
    );
    let (code, log) = serving.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("missing.crt"), "{log}");
}

#[test]
fn a_listener_without_its_certificate_waits_for_it() {
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
    let told = log
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("no.crt"));
    let _ = child.kill();
    child.wait().unwrap();
    let line: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert_eq!(line["level"], "ERROR");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = run(&["etcd", "--listen", &address]);
    assert!(said.starts_with("exit code: 1\n"), "{said}");
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
    assert!(said.contains("--listen"), "{said}");
}
