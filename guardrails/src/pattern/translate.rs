//! ECMAScript's grammar of patterns, its web-compatibility annex included, read once and written in the engines' own.
//! Everything that the engines read differently is spelt out: classes as ranges, assertions as what they mean.
//! A character is a code point also without the flag `u`; patterns about halves of surrogate pairs are refused.

use super::class::Set;
use super::{BadPattern, PatternFlags};

/// Groups within groups; the engines have a limit of their own that is close.
const DEEPEST: usize = 50;
const MOST_GROUPS: usize = 500;

pub(super) struct TranslatedPattern {
    pub(super) text: String,
    /// The text with groups that capture nothing, for a pattern that steps and refers to none of them.
    pub(super) without_groups: Option<String>,
    /// It has look-around or back references.
    pub(super) stepwise: bool,
    pub(super) names: Vec<Option<Box<str>>>,
}

pub(super) fn translate(source: &str, flags: PatternFlags) -> Result<TranslatedPattern, BadPattern> {
    let chars: Vec<char> = source.chars().collect();
    let names = groups_of(&chars)?;
    let mut translator = Translator {
        chars: &chars,
        at: 0,
        flags,
        names: &names,
        stepwise: false,
        depth: 0,
        behind: 0,
        captures: true,
        refers: false,
    };
    let mut text = translator.disjunction()?;
    if translator.peek().is_some() {
        return Err(bad("has an unmatched `)`"));
    }
    let mut without_groups = None;
    if translator.stepwise {
        // Written once more: the two engines spell word boundaries differently.
        (translator.at, translator.depth) = (0, 0);
        text = translator.disjunction()?;
        if !translator.refers {
            (translator.at, translator.depth, translator.captures) = (0, 0, false);
            without_groups = Some(translator.disjunction()?);
        }
    }
    Ok(TranslatedPattern { text, without_groups, stepwise: translator.stepwise, names })
}

fn bad(message: &str) -> BadPattern {
    BadPattern(message.to_owned())
}

/// The capturing groups in order of their opening, by name where they have one.
fn groups_of(chars: &[char]) -> Result<Vec<Option<Box<str>>>, BadPattern> {
    let (mut names, mut at, mut in_class) = (Vec::<Option<Box<str>>>::new(), 0, false);
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && chars.get(at + 1) != Some(&'?') => names.push(None),
            '(' if !in_class
                && chars.get(at + 2) == Some(&'<')
                && !matches!(chars.get(at + 3), Some('=' | '!') | None) =>
            {
                let name: String = chars[at + 3..].iter().take_while(|c| **c != '>').collect();
                let sound = name
                    .chars()
                    .enumerate()
                    .all(|(i, c)| c.is_alphabetic() || c == '_' || c == '$' || (i > 0 && c.is_alphanumeric()));
                if name.is_empty() || !sound || chars.len() <= at + 3 + name.chars().count() {
                    return Err(bad("has a group with an invalid name"));
                }
                if names.iter().flatten().any(|n| **n == *name) {
                    return Err(BadPattern(format!("names two groups `{name}`")));
                }
                names.push(Some(name.into()));
            }
            _ => {}
        }
        at += 1;
    }
    if names.len() > MOST_GROUPS {
        return Err(BadPattern(format!("must have at most {MOST_GROUPS} groups")));
    }
    Ok(names)
}

/// What a quantifier may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Term {
    Assertion,
    Atom,
}

/// A character that is written in some way, or a class of them.
enum ClassMember {
    One(char),
    Many(Set),
}

struct Translator<'p> {
    chars: &'p [char],
    at: usize,
    flags: PatternFlags,
    names: &'p [Option<Box<str>>],
    stepwise: bool,
    depth: usize,
    /// How many look-behinds enclose what is read now.
    behind: usize,
    /// Groups are written as such.
    captures: bool,
    /// Some group is referred to.
    refers: bool,
}

