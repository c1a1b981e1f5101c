//! Text edits: applied to files, and printed as a unified diff.

use std::fmt::Write;
use std::ops::Range;

use anabranch_sql::source::{SourceFile, Span};

/// Context lines around a change.
const CONTEXT: usize = 3;

/// The most pairs of lines that are compared to find the smallest diff.
const COMPARED_MAX: usize = 250_000;

/// A span of a file and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) span: Span,
    pub(super) text: String,
}

impl Edit {
    /// Replaces a span.
    pub(super) fn replace(span: Span, text: impl Into<String>) -> Edit {
        let text = text.into();
        Edit { span, text }
    }

    /// Inserts behind a span.
    pub(super) fn insert_after(span: Span, text: impl Into<String>) -> Edit {
        let start = span.end;
        Edit::replace(Span { start, ..span }, text)
    }

    /// Inserts in front of a span.
    pub(super) fn insert_before(span: Span, text: impl Into<String>) -> Edit {
        let end = span.start;
        Edit::replace(Span { end, ..span }, text)
    }

    fn range(&self) -> Range<usize> {
        self.span.start as usize..self.span.end as usize
    }
}

/// Sorts edits by place and drops duplicates. `None` if two of them change the same text.
pub(super) fn ordered(edits: &[Edit]) -> Option<Vec<Edit>> {
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| (edit.span.file, edit.span.start, edit.span.end));
    edits.dedup();
    let apart = |pair: &[Edit]| {
        let (one, next) = (pair[0].span, pair[1].span);
        one.file != next.file || one.end <= next.start && one != next
    };
    edits.windows(2).all(apart).then_some(edits)
}

/// Applies edits, which are [`ordered`], to the files. `None` if one is outside of its file.
pub(super) fn applied(files: &[SourceFile], edits: &[Edit]) -> Option<Vec<SourceFile>> {
    let mut changed = files.to_vec();
    for (number, file) in changed.iter_mut().enumerate() {
        let of_file: Vec<&Edit> = in_file(edits, number).collect();
        if of_file.is_empty() {
            continue;
        }
        let (mut text, mut done) = (String::new(), 0);
        for edit in of_file {
            text.push_str(file.text.get(done..edit.range().start)?);
            text.push_str(&edit.text);
            done = edit.range().end;
        }
        text.push_str(file.text.get(done..)?);
        file.text = text.into();
    }
    Some(changed)
}

fn in_file(edits: &[Edit], number: usize) -> impl Iterator<Item = &Edit> {
    let of_file = move |edit: &&Edit| usize::from(edit.span.file) == number;
    edits.iter().filter(of_file)
}

/// A range that an edit replaces, in the text before all edits of its file and in the text after them.
struct Replaced {
    before: Range<usize>,
    after: Range<usize>,
}

impl Replaced {
    fn longer(&self) -> isize {
        self.after.len() as isize - self.before.len() as isize
    }
}

/// The ranges that edits of one file replace; the edits are [`ordered`].
fn replaced(edits: &[Edit], number: usize) -> Vec<Replaced> {
    let mut moved = 0;
    let of_edit = |edit: &Edit| {
        let before = edit.range();
        let start = before.start.saturating_add_signed(moved);
        let after = start..start + edit.text.len();
        let replaced = Replaced { before, after };
        moved += replaced.longer();
        replaced
    };
    in_file(edits, number).map(of_edit).collect()
}

/// Composes edits: returns edits of `files` with the result `after`, which `first` and then `then` have.
/// Overlapping ones become one. Both are [`ordered`], and so is the result.
pub(super) fn joined(
    files: &[SourceFile],
    first: &[Edit],
    then: &[Edit],
    after: &[SourceFile],
) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (number, (file, after)) in files.iter().zip(after).enumerate() {
        let (first, then) = (replaced(first, number), replaced(then, number));
        // Ranges of both in the text between them. Each with how much longer it makes the text: from before to
        // between, and from between to after.
        let of_first = first.iter().map(|r| (r.after.clone(), r.longer(), 0));
        let of_then = then.iter().map(|r| (r.before.clone(), 0, r.longer()));
        let mut all: Vec<(Range<usize>, isize, isize)> = of_first.chain(of_then).collect();
        all.sort_by_key(|(range, ..)| (range.start, range.end));
        let (mut grown, mut grows) = (0, 0);
        let mut rest = all.into_iter().peekable();
        while let Some((mut range, mut by_first, mut by_then)) = rest.next() {
            while let Some((next, one, other)) = rest.next_if(|(r, ..)| r.start <= range.end) {
                range.end = range.end.max(next.end);
                by_first += one;
                by_then += other;
            }
            let old = range.start.saturating_add_signed(-grown)
                ..range.end.saturating_add_signed(-grown - by_first);
            let new = range.start.saturating_add_signed(grows)
                ..range.end.saturating_add_signed(grows + by_then);
            grown += by_first;
            grows += by_then;
            let text = after.text.get(new).unwrap_or_default();
            if file.text.get(old.clone()) != Some(text) {
                let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
                let span = Span {
                    file: u16::try_from(number).unwrap_or(u16::MAX),
                    start: place(old.start),
                    end: place(old.end),
                };
                edits.push(Edit::replace(span, text));
            }
        }
    }
    edits
}

