//! The HTML page as a browser meets it: it refers to nothing outside of itself, and shows what it is given
//! as text.
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Manifest, Page, Table, TableCell, Tone, Unit};

const NASTY: &str = "<script>alert('x')</script> & \"q\" <img src=http://example.org/x.png>";

fn page() -> String {
    let manifest = Manifest::new("shorthaul", "0.1.0")
        .arguments(["run", NASTY])
        .seed(7)
        .scenario(NASTY, "abc")
        .fact("kernel", NASTY);
    let mut table = Table::new([Column::left(NASTY).unit(NASTY), Column::right("goodput")]);
    table
        .row([TableCell::from(NASTY), TableCell::toned(NASTY, Tone::Bad)])
        .rule()
        .row(["plain", "1.5 Mbit/s"]);
    let series = Series::line(NASTY, Hue::Blue).points([Point::new(0.0, 1.0).within(0.5, 1.5).text(NASTY)]);
    let axis = |label| Axis::new(label, Unit::Seconds);
    let figure =
        Figure::new(NASTY).caption(NASTY).panel(Panel::new(NASTY).x(axis(NASTY)).y(axis("y")).series(series));
    let mut page = Page::new(NASTY, &manifest);
    page.heading(NASTY).text(NASTY).remarks([NASTY]).table(NASTY, &table).figure(&figure);
    page.source(NASTY, &format!("about = '{NASTY}'\n[hosts.a]\n"));
    page.to_html()
}

/// The tags of a page, from `<` to `>`.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()).collect()
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let html = page();
    let known = [
        "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "h1", "h2", "dl", "dt", "dd", "p",
        "ul", "li", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "br", "span", "figure",
        "pre", "details", "summary", // of figures; these refer to each other within the page only
        "svg", "desc", "metadata", "defs", "path", "clipPath", "rect", "g", "use",
    ];
    for tag in tags(&html) {
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        assert!(known.contains(&name), "<{tag}>");
        // what stands between quotes is a value, and not an attribute
        let attributes: String = tag.split('"').step_by(2).collect();
        assert!(!attributes.contains("src="), "<{tag}>");
        for (at, _) in tag.match_indices("href=\"") {
            assert!(tag[at..].starts_with("href=\"#"), "<{tag}>");
        }
        for (at, _) in tag.match_indices("url(") {
            assert!(tag[at..].starts_with("url(#"), "<{tag}>");
        }
    }
    let style = html.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
    assert!(!style.contains("url(") && !style.contains("@import") && !style.contains("//"), "{style}");
}

#[test]
fn what_is_shown_is_text_and_nothing_else() {
    let html = page();
    let escaped = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;q&quot;";
    // title, heading 1, three facts, heading 2, text, remark, three in the table and its caption, stated, source
    assert!(html.matches(escaped).count() >= 13, "{}", html.matches(escaped).count());
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("<b>"));
    assert!(html.contains("</span></td></tr>\n<tr class=\"rule\">"));
    assert!(
        html.contains("about = &#39;") && html.contains("\n[hosts.a]\n</pre>"),
        "the text keeps its lines"
    );
}

#[test]
fn every_tag_that_is_opened_is_closed() {
    let html = page();
    let mut open = Vec::new();
    for tag in tags(&html) {
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        match tag {
            _ if ["!DOCTYPE", "meta", "br"].contains(&name) || tag.ends_with('/') => {}
            tag if tag.starts_with('/') => assert_eq!(open.pop(), Some(name)),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
