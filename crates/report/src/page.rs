//! One HTML page that holds everything a reader needs, and refers to nothing outside of itself.
use std::fmt::Write as _;
use std::path::Path;

use crate::error::write_file;
use crate::plot::Figure;
use crate::{Manifest, ReportError, Table};

/// A report as one self-contained HTML page: what was run, what came of it, as tables, figures and sentences.
///
/// It has no scripts, no fonts and no links to fetch, reads the same in ten years, and prints on paper.
/// Everything that is shown is escaped: a scenario's name cannot become markup.
///
/// ```
/// use shorthaul_report::{Column, Manifest, Page, Table};
/// let mut table = Table::new([Column::left("path"), Column::right("goodput")]);
/// table.row(["<geo>", "1.52 Mbit/s"]);
/// let mut page = Page::new("A run", &Manifest::new("shorthaul", "0.1.0"));
/// page.heading("Results").table("By path", &table);
/// assert!(page.to_html().contains("&lt;geo&gt;"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    manifest: Manifest,
    body: String,
}

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;line-height:1.2;margin-bottom:.3rem}h2{font-size:1.2rem;margin-top:2rem}\
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;margin:.5rem 0}\
caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{padding:.15rem .6rem;text-align:left;vertical-align:top}th{border-bottom:1px solid #222}\
.unit{font-weight:400;color:#666}.r{text-align:right;white-space:nowrap}\
.rule td{border-top:1px solid #bbb;padding:0}.strong{font-weight:600}.quiet{color:#666}\
.good{color:#00694d}.bad{color:#a13f00;font-weight:600}\
.wide{overflow-x:auto}pre{background:#f5f5f5;padding:.8rem;font-size:.8rem;overflow-x:auto;white-space:pre-wrap}\
figure{margin:1rem 0}svg{width:100%;height:auto}.narrow{display:none}summary{cursor:pointer;padding:.5rem 0}\
dt{color:#666;float:left;clear:left;width:7rem}\
dd{margin-left:7.5rem;overflow-wrap:anywhere}\
@media screen and (max-width:600px){.broad{display:none}.narrow{display:block}dt{float:none}dd{margin-left:0}}\
@media print{body{font-size:10pt;max-width:none;margin:0}figure,tr{break-inside:avoid}h2{break-after:avoid}\
pre{background:none;border:1px solid #bbb}.wide{overflow:visible}}";

impl Page {
    /// A page with a title, and what produced it below that.
    pub fn new(title: &str, manifest: &Manifest) -> Self {
        Page { title: title.to_owned(), manifest: manifest.clone(), body: String::new() }
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.push(format_args!("<h2>{}</h2>\n", Escaped(text)))
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.push(format_args!("<p>{}</p>\n", Escaped(text)))
    }

    /// Adds a list of remarks; nothing if there are none.
    pub fn remarks<S: AsRef<str>>(&mut self, remarks: impl IntoIterator<Item = S>) -> &mut Self {
        let mut items = String::new();
        for remark in remarks {
            let _ = writeln!(items, "<li>{}</li>", Escaped(remark.as_ref()));
        }
        if items.is_empty() { self } else { self.push(format_args!("<ul>\n{items}</ul>\n")) }
    }

    /// Adds a table with a caption.
    pub fn table(&mut self, caption: &str, table: &Table) -> &mut Self {
        let rows = table.to_html_rows();
        let caption = Escaped(caption);
        self.push(format_args!(
            "<div class=\"wide\"><table>\n<caption>{caption}</caption>\n{rows}</table></div>\n"
        ))
    }

    /// Adds a figure, as SVG within the page: as wide as the text, and once more for narrow screens.
    pub fn figure(&mut self, figure: &Figure) -> &mut Self {
        let [broad, narrow] = [figure.to_svg(&self.manifest), figure.narrow().to_svg(&self.manifest)];
        self.push(format_args!(
            "<figure class=\"broad\">\n{broad}</figure>\n<figure class=\"narrow\">\n{narrow}</figure>\n"
        ))
    }

    /// Adds a text as it was written, such as a scenario file, folded away behind what it is.
    pub fn source(&mut self, what: &str, text: &str) -> &mut Self {
        self.push(format_args!(
            "<details><summary>{}</summary><pre>{}</pre></details>\n",
            Escaped(what),
            Escaped(text)
        ))
    }

    fn push(&mut self, html: std::fmt::Arguments<'_>) -> &mut Self {
        let _ = self.body.write_fmt(html); // a String takes everything
        self
    }

    /// The page as HTML.
    pub fn to_html(&self) -> String {
        let title = Escaped(&self.title);
        let mut facts = String::new();
        for line in self.manifest.lines() {
            let (key, value) = line.split_once(": ").unwrap_or(("program", &line));
            let _ = writeln!(facts, "<dt>{}</dt><dd>{}</dd>", Escaped(key), Escaped(value));
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n{facts}</dl>\n{body}</body>\n</html>\n",
            body = self.body
        )
    }

    /// Writes the page to a file, making the directories above it.
    ///
    /// # Errors
    /// [`ReportError::Write`] with the path.
    pub fn save(&self, path: &Path) -> Result<(), ReportError> {
        write_file(path, self.to_html().as_bytes())
    }
}

/// Text as HTML character data or attribute value; line breaks stay, what HTML cannot hold is left out.
pub(crate) struct Escaped<'a>(pub &'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                c if c.is_control() => {}
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
