//! The one table of hosts that nobody may have the gateway call: every field that holds an address is tried with it.

const TABLE: &str = include_str!("forbidden-hosts.txt");

fn lines(part: &'static str) -> impl Iterator<Item = &'static str> {
    part.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("# "))
}

fn parts() -> (&'static str, &'static str) {
    TABLE.split_once("[never]").expect("two parts")
}

/// All of them.
pub(crate) fn hosts() -> impl Iterator<Item = &'static str> {
    lines(parts().0).chain(never())
}

/// Those that no setting lets anybody call.
pub(crate) fn never() -> impl Iterator<Item = &'static str> {
    lines(parts().1)
}
