//! Reads a file with one selector on each line.

use std::path::Path;

use anyhow::{Context, Result};

use crate::input_file::InputFile;

/// Reads the selectors of a file. Empty lines and lines that begin with `#` have none.
pub(super) fn read(path: &Path) -> Result<Vec<String>> {
    let text = InputFile::new(path).text().context("--match-file")?;
    let lines = text.lines().map(str::trim);
    let selectors = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(selectors.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_selector() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("matches");
        std::fs::write(&file, "# ours\n{job=\"a#b\"}\n\n  up \r\n").unwrap();
        assert_eq!(read(&file).unwrap(), ["{job=\"a#b\"}", "up"]);
        let error = read(&folder.path().join("none")).unwrap_err();
        assert!(format!("{error:#}").starts_with("--match-file: cannot read "));
    }
}
