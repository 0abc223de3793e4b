//! Tests of help, version, completions and invalid command lines.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::program::{Program, send, transcript};

#[test]
fn top_level_help() {
    insta::assert_snapshot!(Program::new("help").run(&["--help"]));
}

#[test]
fn subcommand_help() {
    insta::assert_snapshot!(Program::new("help").run(&["check-config", "--help"]));
    insta::assert_snapshot!(Program::new("help").run(&["check-config", "prober", "--help"]));
    insta::assert_snapshot!(Program::new("help").run(&["explain", "--help"]));
    insta::assert_snapshot!(Program::new("help").run(&["check", "prober", "--help"]));
    insta::assert_snapshot!(Program::new("help").run(&["check", "weeder", "--help"]));
}

#[test]
fn hub_command_help_does_not_mention_spokes() {
    let help = Program::new("help").run(&["addon", "hop", "--help"]);
    assert!(help.contains("Kubeconfig of the hub"), "{help}");
    assert!(!help.to_lowercase().contains("spoke"), "{help}");
}

#[test]
fn no_arguments_print_the_subcommands() {
    insta::assert_snapshot!(Program::new("help").run(&[]));
}

#[test]
fn version_is_that_of_the_crate() {
    let version = Program::new("version").run(&["--version"]);
    let expected = format!(
        "exit code: 0\n----- stdout -----\nkelpie {}\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(version, expected);
}

#[test]
fn invalid_command_lines_exit_with_2() {
    let program = Program::new("usage");
    let mut transcripts = Vec::new();
    for arguments in [
        &["check-confg"][..],
        &["check-config"],
        &["check-config", "prober"],
        &["check-config", "webhook", "a.yaml"],
        &["check-config", "prober", "a.yaml", "--output", "xml"],
        &["check-config", "prober", "a.yaml", "--as", "dwd"],
        &["completions", "tcsh"],
        &["prober"],
        &[
            "prober",
            "--config-file=a.yaml",
            "--leader-elect-retry-period=often",
        ],
        &[
            "prober",
            "--config-file=a.yaml",
            "--leader-elect-renew-deadline=15s",
        ],
        &[
            "prober",
            "--config-file=a.yaml",
            "--enable-leader-election=perhaps",
        ],
        &["prober", "--config-file=a.yaml", "--metrics-bind-addr=9643"],
        &["prober", "--config-file=a.yaml", "--zap-log-level=loud"],
        &["explain"],
        &["check"],
        &["check", "prober"],
        &["weeder"],
        &["check", "weeder"],
    ] {
        let transcript = program.run(arguments);
        assert!(transcript.starts_with("exit code: 2\n"), "{transcript}");
        transcripts.push(format!("$ kelpie {}\n{transcript}", arguments.join(" ")));
    }
    insta::assert_snapshot!(transcripts.join("\n"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Program::new("completions").run(&["completions", shell]);
        assert!(
            script.starts_with("exit code: 0\n----- stdout -----\n"),
            "{script}"
        );
        assert!(script.contains("check-config"), "{shell}");
    }
}

/// Returns the completions that bash offers for the last of `words`. An empty string means files.
fn bash_completions(program: &'static str, words: &[&str]) -> String {
    let output = Program::new("completions")
        .named(program)
        .command(&["completions", "bash"])
        .output()
        .unwrap();
    let script = String::from_utf8(output.stdout).unwrap();
    let (last, before) = words.split_last().unwrap();
    // The shell passes the command, the word at the cursor and the word before it.
    let ask = format!(
        "{script}\nCOMP_WORDS=({program} {words}); COMP_CWORD={}\n\
         registered=$(complete -p {program}) || exit 1\n\
         [[ $registered == *'-o default'* && $registered =~ -F\\ ([^ ]+) ]] || exit 2\n\
         ${{BASH_REMATCH[1]}} {program} '{last}' '{}'; echo \"${{COMPREPLY[*]}}\"",
        words.len(),
        before.last().unwrap_or(&program),
        words = words.join(" "),
    );
    let bash = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert!(bash.status.success(), "{bash:?}");
    String::from_utf8(bash.stdout).unwrap().trim().to_owned()
}

#[test]
fn bash_completes_components_then_files() {
    for program in ["kelpie", "dependency-watchdog"] {
        for (words, offered) in [
            (&["ch"][..], "check check-config"),
            (&["check-config", "p"], "prober"),
            (&["check-config", "prober", "p"], ""),
            (&["check-config", "weeder", "w"], ""),
            (&["check-config", "weeder", "w.yaml", "--ou"], "--output"),
        ] {
            assert_eq!(
                bash_completions(program, words),
                offered,
                "{program} {words:?}"
            );
        }
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    let mut child = Program::new("pipe")
        .command(&["check-config", "prober", "-"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    send(
        &mut child,
        b"kubeConfigSecretName: a\ndependentResourceInfos: \
          [{ref: {apiVersion: v1, kind: A, name: a}, scaleUp: {}, scaleDown: {}}]",
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn failed_output_is_an_error() {
    let mut command = Program::new("full").command(&["completions", "bash"]);
    command.stdout(Stdio::from(
        File::options().write(true).open("/dev/full").unwrap(),
    ));
    insta::assert_snapshot!(transcript(&command.output().unwrap()));
}
