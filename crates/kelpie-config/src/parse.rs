//! Parses a file section by section: finds known keys, reports unknown ones, and never stops early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::config_map;
use crate::file_kind;
use crate::name_format::NameFormat;
use crate::problem::{self, ConfigError, ConfigProblem, Severity, SourcePosition};
use crate::schema::{self, MapSchema, SchemaKey};
use crate::value::ConfigValue;
use crate::yaml::{self, YamlDocument, YamlEntry, YamlError, YamlNode};
use crate::{Parsed, Strictness};

/// The state of parsing one file; collects its problems.
pub(crate) struct ParseContext {
    strictness: Strictness,
    schemas: &'static [&'static MapSchema],
    problems: RefCell<Vec<ConfigProblem>>,
    /// The position of the text that is parsed, if positions count from its start.
    embedded_at: Cell<Option<SourcePosition>>,
}

/// Parses a file whose top level has the keys of the first schema, or a `ConfigMap` that holds one.
pub(crate) fn parse_file<T>(
    bytes: &[u8],
    strictness: Strictness,
    schemas: &'static [&'static MapSchema],
    build: impl FnOnce(&Section<'_>) -> T,
) -> Result<Parsed<T>, ConfigError> {
    parse_root(bytes, strictness, schemas, file_root, build)
}

/// Parses text whose top level has the keys of the first schema. `build` makes a value from the
/// valid parts of the file; the value is returned only if there was no error.
pub(crate) fn parse<T>(
    bytes: &[u8],
    strictness: Strictness,
    schemas: &'static [&'static MapSchema],
    build: impl FnOnce(&Section<'_>) -> T,
) -> Result<Parsed<T>, ConfigError> {
    parse_root(bytes, strictness, schemas, text_root, build)
}

type FindRoot = fn(&[u8], &ParseContext) -> Option<Rc<YamlNode>>;

fn parse_root<T>(
    bytes: &[u8],
    strictness: Strictness,
    schemas: &'static [&'static MapSchema],
    find_root: FindRoot,
    build: impl FnOnce(&Section<'_>) -> T,
) -> Result<Parsed<T>, ConfigError> {
    let context = ParseContext {
        strictness,
        schemas,
        problems: RefCell::default(),
        embedded_at: Cell::default(),
    };
    let root = find_root(bytes, &context);
    let value = root
        .as_deref()
        .and_then(|root| {
            ConfigValue::new(&context, root, String::new(), root.position).section(schemas[0])
        })
        .map(|section| build(&section));
    let mut problems = context.problems.into_inner();
    // Problems at the same position keep their order.
    problems.sort_by_key(|problem| (problem.line, problem.column));
    match value {
        Some(value) if problems.iter().all(|p| p.severity == Severity::Warning) => Ok(Parsed {
            value,
            warnings: problems,
        }),
        _ => Err(ConfigError { problems }),
    }
}

/// Returns the top-level value of a file or, in a `ConfigMap`, of the file that it holds. Reports
/// why there is none.
fn file_root(bytes: &[u8], context: &ParseContext) -> Option<Rc<YamlNode>> {
    let text = decode(bytes, context)?;
    let root = document_root(yaml::parse(text), context)?;
    let root = match config_map::find(text, &root, context.schemas[0]) {
        None => root,
        Some(Ok(file)) => {
            context.embedded_at.set(file.position);
            document_root(yaml::parse(&file.text), context)?
        }
        Some(Err(problem)) => {
            context.report(problem);
            return None;
        }
    };
    checked(root, context)
}

/// Returns the top-level value of a text, or reports why there is none.
fn text_root(bytes: &[u8], context: &ParseContext) -> Option<Rc<YamlNode>> {
    let text = decode(bytes, context)?;
    checked(document_root(yaml::parse(text), context)?, context)
}

fn decode<'t>(bytes: &'t [u8], context: &ParseContext) -> Option<&'t str> {
    let text = yaml::decode(bytes);
    text.map_err(|error| context.report_yaml(error)).ok()
}

