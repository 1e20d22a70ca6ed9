//! Compiles the patched sources of Lua 5.1.

mod patches;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{env, fs, panic};

/// The variable that names the directory of the sources of Lua 5.1.5.
const OVERRIDE: &str = "ONRUSH_LUA_SOURCES";

fn main() {
    println!("cargo:rerun-if-changed=build");
    let sources = lua_sources();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it")).join("lua");
    fs::create_dir_all(&out).expect("a directory for the patched sources");
    let mut build = cc::Build::new();
    for name in file_names(&sources) {
        let text = fs::read_to_string(sources.join(&name)).expect("a source of Lua");
        fs::write(out.join(&name), patches::apply(&name, text)).expect("a patched source");
        if name.ends_with(".c") {
            build.file(out.join(&name));
        }
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.define("LUA_USE_APICHECK", None);
    }
    build.define("LUA_USE_POSIX", None).include(&out).warnings(false).flag_if_supported("-fno-common");
    build.flag_if_supported("-Werror=implicit-function-declaration");
    // Lua counts on integers that wrap, in `luaH_getnum` for example.
    build.flag_if_supported("-fwrapv");
    build.compile("onrush_lua");
}

/// The names of all sources, in order.
fn file_names(sources: &Path) -> Vec<String> {
    let entries = fs::read_dir(sources).expect("the sources of Lua");
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".c") || name.ends_with(".h"));
    names.sort();
    names
}

/// The directory of Lua 5.1 in the crate `lua-src`, or the one that the environment names.
///
/// The crate does not tell its place. But it panics for a target that it does not know, and the panic has the path of
/// the crate's source file. Builds that hide paths must name the directory.
fn lua_sources() -> PathBuf {
    println!("cargo:rerun-if-env-changed={OVERRIDE}");
    if let Some(place) = env::var_os(OVERRIDE) {
        return place.into();
    }
    let file = Arc::new(Mutex::new(PathBuf::new()));
    let found = Arc::clone(&file);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let (Some(location), Ok(mut found)) = (info.location(), found.lock()) {
            *found = location.file().into();
        }
    }));
    let asked = panic::catch_unwind(|| lua_src::Build::new().target("none").build(lua_src::Lua51));
    panic::set_hook(hook);
    assert!(asked.is_err(), "there is no such target");
    let file = file.lock().expect("no panic while it is locked").clone();
    let place = file.parent().and_then(Path::parent).unwrap_or(&file).join("lua-5.1.5");
    // A path is relative to the workspace if the crate is in there.
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let found = manifest.ancestors().map(|root| root.join(&place)).find(|place| place.join("lua.h").is_file());
    found.unwrap_or_else(|| panic!("no sources of Lua in {}: set {OVERRIDE}", place.display()))
}
