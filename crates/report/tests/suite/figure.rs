//! Figures as readers meet them: SVG that another parser accepts, PNG that another decoder opens.
use proptest::prelude::*;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Panel, Point, Series, Share};
use shorthaul_report::{Manifest, ReportError, Unit};

fn manifest() -> Manifest {
    Manifest::new("shorthaul", "0.1.0").arguments(["demo", "--note", "<&\">"]).seed(7)
}

fn figure() -> Figure {
    let line = Series::line("direct", Hue::Vermillion).dash(Dash::Dashed).points([
        Point::new(0.0, 0.0).within(0.0, 1e6),
        Point::new(1.0, 8e6).within(7e6, 9e6),
        Point::new(2.0, f64::NAN),
        Point::new(3.0, 5e6),
    ]);
    let throughput = Panel::new("GEO <600 ms> & more")
        .x(Axis::new("time", Unit::Seconds))
        .y(Axis::new("throughput", Unit::BitsPerSecond))
        .reference("link rate", 10e6)
        .series(line);
    let bars = Series::bars("split", Hue::Blue)
        .points([Point::new(0.0, 2.0).within(1.5, 2.5).text("2 ×"), Point::new(1.0, 3.0)]);
    let gain = Panel::new("Gain")
        .x(Axis::categories("", ["reno", "cubic"]))
        .y(Axis::new("gain", Unit::Times))
        .series(bars);
    Figure::new("A title").subtitle("what is seen").caption("how").columns(2).panel(throughput).panel(gain)
}

struct Image {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    comment: String,
    dots_per_metre: u32,
}

fn decode(bytes: &[u8]) -> Image {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut rgb).unwrap();
    assert_eq!((frame.color_type, frame.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    let info = reader.info();
    Image {
        width: info.width,
        height: info.height,
        comment: info.utf8_text[0].get_text().unwrap(),
        dots_per_metre: info.pixel_dims.unwrap().xppu,
        rgb,
    }
}

#[test]
fn the_svg_is_well_formed_and_carries_title_and_manifest() {
    let svg = figure().to_svg(&manifest());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let text = |tag: &str| {
        let node = document.descendants().find(|n| n.has_tag_name(("http://www.w3.org/2000/svg", tag)));
        node.and_then(|n| n.text()).unwrap().to_string()
    };
    assert_eq!(text("title"), "A title");
    assert!(text("desc").contains("GEO <600 ms> & more"));
    assert_eq!(text("metadata"), manifest().to_json());
}

#[test]
fn the_svg_needs_no_font_and_every_reference_resolves() {
    let svg = figure().to_svg(&manifest());
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(!document.descendants().any(|n| n.tag_name().name() == "text"));
    let ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
    let mut uses = 0;
    for node in document.descendants() {
        let href = node.attribute(("http://www.w3.org/1999/xlink", "href"));
        let clip = node.attribute("clip-path").map(|c| c.trim_start_matches("url(").trim_end_matches(')'));
        for reference in href.into_iter().chain(clip) {
            assert!(ids.contains(&reference.trim_start_matches('#')), "{reference}");
            uses += 1;
        }
    }
    assert!(uses > 100, "text is drawn glyph by glyph: {uses}");
}

#[test]
fn axes_are_labelled_with_unit_and_round_numbers() {
    let svg = figure().to_svg(&manifest());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let labels: Vec<&str> = document.descendants().filter_map(|n| n.attribute("aria-label")).collect();
    for wanted in
        ["time (s)", "throughput (Mbit/s)", "gain (×)", "reno", "10", "link rate", "2 ×", "direct", "split"]
    {
        assert!(labels.contains(&wanted), "{wanted} is not among {labels:?}");
    }
}

#[test]
fn the_png_is_the_size_asked_for_and_not_blank() {
    let image = decode(&figure().dots_per_inch(144.0).to_png(&manifest()).unwrap());
    assert_eq!(image.width, 1008);
    assert_eq!(image.dots_per_metre, 5669);
    assert_eq!(image.comment, manifest().to_json());
    let pixels = image.rgb.len() / 3;
    assert_eq!(pixels as u32, image.width * image.height);
    let count = |wanted: [u8; 3]| image.rgb.chunks_exact(3).filter(|p| *p == wanted).count();
    let paper = count([255, 255, 255]);
    assert!(paper > pixels / 2 && paper < pixels * 95 / 100, "{paper} of {pixels} pixels are paper");
    assert!(count([0x00, 0x72, 0xB2]) > pixels / 100, "bars in blue");
    assert!(count([0xD5, 0x5E, 0x00]) > 100, "a line in vermillion");
}

#[test]
fn the_same_figure_is_the_same_bytes() {
    assert_eq!(figure().to_svg(&manifest()), figure().to_svg(&manifest()));
    assert_eq!(figure().to_png(&manifest()).unwrap(), figure().to_png(&manifest()).unwrap());
}

#[test]
fn shared_ranges_put_equal_values_at_equal_heights() {
    let panel = |peak: f64| {
        Panel::new("p")
            .y(Axis::new("y", Unit::None))
            .series(Series::dots("", Hue::Green).points([(0.0, 5.0), (1.0, peak)]))
    };
    let figure = Figure::new("t").columns(2).panel(panel(10.0)).panel(panel(100.0));
    let first_dots = |svg: &str| -> Vec<f32> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let dots = document.descendants().filter(|n| n.attribute("fill") == Some("#009e73"));
        let y = |d: &str| d[1..].split([' ', 'C']).nth(1).unwrap().parse().unwrap();
        dots.map(|n| y(n.attribute("d").unwrap())).step_by(2).collect()
    };
    let apart = first_dots(&figure.to_svg(&manifest()));
    assert!((apart[0] - apart[1]).abs() > 10.0, "{apart:?}");
    let together = first_dots(&figure.clone().share_y(Share::All).to_svg(&manifest()));
    assert_eq!(together[0], together[1]);
}

