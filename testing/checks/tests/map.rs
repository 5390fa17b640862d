//! ARCHITECTURE.md is a map: what it names exists, and what exists is on it. Links in documents
//! lead somewhere.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root exists")
}

/// The paths that ARCHITECTURE.md names in backquotes and that have a slash.
fn mapped() -> Vec<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it exists");
    let quoted = text.split('`').skip(1).step_by(2);
    let starts = ["crates/", "testing/", "bench/", "docs/", ".ci/"];
    quoted
        .filter(|word| starts.iter().any(|start| word.starts_with(start)))
        .map(|word| word.trim_end_matches('/').to_owned())
        .collect()
}

#[test]
fn what_the_map_names_exists() {
    let mapped = mapped();
    assert!(mapped.len() > 10, "the map was read");
    for path in mapped {
        assert!(root().join(&path).exists(), "ARCHITECTURE.md names {path}, which is not there");
    }
}

#[test]
fn every_part_of_the_library_is_on_the_map() {
    let mapped = mapped();
    for member in ["core", "store", "redis", "sqlite", "fencelock", "cli"] {
        let folder = root().join("crates").join(member).join("src");
        for entry in fs::read_dir(folder).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let path = format!("crates/{member}/src/{name}");
            assert!(mapped.contains(&path), "ARCHITECTURE.md does not say what {path} is");
        }
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut documents: Vec<PathBuf> = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "node_modules" && name != ".git" {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    assert!(documents.len() > 5);
    for document in documents {
        let text = fs::read_to_string(&document).expect("it is text");
        for rest in text.split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or_default();
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let target = document.parent().expect("a folder").join(path);
            assert!(target.exists(), "{} links to {path}", document.display());
        }
    }
}
