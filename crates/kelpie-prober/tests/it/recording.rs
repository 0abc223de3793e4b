//! Records the probers of a simulated landscape, and replays them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelpie_prober::{OtherSettings, RecordEnd, RecordReader, RecordSettings, ReplayReport, replay};

/// The records of the processes that start on this thread.
struct Recording {
    settings: RecordSettings,
    started: Vec<(PathBuf, RecordEnd)>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// The bounds of a record that keeps everything.
pub(crate) fn unbounded(directory: &Path) -> RecordSettings {
    RecordSettings {
        directory: directory.to_owned(),
        file_bytes: u64::MAX,
        files: usize::MAX,
        queue_bytes: usize::MAX,
    }
}

/// Records each prober that `play` starts, in a folder of its own. Returns these folders.
pub(crate) fn recorded<T>(settings: RecordSettings, play: impl FnOnce() -> T) -> (T, Vec<PathBuf>) {
    let started = Vec::new();
    RECORDING.set(Some(Recording { settings, started }));
    let result = play();
    let started = RECORDING.take().unwrap().started;
    let folders = started.into_iter().map(|(folder, end)| {
        end.wait(Duration::from_mins(1));
        folder
    });
    (result, folders.collect())
}

/// Returns the settings of the next process's record, if it is recorded.
pub(crate) fn next_record() -> Option<RecordSettings> {
    RECORDING.with_borrow(|recording| {
        let recording = recording.as_ref()?;
        let name = format!("{}", recording.started.len());
        let directory = recording.settings.directory.join(name);
        Some(RecordSettings {
            directory,
            ..recording.settings.clone()
        })
    })
}

/// Keeps the end of a record that has started.
pub(crate) fn started(end: RecordEnd) {
    let folder = next_record().unwrap().directory;
    RECORDING.with_borrow_mut(|recording| {
        recording.as_mut().unwrap().started.push((folder, end));
    });
}

/// Replays a record, which must be readable.
pub(crate) fn replayed(record: &Path, other: Option<&OtherSettings>) -> ReplayReport {
    let reader = RecordReader::open(record).unwrap();
    replay(reader, other).unwrap_or_else(|error| panic!("{error}"))
}
