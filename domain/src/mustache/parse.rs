//! A template's source as a tree that borrows from it. A tag that stands alone on its line takes the line with it, as
//! the specification of Mustache says.

use super::{BadTemplate, broken};

/// Sections within sections.
const DEEPEST: usize = 32;

#[derive(Debug)]
pub(super) enum TemplatePart<'a> {
    Text(&'a str),
    Variable {
        name: &'a str,
        plain: bool,
    },
    Section {
        name: &'a str,
        inverted: bool,
        inside: Vec<Self>,
    },
    /// `indent` goes before each of its lines.
    Partial {
        name: &'a str,
        indent: &'a str,
    },
}

/// A section whose end has not come yet, and what stood before it.
struct OpenSection<'a> {
    name: &'a str,
    inverted: bool,
    before: Vec<TemplatePart<'a>>,
}

struct Delimiters<'a> {
    open: &'a str,
    close: &'a str,
}

/// One tag: what it is, and where the text before it ends and the text behind it begins.
struct FoundTag<'a> {
    kind: u8,
    name: &'a str,
    from: usize,
    to: usize,
}

pub(super) fn parse(source: &str) -> Result<Vec<TemplatePart<'_>>, BadTemplate> {
    let mut delimiters = Delimiters { open: "{{", close: "}}" };
    let (mut nodes, mut open): (Vec<TemplatePart<'_>>, Vec<OpenSection<'_>>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(tag) = find(source, at, &delimiters)? {
        let alone = if matches!(tag.kind, 0 | b'&') { None } else { line_of(source, &tag, at) };
        let (from, to) = alone.unwrap_or((tag.from, tag.to));
        if from > at {
            nodes.push(TemplatePart::Text(&source[at..from]));
        }
        at = to;
        match tag.kind {
            b'!' => {}
            b'=' => delimiters = changed(tag.name)?,
            b'>' => {
                let indent = if alone.is_some() { &source[from..tag.from] } else { "" };
                nodes.push(TemplatePart::Partial { name: tag.name, indent });
            }
            kind @ (b'#' | b'^') => {
                if open.len() == DEEPEST {
                    return broken(format!("has more than {DEEPEST} sections within each other"));
                }
                let before = std::mem::take(&mut nodes);
                open.push(OpenSection { name: tag.name, inverted: kind == b'^', before });
            }
            b'/' => match open.pop() {
                Some(OpenSection { name, inverted, mut before }) if name == tag.name => {
                    before.push(TemplatePart::Section { name, inverted, inside: nodes });
                    nodes = before;
                }
                _ => return broken(format!("closes a section `{}` that is not open there", tag.name)),
            },
            kind => nodes.push(TemplatePart::Variable { name: tag.name, plain: kind == b'&' }),
        }
    }
    if let Some(section) = open.pop() {
        return broken(format!("has a section `{}` that is not closed", section.name));
    }
    if at < source.len() {
        nodes.push(TemplatePart::Text(&source[at..]));
    }
    Ok(nodes)
}

/// The next tag. Its kind is the sign that it begins with, 0 for a variable, and `&` for one in three braces too.
fn find<'a>(source: &'a str, at: usize, delimiters: &Delimiters<'a>) -> Result<Option<FoundTag<'a>>, BadTemplate> {
    let Some(from) = source[at..].find(delimiters.open).map(|place| at + place) else { return Ok(None) };
    let inside = from + delimiters.open.len();
    let rest = &source[inside..];
    let kind = match rest.as_bytes().first() {
        Some(sign @ (b'#' | b'^' | b'/' | b'!' | b'=' | b'>' | b'&')) => *sign,
        Some(b'{') if delimiters.open == "{{" => b'{',
        _ => 0,
    };
    let start = usize::from(kind != 0);
    let close = match kind {
        b'{' => "}}}".to_owned(),
        b'=' => format!("={}", delimiters.close),
        _ => delimiters.close.to_owned(),
    };
    let Some(length) = rest[start..].find(&close) else {
        return broken("has a tag that is not closed");
    };
    let name = rest[start..start + length].trim();
    let to = inside + start + length + close.len();
    let kind = if kind == b'{' { b'&' } else { kind };
    if name.is_empty() && kind != b'!' {
        return broken("has a tag without a name");
    }
    if name.contains('\n') && !matches!(kind, b'!' | b'=') {
        return broken("has a tag that goes over several lines");
    }
    Ok(Some(FoundTag { kind, name, from, to }))
}

fn changed(told: &str) -> Result<Delimiters<'_>, BadTemplate> {
    let mut both = told.split_whitespace();
    match (both.next(), both.next(), both.next()) {
        (Some(open), Some(close), None) if !open.contains('=') && !close.contains('=') => {
            Ok(Delimiters { open, close })
        }
        _ => broken("changes its delimiters to something other than two"),
    }
}

/// The whole line of a tag that stands alone on it. `at`: where the text before the tag begins, which a tag before it
/// on the same line has moved.
fn line_of(source: &str, tag: &FoundTag<'_>, at: usize) -> Option<(usize, usize)> {
    let blank = |text: &str| text.bytes().all(|b| matches!(b, b' ' | b'\t'));
    let start = source[..tag.from].rfind('\n').map_or(0, |place| place + 1);
    if start < at || !blank(&source[start..tag.from]) {
        return None;
    }
    let rest = &source[tag.to..];
    let (line, length) = match rest.find('\n') {
        Some(place) => (&rest[..place], place + 1),
        None => (rest, rest.len()),
    };
    blank(line.strip_suffix('\r').unwrap_or(line)).then_some((start, tag.to + length))
}
