//! What responses are guessed to use: before they begin, of what the conversation holds by then; while they run, of
//! what they have said. Providers count otherwise; a guess only counts for good where they never said.

/// Characters of text that are a token.
const TEXT: u64 = 4;
/// Sound in base64 is 64,000 bytes a second in the format that is usual, 24,000 samples of two bytes; a second of it is
/// ten tokens that go in, or twenty that come out (<https://platform.openai.com/docs/guides/realtime-costs>).
const SOUND_IN: u64 = 6_400;
const SOUND_OUT: u64 = 3_200;

/// What has been said since a response began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    text: u64,
    sound: u64,
}

impl Tally {
    pub const fn add(&mut self, bytes: usize, is_sound: bool) {
        if is_sound {
            self.sound = self.sound.saturating_add(bytes as u64);
        } else {
            self.text = self.text.saturating_add(bytes as u64);
        }
    }

    pub const fn text_tokens(&self) -> u64 {
        self.text.div_ceil(TEXT)
    }

    pub const fn sound_tokens(&self) -> u64 {
        self.sound.div_ceil(SOUND_OUT)
    }

    pub const fn tokens(&self) -> u64 {
        self.text_tokens() + self.sound_tokens()
    }
}

/// What the conversation holds, which each response reads anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpokenSoFar {
    /// The tokens of the conversation up to the last response, as the provider counted them.
    counted: u64,
    text: u64,
    sound: u64,
}

impl SpokenSoFar {
    /// A client's event was sent on.
    pub const fn add(&mut self, bytes: usize, is_sound: bool) {
        if is_sound {
            self.sound = self.sound.saturating_add(bytes as u64);
        } else {
            self.text = self.text.saturating_add(bytes as u64);
        }
    }

    /// A response was counted: what came before is part of it.
    pub const fn settle(&mut self, tokens: u64) {
        *self = Self { counted: tokens, text: 0, sound: 0 };
    }

    pub const fn tokens(&self) -> u64 {
        self.counted + self.text.div_ceil(TEXT) + self.sound.div_ceil(SOUND_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_sound_are_guessed_apart() {
        let mut tally = Tally::default();
        tally.add(9, false);
        tally.add(64_000, true);
        assert_eq!((tally.text_tokens(), tally.sound_tokens(), tally.tokens()), (3, 20, 23));
    }

    #[test]
    fn a_conversation_grows_by_what_is_said_in_it() {
        let mut context = SpokenSoFar::default();
        context.add(400, false);
        context.add(64_000, true);
        assert_eq!(context.tokens(), 110);
        context.settle(500);
        context.add(4, false);
        assert_eq!(context.tokens(), 501);
    }
}