fn checked(root: Rc<YamlNode>, context: &ParseContext) -> Option<Rc<YamlNode>> {
    if let Some(problem) = file_kind::check(&root, context.schemas[0]) {
        context.report(problem);
        return None;
    }
    Some(root)
}

/// Returns the top-level value of the only document.
fn document_root(
    parsed: Result<YamlDocument, YamlError>,
    context: &ParseContext,
) -> Option<Rc<YamlNode>> {
    let document = parsed.map_err(|error| context.report_yaml(error)).ok()?;
    if let Some(position) = document.second_document {
        const MESSAGE: &str = "the file has a second YAML document";
        context.report(match context.unknown_key_severity() {
            Severity::Error => ConfigProblem::error(position, "", MESSAGE)
                .expected("one document")
                .hint("remove the rest, or save it to a separate file"),
            Severity::Warning => {
                ConfigProblem::warning(position, "", format!("{MESSAGE}, ignored"))
            }
        });
    }
    if document.root.is_none() {
        let problem = ConfigProblem::error(SourcePosition::START, "", "the file is empty");
        context.report(problem.expected(context.schemas[0].expected));
    }
    document.root
}

impl ParseContext {
    pub(crate) fn report(&self, mut problem: ConfigProblem) {
        if let Some(position) = self.embedded_at.get() {
            let (line, column) = (problem.line, problem.column);
            let message = problem.message;
            problem.message = format!("{message} (line {line}, column {column} of the value)");
            (problem.line, problem.column) = (position.line, position.column);
        }
        self.problems.borrow_mut().push(problem);
    }

    fn report_yaml(&self, error: YamlError) {
        self.report(ConfigProblem::error(error.position, "", error.message));
    }

    pub(crate) const fn strictness(&self) -> Strictness {
        self.strictness
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems
            .borrow()
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    fn unknown_key_severity(&self) -> Severity {
        match self.strictness {
            Strictness::Strict => Severity::Error,
            Strictness::Lenient => Severity::Warning,
        }
    }
}

/// A map with the keys of a schema.
pub(crate) struct Section<'r> {
    pub context: &'r ParseContext,
    path: String,
    position: SourcePosition,
    found: Vec<(&'static SchemaKey, &'r YamlEntry)>,
}

impl<'r> Section<'r> {
    /// Matches the entries of a map to the keys of its schema. Unknown keys are reported.
    pub(crate) fn open(
        context: &'r ParseContext,
        schema: &'static MapSchema,
        (path, position): (String, SourcePosition),
        entries: &'r [YamlEntry],
    ) -> Self {
        let mut section = Self {
            context,
            path,
            position,
            found: Vec::new(),
        };
        for entry in entries {
            match schema
                .keys
                .iter()
                .find(|key| key.matches(&entry.key, context.strictness))
            {
                Some(key) => section.add(key, entry),
                None => section.report_unknown(schema, entry),
            }
        }
        section
    }

    fn add(&mut self, key: &'static SchemaKey, entry: &'r YamlEntry) {
        if let Some((_, first)) = self.found.iter().find(|(known, _)| known.name == key.name) {
            let message = if first.key == entry.key {
                format!("set twice, first on line {}", first.position.line)
            } else {
                format!(
                    "the same setting as `{}` on line {}",
                    first.key, first.position.line
                )
            };
            let problem =
                ConfigProblem::error(entry.position, &self.child_path(&entry.key), message);
            self.context.report(problem.expected("it only once"));
        } else {
            self.found.push((key, entry));
        }
    }

    fn report_unknown(&self, schema: &MapSchema, entry: &YamlEntry) {
        let severity = self.context.unknown_key_severity();
        let message = match severity {
            Severity::Error => "unknown key",
            Severity::Warning => "unknown key, ignored",
        };
        let path = self.child_path(&problem::truncated(&entry.key));
        let problem = ConfigProblem {
            severity,
            ..ConfigProblem::error(entry.position, &path, message)
        };
        self.context
            .report(match self.suggestion(schema, &entry.key) {
                Some(suggestion) => problem.hint(suggestion),
                None => problem.expected(format!("one of {}", schema::list(schema.keys))),
            });
    }

