//! `cargo xtask gen`: writes the docs that are made from the code, or checks that they are current.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask::cache;

use crate::command::{self, build_executable, program};

/// Write the generated files.
///
/// docs/cli.md, the help of every subcommand of the kelpie binary; docs/metrics.md, what it serves;
/// deploy/rbac/, what it needs to be allowed; deploy/crds/, the kinds it brings. All come from the binary
/// itself. The chart has copies of some of them, and of the alerts: Helm reads nothing outside of a chart.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail if a file is not current
    #[arg(long)]
    check: bool,
}

/// Says what to do about every difference.
const REPAIR: &str = "run `cargo xtask gen` and commit the result";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
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

/// Fails if a generated file is not what the code would give now.
pub(crate) fn check() -> Result<()> {
    for (file, wanted) in generated()? {
        let found = fs::read_to_string(cache::repository().join(file));
        let found = found.with_context(|| format!("{file} cannot be read: {REPAIR}"))?;
        if let Some(difference) = first_difference(&found, &wanted) {
            bail!("{file}:{difference}\n{file} is not current: {REPAIR}");
        }
        println!("{file} is current");
    }
    Ok(())
}

/// Files that the binary prints itself, by `kelpie generate NAME`.
const PRINTED: [(&str, &str); 9] = [
    ("docs/metrics.md", "metrics"),
    ("deploy/rbac/prober-seed.yaml", "rbac-prober-seed"),
    ("deploy/rbac/prober-shoot.yaml", "rbac-prober-shoot"),
    ("deploy/rbac/weeder.yaml", "rbac-weeder"),
    ("deploy/rbac/addon-operator.yaml", "rbac-addon-operator"),
    ("deploy/rbac/addon-status.yaml", "rbac-addon-status"),
    ("deploy/rbac/addon-hub.yaml", "rbac-addon-hub"),
    ("deploy/rbac/addon-collector.yaml", "rbac-addon-collector"),
    ("deploy/rbac/addon-hop.yaml", "rbac-addon-hop"),
];

/// Files of the chart, and what each is a copy of.
const COPIED: [(&str, &str); 4] = [
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
];

/// Every generated file and what it should hold.
fn generated() -> Result<Vec<(&'static str, String)>> {
    let kelpie = build_executable(&["build", "--quiet", "--package", "kelpie"])?;
    let help = |path: &[String]| {
        let path = path.iter().map(String::as_str);
        ask(&kelpie, &path.chain(["--help"]).collect::<Vec<_>>())
    };
    let mut files = vec![("docs/cli.md", command_page(&help)?)];
    for (file, name) in PRINTED {
        files.push((file, ask(&kelpie, &["generate", name])?));
    }
    files.push((
        "deploy/crds/observabilityaddons.yaml",
        ask(&kelpie, &["crd"])?,
    ));
    for (copy, original) in COPIED {
        let generated = files.iter().find(|(file, _)| *file == original);
        let content = match generated {
            Some((_, content)) => content.clone(),
            None => fs::read_to_string(cache::repository().join(original))
                .with_context(|| format!("reading {original}"))?,
        };
        let origin =
            format!("# A copy of {original}, made by `cargo xtask gen`. Edit that instead.\n");
        files.push((copy, origin + &content));
    }
    Ok(files)
}

fn ask(kelpie: &Path, arguments: &[&str]) -> Result<String> {
    let mut ask = program(kelpie, arguments);
    // No file may depend on who writes it.
    ask.env_clear().env("NO_COLOR", "1").env("COLUMNS", "100");
    command::read(&mut ask)
}

/// The help of the binary and, in the order it lists them, of its subcommands.
fn command_page(help: &dyn Fn(&[String]) -> Result<String>) -> Result<String> {
    let mut page = "# The command line\n\n\
        <!-- Generated from the binary's own help by `cargo xtask gen`. Edit the help instead. -->\n"
        .to_owned();
    // A stack, so that a subcommand's own subcommands follow it directly.
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

/// The names under `Commands:`, without `help`, which every level has and none needs explained.
fn subcommands(help: &str) -> Vec<&str> {
    let under = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Names stand two columns in, what is said about them further in.
    under
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// `LINE: found …, wanted …` of the first line that differs.
fn first_difference(found: &str, wanted: &str) -> Option<String> {
    if found == wanted {
        return None;
    }
    let (mut found, mut wanted) = (found.lines(), wanted.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (found.next(), wanted.next()) {
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
    fn subcommands_are_found_in_both_layouts_of_the_help() {
        assert_eq!(subcommands(TOP), ["check", "run"]);
        assert!(subcommands("Usage: kelpie check\n").is_empty());
    }

    #[test]
    fn the_page_walks_every_subcommand_depth_first() {
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
    fn a_difference_names_the_line_and_both_sides() {
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
