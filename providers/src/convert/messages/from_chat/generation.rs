//! What a Claude model takes, by the version in its name. A rule instead of a list, so that a model that comes
//! tomorrow is treated like the newest one known today.

/// Major and minor version; `None` when the name has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(Option<(u32, u32)>);

impl Generation {
    /// `claude-sonnet-4-5-20250929`, `claude-3-7-sonnet-latest`, `eu.anthropic.claude-opus-4-6-v1:0`.
    pub(crate) fn of(model: &str) -> Self {
        let name = model.rsplit_once("claude").map_or(model, |(_, rest)| rest);
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        let number = |word: &str| if word.len() <= 2 { word.parse::<u32>().ok() } else { None };
        let major = words.by_ref().find_map(number);
        Self(major.map(|major| (major, words.next().and_then(number).unwrap_or(0))))
    }

    pub(crate) fn since(self, major: u32, minor: u32) -> bool {
        self.0.is_some_and(|version| version >= (major, minor))
    }

    /// Claude 4.7 and later decide themselves how long to think and refuse a budget.
    pub(crate) fn adaptive_only(self) -> bool {
        self.since(4, 7)
    }

    /// They also refuse temperature, top_p and top_k.
    pub(crate) fn takes_sampling(self) -> bool {
        !self.since(4, 7)
    }

    /// Which of temperature and `top_p` goes up when both are given. Claude 4.1 and later refuse the two together; then
    /// the one stays that is not its default, which says nothing.
    pub(crate) fn keeps(self, temperature: &str, top_p: &str) -> Keeps {
        let says = |text: &str| text.parse::<f64>().is_ok_and(|number| (number - 1.0).abs() > f64::EPSILON);
        match (says(temperature), says(top_p)) {
            _ if self.0.is_some() && !self.since(4, 1) => Keeps::Both,
            (true, true) => Keeps::TemperatureAlone,
            (false, true) => Keeps::TopP,
            (_, false) => Keeps::Temperature,
        }
    }

    /// Claude 3.7 was the first to think. A name without a version is given the benefit of the doubt.
    pub(crate) fn thinks(self) -> bool {
        self.0.is_none_or(|version| version >= (3, 7))
    }
}

/// See [`Generation::keeps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    Both,
    /// The other one is its default.
    Temperature,
    TopP,
    /// The other one is lost.
    TemperatureAlone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_exclude_each_other_the_one_that_says_something_stays() {
        for (model, temperature, top_p, expected) in [
            ("claude-opus-4-20250514", "0.5", "0.9", Keeps::Both),
            ("claude-3-haiku-20240307", "1", "0.9", Keeps::Both),
            ("claude-opus-4-1", "0.5", "0.9", Keeps::TemperatureAlone),
            ("claude-sonnet-4-5", "1", "0.5", Keeps::TopP),
            ("claude-sonnet-4-5", "1.0", "0.5", Keeps::TopP),
            ("claude-sonnet-4-5", "0.5", "1", Keeps::Temperature),
            ("claude-sonnet-4-5", "1", "1.0", Keeps::Temperature),
            ("claude-mythos-preview", "0.5", "0.9", Keeps::TemperatureAlone),
        ] {
            assert_eq!(Generation::of(model).keeps(temperature, top_p), expected, "{model} {temperature} {top_p}");
        }
    }

    #[test]
    fn versions_in_names() {
        for (model, version) in [
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-3-haiku-20240307", Some((3, 0))),
            ("claude-3-5-sonnet-latest", Some((3, 5))),
            ("us.anthropic.claude-opus-4-6-v1:0", Some((4, 6))),
            ("anthropic/claude-opus-4.8", Some((4, 8))),
            ("claude-sonnet-5", Some((5, 0))),
            ("claude-mythos-preview", None),
        ] {
            assert_eq!(Generation::of(model).0, version, "{model}");
        }
    }
}
