//! Versions of the protocol, and the two eras they belong to: those that open with `initialize` and may hold a session,
//! and the one whose every request stands by itself.

/// The revisions that are spoken here, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum McpVersion {
    /// Upstreams of the transport with a separate event stream.
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// How a conversation is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Opened by `initialize`.
    Legacy,
    /// Each request says all that is needed to answer it.
    Modern,
}

impl McpVersion {
    /// What clients may speak.
    pub const SERVED: [Self; 4] = [Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// What an `initialize` without a known version is answered with.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
        all.into_iter().find(|version| version.name() == name)
    }

    pub fn served(name: &str) -> Option<Self> {
        Self::parse(name).filter(|version| Self::SERVED.contains(version))
    }

    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Several messages in one body.
    pub fn takes_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// The version that an `initialize` is answered with: the one that was asked for where it is known, else the newest
    /// that opens so.
    pub fn negotiated(asked: &str) -> Self {
        Self::served(asked).filter(|version| version.era() == Era::Legacy).unwrap_or(Self::NEWEST_LEGACY)
    }

    /// Whether a version that nobody here knows is newer than all that open with `initialize`: versions are dates.
    pub fn is_modern_name(name: &str) -> bool {
        name >= Self::V2026_07_28.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_echoes_what_is_known_and_else_offers_the_newest() {
        for version in McpVersion::SERVED.into_iter().filter(|v| v.era() == Era::Legacy) {
            assert_eq!(McpVersion::negotiated(version.name()), version);
        }
        for unknown in ["1900-01-01", "2024-11-05", "2026-07-28", "", "2025-06-18 "] {
            assert_eq!(McpVersion::negotiated(unknown), McpVersion::V2025_11_25, "{unknown}");
        }
    }

    #[test]
    fn eras_and_batches() {
        assert_eq!(McpVersion::V2025_11_25.era(), Era::Legacy);
        assert_eq!(McpVersion::V2026_07_28.era(), Era::Modern);
        let batching: Vec<_> = McpVersion::SERVED.into_iter().filter(|v| v.takes_batches()).collect();
        assert_eq!(batching, [McpVersion::V2025_03_26]);
        assert!(McpVersion::is_modern_name("2027-01-01") && !McpVersion::is_modern_name("2025-11-25"));
        assert!(McpVersion::served("2024-11-05").is_none(), "for upstreams only");
    }
}
