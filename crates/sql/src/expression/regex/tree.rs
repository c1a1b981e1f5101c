//! The matches of a regular expression, with their groups, by PostgreSQL's rules (its manual, 9.7.3.5).
//!
//! The `regex` crate finds where the first match begins, which is the same under all rules. Where it ends, and what its
//! groups have, is not: PostgreSQL takes the longest match (or the shortest, as the first quantifier says), then the
//! longest or shortest text for each part in turn; the crate takes the first alternative that leads to a match. So the
//! pattern is parsed once more, and the set of places where a part of it can end is computed from the set of places
//! where it can begin.

use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashSet;

use super::{COMPILED_BYTES_MAX, Failure, Rest, brackets, compile, escape, failure, invalid};

/// The steps that the searches of one call may take.
const STEPS_MAX: usize = 20_000_000;

/// The most repetitions that a bound may name.
const REPETITIONS_MAX: u32 = 255;

/// What a part prefers to match, where it has a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preference {
    None,
    Longest,
    Shortest,
}

impl Preference {
    fn or(self, other: Preference) -> Preference {
        match self {
            Preference::None => other,
            own => own,
        }
    }
}

/// A place that takes no character.
#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    End,
    WordEdge,
    NoWordEdge,
    WordStart,
    WordEnd,
}

/// Some characters, by the crate's notation.
#[derive(Debug)]
struct CharacterSet {
    ascii: [bool; 128],
    regex: Regex,
}

impl CharacterSet {
    fn new(notation: &str, insensitive: bool) -> Result<CharacterSet, Failure> {
        let regex = RegexBuilder::new(&format!("^(?:{notation})$"))
            .case_insensitive(insensitive)
            .dot_matches_new_line(true)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|_| invalid("it cannot be read"))?;
        let mut ascii = [false; 128];
        for (code, is_in) in (0u8..).zip(&mut ascii) {
            *is_in = regex.is_match(char::from(code).encode_utf8(&mut [0; 4]));
        }
        Ok(CharacterSet { ascii, regex })
    }

    fn has(&self, c: char) -> bool {
        match self.ascii.get(c as usize) {
            Some(is_in) => *is_in,
            None => self.regex.is_match(c.encode_utf8(&mut [0; 4])),
        }
    }
}

#[derive(Debug)]
enum Node {
    Character { c: char, insensitive: bool },
    Any,
    Set(Box<CharacterSet>),
    At(Place),
    Sequence(Vec<Node>),
    Alternatives(Vec<Node>),
    Repeated(Box<Repeated>),
    Group(usize, Box<Node>),
}

#[derive(Debug)]
struct Repeated {
    node: Node,
    min: u32,
    max: Option<u32>,
    preference: Preference,
}

impl Node {
    fn preference(&self) -> Preference {
        match self {
            Node::Character { .. } | Node::Any | Node::Set(_) | Node::At(_) => Preference::None,
            Node::Sequence(list) => list
                .iter()
                .map(Node::preference)
                .fold(Preference::None, Preference::or),
            Node::Alternatives(_) => Preference::Longest,
            Node::Repeated(repeated) => repeated.preference,
            Node::Group(_, node) => node.preference(),
        }
    }

    fn has_groups(&self) -> bool {
        match self {
            Node::Character { .. } | Node::Any | Node::Set(_) | Node::At(_) => false,
            Node::Sequence(list) | Node::Alternatives(list) => list.iter().any(Node::has_groups),
            Node::Repeated(repeated) => repeated.node.has_groups(),
            Node::Group(..) => true,
        }
    }
}

/// A parser of a pattern.
struct Parser<'p> {
    rest: Rest<'p>,
    insensitive: bool,
    groups: usize,
    depth: usize,
}

/// The most brackets in one another.
const DEPTH_MAX: usize = 100;