#[test]
fn a_million_points_make_a_small_file_that_keeps_the_spike() {
    let spike = |i: u32| if i == 123_456 { 50.0 } else { f64::from(i % 7) };
    let series = Series::line("", Hue::Blue).points((0..1_000_000).map(|i| (f64::from(i), spike(i))));
    let panel = Panel::new("").y(Axis::new("", Unit::None).to(50.0)).series(series);
    let svg = Figure::new("t").panel(panel).to_svg(&manifest());
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let path = document.descendants().find(|n| n.attribute("stroke") == Some("#0072b2")).unwrap();
    let numbers = path.attribute("d").unwrap().split(['M', 'L']).skip(1);
    let heights: Vec<f32> = numbers.map(|p| p.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    let top = heights.iter().copied().fold(f32::MAX, f32::min);
    let bottom = heights.iter().copied().fold(0.0, f32::max);
    assert!((bottom - top - 118.0).abs() < 0.1, "the spike reaches from bottom to top: {bottom} {top}");
}

#[test]
fn files_are_written_beside_each_other_and_a_bad_place_is_named() {
    let dir = std::env::temp_dir().join(format!("shorthaul-report-{}", std::process::id()));
    let files = figure().dots_per_inch(50.0).save(&dir.join("deep/loss-0.1"), &manifest()).unwrap();
    let names: Vec<_> = files.iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["loss-0.1.svg", "loss-0.1.png"]);
    assert!(files.iter().all(|f| f.metadata().unwrap().len() > 1000));
    let error = figure().save(&files[0].join("below a file"), &manifest()).unwrap_err();
    assert!(error.to_string().contains("loss-0.1.svg"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_figure_beyond_reason_is_refused_before_memory_is() {
    let error = figure().dots_per_inch(1e5).to_png(&manifest()).unwrap_err();
    assert!(matches!(error, ReportError::TooLarge { .. }), "{error}");
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -1e9f64..1e9,
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the numbers and names, there is a figure, and all of its coordinates are numbers.
    #[test]
    fn any_data_make_a_well_formed_figure(
        points in prop::collection::vec((any_value(), any_value(), any_value()), 0..20),
        mark in prop::sample::select(vec![Mark::Line, Mark::Step, Mark::Bars, Mark::Dots, Mark::LineAndDots]),
        logarithmic: bool,
        label in "\\PC{0,30}",
    ) {
        let points = points.into_iter().map(|(x, y, z)| Point::new(x, y).within(y, z).text(&label));
        let mut y = Axis::new(&label, Unit::Bytes);
        if logarithmic {
            y = y.logarithmic();
        }
        let panel = Panel::new(&label).y(y).series(Series::new(&label, mark, Hue::Sky).points(points));
        let figure = Figure::new(&label).panel(panel).dots_per_inch(20.0);
        let svg = figure.to_svg(&manifest());
        let document = roxmltree::Document::parse(&svg);
        prop_assert!(document.is_ok(), "{:?}", document.err());
        let number = |text: &str| !text.contains("NaN") && !text.contains("inf");
        let geometry = ["d", "x", "y", "width", "height", "transform", "stroke-width"];
        for node in document.unwrap().descendants() {
            prop_assert!(geometry.iter().filter_map(|a| node.attribute(*a)).all(number), "{node:?}");
        }
        prop_assert!(figure.to_png(&manifest()).is_ok());
    }
}