/// Maps a place in changed files back to the unchanged ones: to the place of the edit if an edit inserted it.
pub(super) fn mapped_back(edits: &[Edit], at: Span) -> Span {
    let place = at.start as usize;
    let mut before = place;
    for replaced in replaced(edits, usize::from(at.file)) {
        if replaced.after.start > place {
            break;
        }
        before = match place < replaced.after.end {
            true => replaced.before.start,
            false => place - replaced.after.end + replaced.before.end,
        };
    }
    let start = u32::try_from(before).unwrap_or(u32::MAX);
    Span {
        start,
        end: start,
        ..at
    }
}

/// Lines of a file and their replacement.
struct Change<'t> {
    /// The removed lines, from 0.
    old: Range<usize>,
    /// The added lines.
    new: Vec<&'t str>,
}

/// Prints edits, which are [`ordered`], as `diff -u` does; `after` is the result of [`applied`] on `files`.
pub(super) fn unified(files: &[SourceFile], after: &[SourceFile], edits: &[Edit]) -> String {
    let mut out = String::new();
    for (number, (file, after)) in files.iter().zip(after).enumerate() {
        let of_file: Vec<&Edit> = in_file(edits, number).collect();
        if of_file.is_empty() {
            continue;
        }
        let _ = write!(out, "--- {0}\n+++ {0}\n", file.name);
        let lines: Vec<&str> = file.text.split_inclusive('\n').collect();
        let changes = changes(&file.text, &lines, &after.text, &of_file);
        hunks(&lines, &changes, &mut out);
    }
    out
}

/// The changed lines of a file.
fn changes<'t>(before: &str, lines: &[&str], after: &'t str, edits: &[&Edit]) -> Vec<Change<'t>> {
    let mut starts = vec![0];
    for line in lines {
        starts.push(starts[starts.len() - 1] + line.len());
    }
    let line_of = |byte: usize| {
        let at = starts.partition_point(|start| *start <= byte);
        at.saturating_sub(1).min(lines.len().saturating_sub(1))
    };
    // Whole lines, adjacent ones joined, with how much longer the text behind them becomes.
    let mut wholes: Vec<(Range<usize>, isize)> = Vec::new();
    for edit in edits {
        let range = edit.range();
        let longer = edit.text.len() as isize - range.len() as isize;
        let touched = line_of(range.start)..line_of(range.end) + 1;
        match wholes.last_mut() {
            Some((last, sum)) if last.end >= touched.start => {
                last.end = last.end.max(touched.end);
                *sum += longer;
            }
            _ => wholes.push((touched, longer)),
        }
    }
    let mut moved = 0;
    let mut changes = Vec::new();
    for (mut old, longer) in wholes {
        old.end = old.end.min(lines.len());
        let (start, end) = (starts[old.start], starts[old.end].min(before.len()));
        let place = |at: usize, by: isize| at.checked_add_signed(by).unwrap_or_default();
        let text = after.get(place(start, moved)..place(end, moved + longer));
        moved += longer;
        let mut new: Vec<&str> = text.unwrap_or_default().split_inclusive('\n').collect();
        while !old.is_empty() && !new.is_empty() && lines[old.start] == new[0] {
            old.start += 1;
            new.remove(0);
        }
        while !old.is_empty() && new.last() == Some(&lines[old.end - 1]) {
            old.end -= 1;
            new.pop();
        }
        push_fewest(lines, old, &new, &mut changes);
    }
    changes
}