impl Parser<'_> {
    /// Alternatives up to a closing bracket or the end.
    fn alternatives(&mut self) -> Result<Node, Failure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = vec![self.branch()?];
        while self.rest.peek() == Some(&'|') {
            self.rest.next();
            branches.push(self.branch()?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Alternatives(branches),
        })
    }

    fn branch(&mut self) -> Result<Node, Failure> {
        let mut list = Vec::new();
        while let Some(c) = self.rest.peek().copied() {
            if c == '|' || (c == ')' && self.depth > 1) {
                break;
            }
            if c == ')' {
                return Err(invalid("parentheses () not balanced"));
            }
            let atom = self.atom()?;
            list.push(self.quantified(atom)?);
        }
        Ok(Node::Sequence(list))
    }

    fn atom(&mut self) -> Result<Node, Failure> {
        let c = self.rest.next().expect("a character is there");
        Ok(match c {
            '\\' => return self.escaped(),
            '[' => {
                // `[[:<:]]` and `[[:>:]]` are the edges of words; the translation of the whole refuses them.
                let mut notation = String::new();
                brackets(&mut self.rest, &mut notation)?;
                Node::Set(Box::new(CharacterSet::new(&notation, self.insensitive)?))
            }
            '(' => {
                let is_group = self.rest.peek() != Some(&'?');
                if is_group {
                    self.groups += 1;
                } else {
                    // The translation of the whole has refused everything but `(?:`.
                    self.rest.next();
                    self.rest.next();
                }
                let number = self.groups;
                let inner = self.alternatives()?;
                if self.rest.next() != Some(')') {
                    return Err(invalid("parentheses () not balanced"));
                }
                match is_group {
                    true => Node::Group(number, Box::new(inner)),
                    false => inner,
                }
            }
            '^' => Node::At(Place::Start),
            '$' => Node::At(Place::End),
            '.' => Node::Any,
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.rest.peek().is_some_and(char::is_ascii_digit) => {
                return Err(invalid("quantifier operand invalid"));
            }
            c => self.character(c),
        })
    }

    fn character(&self, c: char) -> Node {
        Node::Character {
            c,
            insensitive: self.insensitive,
        }
    }

    fn escaped(&mut self) -> Result<Node, Failure> {
        let place = match self.rest.peek() {
            Some('A') => Some(Place::Start),
            Some('Z') => Some(Place::End),
            Some('y') => Some(Place::WordEdge),
            Some('Y') => Some(Place::NoWordEdge),
            Some('m') => Some(Place::WordStart),
            Some('M') => Some(Place::WordEnd),
            Some(c) if !c.is_ascii_alphanumeric() => {
                let c = *c;
                self.rest.next();
                return Ok(self.character(c));
            }
            _ => None,
        };
        if let Some(place) = place {
            self.rest.next();
            return Ok(Node::At(place));
        }
        let mut notation = String::new();
        escape(&mut self.rest, &mut notation)?;
        Ok(Node::Set(Box::new(CharacterSet::new(
            &notation,
            self.insensitive,
        )?)))
    }

    fn number(&mut self) -> Result<u32, Failure> {
        let mut number = 0u32;
        while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
            self.rest.next();
            number = number * 10 + digit;
            if number > REPETITIONS_MAX {
                return Err(invalid("invalid repetition count(s)"));
            }
        }
        Ok(number)
    }

    fn quantified(&mut self, atom: Node) -> Result<Node, Failure> {
        let mut is_fixed = false;
        let (min, max) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let mut ahead = self.rest.clone();
                ahead.next();
                if !ahead.peek().is_some_and(char::is_ascii_digit) {
                    return Ok(atom);
                }
                self.rest.next();
                let min = self.number()?;
                let max = match self.rest.peek() {
                    Some(',') => {
                        self.rest.next();
                        match self.rest.peek() {
                            Some('}') => None,
                            _ => Some(self.number()?),
                        }
                    }
                    _ => {
                        is_fixed = true;
                        Some(min)
                    }
                };
                if self.rest.peek() != Some(&'}') || max.is_some_and(|max| max < min) {
                    return Err(invalid("invalid repetition count(s)"));
                }
                (min, max)
            }
            _ => return Ok(atom),
        };
        self.rest.next();
        if matches!(atom, Node::At(_)) {
            return Err(invalid("quantifier operand invalid"));
        }
        let is_short = self.rest.peek() == Some(&'?');
        if is_short {
            self.rest.next();
        }
        let is_doubled = match self.rest.peek() {
            Some('*' | '+' | '?') => true,
            Some('{') => {
                let mut ahead = self.rest.clone();
                ahead.next();
                ahead.peek().is_some_and(char::is_ascii_digit)
            }
            _ => false,
        };
        if is_doubled {
            return Err(invalid("quantifier operand invalid"));
        }
        let preference = match is_short {
            _ if is_fixed => atom.preference(),
            true => Preference::Shortest,
            false => Preference::Longest,
        };
        Ok(Node::Repeated(Box::new(Repeated {
            node: atom,
            min,
            max,
            preference,
        })))
    }
}

