//! Which of the gateway's own headers an answer bears, entered into a map once for each combination: to copy a map costs a
//! fraction of entering its names anew. Knows names and their places, and no values.

use super::Names;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::OnceLock;

/// A header of the gateway's own, whose value is to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderSlot {
    TraceId,
    Retries,
    OptionIndex,
    Provider,
    CacheStatus,
    Processing,
    Limit(LimitKind, Figure),
    /// The same by the name that providers use, for clients that look there.
    BareLimit(LimitKind, Figure),
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    Requests,
    Tokens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Limit,
    Remaining,
    Reset,
}

/// Headers of an answer, nearly always.
const ROOM: usize = 24;

pub(super) const KINDS: [LimitKind; 2] = [LimitKind::Requests, LimitKind::Tokens];
const FIGURES: [Figure; 3] = [Figure::Limit, Figure::Remaining, Figure::Reset];

/// What clients of the providers look at, told where the provider does not.
pub(super) static BARE_LIMITS: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ],
];

/// How much an answer tells of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// It never reached a target.
    TraceId,
    Call {
        has_provider: bool,
        has_cache: bool,
    },
}

/// What an answer tells of the limits of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitNames {
    None,
    /// The provider told of its own by the bare names.
    Own,
    OwnAndBare,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderChoice {
    pub(super) marks: Marks,
    pub(super) limits: [LimitNames; 2],
}

impl HeaderChoice {
    const COUNT: usize = 5 * 9;

    fn index(self) -> usize {
        let marks = match self.marks {
            Marks::TraceId => 0,
            Marks::Call { has_provider, has_cache } => 1 + usize::from(has_provider) + 2 * usize::from(has_cache),
        };
        let [requests, tokens] = self.limits.map(|limits| limits as usize);
        marks * 9 + requests * 3 + tokens
    }

    /// In the order in which an answer bears them.
    fn slots(self) -> Vec<HeaderSlot> {
        let mut slots = vec![HeaderSlot::TraceId];
        if let Marks::Call { has_provider, has_cache } = self.marks {
            slots.extend([HeaderSlot::Retries, HeaderSlot::OptionIndex]);
            slots.extend(has_provider.then_some(HeaderSlot::Provider));
            slots.extend(has_cache.then_some(HeaderSlot::CacheStatus));
            slots.push(HeaderSlot::Processing);
        }
        for (kind, limits) in KINDS.into_iter().zip(self.limits) {
            if limits != LimitNames::None {
                slots.extend(FIGURES.map(|figure| HeaderSlot::Limit(kind, figure)));
            }
            if limits == LimitNames::OwnAndBare {
                slots.extend(FIGURES.map(|figure| HeaderSlot::BareLimit(kind, figure)));
            }
        }
        slots
    }
}

/// A map with all names in place, and what each of its values, one after the other, is to say.
#[derive(Debug)]
struct HeaderForm {
    map: HeaderMap,
    slots: Vec<HeaderSlot>,
}

/// The forms that were needed so far.
#[derive(Debug)]
pub(super) struct HeaderForms([OnceLock<HeaderForm>; HeaderChoice::COUNT]);

impl HeaderForms {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }

    /// The headers of one answer; `names` are those of a slot, always the same.
    pub(super) fn fill<'n>(
        &self,
        choice: HeaderChoice,
        names: impl Fn(HeaderSlot) -> &'n Names,
        mut value: impl FnMut(HeaderSlot) -> HeaderValue,
    ) -> HeaderMap {
        let form = self.0[choice.index()].get_or_init(|| HeaderForm::new(choice, names));
        let mut map = form.map.clone();
        for (place, slot) in map.values_mut().zip(&form.slots) {
            *place = value(*slot);
        }
        map
    }
}

impl HeaderForm {
    fn new<'n>(choice: HeaderChoice, names: impl Fn(HeaderSlot) -> &'n Names) -> Self {
        // With room for what is put behind the copies.
        let mut map = HeaderMap::with_capacity(ROOM);
        let wanted = choice.slots();
        for slot in &wanted {
            for name in bare(*slot).map_or_else(|| names(*slot).as_slice(), std::slice::from_ref) {
                map.append(name.clone(), HeaderValue::from_static(""));
            }
        }
        // The order of a map is its own, and that of its copies.
        let of = |name: &HeaderName| {
            let is_its =
                |slot: &&HeaderSlot| bare(**slot).map_or_else(|| names(**slot).contains(name), |bare| bare == name);
            wanted.iter().find(is_its).copied()
        };
        let slots = map.keys().filter_map(of).collect();
        Self { map, slots }
    }
}

fn bare(slot: HeaderSlot) -> Option<&'static HeaderName> {
    match slot {
        HeaderSlot::BareLimit(kind, figure) => Some(&BARE_LIMITS[kind as usize][figure as usize]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names_of(slot: HeaderSlot) -> Names {
        let text = format!("{slot:?}").to_ascii_lowercase().replace(['(', ')', ',', ' '], "-");
        [format!("x-one-{text}"), format!("x-two-{text}")]
            .iter()
            .map(|name| HeaderName::from_bytes(name.as_bytes()).expect("a name"))
            .collect()
    }

    /// Every value stands under the name that it belongs to, whatever the combination.
    #[test]
    fn each_value_comes_to_its_name() {
        let (forms, mut seen) = (HeaderForms::new(), BTreeSet::new());
        let calls = [(false, false), (true, false), (false, true), (true, true)];
        let calls = calls.map(|(has_provider, has_cache)| Marks::Call { has_provider, has_cache });
        let told = [LimitNames::None, LimitNames::Own, LimitNames::OwnAndBare];
        for marks in calls.into_iter().chain([Marks::TraceId]) {
            for requests in told {
                for tokens in told {
                    let choice = HeaderChoice { marks, limits: [requests, tokens] };
                    assert!(seen.insert(choice.index()), "{choice:?} shares its place");
                    let names = |slot| &*Box::leak(Box::new(names_of(slot)));
                    let told = |slot| HeaderValue::from_str(&format!("{slot:?}")).expect("a value");
                    for _ in 0..2 {
                        let map = forms.fill(choice, names, told);
                        for slot in choice.slots() {
                            let own = names_of(slot);
                            for name in bare(slot).map_or_else(|| own.as_slice(), std::slice::from_ref) {
                                assert_eq!(map.get(name), Some(&told(slot)), "{choice:?} {name}");
                            }
                        }
                        let bare = choice.slots().iter().filter(|slot| bare(**slot).is_some()).count();
                        assert_eq!(map.len(), choice.slots().len() * 2 - bare, "{choice:?}");
                    }
                }
            }
        }
        assert_eq!(seen.len(), HeaderChoice::COUNT);
    }
}
