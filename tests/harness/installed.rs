//! What `tests/sdk/setup.sh` installs for the tests, outside the checkout.

use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "the same variable as the script that installs")]
fn environment() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|h| h.join(".cache")));
    var("GATEWAY_TEST_ENV").or_else(|| cache().map(|c| c.join("gateway/sdk"))).expect("a home folder")
}

/// Fails rather than skips: a skipped test is one that nobody notices.
pub(crate) fn installed(file: &str) -> PathBuf {
    let path = environment().join(file);
    assert!(path.exists(), "{} is missing: run `make test`, or `bash tests/sdk/setup.sh`", path.display());
    path
}
