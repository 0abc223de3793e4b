//! Walking a decoded object. An absent field counts as null; a field of the wrong type is a problem
//! with its path.

use serde_json::Value;

/// A value and its path in the object.
#[derive(Debug)]
pub struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// Creates the field at the top, which messages call `path`.
    pub fn new(path: &str, value: &'a Value) -> Self {
        Self {
            path: path.to_owned(),
            value,
        }
    }

    /// Returns a field of an object.
    pub fn of(&self, name: &str) -> Result<Self, String> {
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

    /// Returns the items of a list; an absent list is empty.
    pub fn list(&self) -> Result<Vec<Self>, String> {
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

    /// Returns a string; an absent one is empty.
    pub fn text(&self) -> Result<&'a str, String> {
        match self.value {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text),
            _ => Err(self.problem("is not a string")),
        }
    }

    /// Returns a boolean; an absent one is false.
    pub fn flag(&self) -> Result<bool, String> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            _ => Err(self.problem("is not true or false")),
        }
    }

    /// Returns whether the field exists and is not null.
    pub fn is_present(&self) -> bool {
        !self.value.is_null()
    }

    /// Formats a problem with the path in front of it.
    pub fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.path)
    }
}
