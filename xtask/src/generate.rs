//! `cargo xtask gen`: writes the files that are generated from the code, or checks them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use xtask::cache;

use crate::command::{self, build_executable, program};

/// Write the generated files.
///
/// docs/reference/cli.md has the help of every subcommand of the kelpie binary,
/// docs/reference/metrics.md its metrics, deploy/rbac/ the permissions it needs, and deploy/crds/
/// its custom resource definitions. All of them come from the binary itself, and so do the parts of
/// the schema of the chart's values that are about configuration files. The chart has copies of
/// some of them and of the alerts, because Helm cannot read files outside of a chart.
#[derive(clap::Args)]
pub(crate) struct GenerateArgs {
    /// Write nothing, but fail if a file is outdated
    #[arg(long)]
    check: bool,
}

/// The remedy for an outdated file.
const REMEDY: &str = "run `cargo xtask gen` and commit the result";

pub(crate) fn run(arguments: &GenerateArgs) -> Result<()> {
    if arguments.check {
        return check();
    }
    for (file, content) in generated()? {
        let path = cache::repository().join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, content).with_context(|| format!("writing {file}"))?;
        println!("wrote {file}");
    }
    Ok(())
}

/// Fails if a generated file is outdated.
pub(crate) fn check() -> Result<()> {
    for (file, expected) in generated()? {
        let actual = fs::read_to_string(cache::repository().join(file));
        let actual = actual.with_context(|| format!("{file} cannot be read: {REMEDY}"))?;
        if let Some(difference) = first_difference(&actual, &expected) {
            bail!("{file}:{difference}\n{file} is outdated: {REMEDY}");
        }
        println!("{file} is up to date");
    }
    Ok(())
}

/// Files that `kelpie generate NAME` prints.
const PRINTED: [(&str, &str); 10] = [
    ("docs/reference/metrics.md", "metrics"),
    ("deploy/rbac/prober-seed.yaml", "rbac-prober-seed"),
    ("deploy/rbac/prober-shoot.yaml", "rbac-prober-shoot"),
    (
        "deploy/rbac/prober-guarded-shoot.yaml",
        "rbac-prober-guarded-shoot",
    ),
    ("deploy/rbac/weeder.yaml", "rbac-weeder"),
    ("deploy/rbac/addon-operator.yaml", "rbac-addon-operator"),
    ("deploy/rbac/addon-status.yaml", "rbac-addon-status"),
    ("deploy/rbac/addon-hub.yaml", "rbac-addon-hub"),
    ("deploy/rbac/addon-collector.yaml", "rbac-addon-collector"),
    ("deploy/rbac/addon-hop.yaml", "rbac-addon-hop"),
];

/// The schema of the chart's values. The definitions of the configuration files are generated, the
/// rest of it is written by hand.
const VALUES_SCHEMA: &str = "deploy/charts/kelpie/values.schema.json";

/// Files of the chart, each with the file that it is a copy of.
const COPIED: [(&str, &str); 15] = [
    (
        "deploy/charts/kelpie/files/dashboard-addon.json",
        "deploy/grafana/addon.json",
    ),
    (
        "deploy/charts/kelpie/files/dashboard-collector.json",
        "deploy/grafana/collector.json",
    ),
    (
        "deploy/charts/kelpie/files/dashboard-etcd.json",
        "deploy/grafana/etcd.json",
    ),
    (
        "deploy/charts/kelpie/files/dashboard-prober.json",
        "deploy/grafana/prober.json",
    ),
    (
        "deploy/charts/kelpie/files/dashboard-weeder.json",
        "deploy/grafana/weeder.json",
    ),
    (
        "deploy/charts/kelpie/files/rbac-prober.yaml",
        "deploy/rbac/prober-seed.yaml",
    ),
    (
        "deploy/charts/kelpie/files/rbac-weeder.yaml",
        "deploy/rbac/weeder.yaml",
    ),
    (
        "deploy/charts/kelpie/files/alerts-prober.yaml",
        "deploy/alerts/prober.yaml",
    ),
    (
        "deploy/charts/kelpie/files/alerts-weeder.yaml",
        "deploy/alerts/weeder.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/files/rbac-operator.yaml",
        "deploy/rbac/addon-operator.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/files/rbac-status.yaml",
        "deploy/rbac/addon-status.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/files/rbac-collector.yaml",
        "deploy/rbac/addon-collector.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/files/rbac-hop.yaml",
        "deploy/rbac/addon-hop.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/files/openshift.yaml",
        "deploy/rbac/addon-openshift.yaml",
    ),
    (
        "deploy/charts/kelpie-addon/crds/observabilityaddons.yaml",
        "deploy/crds/observabilityaddons.yaml",
    ),
];