/// Adds the smallest set of removed and added lines, if it can be found within [`COMPARED_MAX`].
fn push_fewest<'t>(
    lines: &[&str],
    old: Range<usize>,
    new: &[&'t str],
    changes: &mut Vec<Change<'t>>,
) {
    let before = &lines[old.clone()];
    let wide = new.len() + 1;
    if before.len().saturating_mul(new.len()) > COMPARED_MAX {
        let new = new.to_vec();
        changes.push(Change { old, new });
        return;
    }
    // The length of the longest common subsequence from each pair of lines on.
    let mut stay = vec![0_usize; (before.len() + 1) * wide];
    for (i, line) in before.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            stay[i * wide + j] = match line == other {
                true => stay[(i + 1) * wide + j + 1] + 1,
                false => stay[(i + 1) * wide + j].max(stay[i * wide + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < new.len() {
        if i < before.len() && j < new.len() && before[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (from, first) = (i, j);
        while i < before.len() || j < new.len() {
            let both = i < before.len() && j < new.len();
            if both && before[i] == new[j] {
                break;
            }
            let goes = !both && i < before.len()
                || both && stay[(i + 1) * wide + j] >= stay[i * wide + j + 1];
            match goes {
                true => i += 1,
                false => j += 1,
            }
        }
        changes.push(Change {
            old: old.start + from..old.start + i,
            new: new[first..j].to_vec(),
        });
    }
}

fn hunks(lines: &[&str], changes: &[Change<'_>], out: &mut String) {
    let mut done = 0;
    // By how many lines the new text is ahead.
    let mut moved: isize = 0;
    while done < changes.len() {
        let near = |pair: &[Change<'_>]| pair[1].old.start - pair[0].old.end <= 2 * CONTEXT;
        let rest = &changes[done..];
        let together = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let hunk = &rest[..together];
        let from = hunk[0].old.start.saturating_sub(CONTEXT);
        let to = (hunk[together - 1].old.end + CONTEXT).min(lines.len());
        let more: isize = hunk
            .iter()
            .map(|change| change.new.len() as isize - change.old.len() as isize)
            .sum();
        let place = |first: usize, count: usize| match count {
            0 => format!("{first},0"),
            _ => format!("{},{count}", first + 1),
        };
        let new = from.checked_add_signed(moved).unwrap_or_default();
        let count = (to - from).checked_add_signed(more).unwrap_or_default();
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            place(from, to - from),
            place(new, count)
        );
        let mut at = from;
        for change in hunk {
            lines[at..change.old.start]
                .iter()
                .for_each(|line| put(out, ' ', line));
            lines[change.old.clone()]
                .iter()
                .for_each(|line| put(out, '-', line));
            change.new.iter().for_each(|line| put(out, '+', line));
            at = change.old.end;
        }
        lines[at..to].iter().for_each(|line| put(out, ' ', line));
        moved += more;
        done += together;
    }
}

fn put(out: &mut String, sign: char, line: &str) {
    out.push(sign);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u32, end: u32) -> Span {
        let file = 0;
        Span { file, start, end }
    }

    fn diff(text: &str, edits: &[Edit]) -> String {
        let files = [SourceFile::new("a.sql", text)];
        let edits = ordered(edits).expect("they do not overlap");
        let after = applied(&files, &edits).expect("they are in the file");
        unified(&files, &after, &edits)
    }

    #[test]
    fn a_diff_has_whole_lines_with_context() {
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        // A line is removed, a word changes, and a line is added far behind.
        let edits = [
            Edit::replace(span(2, 4), ""),
            Edit::replace(span(6, 7), "four"),
            Edit::replace(span(24, 24), "ten and a half\n"),
        ];
        assert_eq!(
            diff(text, &edits),
            "--- a.sql\n+++ a.sql\n@@ -1,7 +1,6 @@\n 1\n-2\n 3\n-4\n+four\n 5\n 6\n 7\n\
             @@ -9,4 +8,5 @@\n 9\n 10\n 11\n+ten and a half\n 12\n"
        );
    }

    /// Composes two edits in all arrangements: adjacent, one inside the other's text, one that removes the other's
    /// text, and one behind a text that has become longer.
    #[test]
    fn successive_edits_compose() {
        let files = [SourceFile::new("a.sql", "0123456789abcdef")];
        let first = [
            Edit::replace(span(1, 3), "onetwo"),
            Edit::replace(span(5, 5), "+"),
            Edit::replace(span(9, 10), ""),
        ];
        let between = applied(&files, &first).expect("they are in the file");
        assert_eq!(&*between[0].text, "0onetwo34+5678abcdef");
        let then = [
            Edit::replace(span(4, 7), "TWO"),
            Edit::replace(span(9, 10), ""),
            Edit::replace(span(14, 15), "A"),
            Edit::replace(span(18, 19), "E"),
        ];
        let after = applied(&between, &then).expect("they are in the file");
        let both = joined(&files, &first, &then, &after);
        assert_eq!(
            both,
            [
                Edit::replace(span(1, 3), "oneTWO"),
                Edit::replace(span(9, 11), "A"),
                Edit::replace(span(14, 15), "E"),
            ]
        );
        let made = applied(&files, &both).expect("they are in the file");
        assert_eq!(made[0].text, after[0].text);
        let starts = [0, 2, 8, 11, 17].map(|at| mapped_back(&first, span(at, at + 1)).start);
        assert_eq!(starts, [0, 1, 4, 6, 13]);
    }

    #[test]
    fn a_missing_final_newline_is_marked() {
        assert_eq!(
            diff("a\nb", &[Edit::replace(span(3, 3), "c")]),
            "--- a.sql\n+++ a.sql\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+bc\n\
             \\ No newline at end of file\n"
        );
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let one = Edit::replace(span(0, 3), "x");
        assert!(ordered(&[one.clone(), one.clone()]).is_some_and(|e| e.len() == 1));
        assert!(ordered(&[one.clone(), Edit::replace(span(2, 4), "y")]).is_none());
        assert!(ordered(&[one, Edit::replace(span(0, 3), "y")]).is_none());
    }
}
