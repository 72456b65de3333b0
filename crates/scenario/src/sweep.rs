//! Which values a sweep varies, and where they stand in the text.
//!
//! A point of a sweep is the file's own text with other values in it. So a value may stand for anything,
//! a point is read exactly as a file is, and errors have the file's own lines.
use crate::ScenarioError;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One combination of the values that vary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The name of the listed case that it belongs to, where there is one.
    pub case: Option<String>,
    /// The swept values in TOML, by the path of what they replace.
    pub values: Vec<(String, String)>,
}

impl Point {
    /// What distinguishes it from the other points, in one line; empty where there is one point only.
    pub fn label(&self) -> String {
        let values = self.values.iter().map(|(path, value)| format!("{path} = {value}"));
        self.case.iter().cloned().chain(values).collect::<Vec<_>>().join(", ")
    }
}

/// Why a path cannot vary: what it leads to is the study's as a whole, and the same at all of its points.
pub(crate) fn of_the_whole(path: &str) -> Option<String> {
    let instead = match path.split('.').next()? {
        "seed" | "repeats" => {
            "every point is run with the seeds from `seed` on, `repeats` of them. Write `repeats = 10` at the head of the file, or give --seed and --repeats"
        }
        "name" | "about" => "points are told apart by what varies, or as cases: [cases.NAME]",
        "sweep" | "cases" => "write what else is to vary beside it, and not over it",
        _ => return None,
    };
    Some(format!("`{path}` does not vary from point to point, it is the study's: {instead}"))
}

/// The text with the point's values in it.
pub(crate) fn vary(
    source: &str,
    text: &str,
    values: &[(crate::spanned::Spanned<String>, String)],
) -> Result<String, ScenarioError> {
    let table = DeTable::parse(text).map_err(|error| ScenarioError::of_toml(source, text, &error))?;
    let mut changes: Vec<(Range<usize>, &str)> = Vec::new();
    for (path, value) in values {
        match find(table.get_ref(), path.get_ref()) {
            Some(span) if !text[span.clone()].starts_with('[') || !value.starts_with('{') => {
                changes.push((span, value));
            }
            _ => {
                let problem = format!(
                    "there is no `{}` in this file to vary; write its usual value there first. A path names \
                     the keys from the outside in, as in \"hosts.client.scheme\", \"links.client-server.link.delay\", \
                     \"chains.0.relays\" or \"flows.flow1.bulk\" (the first flow, where that has no name)",
                    path.get_ref()
                );
                return Err(ScenarioError::at(source, text, path.span(), problem));
            }
        }
    }
    changes.sort_by_key(|(span, _)| span.start);
    let mut varied = String::with_capacity(text.len());
    let mut done = 0;
    for (span, value) in changes {
        if span.start < done {
            return Err(ScenarioError::at(source, text, span, "two swept paths lie one within the other"));
        }
        varied.push_str(&text[done..span.start]);
        varied.push_str(value);
        done = span.end;
    }
    varied.push_str(&text[done..]);
    Ok(varied)
}

/// Where the value of `path` stands.
fn find(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    // a key may hold dots: the longest that fits is meant
    let mut ends: Vec<usize> = path.match_indices('.').map(|(at, _)| at).collect();
    ends.push(path.len());
    ends.iter().rev().find_map(|&end| {
        let key = &path[..end];
        let value = table.get(key)?;
        if end == path.len() { Some(value.span()) } else { find_in(key, value, &path[end + 1..]) }
    })
}

/// The same in what `key` has.
fn find_in(key: &str, value: &Spanned<DeValue<'_>>, path: &str) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Table(table) => find(table, path),
        DeValue::Array(array) => {
            let mut ends: Vec<usize> = path.match_indices('.').map(|(at, _)| at).collect();
            ends.push(path.len());
            ends.iter().rev().find_map(|&end| {
                let (name, rest) = (&path[..end], path.get(end + 1..));
                let element = element(key, array, name)?;
                match rest {
                    Some(rest) => find_in(name, element, rest),
                    None => Some(element.span()),
                }
            })
        }
        _ => None,
    }
}

/// An element of `list` by its number, its `name` (or what it is called without one), or the nodes that it lies between.
fn element<'a, 'i>(
    list: &str,
    array: &'a [Spanned<DeValue<'i>>],
    name: &str,
) -> Option<&'a Spanned<DeValue<'i>>> {
    if let Ok(number) = name.parse::<usize>() {
        return array.get(number);
    }
    let is_meant = |(index, element): &(usize, &Spanned<DeValue<'_>>)| {
        let Some(table) = element.get_ref().as_table() else { return false };
        let is_its = match table.get("name").and_then(|name| name.get_ref().as_str()) {
            Some(own) => own == name,
            None => kind_of(list).is_some_and(|kind| default_name(kind, *index) == name),
        };
        let between = table
            .get("between")
            .and_then(|between| between.get_ref().as_array())
            .map(|ends| ends.iter().filter_map(|end| end.get_ref().as_str()).collect::<Vec<_>>().join("-"));
        is_its || between.as_deref() == Some(name)
    };
    array.iter().enumerate().find(is_meant).map(|(_, element)| element)
}

/// What one of a list is, where it may have a name.
fn kind_of(list: &str) -> Option<&'static str> {
    match list {
        "flows" => Some("flow"),
        "cross" => Some("cross"),
        "cells" => Some("cell"),
        _ => None,
    }
}

/// What the `index`th (from 0) of a kind is called that has no name.
pub(crate) fn default_name(kind: &str, index: usize) -> String {
    format!("{kind}{}", index + 1)
}
