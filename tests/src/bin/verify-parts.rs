//! Lays out what an image's self-test needs where there is no compiler and no GPU:
//!
//! ```text
//! verify-parts cuda|hip FOLDER
//! ```
//!
//! puts the vendor's stand-ins into `FOLDER/lib` under the names that programs know, and into
//! `FOLDER/bin` the case that this project grew from, once for each runtime library.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::{env, fs};

use dormant_tests::hooked::Runtime;

/// A vendor's runtimes, and what the program that is linked to each is called.
fn runtimes(vendor: &str) -> Option<&'static [(Runtime, &'static str)]> {
    match vendor {
        "cuda" => Some(&[(Runtime::Cuda(12), "seed-cuda12"), (Runtime::Cuda(13), "seed-cuda13")]),
        "hip" => Some(&[(Runtime::Hip, "seed-hip7")]),
        _ => None,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: verify-parts cuda|hip FOLDER";
    let [_, vendor, folder] = &env::args_os().collect::<Vec<OsString>>()[..] else {
        return Err(usage.into());
    };
    let runtimes = vendor.to_str().and_then(runtimes).ok_or(usage)?;
    let (libraries, programs) = (Path::new(folder).join("lib"), Path::new(folder).join("bin"));
    fs::create_dir_all(&libraries)?;
    fs::create_dir_all(&programs)?;
    for &(runtime, name) in runtimes {
        let stand_ins = runtime.folder();
        for entry in fs::read_dir(stand_ins.path())? {
            let entry = entry?;
            fs::copy(entry.path(), libraries.join(entry.file_name()))?;
        }
        fs::copy(runtime.compile(&stand_ins, "seed.c", &[]), programs.join(name))?;
    }
    Ok(())
}
