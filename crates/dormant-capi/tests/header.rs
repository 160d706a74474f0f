//! The checked-in header is the one that these sources make; it compiles as C and as C++, and the
//! library exports what it declares, the hooks, TMS's names, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULES: [&str; 14] = [
    "types",
    "status",
    "identity",
    "config",
    "regions",
    "memory",
    "transitions",
    "plans",
    "notices",
    "stats",
    "backups",
    "captures",
    "torch",
    "verify",
];

/// Functions of the GPU runtimes that the library stands in front of.
const HOOKS: [&str; 21] = [
    "cudaDeviceDisablePeerAccess",
    "cudaDeviceEnablePeerAccess",
    "cudaFree",
    "cudaIpcGetMemHandle",
    "cudaMalloc",
    "cudaStreamBeginCapture",
    "cudaStreamBeginCaptureToGraph",
    "cudaStreamBeginCaptureToGraph_ptsz",
    "cudaStreamBeginCapture_ptsz",
    "cudaStreamEndCapture",
    "cudaStreamEndCapture_ptsz",
    "hipDeviceDisablePeerAccess",
    "hipDeviceEnablePeerAccess",
    "hipFree",
    "hipIpcGetMemHandle",
    "hipMalloc",
    "hipStreamBeginCapture",
    "hipStreamBeginCaptureToGraph",
    "hipStreamBeginCapture_spt",
    "hipStreamEndCapture",
    "hipStreamEndCapture_spt",
];

/// What users of `torch_memory_saver` call.
const TMS: [&str; 19] = [
    "set_memory_margin_bytes",
    "tms_get_cpu_backup_backend",
    "tms_get_cpu_backup_pointer",
    "tms_get_current_tag",
    "tms_get_enable_cpu_backup",
    "tms_get_enable_disk_backup",
    "tms_get_interesting_region",
    "tms_get_retain_cpu_backup",
    "tms_pause",
    "tms_resume",
    "tms_set_cpu_backup_backend",
    "tms_set_current_tag",
    "tms_set_disk_backup_dir",
    "tms_set_enable_cpu_backup",
    "tms_set_enable_disk_backup",
    "tms_set_interesting_region",
    "tms_set_retain_cpu_backup",
    "tms_torch_free",
    "tms_torch_malloc",
];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in MODULES {
        builder = builder.with_src(here().join("src").join(module).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().expect("a header").write(&mut text);
    String::from_utf8(text).expect("text")
}

fn checked_in() -> PathBuf {
    here().join("include/dormant.h")
}

#[test]
fn the_header_is_the_one_that_the_sources_make() {
    let header = header();
    if std::env::var_os("DORMANT_UPDATE_HEADER").is_some() {
        std::fs::write(checked_in(), &header).expect("include/dormant.h");
    }
    let have = std::fs::read_to_string(checked_in()).expect("include/dormant.h");
    assert!(
        have == header,
        "include/dormant.h is out of date; DORMANT_UPDATE_HEADER=1 with this test writes it"
    );
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    for language in ["c", "c++"] {
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            "-x",
            language,
        ]);
        let output = compiler.arg(checked_in()).output().expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        // Not every C compiler comes with one for C++.
        if language == "c++" && said.contains("cc1plus") {
            continue;
        }
        assert!(output.status.success(), "{language}: {said}");
    }
}

/// The library file, which cargo leaves beside this test's folder.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    let folders = test.ancestors().skip(1).take(2);
    let name = "libdormant_capi.so";
    folders.map(|folder| folder.join(name)).find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("{name} is not beside {}; `cargo build -p dormant-capi` builds it", test.display())
    })
}

fn declared(header: &str) -> BTreeSet<String> {
    let words = header.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('));
    words
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("dormant_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_library_exports_the_header_the_hooks_tms_and_nothing_else() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output();
    let output = output.expect("nm, which comes with a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect();
    let header = std::fs::read_to_string(checked_in()).expect("include/dormant.h");
    let mut expected = declared(&header);
    assert!(expected.len() > 40, "{expected:?}");
    expected.extend(HOOKS.into_iter().chain(TMS).map(str::to_owned));
    expected.extend(["dormant_instance", "dormant_serves"].map(str::to_owned));
    expected.extend((0..128).map(|slot| format!("dormant_torch_malloc_{slot}")));
    let missing: Vec<_> = expected.difference(&exported).collect();
    let more: Vec<_> = exported.difference(&expected).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing {missing:?}, too many {more:?}");
}
