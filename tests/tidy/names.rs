//! Files and types say what they are, and one name of a type means one thing.

use super::allowed::{Offence, judge};
use super::source::{Source, sources};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn no_file_is_called_mod() {
    let offences = sources().into_iter().filter(|s| s.path.ends_with("/mod.rs"));
    judge("no mod.rs", &offences.map(|s| Offence::new(s.path, "is foo.rs beside foo/")).collect::<Vec<_>>());
}

#[test]
fn names_say_something() {
    let vague = ["util", "utils", "helper", "helpers", "manager", "common", "misc"];
    let offences = sources().into_iter().filter_map(|s| {
        let stem = Path::new(&s.path).file_stem()?.to_str()?.to_owned();
        let is_vague = stem.split('_').any(|word| vague.contains(&word)) || stem.ends_with("service_impl");
        is_vague.then(|| Offence::new(s.path, "what is in it?"))
    });
    judge("file names", &offences.collect::<Vec<_>>());
}

#[test]
fn a_name_of_a_type_means_one_thing() {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources().iter().filter(|s| !s.path.split('/').any(|part| matches!(part, "benches" | "fuzz"))) {
        for name in types(source) {
            all.entry(name).or_default().push(source.path.clone());
        }
    }
    let clashes = all.into_iter().filter(|(_, places)| places.len() > 1);
    let offences = clashes.flat_map(|(name, places)| {
        places.into_iter().map(move |place| Offence::new(&name, format!("is defined in {place}"))).collect::<Vec<_>>()
    });
    judge("type names", &offences.collect::<Vec<_>>());
}

/// Types that the program defines, without those of its tests and those that traits ask for.
fn types(source: &Source) -> Vec<String> {
    let program = &source.code[..source.tests_from().min(source.code.len())];
    let named = program.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let kind = words.next()?;
        let defines =
            matches!(kind, "struct" | "enum" | "trait" | "union") || (kind == "type" && !line.starts_with(' '));
        let name = words.next().filter(|_| defines)?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        Some(name[..end].to_owned())
    });
    named.filter(|name| !name.is_empty()).collect()
}

#[test]
fn definitions_of_types_are_found() {
    let code =
        "pub(crate) struct A<T>(T);\nenum B {\n}\ntype C = u8;\nimpl D for E {\n    type Err = ();\n}\n    struct F;\n";
    let source = Source { path: String::new(), text: code.to_owned(), code: code.to_owned(), is_test: false };
    assert_eq!(types(&source), ["A", "B", "C", "F"]);
}