impl Translator<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn eat(&mut self, text: &str) -> bool {
        let wanted: Vec<char> = text.chars().collect();
        let found = self.chars[self.at..].starts_with(&wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn disjunction(&mut self) -> Result<String, BadPattern> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(BadPattern(format!("must nest at most {DEEPEST} groups")));
        }
        let mut out = String::new();
        loop {
            match self.peek() {
                None | Some(')') => break,
                Some('|') => {
                    self.at += 1;
                    out.push('|');
                }
                Some(_) => self.term(&mut out)?,
            }
        }
        self.depth -= 1;
        Ok(out)
    }

    fn term(&mut self, out: &mut String) -> Result<(), BadPattern> {
        let start = out.len();
        let term = self.atom(out)?;
        let Some(quantifier) = self.quantifier()? else { return Ok(()) };
        if term == Term::Assertion {
            return Err(bad("has nothing to repeat before a quantifier"));
        }
        // A look-behind without a bound would read the whole text before each place again.
        if self.behind > 0 && (quantifier.starts_with(['*', '+']) || quantifier.contains(",}")) {
            return Err(bad("must not look behind without a bound: write `{1,50}` for `+`"));
        }
        if out[start..].starts_with("(?=") || out[start..].starts_with("(?!") {
            // Looking ahead once is as good as more often, and none at all is allowed where nothing is the least.
            let is_optional = quantifier.starts_with(['*', '?']) || quantifier.starts_with("{0");
            out.insert_str(start, "(?:");
            out.push_str(if is_optional { "|)" } else { ")" });
        } else {
            out.push_str(&quantifier);
        }
        if self.quantifier()?.is_some() {
            return Err(bad("has nothing to repeat before a quantifier"));
        }
        Ok(())
    }

    /// The quantifier that stands here, `{` without one being a plain character.
    fn quantifier(&mut self) -> Result<Option<String>, BadPattern> {
        let mut quantifier = match self.peek() {
            Some(sign @ ('*' | '+' | '?')) => {
                self.at += 1;
                sign.to_string()
            }
            Some('{') => match self.counts()? {
                Some(counts) => counts,
                None if self.flags.unicode => return Err(bad("has a `{` that opens no quantifier")),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if self.eat("?") {
            quantifier.push('?');
        }
        Ok(Some(quantifier))
    }

    fn counts(&mut self) -> Result<Option<String>, BadPattern> {
        let rest = &self.chars[self.at + 1..];
        let Some(end) = rest.iter().position(|c| *c == '}') else { return Ok(None) };
        let inner: String = rest[..end].iter().collect();
        let (least, most) = inner.split_once(',').map_or((inner.as_str(), None), |(a, b)| (a, Some(b)));
        let is_number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !is_number(least) || most.is_some_and(|m| !m.is_empty() && !is_number(m)) {
            return Ok(None);
        }
        let number = |t: &str| t.parse::<u32>().map_err(|_| bad("repeats something too often"));
        let low = number(least)?;
        let written = match most {
            None => format!("{{{low}}}"),
            Some("") => format!("{{{low},}}"),
            Some(most) => {
                let high = number(most)?;
                if high < low {
                    return Err(bad("has numbers out of order in a quantifier"));
                }
                format!("{{{low},{high}}}")
            }
        };
        self.at += end + 2;
        Ok(Some(written))
    }

    fn atom(&mut self, out: &mut String) -> Result<Term, BadPattern> {
        let Some(c) = self.take() else { return Err(bad("ends too early")) };
        match c {
            '^' => {
                if self.flags.multi_line {
                    self.stepwise = true;
                    out.push_str("(?:\\A|(?<=[\\x{A}\\x{D}\\x{2028}\\x{2029}]))");
                } else {
                    out.push_str("\\A");
                }
                return Ok(Term::Assertion);
            }
            '$' => {
                if self.flags.multi_line {
                    self.stepwise = true;
                    out.push_str("(?:\\z|(?=[\\x{A}\\x{D}\\x{2028}\\x{2029}]))");
                } else {
                    out.push_str("\\z");
                }
                return Ok(Term::Assertion);
            }
            '(' => return self.group(out),
            '[' => self.class(out)?,
            '.' if self.flags.dot_all => Set::empty().negate().write(out),
            '.' => Set::line_terminators().negate().write(out),
            '*' | '+' | '?' => return Err(bad("has nothing to repeat before a quantifier")),
            '{' => {
                self.at -= 1;
                if self.quantifier()?.is_some() {
                    return Err(bad("has nothing to repeat before a quantifier"));
                }
                self.at += 1;
                self.literal('{', out);
            }
            '}' | ']' if self.flags.unicode => return Err(BadPattern(format!("has an unmatched `{c}`"))),
            '\\' => return self.escape(out),
            c => self.literal(c, out),
        }
        Ok(Term::Atom)
    }

    fn literal(&self, c: char, out: &mut String) {
        if self.flags.ignore_case {
            let mut set = Set::empty();
            set.add_range(c, c);
            set.fold(self.flags.unicode).write(out);
            return;
        }
        if matches!(c, '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$') {
            out.push('\\');
        }
        out.push(c);
    }

    fn group(&mut self, out: &mut String) -> Result<Term, BadPattern> {
        let (mut term, mut opening) = (Term::Atom, "(");
        if self.eat("?:") {
            opening = "(?:";
        } else if self.eat("?=") {
            opening = "(?=";
        } else if self.eat("?!") {
            opening = "(?!";
        } else if self.eat("?<=") {
            (term, opening) = (Term::Assertion, "(?<=");
        } else if self.eat("?<!") {
            (term, opening) = (Term::Assertion, "(?<!");
        } else if self.eat("?<") {
            // The name was read with the count of groups.
            while self.take().is_some_and(|c| c != '>') {}
        } else if self.peek() == Some('?') {
            return Err(bad("has an invalid group"));
        }
        if opening.len() > 2 && opening != "(?:" {
            self.stepwise = true;
            if self.flags.unicode {
                term = Term::Assertion;
            }
        }
        out.push_str(if opening == "(" && !self.captures { "(?:" } else { opening });
        let looks_behind = usize::from(opening.starts_with("(?<"));
        self.behind += looks_behind;
        out.push_str(&self.disjunction()?);
        self.behind -= looks_behind;
        if !self.eat(")") {
            return Err(bad("has an unclosed group"));
        }
        out.push(')');
        Ok(term)
    }

    /// An escape outside classes; the backslash is taken.
    fn escape(&mut self, out: &mut String) -> Result<Term, BadPattern> {
        match self.peek() {
            None => return Err(bad("ends in a backslash")),
            Some('b' | 'B') => {
                let inside = self.take() == Some('b');
                self.boundary(inside, out);
                return Ok(Term::Assertion);
            }
            Some('k') if self.flags.unicode || self.names.iter().any(Option::is_some) => {
                self.at += 1;
                let rest = &self.chars[self.at..];
                let end = rest.iter().position(|c| *c == '>').filter(|_| rest.first() == Some(&'<'));
                let name: String = end.map(|e| rest[1..e].iter().collect()).unwrap_or_default();
                let found = self.names.iter().position(|n| n.as_deref() == Some(name.as_str()));
                let Some(group) = found else { return Err(bad("refers to a group that is not there")) };
                self.at += end.unwrap_or(0) + 1;
                self.back_reference(group + 1, out);
                return Ok(Term::Atom);
            }
            Some('1'..='9') => {
                let digits: String = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).take(4).collect();
                let group: usize = digits.parse().unwrap_or(usize::MAX);
                if group <= self.names.len() {
                    self.at += digits.len();
                    self.back_reference(group, out);
                    return Ok(Term::Atom);
                }
                if self.flags.unicode {
                    return Err(bad("refers to a group that is not there"));
                }
            }
            _ => {}
        }
        match self.member_escape(false)? {
            ClassMember::One(c) => self.literal(c, out),
            ClassMember::Many(set) => set.write(out),
        }
        Ok(Term::Atom)
    }

    /// A boundary of ASCII words. The engine that steps knows Unicode's only.
    fn boundary(&mut self, inside: bool, out: &mut String) {
        const WORD: &str = "[0-9A-Za-z_]";
        let written = match (self.stepwise, inside) {
            (false, true) => "(?-u:\\b)".to_owned(),
            (_, true) => format!("(?:(?<={WORD})(?!{WORD})|(?<!{WORD})(?={WORD}))"),
            (_, false) => {
                // The linear engine refuses the ASCII form: between the bytes of one character there is none either.
                self.stepwise = true;
                format!("(?:(?<={WORD})(?={WORD})|(?<!{WORD})(?!{WORD}))")
            }
        };
        out.push_str(&written);
    }

    /// A group that took no part matches nothing, and so matches everywhere.
    fn back_reference(&mut self, group: usize, out: &mut String) {
        (self.stepwise, self.refers) = (true, true);
        let reference = if self.flags.ignore_case { format!("(?i:\\{group})") } else { format!("\\{group}") };
        out.push_str(&format!("(?({group}){reference}|)"));
    }

    fn class(&mut self, out: &mut String) -> Result<(), BadPattern> {
        let negated = self.eat("^");
        let mut set = Set::empty();
        loop {
            let Some(c) = self.take() else { return Err(bad("has an unclosed `[`")) };
            if c == ']' {
                break;
            }
            let from = self.member(c)?;
            let to = if self.peek() == Some('-') && !matches!(self.chars.get(self.at + 1), Some(']') | None) {
                self.at += 1;
                let next = self.take().unwrap_or(']');
                Some(self.member(next)?)
            } else {
                None
            };
            match (from, to) {
                (ClassMember::One(a), None) => set.add_range(a, a),
                (ClassMember::Many(a), None) => set.add(&a),
                (ClassMember::One(a), Some(ClassMember::One(b))) if a <= b => set.add_range(a, b),
                (ClassMember::One(_), Some(ClassMember::One(_))) => {
                    return Err(bad("has a range out of order in a class"));
                }
                _ if self.flags.unicode => return Err(bad("has a range with a class in it")),
                (a, Some(b)) => {
                    // `[\w-a]` is the class, the hyphen and the letter.
                    set.add_range('-', '-');
                    for member in [a, b] {
                        match member {
                            ClassMember::One(c) => set.add_range(c, c),
                            ClassMember::Many(many) => set.add(&many),
                        }
                    }
                }
            }
        }
        if self.flags.ignore_case {
            set = set.fold(self.flags.unicode);
        }
        let set = if negated { set.negate() } else { set };
        set.write(out);
        Ok(())
    }

    fn member(&mut self, c: char) -> Result<ClassMember, BadPattern> {
        if c == '\\' { self.member_escape(true) } else { Ok(ClassMember::One(c)) }
    }

    /// What an escape stands for; the backslash is taken.
    fn member_escape(&mut self, in_class: bool) -> Result<ClassMember, BadPattern> {
        let Some(c) = self.take() else { return Err(bad("ends in a backslash")) };
        let unicode = self.flags.unicode;
        Ok(match c {
            'd' => ClassMember::Many(Set::digits()),
            'D' => ClassMember::Many(Set::digits().negate()),
            'w' => ClassMember::Many(self.word()),
            'W' => ClassMember::Many(self.word().negate()),
            's' => ClassMember::Many(Set::space()),
            'S' => ClassMember::Many(Set::space().negate()),
            'b' if in_class => ClassMember::One('\u{8}'),
            't' => ClassMember::One('\t'),
            'n' => ClassMember::One('\n'),
            'v' => ClassMember::One('\u{b}'),
            'f' => ClassMember::One('\u{c}'),
            'r' => ClassMember::One('\r'),
            'p' | 'P' if unicode => ClassMember::Many(self.property(c == 'P')?),
            'c' => match self.peek() {
                Some(letter) if letter.is_ascii_alphabetic() || (in_class && !unicode && is_word(letter)) => {
                    self.at += 1;
                    ClassMember::One(char::from(letter as u8 % 32))
                }
                _ if unicode => return Err(bad("has an invalid escape `\\c`")),
                _ => {
                    // The backslash is a character, the letter behind it the next.
                    self.at -= 1;
                    ClassMember::One('\\')
                }
            },
            'x' => self.hex(2, 'x')?,
            'u' => self.code_point()?,
            '0'..='7' if !unicode => {
                self.at -= 1;
                ClassMember::One(self.octal())
            }
            '0' if !self.peek().is_some_and(|d| d.is_ascii_digit()) => ClassMember::One('\0'),
            '-' if unicode && in_class => ClassMember::One('-'),
            c if unicode && !"^$\\.*+?()[]{}|/".contains(c) => {
                return Err(BadPattern(format!("has an invalid escape `\\{c}`")));
            }
            c => ClassMember::One(c),
        })
    }

    /// The word characters. With the flags `u` and `i`, what equals one but for case is one too.
    fn word(&self) -> Set {
        let both = self.flags.unicode && self.flags.ignore_case;
        if both { Set::word().fold(true) } else { Set::word() }
    }

    /// Reads an octal escape: at most three digits, up to `\377`.
    fn octal(&mut self) -> char {
        let mut value = 0;
        for _ in 0..3 {
            match self.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) if value * 8 + digit <= 0o377 => value = value * 8 + digit,
                _ => break,
            }
            self.at += 1;
        }
        char::from_u32(value).unwrap_or('\0')
    }

    fn digits(&self, count: usize) -> Option<u32> {
        let digits: String = self.chars.get(self.at..self.at + count)?.iter().collect();
        if digits.chars().all(|c| c.is_ascii_hexdigit()) { u32::from_str_radix(&digits, 16).ok() } else { None }
    }

    /// `\xHH`; with other characters behind it the letter stands for itself.
    fn hex(&mut self, count: usize, letter: char) -> Result<ClassMember, BadPattern> {
        match self.digits(count) {
            Some(value) => {
                self.at += count;
                char::from_u32(value).map(ClassMember::One).ok_or_else(|| bad("has half of a surrogate pair"))
            }
            None if self.flags.unicode => Err(BadPattern(format!("has an invalid escape `\\{letter}`"))),
            None => Ok(ClassMember::One(letter)),
        }
    }

    fn code_point(&mut self) -> Result<ClassMember, BadPattern> {
        if self.flags.unicode && self.peek() == Some('{') {
            let rest = &self.chars[self.at + 1..];
            let end = rest.iter().position(|c| *c == '}').unwrap_or(0);
            let digits: String = rest[..end].iter().collect();
            let value = u32::from_str_radix(&digits, 16).ok().filter(|_| !digits.starts_with('+'));
            let found = value.and_then(char::from_u32).ok_or_else(|| bad("has an invalid escape `\\u`"))?;
            self.at += end + 2;
            return Ok(ClassMember::One(found));
        }
        if let Some(high @ 0xd800..=0xdbff) = self.digits(4) {
            let before = self.at;
            self.at += 4;
            if self.eat("\\u")
                && let Some(low @ 0xdc00..=0xdfff) = self.digits(4)
            {
                self.at += 4;
                let value = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(value).map(ClassMember::One).ok_or_else(|| bad("has an invalid escape `\\u`"));
            }
            self.at = before;
        }
        self.hex(4, 'u')
    }

    fn property(&mut self, negated: bool) -> Result<Set, BadPattern> {
        let rest = &self.chars[self.at..];
        let end = rest.iter().position(|c| *c == '}').filter(|_| rest.first() == Some(&'{'));
        let Some(end) = end else { return Err(bad("has an invalid escape `\\p`")) };
        let expression: String = rest[1..end].iter().collect();
        if !expression.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '=') || expression.is_empty() {
            return Err(BadPattern(format!("names the unknown property `{expression}`")));
        }
        self.at += end + 1;
        let set = Set::property(&expression)?;
        Ok(if negated { set.negate() } else { set })
    }
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
