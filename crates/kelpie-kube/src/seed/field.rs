//! Walking a decoded object: what is absent is as good as null, what has the wrong shape is a problem
//! with its path.

use serde_json::Value;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    pub(super) fn new(path: &str, value: &'a Value) -> Self {
        Self {
            path: path.to_owned(),
            value,
        }
    }

    /// The field of an object.
    pub(super) fn of(&self, name: &str) -> Result<Self, String> {
        let value = match self.value {
            Value::Null => &Value::Null,
            Value::Object(fields) => fields.get(name).unwrap_or(&Value::Null),
            _ => return Err(self.problem("is not an object")),
        };
        Ok(Self {
            path: format!("{}.{name}", self.path),
            value,
        })
    }

    /// The items of a list; none if it is absent.
    pub(super) fn list(&self) -> Result<Vec<Self>, String> {
        let items = match self.value {
            Value::Null => &[][..],
            Value::Array(items) => items,
            _ => return Err(self.problem("is not a list")),
        };
        let item = |(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A text; empty if it is absent.
    pub(super) fn text(&self) -> Result<&'a str, String> {
        match self.value {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text),
            _ => Err(self.problem("is not a text")),
        }
    }

    /// True or false; false if it is absent.
    pub(super) fn flag(&self) -> Result<bool, String> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            _ => Err(self.problem("is not true or false")),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        !self.value.is_null()
    }

    pub(super) fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.path)
    }
}