/// Returns the path and content of every generated file.
fn generated() -> Result<Vec<(&'static str, String)>> {
    let kelpie = build_executable(&["build", "--quiet", "--package", "kelpie"])?;
    let help = |path: &[String]| {
        let path = path.iter().map(String::as_str);
        run_kelpie(&kelpie, &path.chain(["--help"]).collect::<Vec<_>>())
    };
    let mut files = vec![("docs/reference/cli.md", command_page(&help)?)];
    for (file, name) in PRINTED {
        files.push((file, run_kelpie(&kelpie, &["generate", name])?));
    }
    files.push((
        "deploy/crds/observabilityaddons.yaml",
        run_kelpie(&kelpie, &["crd"])?,
    ));
    let schemas = run_kelpie(&kelpie, &["generate", "config-schemas"])?;
    files.push((VALUES_SCHEMA, values_schema(&schemas)?));
    for (copy, original) in COPIED {
        let generated = files.iter().find(|(file, _)| *file == original);
        let content = match generated {
            Some((_, content)) => content.clone(),
            None => fs::read_to_string(cache::repository().join(original))
                .with_context(|| format!("reading {original}"))?,
        };
        // JSON has no comments.
        let origin = if Path::new(copy).extension() == Some("json".as_ref()) {
            String::new()
        } else {
            format!(
                "# A copy of {original}, written by `cargo xtask gen`. Edit the original instead.\n"
            )
        };
        files.push((copy, origin + &content));
    }
    Ok(files)
}

/// Replaces the definitions of the configuration files.
fn values_schema(definitions: &str) -> Result<String> {
    let present = fs::read_to_string(cache::repository().join(VALUES_SCHEMA))?;
    let mut schema: Value = serde_json::from_str(&present).context(VALUES_SCHEMA)?;
    let definitions: Map<String, Value> = serde_json::from_str(definitions)?;
    for (name, definition) in definitions {
        schema["definitions"][name] = definition;
    }
    Ok(serde_json::to_string_pretty(&schema)?
        + "
")
}

fn run_kelpie(kelpie: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = program(kelpie, arguments);
    // The output must not depend on the environment.
    command
        .env_clear()
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100");
    command::read(&mut command)
}

/// Renders the help of the binary and of its subcommands, in the order of the help.
fn command_page(help: &dyn Fn(&[String]) -> Result<String>) -> Result<String> {
    let mut page = "# The command line\n\n\
        <!-- Generated from the binary's help by `cargo xtask gen`. Edit the help instead. -->\n"
        .to_owned();
    // A stack makes the subcommands of a subcommand follow it directly.
    let mut open = vec![Vec::<String>::new()];
    while let Some(path) = open.pop() {
        let text = help(&path)?;
        let words: Vec<&str> = ["kelpie"]
            .into_iter()
            .chain(path.iter().map(String::as_str))
            .collect();
        let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
        let title = format!("\n## `{}`\n\n", words.join(" "));
        let body = trimmed.join("\n");
        page.extend([title.as_str(), "```text\n", body.trim(), "\n```\n"]);
        for name in subcommands(&text).into_iter().rev() {
            open.push([path.as_slice(), &[name.to_owned()]].concat());
        }
    }
    Ok(page)
}

/// Returns the names under `Commands:`, except `help`, which every level has.
fn subcommands(help: &str) -> Vec<&str> {
    let under = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Names are indented by two columns, their descriptions by more.
    under
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Describes the first line that differs, or returns `None` if there is none.
fn first_difference(actual: &str, expected: &str) -> Option<String> {
    if actual == expected {
        return None;
    }
    let (mut actual, mut expected) = (actual.lines(), expected.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (actual.next(), expected.next()) {
            (None, None) => return Some(format!("{number}: line ends differ")),
            (is, should) if is == should => {}
            (is, should) => {
                let (is, should) = (is.unwrap_or("no line"), should.unwrap_or("no line"));
                return Some(format!(
                    "{number}:\n  is:        {is}\n  should be: {should}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "Watches.\n\nUsage: kelpie <COMMAND>\n\nCommands:\n  \
        check   Check a file\n  run\n          Run it\n\n  help    Print this\n\n\
        Options:\n  -h, --help  Print help\n";

    #[test]
    fn subcommands_are_found_in_both_layouts() {
        assert_eq!(subcommands(TOP), ["check", "run"]);
        assert!(subcommands("Usage: kelpie check\n").is_empty());
    }

    #[test]
    fn subcommands_are_listed_depth_first() {
        let help = |path: &[String]| {
            Ok(match path.join(" ").as_str() {
                "" => TOP.to_owned(),
                "check" => "Commands:\n  prober  Its file\n".to_owned(),
                leaf => format!("Help of {leaf}.\n"),
            })
        };
        let page = command_page(&help).unwrap();
        let titles: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        let expected = [
            "## `kelpie`",
            "## `kelpie check`",
            "## `kelpie check prober`",
            "## `kelpie run`",
        ];
        assert_eq!(titles, expected);
        assert!(page.contains("Help of check prober."));
    }

    #[test]
    fn differences_have_line_and_both_sides() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            first_difference("a\nb\n", "a\nc\n").unwrap(),
            "2:\n  is:        b\n  should be: c"
        );
        assert_eq!(
            first_difference("a\n", "a\nb\n").unwrap(),
            "2:\n  is:        no line\n  should be: b"
        );
        assert_eq!(first_difference("a", "a\n").unwrap(), "2: line ends differ");
    }
}
