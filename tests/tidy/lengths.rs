//! Files and functions are short enough to be read at once, and functions are given few things.

use super::allowed::{Offence, judge};
use super::functions::functions;
use super::source::sources;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 80;
const TEST_FUNCTION_LINES: usize = 120;
/// Things that a function is given beside `self`, those in tuples counted one by one.
const PARAMETERS: usize = 5;
const TUPLE: usize = 2;

#[test]
fn files_are_short() {
    let offences = sources().into_iter().filter_map(|s| {
        let lines = s.text.lines().count();
        (lines > FILE_LINES).then(|| Offence::new(s.path, format!("{lines} lines, at most {FILE_LINES}")))
    });
    judge("file length", &offences.collect::<Vec<_>>());
}

#[test]
fn functions_are_short() {
    let mut offences = Vec::new();
    for source in sources() {
        for function in functions(&source.code) {
            let is_test = function.start >= source.tests_from();
            let limit = if is_test { TEST_FUNCTION_LINES } else { FUNCTION_LINES };
            if function.lines > limit {
                let detail = format!("{} lines, at most {limit}", function.lines);
                offences.push(Offence::new(format!("{}: fn {}", source.path, function.name), detail));
            }
        }
    }
    judge("function length", &offences);
}

#[test]
fn functions_are_given_few_things() {
    let (mut many, mut tuples) = (Vec::new(), Vec::new());
    for source in sources() {
        for function in functions(&source.code).into_iter().filter(|f| f.start < source.tests_from()) {
            let key = format!("{}: fn {}", source.path, function.name);
            let given: usize = function.parameters.iter().sum();
            if given > PARAMETERS {
                let detail = format!("is given {given} things, at most {PARAMETERS}: name what belongs together");
                many.push(Offence::new(key.clone(), detail));
            }
            if function.returns > TUPLE {
                let detail = format!("gives back a tuple of {}: name it as a struct", function.returns);
                tuples.push(Offence::new(key.clone(), detail));
            }
            if let Some(members) = function.parameters.iter().find(|members| **members > TUPLE) {
                tuples.push(Offence::new(key, format!("takes a tuple of {members}: name it as a struct")));
            }
        }
    }
    judge("few parameters", &many);
    judge("small tuples", &tuples);
}
