use std::path::{Path, PathBuf};

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or directory could not be made or written.
    #[error("cannot write {path}: {source}; choose another place or make room there")]
    Write {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A row did not have as many fields as there are columns.
    #[error("a row of {found} fields in a table of {expected} columns ({columns})")]
    RowWidth {
        /// Fields in the row.
        found: usize,
        /// Columns of the table.
        expected: usize,
        /// The names of the columns, separated by commas.
        columns: String,
    },
    /// A row could not be put into a table of data.
    #[error("cannot write a row: {0}")]
    Csv(#[from] csv::Error),
    /// A figure too large to be drawn as pixels.
    #[error(
        "a figure of {width} × {height} pixels is too large for a PNG: choose fewer dots per inch or fewer panels"
    )]
    TooLarge {
        /// Pixels across.
        width: u64,
        /// Pixels down.
        height: u64,
    },
    /// The PNG encoder refused.
    #[error("cannot encode a PNG: {0}")]
    Png(#[from] png::EncodingError),
}

/// Writes a file, making the directories above it.
///
/// # Errors
/// [`ReportError::Write`] with the path.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), ReportError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    std::fs::write(path, bytes).map_err(|source| ReportError::Write { path: path.to_path_buf(), source })
}

/// Makes a directory for results, and those above it: before an hour is spent on what could not be written.
///
/// # Errors
/// [`ReportError::Write`] with the path.
pub fn make_directory(path: &Path) -> Result<(), ReportError> {
    std::fs::create_dir_all(path).map_err(|source| ReportError::Write { path: path.to_path_buf(), source })
}
