//! Under which names a model may be listed: as it is called, without the date of its snapshot, without the prefix of an
//! inference profile, without a version behind `@`.

/// The geography that a Bedrock inference profile routes within stands before the model
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html>).
const PROFILES: [&str; 9] = ["us.", "eu.", "apac.", "global.", "us-gov.", "jp.", "au.", "ca.", "amer."];

/// Looks a name up in all its forms, the most exact first.
pub(super) fn find<T>(model: &str, look: impl Fn(&str) -> Option<T>) -> Option<T> {
    // A model that was fine-tuned has a price of its own or none: never that of what it was made from.
    if model.starts_with("ft:") {
        let base = model.match_indices(':').nth(1).map_or(model, |(at, _)| &model[..at]);
        return look(base).or_else(|| look(undated(base)?));
    }
    let named = |name: &str| look(name).or_else(|| look(undated(name)?));
    named(model).or_else(|| named(bare(model)?))
}

/// What remains of a name without what stands before and behind the model.
fn bare(model: &str) -> Option<&str> {
    let tail = PROFILES.iter().find_map(|p| model.strip_prefix(p)).unwrap_or(model);
    let head = tail.split_once('@').map_or(tail, |(head, _)| head);
    // `@cf/…` has nothing before its sign.
    (head.len() < model.len() && !head.is_empty()).then_some(head)
}

/// The family of a dated snapshot of a model.
pub(crate) fn undated(model: &str) -> Option<&str> {
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let (head, tail) = model.rsplit_once('-')?;
    if digits(tail, 8) {
        return Some(head);
    }
    let (head, month) = head.rsplit_once('-')?;
    let (head, year) = head.rsplit_once('-')?;
    (digits(tail, 2) && digits(month, 2) && digits(year, 4)).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dated_models_find_their_family() {
        assert_eq!(undated("gpt-4o-2024-08-06"), Some("gpt-4o"));
        assert_eq!(undated("claude-sonnet-4-20250514"), Some("claude-sonnet-4"));
        assert_eq!(undated("gpt-4o"), None);
    }

    #[test]
    fn names_are_tried_from_the_most_exact_on() {
        let tried = |model: &str| {
            let seen = std::cell::RefCell::new(Vec::new());
            let found: Option<()> = find(model, |name| {
                seen.borrow_mut().push(name.to_owned());
                None
            });
            assert!(found.is_none());
            seen.into_inner()
        };
        assert_eq!(tried("m"), ["m"]);
        assert_eq!(tried("m-2024-08-06"), ["m-2024-08-06", "m"]);
        assert_eq!(tried("eu.a.m"), ["eu.a.m", "a.m"]);
        assert_eq!(tried("m@20250514"), ["m@20250514", "m"]);
        assert_eq!(tried("@cf/meta/m"), ["@cf/meta/m"]);
        assert_eq!(tried("ft:m-2024-08-06:acme::x"), ["ft:m-2024-08-06", "ft:m"], "never the base's");
    }
}