    /// Suggests what to write instead of an unknown key.
    fn suggestion(&self, schema: &MapSchema, key: &str) -> Option<String> {
        if let Some((_, replacement)) = schema.removed.iter().find(|(name, _)| *name == key) {
            return Some((*replacement).to_owned());
        }
        if let Some(close) = schema::closest(key, schema.keys.iter().flat_map(SchemaKey::names)) {
            return Some(format!("did you mean `{close}`?"));
        }
        let locations: Vec<_> = self
            .context
            .schemas
            .iter()
            .filter(|schema| {
                schema
                    .keys
                    .iter()
                    .any(|known| known.matches(key, Strictness::Lenient))
            })
            .map(|schema| schema.location)
            .collect();
        (!locations.is_empty()).then(|| format!("it belongs {}", locations.join(" or ")))
    }

    /// Returns the value of a key, or `None` if the key is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<ConfigValue<'r>> {
        let entry = self.entry(name)?;
        let value = ConfigValue::new(
            self.context,
            &entry.value,
            self.child_path(&entry.key),
            entry.position,
        );
        (!value.is_null()).then_some(value)
    }

    /// Returns the value of a key as `read` converts it. The default is for a key that is absent or
    /// invalid.
    pub(crate) fn get_or<T>(
        &self,
        name: &str,
        default: T,
        read: impl FnOnce(&ConfigValue<'r>) -> Option<T>,
    ) -> T {
        let value = self.get(name).and_then(|value| read(&value));
        value.unwrap_or(default)
    }

    /// Returns the map of a required key.
    pub(crate) fn require_section(
        &self,
        name: &str,
        schema: &'static MapSchema,
    ) -> Option<Section<'r>> {
        self.require(name, schema.expected)?.section(schema)
    }

    /// Returns the items of a required list that must not be empty.
    pub(crate) fn require_items(&self, name: &str, expected: &str) -> Vec<ConfigValue<'r>> {
        let items = self.require(name, expected);
        let items = items.and_then(|value| value.non_empty_items(expected));
        items.unwrap_or_default()
    }

    /// Returns the required string of a key in the given format.
    pub(crate) fn require_name(&self, name: &str, format: &NameFormat) -> Option<&'r str> {
        self.require(name, format.expected)?.formatted(format)
    }

    /// Returns the value of a required key. Its absence is reported.
    pub(crate) fn require(&self, name: &str, expected: &str) -> Option<ConfigValue<'r>> {
        let value = self.get(name);
        if value.is_none() {
            let message = if self.entry(name).is_some() {
                "has no value"
            } else {
                "missing"
            };
            let problem =
                ConfigProblem::error(self.position_of(name), &self.path_of(name), message);
            self.context.report(problem.expected(expected));
        }
        value
    }

    /// Returns the position of a key, or of the section if the key is absent.
    pub(crate) fn position_of(&self, name: &str) -> SourcePosition {
        self.entry(name)
            .map_or(self.position, |entry| entry.position)
    }

    /// Returns the path of a key, spelled as in the file.
    pub(crate) fn path_of(&self, name: &str) -> String {
        self.child_path(self.entry(name).map_or(name, |entry| &entry.key))
    }

    pub(crate) fn warn(&self, name: &str, message: impl Into<String>) {
        self.context.report(ConfigProblem::warning(
            self.position_of(name),
            &self.path_of(name),
            message,
        ));
    }

    fn entry(&self, name: &str) -> Option<&'r YamlEntry> {
        self.found
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, entry)| *entry)
    }

    fn child_path(&self, key: &str) -> String {
        child_path(&self.path, key)
    }
}

pub(crate) fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
