//! What `tests/sdk/setup.sh` installs for tests, outside the checkout.

use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "the same variable as the script that installs")]
fn environment() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    let folder = var("GATEWAY_TEST_ENV").or_else(|| cache().map(|cache| cache.join("gateway/sdk")));
    folder.unwrap_or_else(|| panic!("there is no home folder"))
}

/// Fails rather than skips: a skipped test is one that nobody notices.
pub fn installed(file: &str) -> PathBuf {
    let path = environment().join(file);
    assert!(path.exists(), "{} is missing: run `make test`, or `bash tests/sdk/setup.sh`", path.display());
    path
}
