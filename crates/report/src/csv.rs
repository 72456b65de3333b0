use std::borrow::Cow;
use std::path::Path;

use crate::error::write_file;
use crate::{Manifest, ReportError};

/// Tidy data (one observation a row, one variable a column) as RFC 4180 CSV.
///
/// The manifest comes first, as lines that begin with `# `; every common reader can be told to
/// skip those (`comment='#'` in pandas, `comment.char="#"` in R). Numbers are written in full
/// precision, a missing value as an empty field.
///
/// ```
/// use shorthaul_report::{Csv, Manifest};
/// let mut csv = Csv::new(&Manifest::new("shorthaul", "0.1.0"), &["path", "goodput_bit_per_s"]);
/// csv.row(["geo".into(), 1.5e6.into()])?;
/// assert!(csv.text().ends_with("path,goodput_bit_per_s\r\ngeo,1500000\r\n"));
/// # Ok::<(), shorthaul_report::ReportError>(())
/// ```
#[derive(Debug)]
pub struct Csv {
    writer: ::csv::Writer<Vec<u8>>,
    columns: Vec<String>,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Text, quoted where it must be.
    Text(String),
    /// A number; what is not finite is written as missing.
    Number(f64),
    /// A whole number.
    Integer(i128),
    /// Not measured: an empty field.
    Missing,
}

impl Csv {
    /// Starts with the manifest and the names of the columns; put the unit into the name.
    pub fn new(manifest: &Manifest, columns: &[&str]) -> Self {
        let comments: String = manifest.lines().iter().map(|line| format!("# {line}\r\n")).collect();
        let writer = ::csv::WriterBuilder::new()
            .terminator(::csv::Terminator::CRLF)
            // A field that begins like a comment is quoted.
            .comment(Some(b'#'))
            .from_writer(comments.into_bytes());
        let mut csv = Csv { writer, columns: columns.iter().map(|column| (*column).to_owned()).collect() };
        csv.push(columns).expect("memory takes everything");
        csv
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`ReportError::RowWidth`] where the row has not as many fields as there are columns.
    pub fn row(&mut self, fields: impl IntoIterator<Item = Field>) -> Result<(), ReportError> {
        let fields: Vec<String> = fields.into_iter().map(Field::written).collect();
        if fields.len() != self.columns.len() {
            return Err(ReportError::RowWidth {
                found: fields.len(),
                expected: self.columns.len(),
                columns: self.columns.join(", "),
            });
        }
        Ok(self.push(&fields)?)
    }

    fn push<S: AsRef<[u8]>>(&mut self, record: &[S]) -> Result<(), ::csv::Error> {
        self.writer.write_record(record)?;
        Ok(self.writer.flush()?)
    }

    /// The whole text so far.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.writer.get_ref())
    }

    /// Writes the text to a file, making the directories above it.
    ///
    /// # Errors
    /// [`ReportError::Write`] with the path.
    pub fn save(&self, path: &Path) -> Result<(), ReportError> {
        write_file(path, self.writer.get_ref())
    }
}

impl Field {
    /// As it is written, before it is quoted.
    fn written(self) -> String {
        match self {
            Field::Text(text) => text,
            Field::Number(number) if number.is_finite() => number.to_string(),
            Field::Integer(number) => number.to_string(),
            Field::Number(_) | Field::Missing => String::new(),
        }
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Field::Text(text.to_string())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Field::Text(text)
    }
}

impl From<f64> for Field {
    fn from(number: f64) -> Self {
        Field::Number(number)
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Field::Integer(number.into())
    }
}

impl From<usize> for Field {
    fn from(number: usize) -> Self {
        Field::Integer(number as i128)
    }
}

impl From<bool> for Field {
    fn from(truth: bool) -> Self {
        Field::Text(truth.to_string())
    }
}

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Field::Missing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_back(text: &str) -> Vec<Vec<String>> {
        ::csv::ReaderBuilder::new()
            .has_headers(false)
            .comment(Some(b'#'))
            .from_reader(text.as_bytes())
            .records()
            .map(|record| record.unwrap().iter().map(str::to_string).collect())
            .collect()
    }

    proptest! {
        /// Another reader (the crate `csv`) gets back what was written, whatever the text.
        #[test]
        fn another_reader_gets_the_same_text(
            rows in (1usize..4).prop_flat_map(|n| prop::collection::vec(prop::collection::vec("[ -~,\"\n\r#é×]{0,12}", n), 1..6))
        ) {
            let columns = vec!["a,b"; rows[0].len()];
            let mut csv = Csv::new(&Manifest::new("shorthaul", "0"), &columns);
            for row in &rows {
                csv.row(row.iter().map(|text| Field::from(text.as_str()))).unwrap();
            }
            let read = read_back(&csv.text());
            prop_assert_eq!(&read[0], &columns);
            prop_assert_eq!(&read[1..], &rows[..]);
        }

        #[test]
        fn a_number_is_written_in_full_precision(number: f64) {
            let mut csv = Csv::new(&Manifest::new("shorthaul", "0"), &["x", "y"]);
            csv.row([number.into(), 1u64.into()]).unwrap();
            let read = read_back(&csv.text());
            match read[1][0].parse::<f64>() {
                Ok(back) => prop_assert_eq!(back, number),
                Err(_) => prop_assert!(!number.is_finite() && read[1][0].is_empty()),
            }
        }
    }

    #[test]
    fn a_row_of_the_wrong_width_is_refused_by_name() {
        let mut csv = Csv::new(&Manifest::new("shorthaul", "0"), &["path", "rate"]);
        let error = csv.row(["geo".into()]).unwrap_err().to_string();
        assert!(error.contains("path, rate") && error.contains('1') && error.contains('2'), "{error}");
    }

    #[test]
    fn missing_is_empty_and_the_manifest_comes_first() {
        let mut csv = Csv::new(&Manifest::new("shorthaul", "0").seed(3), &["path", "rate"]);
        csv.row(["geo".into(), Field::from(None::<f64>)]).unwrap();
        assert!(csv.text().starts_with("# shorthaul 0\r\n"), "{}", csv.text());
        assert!(csv.text().contains("# seed: 3\r\n"));
        assert!(csv.text().ends_with("geo,\r\n"));
    }
}