/// Parses a pattern, of which all is supported. Returns it with the number of its groups.
fn parse(pattern: &str, insensitive: bool) -> Result<(Node, usize), Failure> {
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
        insensitive,
        groups: 0,
        depth: 0,
    };
    let root = parser.alternatives()?;
    Ok((root, parser.groups))
}

/// Checks that a pattern, of which all is supported, is one.
pub(super) fn check(pattern: &str) -> Result<(), Failure> {
    parse(pattern, false).map(|_| ())
}

/// A pattern whose matches can be found.
#[derive(Debug)]
pub(crate) struct Searcher {
    finder: Regex,
    root: Node,
    /// The number of groups.
    pub(crate) groups: usize,
    key: (String, bool),
}

impl PartialEq for Searcher {
    fn eq(&self, other: &Searcher) -> bool {
        self.key == other.key
    }
}

/// The beginning and end of the whole match, then those of each group that has one.
pub(crate) type Match = Vec<Option<(usize, usize)>>;

impl Searcher {
    /// The pattern, compiled.
    ///
    /// # Errors
    /// `2201B` if it is no pattern; `0A000` if it has what is not supported.
    pub(crate) fn new(pattern: &str, insensitive: bool) -> Result<Searcher, Failure> {
        let finder = compile(pattern, insensitive)?;
        let (root, groups) = parse(pattern, insensitive)?;
        Ok(Searcher {
            finder,
            root,
            groups,
            key: (pattern.to_owned(), insensitive),
        })
    }

    /// Whether there is a match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.finder.is_match(text)
    }

    /// The first match that begins at this byte or behind it. `steps` counts those of the searches of one call.
    pub(crate) fn find(
        &self,
        text: &str,
        from: usize,
        steps: &mut usize,
    ) -> Result<Option<Match>, Failure> {
        let Some(found) = self.finder.find_at(text, from) else {
            return Ok(None);
        };
        let start = found.start();
        let mut walk = Walk {
            text,
            limit: text.len(),
            steps,
            found: vec![None; self.groups + 1],
        };
        let end = match self.root.preference() {
            Preference::Shortest => walk.first_end(&self.root, start)?,
            _ => walk.ends(&self.root, vec![start])?.last().copied(),
        };
        let Some(end) = end else {
            return Ok(None);
        };
        walk.limit = end;
        walk.found[0] = Some((start, end));
        walk.dissect(&self.root, start, end)?;
        Ok(Some(walk.found))
    }
}

/// A search in a text.
struct Walk<'t> {
    text: &'t str,
    /// No part goes beyond this byte.
    limit: usize,
    steps: &'t mut usize,
    found: Match,
}

