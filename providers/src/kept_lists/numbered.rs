//! Pages of a list that have numbers, and say nothing of where one ends: a client goes on behind an object, which is
//! looked for from the first page on, or from a place that is the number of a page.

/// What a place in such a list is called that is no object's.
const PAGE: &str = "page:";
/// Pages that are read to find the object that a list goes on behind.
const MOST_SEARCHED: usize = 100;

#[derive(Debug, Default)]
pub(super) struct NumberedPages {
    page: usize,
    begins: usize,
    /// Objects of the pages that were read.
    seen: usize,
    /// The list goes on behind this one, which was not found yet.
    behind: Option<String>,
    searched: usize,
    /// Own objects that are passed over.
    skip: usize,
    own: usize,
    counts_all: bool,
}

impl NumberedPages {
    pub(super) fn of(after: Option<String>, skip: usize) -> Self {
        let page = after.as_deref().and_then(|after| after.strip_prefix(PAGE)?.parse().ok());
        let counts_all = after.is_none();
        match page {
            Some(page) => Self { page, begins: page, skip, ..Self::default() },
            None => Self { behind: after, skip, counts_all, ..Self::default() },
        }
    }

    pub(super) const fn page(&self) -> usize {
        self.page
    }

    /// Where the next page begins.
    pub(super) fn place(&self) -> String {
        format!("{PAGE}{}", self.page)
    }

    /// A page was read, of so many objects. Whether it was the last.
    pub(super) fn read(&mut self, count: usize, total: Option<usize>, at_once: usize) -> bool {
        self.page += 1;
        self.seen += count;
        self.searched += usize::from(self.is_searching());
        // How many were on pages before the first that was read is not known.
        let all = |total| self.begins == 0 && self.seen >= total;
        count == 0 || total.map_or(count < at_once, all)
    }

    pub(super) const fn is_searching(&self) -> bool {
        self.behind.is_some()
    }

    pub(super) const fn searches_in_vain(&self) -> bool {
        self.is_searching() && self.searched > MOST_SEARCHED
    }

    /// Whether the next object of the page is one of those that were asked for.
    pub(super) fn shows(&mut self, id: &str, is_own: bool) -> bool {
        if let Some(behind) = &self.behind {
            if behind == id {
                self.behind = None;
            }
            return false;
        }
        self.own += usize::from(is_own);
        is_own && self.own > self.skip
    }

    /// All own ones, where none stands in front of what was read.
    pub(super) fn total(&self) -> Option<usize> {
        self.counts_all.then_some(self.own)
    }
}
