use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::Terminal;
use crate::page::Escaped;

/// A table for people: aligned by the width that characters take on a terminal.
///
/// ```
/// use shorthaul_report::{Column, Table, Terminal};
/// let mut table = Table::new([Column::left("path"), Column::right("goodput").unit("Mbit/s")]);
/// table.row(["geo", "1.52"]);
/// assert_eq!(table.render(Terminal::PLAIN), "\
/// path  goodput
///        Mbit/s
/// ────  ───────
/// geo      1.52
/// ");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// A column: its heading, its unit and its side.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    unit: String,
    align: Align,
}

/// The side that the cells of a column keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A cell: text and how it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCell {
    text: String,
    tone: Tone,
}

/// How a cell is meant; shown by colour or weight, and only where the terminal can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// What the eye should find first.
    Strong,
    /// What the eye may pass over.
    Quiet,
    /// Better.
    Good,
    /// Worse, or failed.
    Bad,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<TableCell>),
    Rule,
}

impl Column {
    /// A column of words.
    pub fn left(heading: &str) -> Self {
        Column { heading: heading.to_string(), unit: String::new(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn right(heading: &str) -> Self {
        Column { heading: heading.to_string(), unit: String::new(), align: Align::Right }
    }

    /// The unit, written below the heading.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = unit.to_string();
        self
    }
}

impl Align {
    /// The attribute of HTML cells.
    fn class(self) -> &'static str {
        match self {
            Align::Left => "",
            Align::Right => " class=\"r\"",
        }
    }
}

impl TableCell {
    /// A cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        TableCell { text: text.into(), tone }
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        TableCell::toned(text, Tone::Plain)
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        TableCell::toned(text, Tone::Plain)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; cells that are not given are empty.
    ///
    /// # Panics
    /// Where there are more cells than columns: that is a mistake in the program.
    pub fn row<C: Into<TableCell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        let mut cells: Vec<TableCell> = cells.into_iter().map(Into::into).collect();
        let expected = self.columns.len();
        assert!(cells.len() <= expected, "a row of {} cells in a table of {expected} columns", cells.len());
        cells.resize(expected, TableCell::from(""));
        self.rows.push(Row::Cells(cells));
        self
    }

    /// Columns, each by its heading and unit, and rows, as JSON: cells as they are shown.
    pub fn to_json(&self) -> serde_json::Value {
        let heading = |column: &Column| format!("{} {}", column.heading, column.unit).trim().to_owned();
        let cells = |row: &Row| match row {
            Row::Cells(cells) => Some(cells.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>()),
            Row::Rule => None,
        };
        serde_json::json!({
            "columns": self.columns.iter().map(heading).collect::<Vec<_>>(),
            "rows": self.rows.iter().filter_map(cells).collect::<Vec<_>>(),
        })
    }

    /// Adds a thin line between groups of rows.
    pub fn rule(&mut self) -> &mut Self {
        self.rows.push(Row::Rule);
        self
    }

