use crate::file::File;
use crate::resolve::{Source, resolve};
use crate::spanned::{Spanned, as_written};
use crate::sweep::{of_the_whole, vary};
use crate::{Point, Scenario, ScenarioError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most points that a sweep may have: a slip of the pen should not start a million runs.
const MOST_POINTS: usize = 100_000;

/// The most runs of a study, for the same reason; what is known of so many still has room in memory.
const MOST_RUNS: u64 = 1_000_000;

/// A scenario file: one scenario, or one for every point of its sweep, each to be run with several seeds.
///
/// Everything is checked when it is read, at every point.
#[derive(Clone, Debug)]
pub struct Study {
    file_name: String,
    directory: Option<PathBuf>,
    text: String,
    name: String,
    about: String,
    seed: u64,
    repeats: u32,
    points: Vec<Point>,
    cases: BTreeMap<String, Vec<(Spanned<String>, String)>>,
    paths: Vec<Spanned<String>>,
}

impl Study {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// If it cannot be read, or makes no sense at one of its points.
    pub fn from_file(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ScenarioError::whole(&name, format!("cannot be read: {error}; give the path of a scenario file"))
        })?;
        let directory = path.parent().map(|parent| match parent.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => parent.to_owned(),
        });
        Self::read(name, text, directory)
    }

    /// Reads a scenario from a text; `name` is what errors call it. It may not refer to trace files.
    /// [`in_directory`](Study::in_directory) is for those that do. A flow without a name is called by its place: `flow1`.
    ///
    /// ```
    /// let text = r#"
    /// duration = "30 s"
    /// [hosts.client]
    /// [hosts.server]
    /// [[links]]
    /// between = ["client", "server"]
    /// link = { rate = "10 Mbit/s", delay = "40 ms", queue = "50 packets" }
    /// [[flows]]
    /// from = "server"
    /// to = "client"
    /// bulk = "1 MB"
    /// [sweep]
    /// "flows.flow1.bulk" = ["1 MB", "10 MB"]
    /// "#;
    /// let study = shorthaul_scenario::Study::from_toml("example", text)?;
    /// assert_eq!(study.points().len(), 2);
    /// # Ok::<(), shorthaul_scenario::ScenarioError>(())
    /// ```
    ///
    /// # Errors
    /// If it makes no sense at one of its points.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::read(name.to_owned(), text.to_owned(), None)
    }

    /// Reads a scenario from a text as if it stood in a file of `directory`: trace files are looked for there.
    ///
    /// # Errors
    /// If it makes no sense at one of its points, or a trace file cannot be read.
    pub fn in_directory(name: &str, text: &str, directory: &Path) -> Result<Self, ScenarioError> {
        Self::read(name.to_owned(), text.to_owned(), Some(directory.to_owned()))
    }

    fn read(file_name: String, text: String, directory: Option<PathBuf>) -> Result<Self, ScenarioError> {
        let file = parse(&file_name, &text)?;
        if file.repeats == 0 {
            return Err(ScenarioError::whole(&file_name, "`repeats` is zero: nothing would be run"));
        }
        let cases = file.cases.iter().map(|(name, values)| {
            let values = values.iter().map(|(path, value)| (path.clone(), value.to_string()));
            (name.get_ref().clone(), values.collect())
        });
        let mut study = Study {
            seed: file.seed,
            repeats: file.repeats,
            about: file.about.clone(),
            points: Vec::new(),
            cases: cases.collect(),
            paths: as_written(file.sweep.keys()).into_iter().cloned().collect(),
            name: String::new(),
            file_name,
            directory,
            text,
        };
        for path in study.paths.iter().chain(study.cases.values().flatten().map(|(path, _)| path)) {
            if let Some(problem) = of_the_whole(path.get_ref()) {
                return Err(ScenarioError::at(&study.file_name, &study.text, path.span(), problem));
            }
        }
        study.points = study.all_points(&file)?;
        if let Some(problem) = study.too_many_runs() {
            return Err(ScenarioError::whole(&study.file_name, problem));
        }
        // first as it stands, for an error without the distraction of a point
        study.scenario(&Point::default())?;
        for point in &study.points {
            let scenario = study.scenario(point)?;
            study.name = scenario.name;
        }
        Ok(study)
    }

    fn all_points(&self, file: &File) -> Result<Vec<Point>, ScenarioError> {
        let case = |name: &Spanned<String>| Point { case: Some(name.get_ref().clone()), values: Vec::new() };
        let mut points: Vec<Point> = as_written(file.cases.keys()).into_iter().map(case).collect();
        if points.is_empty() {
            points.push(Point::default());
        }
        for path in as_written(file.sweep.keys()) {
            let Some(values) = file.sweep.get(path) else { continue };
            if values.get_ref().is_empty() || points.len() * values.get_ref().len() > MOST_POINTS {
                let problem = format!("a sweep has 1 to {MOST_POINTS} points in all");
                return Err(ScenarioError::at(&self.file_name, &self.text, values.span(), problem));
            }
            points = points
                .iter()
                .flat_map(|point| {
                    values.get_ref().iter().map(|value| {
                        let mut point = point.clone();
                        point.values.push((path.get_ref().clone(), value.to_string()));
                        point
                    })
                })
                .collect();
        }
        Ok(points)
    }

    /// What a point's scenario looks like in the file: the text with its values in it.
    ///
    /// # Errors
    /// If a value does not fit where its path leads; not for the points of this study, which have been checked.
    pub fn text_at(&self, point: &Point) -> Result<String, ScenarioError> {
        let mut values: Vec<(Spanned<String>, String)> = match &point.case {
            Some(case) => self.cases.get(case).cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        for (path, value) in &point.values {
            let path = self.paths.iter().find(|known| known.get_ref() == path);
            values.extend(path.map(|path| (path.clone(), value.clone())));
        }
        vary(&self.file_name, &self.text, &values)
    }

    /// The scenario at one of the [`points`](Study::points).
    ///
    /// # Errors
    /// If it makes no sense; not for the points of this study, which have been checked.
    pub fn scenario(&self, point: &Point) -> Result<Scenario, ScenarioError> {
        let in_point = |error: ScenarioError| error.in_point(&point.label());
        let text = self.text_at(point)?;
        let file = parse(&self.file_name, &text).map_err(in_point)?;
        let source = Source { name: &self.file_name, text: &text, directory: self.directory.as_deref() };
        resolve(&source, file).map_err(in_point)
    }

    /// What decides about the outcome of a run at a point, but for the seed, in a form that does not depend
    /// on how it is written: two points with the same text have the same outcomes.
    ///
    /// # Errors
    /// As [`Study::scenario`].
    pub fn fingerprint(&self, point: &Point) -> Result<String, ScenarioError> {
        let text = self.text_at(point)?;
        let mut table: toml::Table =
            toml::from_str(&text).map_err(|error| ScenarioError::of_toml(&self.file_name, &text, &error))?;
        for key in ["name", "about", "seed", "repeats", "sweep", "cases"] {
            table.remove(key);
        }
        let mut fingerprint = table.to_string();
        for link in self.scenario(point)?.links {
            for (file, trace) in &link.traces {
                fingerprint.push_str(&format!("# {file}: {trace:?}\n"));
            }
        }
        Ok(fingerprint)
    }

    /// The name of the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is about, in the author's words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The points, in the order of the file: the cases, and within each the sweep, the last path fastest.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The seeds of the runs of each point.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(self.repeats)).map(move |n| first.wrapping_add(n))
    }

    /// What is wrong with a study of more runs than a slip of the pen should start, and the most that `repeats` can be.
    pub fn too_many_runs(&self) -> Option<String> {
        let (points, repeats) = (self.points.len().max(1) as u64, u64::from(self.repeats));
        (points.saturating_mul(repeats) > MOST_RUNS).then(|| {
            format!(
                "`repeats` is {repeats}, for each of {points} points: a study has {MOST_RUNS} runs at most; write {} or less",
                MOST_RUNS / points
            )
        })
    }

    /// Runs every point with `repeats` seeds, from `seed` on; [`too_many_runs`](Study::too_many_runs) says whether that can be.
    #[must_use]
    pub fn with_seeds(self, seed: u64, repeats: u32) -> Self {
        Study { seed, repeats: repeats.max(1), ..self }
    }
}

fn parse(file_name: &str, text: &str) -> Result<File, ScenarioError> {
    toml::from_str(text).map_err(|error| ScenarioError::of_toml(file_name, text, &error))
}
