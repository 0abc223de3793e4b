//! The software bill of materials: every crate in the binary, in the format SPDX 2.3.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use toml::Table;
use xtask::cache;

use super::{VERSION, write};
use crate::command::{self, cargo};
use crate::image;
use crate::platform::{Platform, timestamp};

/// A crate as `cargo tree` and Cargo.lock describe it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    license: String,
    /// A crate of this workspace is not downloaded.
    is_own: bool,
}

pub(super) fn write_sbom(folder: &Path, platforms: &[Platform], time: u64) -> Result<()> {
    let mut crates = BTreeSet::new();
    for platform in platforms {
        let target = platform.triple();
        let mut tree = cargo(&[
            "tree",
            "--locked",
            "--package",
            "kelpie",
            "--prefix",
            "none",
        ]);
        tree.args([
            "--edges", "normal", "--format", "{p}|{l}", "--target", &target,
        ]);
        let text = command::read(tree.args(image::NO_DEMO))?;
        crates.extend(text.lines().filter_map(parse));
    }
    let lock = fs::read_to_string(cache::repository().join("Cargo.lock"))?;
    let document = document(&crates, &checksums(&lock)?, &timestamp(time)?);
    let text = serde_json::to_string_pretty(&document)? + "\n";
    write(&folder.join(format!("kelpie-{VERSION}.spdx.json")), &text)
}

/// Parses a line such as `serde v1.0.0 (proc-macro)|MIT OR Apache-2.0`.
fn parse(line: &str) -> Option<Crate> {
    let (package, license) = line.split_once('|')?;
    let mut words = package.split(' ');
    Some(Crate {
        name: words.next()?.to_owned(),
        version: words.next()?.strip_prefix('v')?.to_owned(),
        // A line that repeats a crate ends with `(*)`.
        license: license.trim_end_matches("(*)").trim().to_owned(),
        is_own: words.any(|word| word.starts_with("(/")),
    })
}

/// Returns the checksums in Cargo.lock by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: Table = lock.parse().context("reading Cargo.lock")?;
    let packages = lock["package"].as_array().context("no packages")?;
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let entry = |package| {
        let id = (text(package, "name")?, text(package, "version")?);
        Some((id, text(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

fn document(
    crates: &BTreeSet<Crate>,
    checksums: &BTreeMap<(String, String), String>,
    created: &str,
) -> Value {
    let packages: Vec<Value> = crates
        .iter()
        .map(|package| {
            let id = (package.name.clone(), package.version.clone());
            describe(package, checksums.get(&id))
        })
        .collect();
    let contains = |package: &Crate| {
        json!({
            "spdxElementId": spdx_id("kelpie", VERSION),
            "relationshipType": "DEPENDS_ON",
            "relatedSpdxElement": spdx_id(&package.name, &package.version),
        })
    };
    let dependencies = crates.iter().filter(|package| package.name != "kelpie");
    let describes = json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": spdx_id("kelpie", VERSION),
    });
    let relationships: Vec<Value> = [describes]
        .into_iter()
        .chain(dependencies.map(contains))
        .collect();
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("kelpie-{VERSION}"),
        "documentNamespace": format!("https://example.org/kelpie/{VERSION}/{created}"),
        "creationInfo": { "created": created, "creators": ["Tool: cargo xtask release"] },
        "packages": packages,
        "relationships": relationships,
    })
}

fn describe(package: &Crate, checksum: Option<&String>) -> Value {
    let Crate {
        name,
        version,
        license,
        is_own,
    } = package;
    let download = match is_own {
        true => "NOASSERTION".to_owned(),
        false => format!("https://crates.io/api/v1/crates/{name}/{version}/download"),
    };
    let mut described = json!({
        "SPDXID": spdx_id(name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": download,
        "licenseConcluded": "NOASSERTION",
        // Some old crates separate licences with a slash, which SPDX does not know.
        "licenseDeclared": license.replace('/', " OR "),
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": false,
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{name}@{version}"),
        }],
    });
    if let Some(checksum) = checksum {
        described["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": checksum }]);
    }
    described
}

/// An identifier may have letters, digits, dots and hyphens.
fn spdx_id(name: &str, version: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => letter,
        _ => '-',
    };
    let id: String = format!("{name}-{version}").chars().map(plain).collect();
    format!("SPDXRef-Package-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(line: &str) -> Crate {
        parse(line).unwrap()
    }

    #[test]
    fn lines_of_cargo_tree_are_parsed() {
        let own = crate_of("kelpie v0.1.0 (/src/crates/kelpie)|Apache-2.0");
        assert!(own.is_own);
        let one = crate_of("serde v1.0.2+a (proc-macro)|MIT OR Apache-2.0");
        assert_eq!(
            (one.name.as_str(), one.version.as_str()),
            ("serde", "1.0.2+a")
        );
        assert!(!one.is_own);
        assert_eq!(
            crate_of("serde v1.0.2+a (proc-macro)|MIT OR Apache-2.0 (*)"),
            one
        );
        assert_eq!(parse(""), None);
    }

    #[test]
    fn document_has_the_checksums_of_the_lock_file() {
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.2+a\"\nchecksum = \"ab\"\n\
                    [[package]]\nname = \"kelpie\"\nversion = \"0.1.0\"\n";
        let lines = [
            "kelpie v0.1.0 (/src)|Apache-2.0",
            "serde v1.0.2+a|MIT/Apache-2.0",
        ];
        let crates = lines.map(crate_of).into();
        let document = document(&crates, &checksums(lock).unwrap(), "2026-01-02T03:04:05Z");
        let serde = &document["packages"][1];
        assert_eq!(serde["checksums"][0]["checksumValue"], "ab");
        assert_eq!(serde["licenseDeclared"], "MIT OR Apache-2.0");
        assert_eq!(serde["SPDXID"], "SPDXRef-Package-serde-1.0.2-a");
        assert_eq!(document["packages"][0]["checksums"], Value::Null);
        assert_eq!(document["relationships"].as_array().unwrap().len(), 2);
    }
}
