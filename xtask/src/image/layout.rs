//! An OCI image layout: a folder of blobs, each named after its digest, and an index.
//!
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::root::{FOLDER, NAME, USER};
use crate::command::{self, program};
use crate::platform::{Platform, commit_time, timestamp};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub(super) struct Layout {
    folder: PathBuf,
    /// Seconds since 1970.
    time: u64,
    /// A descriptor for each platform.
    manifests: Vec<Value>,
}

impl Layout {
    pub(super) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        fs::write(
            folder.join("oci-layout"),
            json!({ "imageLayoutVersion": "1.0.0" }).to_string(),
        )?;
        Ok(Self {
            folder: folder.to_owned(),
            time: commit_time()?,
            manifests: Vec::new(),
        })
    }

    /// Adds an image with one layer: the content of `root`.
    pub(super) fn add(&mut self, platform: Platform, root: &Path) -> Result<()> {
        let layer = self.folder.join("layer.tar");
        archive(root, &layer, self.time)?;
        let uncompressed = sha256(&layer)?;
        // Without the name and the time of the file, which are no part of the content.
        command::run(program("gzip", &["-9", "--no-name"]).arg(&layer))?;
        let layer = self.blob(&self.folder.join("layer.tar.gz"), LAYER)?;

        let created = timestamp(self.time)?;
        let config = json!({
            "architecture": platform.name(),
            "os": "linux",
            "created": created,
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": [format!("/{FOLDER}/{NAME}")],
                "Env": [format!("PATH=/{FOLDER}")],
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": NAME,
                    "org.opencontainers.image.version": VERSION,
                    "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
                },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{uncompressed}")] },
            "history": [{ "created": created, "created_by": "cargo xtask image" }],
        });
        let config = self.json_blob(&config, CONFIG)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
        });
        let mut manifest = self.json_blob(&manifest, MANIFEST)?;
        manifest["platform"] = json!({ "os": "linux", "architecture": platform.name() });
        self.manifests.push(manifest);
        Ok(())
    }

    /// Writes the index, and the archive of the whole layout.
    ///
    /// The index names one image. With several platforms that is an index itself, which a registry
    /// stores under one tag.
    pub(super) fn finish(&self, to: &Path) -> Result<()> {
        let mut image = match self.manifests.as_slice() {
            [single] => single.clone(),
            several => {
                let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": several });
                self.json_blob(&index, INDEX)?
            }
        };
        image["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [image] });
        fs::write(self.folder.join("index.json"), index.to_string())?;
        archive(&self.folder, to, self.time)
    }

    fn json_blob(&self, content: &Value, media_type: &str) -> Result<Value> {
        let file = self.folder.join("blob.json");
        fs::write(&file, content.to_string())?;
        self.blob(&file, media_type)
    }

    /// Moves a file to the blobs. Returns its descriptor.
    fn blob(&self, file: &Path, media_type: &str) -> Result<Value> {
        let digest = sha256(file)?;
        let size = fs::metadata(file)?.len();
        fs::rename(file, self.folder.join("blobs/sha256").join(&digest))?;
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": size,
        }))
    }
}

/// Archives the content of a folder, in the order of the names, with one owner and one time.
pub(crate) fn archive(folder: &Path, to: &Path, time: u64) -> Result<()> {
    let time = format!("--mtime=@{time}");
    let fixed = [
        "--create",
        "--format=gnu",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=go=rX,u+rw",
        &time,
    ];
    let mut tar = program("tar", &fixed);
    tar.arg("--file").arg(to).arg("--directory").arg(folder);
    // The entries by their names instead of `.`, which would be an entry itself.
    let mut names: Vec<_> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    names.sort();
    command::run(tar.args(names))
}

/// Returns the digest in hexadecimal.
pub(crate) fn sha256(file: &Path) -> Result<String> {
    let output = command::read(program("sha256sum", &["--binary"]).arg(file))?;
    let digest = output.split(' ').next().filter(|text| text.len() == 64);
    let digest = digest.context("sha256sum printed no digest")?;
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("kelpie-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn layout(name: &str, platforms: &[Platform]) -> (PathBuf, Value) {
        let folder = folder(name);
        let root = folder.join("root");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("file"), "content").unwrap();
        let mut layout = Layout::create(&folder.join("oci")).unwrap();
        for platform in platforms {
            layout.add(*platform, &root).unwrap();
        }
        layout.finish(&folder.join("image.tar")).unwrap();
        let index = fs::read_to_string(folder.join("oci/index.json")).unwrap();
        (folder, serde_json::from_str(&index).unwrap())
    }

    #[test]
    fn blobs_have_their_digests() {
        let (folder, index) = layout("blobs", &[Platform::Amd64]);
        let blobs: Vec<_> = fs::read_dir(folder.join("oci/blobs/sha256"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(
            blobs.len(),
            3,
            "manifest, configuration and layer: {blobs:?}"
        );
        for blob in &blobs {
            assert!(blob.ends_with(sha256(blob).unwrap()), "{blob:?}");
        }
        assert_eq!(index["manifests"][0]["mediaType"], MANIFEST);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn same_content_gives_the_same_archive() {
        let (one, _) = layout("one", &[Platform::Amd64]);
        let (other, _) = layout("other", &[Platform::Amd64]);
        let digest = |folder: &Path| sha256(&folder.join("image.tar")).unwrap();
        assert_eq!(digest(&one), digest(&other));
        fs::remove_dir_all(one).unwrap();
        fs::remove_dir_all(other).unwrap();
    }

    #[test]
    fn several_platforms_are_one_image() {
        let (folder, index) = layout("several", &[Platform::Amd64, Platform::Arm64]);
        let images = index["manifests"].as_array().unwrap();
        assert_eq!(images.len(), 1);
        assert_eq!(images[0]["mediaType"], INDEX);
        fs::remove_dir_all(folder).unwrap();
    }
}
