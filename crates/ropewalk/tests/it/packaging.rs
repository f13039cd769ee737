//! What is shipped beside the program.

use std::process::{Command, Stdio};

use ropewalk_testkit::captures::workspace_root;
use serde_json::Value;

use crate::stderr;
use crate::store::TestStore;

#[test]
fn the_bill_of_materials_has_what_is_linked_and_nothing_else() {
    let root = workspace_root();
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    // Packages for other machines may never have been fetched.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            &host,
        ])
        .current_dir(&root)
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut metadata) = metadata else {
        println!("skipped: no cargo");
        return;
    };
    let sbom = Command::new(root.join("packaging/sbom"))
        .arg(env!("CARGO_PKG_VERSION"))
        .stdin(metadata.stdout.take().unwrap())
        .output();
    assert!(metadata.wait().unwrap().success());
    let Ok(sbom) = sbom else {
        println!("skipped: no python3");
        return;
    };
    assert!(sbom.status.success(), "{}", stderr(&sbom));
    let bill: Value = serde_json::from_slice(&sbom.stdout).unwrap();
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    assert_eq!(bill["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let components = bill["components"].as_array().unwrap();
    let names: Vec<&str> = components
        .iter()
        .map(|component| component["name"].as_str().unwrap())
        .collect();
    for linked in ["tokio", "rusqlite", "ropewalk-core"] {
        assert!(names.contains(&linked), "{linked} is missing");
    }
    for elsewhere in ["insta", "proptest", "ropewalk-testkit"] {
        assert!(!names.contains(&elsewhere), "{elsewhere} is not in the program");
    }
    for component in components {
        assert!(
            component["purl"].as_str().unwrap().starts_with("pkg:cargo/"),
            "{component}"
        );
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
    }
}

#[test]
fn what_names_a_version_names_this_one() {
    let read = |name: &str| std::fs::read_to_string(workspace_root().join(name)).unwrap();
    let image = format!("image: ropewalk:{}\n", env!("CARGO_PKG_VERSION"));
    assert!(read("packaging/kubernetes/ropewalk.yaml").contains(&image));
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        read("Dockerfile").contains(&format!("FROM rust:{rust}-")),
        "the Dockerfile builds with Rust {rust}"
    );
}

#[test]
fn the_configuration_of_a_cluster_can_be_read() {
    let store = TestStore::new();
    let manifest = std::fs::read_to_string(workspace_root().join("packaging/kubernetes/ropewalk.yaml")).unwrap();
    let block = manifest.split("config.toml: |\n").nth(1).unwrap();
    let lines = block.lines().map_while(|line| line.strip_prefix("    "));
    let text: Vec<&str> = lines.collect();
    assert!(text.len() > 3, "{text:?}");
    let file = store.file("config.toml", &text.join("\n"));
    let settings = store.json(&["--config", file.to_str().unwrap(), "config"]);
    let value = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap()["value"].clone();
    assert_eq!(value("listen"), "\"0.0.0.0:8742\"");
    assert_eq!(value("admin_listen"), "\"0.0.0.0:8743\"");
    assert_eq!(value("owners.mode"), "\"credential\"");
}

#[test]
fn a_service_starts_without_a_configuration_file() {
    let unit = std::fs::read_to_string(workspace_root().join("packaging/systemd/ropewalk.service")).unwrap();
    // A file that is named has to be there; the usual one may be missing.
    assert!(!unit.contains("\nEnvironment=ROPEWALK_CONFIG="), "{unit}");
    assert!(unit.contains("\nEnvironment=XDG_CONFIG_HOME=%E\n"), "{unit}");
}
