//! Writes log lines on a thread of its own, so that a component never waits for standard error.
//!
//! The reader of standard error may be slow or stuck. Then lines are lost, and counted.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// The number of lines that wait to be written.
const QUEUE: usize = 8_192;
/// The time that the process waits at its end for lines that are not written yet.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static STDERR: LazyLock<LogWriter> = LazyLock::new(|| LogWriter::to(io::stderr()));

/// The name of the set of probes, which every line has once it is known.
static NAME: OnceLock<String> = OnceLock::new();

/// Passes lines to the thread that writes them.
#[derive(Clone, Debug)]
pub(super) struct LogWriter {
    /// `None` if the thread cannot be started: all lines are lost.
    queue: Option<SyncSender<Entry>>,
    lost: Counter,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Answered once all lines before it are written.
    Flush(SyncSender<()>),
}

impl LogWriter {
    /// Returns the writer to standard error. The first call starts its thread.
    pub(super) fn start() -> Self {
        STDERR.clone()
    }

    fn to(sink: impl Write + Send + 'static) -> Self {
        let (queue, entries) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || write_all(&entries, sink));
        Self {
            queue: started.is_ok().then_some(queue),
            lost: Counter::default(),
        }
    }

    fn flush_within(&self, timeout: Duration) -> Result<(), RecvTimeoutError> {
        let (done, wait) = sync_channel(1);
        match self
            .queue
            .as_ref()
            .map(|queue| queue.try_send(Entry::Flush(done)))
        {
            Some(Ok(())) => wait.recv_timeout(timeout),
            // The reader is stuck.
            _ => Err(RecvTimeoutError::Timeout),
        }
    }
}

impl Write for LogWriter {
    /// Takes a line, which is whole: the formatter writes each event at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let entry = Entry::Line(named(line, NAME.get().map(String::as_str)));
        let sent = self.queue.as_ref().map(|queue| queue.try_send(entry));
        if !matches!(sent, Some(Ok(()))) {
            self.lost.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(entries: &Receiver<Entry>, mut sink: impl Write) {
    for entry in entries {
        // There is nowhere to report a failure to write.
        match entry {
            Entry::Line(line) => drop(sink.write_all(&line)),
            Entry::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Adds the name of the set of probes to every line from now on.
pub(crate) fn name_lines(name: &str) {
    if !name.is_empty() {
        let _ = NAME.set(name.to_owned());
    }
}

/// Adds the name to a line of text, or as the first field of a line of JSON.
fn named(line: &[u8], name: Option<&str>) -> Vec<u8> {
    let Some(name) = name else {
        return line.to_vec();
    };
    let name = name.escape_default();
    match (line.strip_prefix(b"{"), line.strip_suffix(b"\n")) {
        (Some(fields), _) => {
            let first = format!("{{\"probe_set\":\"{name}\",");
            [first.as_bytes(), fields].concat()
        }
        (None, Some(text)) => [text, format!(" probe_set=\"{name}\"\n").as_bytes()].concat(),
        (None, None) => line.to_vec(),
    }
}

/// Registers the number of lines that were lost.
pub(crate) fn register_metrics(registry: &mut Registry) {
    let help = "Log lines that were lost because standard error was not read fast enough";
    registry.register("kelpie_log_lines_lost", help, STDERR.lost.clone());
}

/// Waits briefly until all lines are written.
pub(crate) fn flush() {
    let _ = STDERR.flush_within(FLUSH_TIMEOUT);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A sink whose reader is stuck until it is released.
    struct StuckSink {
        released: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for StuckSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error means that it is released for good.
            let _ = self.released.recv();
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_have_the_name_of_the_probe_set() {
        for (line, expected) in [
            ("a b=1\n", "a b=1 probe_set=\"eu\"\n"),
            ("{\"a\":1}\n", "{\"probe_set\":\"eu\",\"a\":1}\n"),
        ] {
            assert_eq!(named(line.as_bytes(), Some("eu")), expected.as_bytes());
            assert_eq!(named(line.as_bytes(), None), line.as_bytes());
        }
    }

    #[test]
    fn stuck_reader_blocks_no_component() {
        let (release, released) = channel();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let sink = StuckSink {
            released,
            written: Arc::clone(&written),
        };
        let mut writer = LogWriter::to(sink);
        for _ in 0..QUEUE + 100 {
            writer.write_all(b"line\n").unwrap();
        }
        // The thread may have taken one line.
        let lost = writer.lost.get();
        assert!((99..=100).contains(&lost), "{lost}");
        assert!(writer.flush_within(Duration::from_millis(10)).is_err());
        drop(release);
        // The queue is full until the thread has caught up.
        while writer.flush_within(Duration::from_secs(10)).is_err() {
            thread::yield_now();
        }
        let lines = written.lock().unwrap().len() / 5;
        assert_eq!(lines as u64, QUEUE as u64 + 100 - lost);
    }
}