    /// The table as text, each line ended, none with trailing space.
    pub fn render(&self, terminal: Terminal) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let heading = |c: &Column| TableCell::toned(c.heading.clone(), Tone::Strong);
        self.line(&mut out, &widths, terminal, self.columns.iter().map(heading));
        if self.columns.iter().any(|c| !c.unit.is_empty()) {
            let unit = |c: &Column| TableCell::toned(c.unit.clone(), Tone::Quiet);
            self.line(&mut out, &widths, terminal, self.columns.iter().map(unit));
        }
        let rule: Vec<TableCell> =
            widths.iter().map(|w| TableCell::toned("─".repeat(*w), Tone::Quiet)).collect();
        self.line(&mut out, &widths, terminal, rule.iter().cloned());
        for row in &self.rows {
            let cells = match row {
                Row::Cells(cells) => cells,
                Row::Rule => &rule,
            };
            self.line(&mut out, &widths, terminal, cells.iter().cloned());
        }
        out
    }

    /// The table's head and rows as HTML, without the `<table>` around them.
    pub(crate) fn to_html_rows(&self) -> String {
        let mut out = String::from("<thead><tr>");
        for column in &self.columns {
            let (class, heading) = (column.align.class(), Escaped(&column.heading));
            let _ = write!(out, "<th{class}>{heading}");
            if !column.unit.is_empty() {
                let _ = write!(out, "<br><span class=\"unit\">{}</span>", Escaped(&column.unit));
            }
            out.push_str("</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            let Row::Cells(cells) = row else {
                let _ = writeln!(out, "<tr class=\"rule\"><td colspan=\"{}\"></td></tr>", self.columns.len());
                continue;
            };
            out.push_str("<tr>");
            for (cell, column) in cells.iter().zip(&self.columns) {
                let class = column.align.class();
                let text = Escaped(&cell.text);
                let _ = match cell.tone {
                    Tone::Plain => write!(out, "<td{class}>{text}</td>"),
                    Tone::Strong => write!(out, "<td{class}><span class=\"strong\">{text}</span></td>"),
                    Tone::Quiet => write!(out, "<td{class}><span class=\"quiet\">{text}</span></td>"),
                    Tone::Good => write!(out, "<td{class}><span class=\"good\">{text}</span></td>"),
                    Tone::Bad => write!(out, "<td{class}><span class=\"bad\">{text}</span></td>"),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n");
        out
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|c| c.heading.as_str().width().max(c.unit.as_str().width())).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.text.as_str().width());
                }
            }
        }
        widths
    }

    fn line(
        &self,
        out: &mut String,
        widths: &[usize],
        terminal: Terminal,
        cells: impl Iterator<Item = TableCell>,
    ) {
        let start = out.len();
        // Where the last visible character ends: padding after it is cut off again.
        let mut visible_end = start;
        for (i, (cell, column)) in cells.zip(&self.columns).enumerate() {
            if i > 0 {
                out.push_str("  ");
            }
            let padding = widths[i].saturating_sub(cell.text.as_str().width());
            if column.align == Align::Right {
                out.extend(std::iter::repeat_n(' ', padding));
            }
            if !cell.text.is_empty() {
                push_toned(out, &cell, terminal);
                visible_end = out.len();
            }
            if column.align == Align::Left {
                out.extend(std::iter::repeat_n(' ', padding));
            }
        }
        out.truncate(visible_end);
        out.push('\n');
    }
}

/// ECMA-48 select graphic rendition; the 8 basic colours follow the reader's own scheme.
fn push_toned(out: &mut String, cell: &TableCell, terminal: Terminal) {
    let code = match cell.tone {
        _ if !terminal.color => None,
        Tone::Plain => None,
        Tone::Strong => Some("1"),
        Tone::Quiet => Some("2"),
        Tone::Good => Some("32"),
        Tone::Bad => Some("31"),
    };
    match code {
        Some(code) => {
            let _ = write!(out, "\x1b[{code}m{}\x1b[0m", cell.text);
        }
        None => out.push_str(&cell.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::left("path"), Column::right("gain"), Column::left("note")]);
        table.row(["半分 half", "2.1 ×", "ok"]).rule();
        table.row([TableCell::from("geo"), TableCell::toned("10.0 ×", Tone::Good)]);
        table
    }

    #[test]
    fn columns_line_up_by_terminal_width() {
        let expected = "\
path         gain  note
─────────  ──────  ────
半分 half   2.1 ×  ok
─────────  ──────  ────
geo        10.0 ×
";
        assert_eq!(table().render(Terminal::PLAIN), expected);
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let colored = table().render(Terminal { color: true, interactive: true });
        assert!(colored.contains("\x1b[32m10.0 ×\x1b[0m"), "{colored:?}");
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some(at) = rest.find('\x1b') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + rest[at..].find('m').unwrap() + 1..];
        }
        plain.push_str(rest);
        assert_eq!(plain, table().render(Terminal::PLAIN));
    }

    #[test]
    #[should_panic(expected = "3 cells in a table of 2 columns")]
    fn a_row_too_wide_is_a_mistake() {
        Table::new([Column::left("a"), Column::left("b")]).row(["1", "2", "3"]);
    }
}
