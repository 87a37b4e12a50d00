//! Every other test of this suite once more, with Postgres in the place of SQLite.

use crate::harness::SERVER;
use gateway_testing::Postgres;
use std::process::Command;

#[test]
fn the_whole_suite_holds_on_postgres() {
    let server = Postgres::start();
    let suite = std::env::current_exe().expect("this program");
    let mut again = Command::new(suite);
    again.args(["--skip", "the_whole_suite_holds_on_postgres"]).env(SERVER, server.url());
    let output = again.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let passed = out.lines().find_map(|l| l.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(passed.is_some_and(|n| n > 80), "{out}");
}
