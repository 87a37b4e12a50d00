//! Programs as the operator names them, run by a shell that the tests name themselves.

use super::stderr::{BoundedLog, shown};
use super::*;
use std::time::Instant;

fn shell(script: &str, env: &[(&str, &str)]) -> ProgramSpec {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned()))).collect();
    let args = vec!["-c".to_owned(), script.to_owned()];
    ProgramSpec { command: "/bin/sh".to_owned(), args, env, user: None, shared: false }
}

fn programs(specs: Vec<(&str, ProgramSpec)>, most: usize) -> Programs {
    let specs = specs.into_iter().map(|(name, spec)| (name.to_owned(), spec)).collect();
    Programs::new(specs, Some("/usr/bin:/bin".to_owned()), most, Handle::current())
}

async fn line(program: &mut Program) -> Option<Result<String, &'static str>> {
    tokio::time::timeout(Duration::from_secs(10), program.output.next()).await.expect("in time")
}

async fn none_left(programs: &Programs) {
    let began = Instant::now();
    while programs.running() > 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "{} still run", programs.running());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn lines_go_both_ways_and_the_end_of_its_input_ends_it() {
    let all = programs(vec![("echo", shell("while read -r x; do echo \"got $x\"; done", &[]))], 1);
    let mut program = all.start("echo").expect("started");
    assert!(program.input.send("one".to_owned()).await);
    assert_eq!(line(&mut program).await, Some(Ok("got one".to_owned())));
    assert_eq!(all.running(), 1);
    drop(program);
    none_left(&all).await;
}

#[tokio::test]
async fn its_environment_is_what_the_operator_says() {
    let all = programs(vec![("env", shell("env", &[("TOKEN", "abcd")]))], 1);
    let mut program = all.start("env").expect("started");
    let mut said = Vec::new();
    while let Some(Ok(one)) = line(&mut program).await {
        // The shell's own.
        if !["PWD=", "SHLVL=", "_="].iter().any(|own| one.starts_with(own)) {
            said.push(one);
        }
    }
    said.sort();
    assert_eq!(said, ["PATH=/usr/bin:/bin", "TOKEN=abcd"]);
}

#[tokio::test]
async fn one_more_than_may_run_is_refused_until_one_has_ended() {
    let all = programs(vec![("cat", shell("cat", &[]))], 2);
    let (first, second) = (all.start("cat").expect("started"), all.start("cat").expect("started"));
    assert_eq!(all.start("cat").err(), Some(NoProgram::Full));
    assert_eq!(all.start("other").err(), Some(NoProgram::Unknown));
    drop(first);
    let began = Instant::now();
    while all.running() > 1 {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let third = all.start("cat").expect("started");
    drop((second, third));
    none_left(&all).await;
}

#[tokio::test]
async fn one_that_does_not_listen_is_asked_and_then_killed() {
    let stubborn = "trap '' TERM; echo up; while :; do sleep 0.1; done";
    let polite = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done";
    let all = programs(vec![("stubborn", shell(stubborn, &[])), ("polite", shell(polite, &[]))], 2);
    for (name, least) in [("polite", 1), ("stubborn", 2)] {
        let mut program = all.start(name).expect("started");
        assert_eq!(line(&mut program).await, Some(Ok("up".to_owned())));
        let began = Instant::now();
        drop(program);
        none_left(&all).await;
        assert!(began.elapsed() >= LEAVES_WITHIN * least, "{name} after {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_end_when_the_process_takes_leave() {
    let all = programs(vec![("cat", shell("cat", &[]))], 4);
    let mut held: Vec<Program> = (0..4).map(|_| all.start("cat").expect("started")).collect();
    all.stop_all();
    assert_eq!(all.running(), 0);
    assert!(all.start("cat").is_err());
    for program in &mut held {
        assert_eq!(line(program).await, None);
    }
}

#[tokio::test]
async fn a_line_is_bounded_and_a_command_that_is_none_is_told() {
    let long = "head -c 5000000 /dev/zero | tr '\\0' x; sleep 5";
    let missing = ProgramSpec { command: "/nonexistent/server".to_owned(), ..shell("", &[]) };
    let all = programs(vec![("long", shell(long, &[])), ("missing", missing)], 2);
    let mut program = all.start("long").expect("started");
    assert!(matches!(line(&mut program).await, Some(Err(why)) if why.contains("4 MiB")));
    assert!(matches!(all.start("missing"), Err(NoProgram::Failed(_))));
    drop(program);
    none_left(&all).await;
}

#[test]
fn what_is_said_beside_is_short_rare_and_without_secrets() {
    let secrets = [Secret::new("tok-12345".to_owned()), Secret::new("ab".to_owned())];
    assert_eq!(shown(" about tok-12345 \u{1b}[0m", &secrets), "about *** [0m");
    assert_eq!(shown(&"x".repeat(9000), &secrets).len(), 500);
    let (mut log, now) = (BoundedLog::default(), Instant::now());
    assert_eq!((0..80).filter(|_| log.takes(now)).count(), 50);
    assert!(log.takes(now + Duration::from_secs(10)));
}

#[tokio::test]
async fn what_one_says_right_before_its_end_is_heard() {
    // More than waits on its way to whoever listens, who is late.
    let script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done; exit 3";
    let all = programs(vec![("last", shell(script, &[]))], 1);
    let mut program = all.start("last").expect("started");
    tokio::time::sleep(Duration::from_millis(100)).await;
    for number in 0..200 {
        assert_eq!(line(&mut program).await, Some(Ok(number.to_string())));
    }
    assert_eq!(line(&mut program).await, None);
    drop(program);
    none_left(&all).await;
}
