//! Arrows between crates point one way only, and what must live in one file does.
//!
//! `core <- store <- redis | sqlite | quorum <- fencelock <- cli`. `core` depends on nothing at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Who may depend on whom, tests left out.
const ARROWS: &[(&str, &[&str])] = &[
    ("fencelock-core", &[]),
    ("fencelock-store", &["fencelock-core"]),
    ("fencelock-redis", &["fencelock-core", "fencelock-store"]),
    ("fencelock-sqlite", &["fencelock-core", "fencelock-store"]),
    ("fencelock-quorum", &["fencelock-core", "fencelock-store"]),
    (
        "fencelock",
        &[
            "fencelock-core",
            "fencelock-store",
            "fencelock-redis",
            "fencelock-sqlite",
            "fencelock-quorum",
        ],
    ),
    ("fencelock-cli", &["fencelock"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root exists")
}

/// The normal dependencies of each package of the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().expect("dependencies");
            let normal = all.iter().filter(|dependency| dependency["kind"].is_null());
            let names = normal.map(|dependency| dependency["name"].as_str().expect("a name"));
            let name = package["name"].as_str().expect("a name").to_owned();
            (name, names.map(str::to_owned).collect())
        })
        .collect()
}

#[test]
fn arrows_between_crates_point_one_way() {
    let dependencies = dependencies();
    for (package, allowed) in ARROWS {
        let own = dependencies[*package].iter().filter(|name| name.starts_with("fencelock"));
        for name in own {
            assert!(allowed.contains(&name.as_str()), "{package} must not depend on {name}");
        }
    }
}

#[test]
fn core_depends_on_nothing_and_is_no_std() {
    assert_eq!(dependencies()["fencelock-core"], BTreeSet::new());
    let lib = fs::read_to_string(root().join("crates/core/src/lib.rs")).expect("it exists");
    assert!(lib.contains("#![no_std]"));
    for (path, text) in sources("crates/core/src") {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["std::time::Instant", "SystemTime", "std::env", "std::fs", "std::net"] {
            assert!(!code.contains(word), "{path} must not know {word}");
        }
    }
}

#[test]
fn the_runtime_is_known_in_one_file_of_the_library() {
    for folder in [
        "crates/store/src",
        "crates/redis/src",
        "crates/sqlite/src",
        "crates/quorum/src",
        "crates/fencelock/src",
    ] {
        for (path, text) in sources(folder) {
            let tests_only = path.contains("tests") || path.contains("conformance");
            if path.ends_with("rt.rs") || tests_only {
                continue;
            }
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for word in ["tokio::", "std::time::Instant", "thread::sleep", "SystemTime::now"] {
                    assert!(!line.contains(word), "{path}: `{word}` belongs in rt.rs: {line}");
                }
            }
        }
    }
}

#[test]
fn unsafe_code_lives_in_sys_files_only() {
    for (path, text) in sources("crates") {
        let allowed = path.ends_with("/sys.rs") || path.contains("/tests/");
        let has_unsafe = text.lines().any(|line| {
            let line = line.trim_start();
            !line.starts_with("//") && line.contains("unsafe {")
        });
        assert!(allowed || !has_unsafe, "{path} has unsafe code");
    }
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    for folder in ["crates", "testing", "bench"] {
        for (path, text) in sources(folder) {
            assert!(text.starts_with("//!"), "{path} must open with `//!`");
        }
    }
}

/// All Rust files below a folder: path from the root, and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("it is text");
                let path = path.strip_prefix(root()).expect("below the root");
                found.push((path.display().to_string(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}