impl Walk<'_> {
    fn step(&mut self, count: usize) -> Result<(), Failure> {
        *self.steps += count;
        if *self.steps > STEPS_MAX {
            let message =
                "a regular expression with so many ways to match this text is not supported";
            return Err(failure("0A000", message));
        }
        Ok(())
    }

    fn is_word(c: Option<char>) -> bool {
        c.is_some_and(|c| c == '_' || c.is_alphanumeric())
    }

    fn is_at(&self, place: Place, at: usize) -> bool {
        let before = Self::is_word(self.text[..at].chars().next_back());
        let behind = Self::is_word(self.text[at..].chars().next());
        match place {
            Place::Start => at == 0,
            Place::End => at == self.text.len(),
            Place::WordEdge => before != behind,
            Place::NoWordEdge => before == behind,
            Place::WordStart => !before && behind,
            Place::WordEnd => before && !behind,
        }
    }

    /// Each start behind whose next character passes, moved behind it.
    fn moved(&self, starts: &[usize], passes: impl Fn(char) -> bool) -> Vec<usize> {
        let next = |at: &usize| {
            let c = self.text[*at..].chars().next()?;
            let end = at + c.len_utf8();
            (end <= self.limit && passes(c)).then_some(end)
        };
        starts.iter().filter_map(next).collect()
    }

    /// The first place where a match that begins here can end: looked for near, then farther away.
    fn first_end(&mut self, node: &Node, start: usize) -> Result<Option<usize>, Failure> {
        let mut distance = 32;
        loop {
            self.limit = self.text.len().min(start + distance);
            let ends = self.ends(node, vec![start])?;
            if !ends.is_empty() || self.limit == self.text.len() {
                return Ok(ends.first().copied());
            }
            distance *= 4;
        }
    }

    /// The places where a match that begins at one of these can end, in order.
    fn ends(&mut self, node: &Node, starts: Vec<usize>) -> Result<Vec<usize>, Failure> {
        self.step(1 + starts.len())?;
        Ok(match node {
            Node::Character {
                c,
                insensitive: false,
            } => self.moved(&starts, |found| found == *c),
            Node::Character { c, .. } => self.moved(&starts, |found| {
                found == *c
                    || found.to_lowercase().eq(c.to_lowercase())
                    || found.to_uppercase().eq(c.to_uppercase())
            }),
            Node::Any => self.moved(&starts, |_| true),
            Node::Set(set) => self.moved(&starts, |found| set.has(found)),
            Node::At(place) => {
                let mut starts = starts;
                starts.retain(|at| self.is_at(*place, *at));
                starts
            }
            Node::Sequence(list) => self.ends_of_all(list, starts)?,
            Node::Alternatives(list) => {
                let mut ends = Vec::new();
                for branch in list {
                    ends.extend(self.ends(branch, starts.clone())?);
                }
                ends.sort_unstable();
                ends.dedup();
                ends
            }
            Node::Repeated(repeated) => {
                self.ends_repeated(&repeated.node, repeated.min, repeated.max, starts)?
            }
            Node::Group(_, inner) => self.ends(inner, starts)?,
        })
    }

    fn ends_of_all(&mut self, list: &[Node], starts: Vec<usize>) -> Result<Vec<usize>, Failure> {
        let mut ends = starts;
        for node in list {
            if ends.is_empty() {
                break;
            }
            ends = self.ends(node, ends)?;
        }
        Ok(ends)
    }

    fn ends_repeated(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        starts: Vec<usize>,
    ) -> Result<Vec<usize>, Failure> {
        let mut frontier = starts;
        for _ in 0..min {
            frontier = self.ends(node, frontier)?;
        }
        let mut all = frontier.clone();
        let mut seen: FxHashSet<usize> = frontier.iter().copied().collect();
        let mut left = max.map(|max| max.saturating_sub(min));
        while !frontier.is_empty() && left != Some(0) {
            frontier = self.ends(node, frontier)?;
            frontier.retain(|at| seen.insert(*at));
            all.extend(&frontier);
            left = left.map(|left| left - 1);
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Whether these parts match exactly this.
    fn is_exact(&mut self, list: &[Node], start: usize, end: usize) -> Result<bool, Failure> {
        let ends = self.ends_of_all(list, vec![start])?;
        Ok(ends.binary_search(&end).is_ok())
    }

    /// Finds what the groups in a part have, which matches exactly this.
    fn dissect(&mut self, node: &Node, start: usize, end: usize) -> Result<(), Failure> {
        if !node.has_groups() {
            return Ok(());
        }
        match node {
            Node::Group(number, inner) => {
                self.found[*number] = Some((start, end));
                self.dissect(inner, start, end)
            }
            Node::Sequence(list) => self.dissect_all(list, start, end),
            Node::Alternatives(list) => {
                for branch in list {
                    if self.is_exact(std::slice::from_ref(branch), start, end)? {
                        return self.dissect(branch, start, end);
                    }
                }
                Ok(())
            }
            Node::Repeated(repeated) => self.dissect_repeated(repeated, start, end),
            _ => Ok(()),
        }
    }

    fn dissect_all(&mut self, list: &[Node], start: usize, end: usize) -> Result<(), Failure> {
        let Some(first) = list.first() else {
            return Ok(());
        };
        // Parts without groups that prefer the same are one part.
        let mut preference = first.preference();
        let mut count = 1;
        if !first.has_groups() {
            for node in &list[1..] {
                let other = node.preference();
                let differs = other != Preference::None
                    && preference != Preference::None
                    && other != preference;
                if node.has_groups() || differs {
                    break;
                }
                preference = preference.or(other);
                count += 1;
            }
        }
        let (head, rest) = list.split_at(count);
        if !rest.iter().any(Node::has_groups) && !head.iter().any(Node::has_groups) {
            return Ok(());
        }
        let mut ends = self.ends_of_all(head, vec![start])?;
        ends.retain(|at| *at <= end);
        if preference != Preference::Shortest {
            ends.reverse();
        }
        for middle in ends {
            if self.is_exact(rest, middle, end)? {
                if let [head] = head {
                    self.dissect(head, start, middle)?;
                }
                return self.dissect_all(rest, middle, end);
            }
        }
        Ok(())
    }

    /// A group that is repeated has what its last repetition has.
    fn dissect_repeated(
        &mut self,
        repeated: &Repeated,
        start: usize,
        end: usize,
    ) -> Result<(), Failure> {
        let Repeated {
            node,
            min,
            max,
            preference,
        } = repeated;
        if *min == 1 && *max == Some(1) {
            return self.dissect(node, start, end);
        }
        if let Some(fewer) = min.checked_sub(1) {
            // As PostgreSQL: all but the last, then the last.
            let max = max.map(|max| max - 1);
            let mut ends = self.ends_repeated(node, fewer, max, vec![start])?;
            ends.retain(|at| *at <= end);
            if *preference != Preference::Shortest {
                ends.reverse();
            }
            for middle in ends {
                if self.is_exact(std::slice::from_ref(node), middle, end)? {
                    return self.dissect(node, middle, end);
                }
            }
            return Ok(());
        }
        if start == end {
            // One that can be empty is there once, unless it prefers to be short.
            let is_there = *max != Some(0) && node.preference() != Preference::Shortest;
            let is_empty = is_there && self.is_exact(std::slice::from_ref(node), start, end)?;
            return match is_empty {
                true => self.dissect(node, start, end),
                false => Ok(()),
            };
        }
        if let Some(last) = self.last_repetition(repeated, start, end)? {
            self.dissect(node, last, end)?;
        }
        Ok(())
    }

    /// Where the last repetition begins, if each prefers what the repeated part itself does, whatever the quantifier
    /// says. A step back tries the next choice.
    fn last_repetition(
        &mut self,
        repeated: &Repeated,
        start: usize,
        end: usize,
    ) -> Result<Option<usize>, Failure> {
        let key = |at: usize, number: usize| (at, repeated.max.map_or(0, |_| number));
        let mut dead = FxHashSet::default();
        let mut path = vec![(start, self.choices(repeated, start, end)?)];
        loop {
            let number = path.len();
            let Some((at, choices)) = path.last_mut() else {
                return Ok(None);
            };
            match choices.next() {
                Some(middle) if middle == end => return Ok(Some(*at)),
                Some(middle) => {
                    let is_full = repeated.max.is_some_and(|max| number >= max as usize);
                    // Without a bound, it does not matter how many there were.
                    if !is_full && !dead.contains(&key(middle, number + 1)) {
                        path.push((middle, self.choices(repeated, middle, end)?));
                    }
                }
                None => {
                    dead.insert(key(*at, number));
                    path.pop();
                }
            }
        }
    }

    /// Where one repetition from here can end, the preferred place first.
    fn choices(
        &mut self,
        repeated: &Repeated,
        start: usize,
        end: usize,
    ) -> Result<std::vec::IntoIter<usize>, Failure> {
        let mut ends = self.ends(&repeated.node, vec![start])?;
        ends.retain(|at| *at <= end && *at > start);
        if repeated.node.preference() != Preference::Shortest {
            ends.reverse();
        }
        Ok(ends.into_iter())
    }
}
