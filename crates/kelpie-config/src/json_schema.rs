//! JSON schemas from the tables that the parsers read, for Helm and for editors.
//!
//! A schema is looser than the parsers: it knows the keys and the shapes of their values, which is
//! where typos are, and leaves the values themselves to `kelpie check-config`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::schema::{MapSchema, SchemaKey, Shape};

/// The JSON schema of a configuration file. Serializes as an object of JSON Schema draft 7.
#[derive(Clone, Copy, Debug)]
pub struct JsonSchema(pub(crate) &'static MapSchema);

/// The types of a single value. Null counts as absent.
const SCALAR: [&str; 4] = ["string", "number", "boolean", "null"];
const MAP: [&str; 2] = ["object", "null"];
const LIST: [&str; 2] = ["array", "null"];

impl Serialize for JsonSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &MAP)?;
        map.serialize_entry("additionalProperties", &false)?;
        map.serialize_entry("properties", &Properties(self.0.keys))?;
        map.end()
    }
}

struct Properties(&'static [SchemaKey]);

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .flat_map(|key| key.names().map(|name| (name, ShapeSchema(key.shape)))),
        )
    }
}

struct ShapeSchema(Shape);

impl Serialize for ShapeSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let scalar = ShapeSchema(Shape::Scalar);
        if let Shape::Map(schema) = self.0 {
            return JsonSchema(schema).serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            Shape::Scalar | Shape::Map(_) => map.serialize_entry("type", &SCALAR)?,
            Shape::Choice(names) => {
                let names = names.iter().copied().map(Some);
                let choices: Vec<_> = names.chain([None]).collect();
                map.serialize_entry("enum", &choices)?;
            }
            Shape::Scalars => {
                map.serialize_entry("type", &LIST)?;
                map.serialize_entry("items", &scalar)?;
            }
            Shape::ListOf(schema) => {
                map.serialize_entry("type", &LIST)?;
                map.serialize_entry("items", &JsonSchema(schema))?;
            }
            Shape::ScalarMap => {
                map.serialize_entry("type", &MAP)?;
                map.serialize_entry("additionalProperties", &scalar)?;
            }
            Shape::MapOf(schema) => {
                map.serialize_entry("type", &MAP)?;
                map.serialize_entry("additionalProperties", &JsonSchema(schema))?;
            }
            Shape::EmptyMap => {
                map.serialize_entry("type", &MAP)?;
                map.serialize_entry("maxProperties", &0)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Strictness, prober, weeder};

    fn schema(of: JsonSchema) -> Value {
        serde_json::to_value(of).unwrap()
    }

    /// Returns the first place at which the schema refuses a value, as far as it uses the keywords
    /// above.
    fn refusal(schema: &Value, value: &Value, path: &str) -> Option<String> {
        if let Some(choices) = schema["enum"].as_array() {
            return (!choices.contains(value)).then(|| path.to_owned());
        }
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !schema["type"].as_array().unwrap().contains(&json!(kind)) {
            return Some(path.to_owned());
        }
        if let Value::Array(items) = value {
            let mut items = items.iter().enumerate();
            return items.find_map(|(index, it)| {
                refusal(&schema["items"], it, &format!("{path}[{index}]"))
            });
        }
        value.as_object()?.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            if schema["maxProperties"] == 0 {
                return Some(path);
            }
            match (&schema["properties"][key], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => Some(path),
                (Value::Null, schema) | (schema, _) => refusal(schema, value, &path),
            }
        })
    }

    #[test]
    fn schemas_accept_effective_configurations() {
        let files = [
            "{kubeConfigSecretName: a, name: b, guard: {zone: {hold: 1m}}, clusterSelector: \
             {matchLabels: {a: b}}, dependentResourceInfos: [{ref: {apiVersion: v1, kind: A, \
             name: a}, optional: yes, actuator: scale, scaleUp: {replicas: 1}, scaleDown: {}}]}",
            "{source: {secrets: {labelSelector: {matchLabels: {a: b}}}}, guard: {}}",
            "{source: {clusterAPI: {}}}",
        ];
        for file in files {
            let config = prober::parse(file.as_bytes(), Strictness::Strict).unwrap();
            let config = serde_json::to_value(config.value).unwrap();
            assert_eq!(refusal(&schema(prober::JSON_SCHEMA), &config, ""), None);
        }
        let file = b"{readiness: all, servicesAndDependantSelectors: {a: {podSelectors: \
                     [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}";
        let config = weeder::parse(file, Strictness::Strict).unwrap();
        let config = serde_json::to_value(config.value).unwrap();
        assert_eq!(refusal(&schema(weeder::JSON_SCHEMA), &config, ""), None);
    }

    #[test]
    fn schemas_refuse_typos_at_every_level() {
        let refused = [
            (json!({"probeIntervall": "10s"}), ".probeIntervall"),
            (json!({"guard": {"zones": {}}}), ".guard.zones"),
            (
                json!({"source": {"clusterAPI": {"a": 1}}}),
                ".source.clusterAPI.a",
            ),
            (
                json!({"dependentResourceInfos": [{"scaleUp": {"levle": 1}}]}),
                ".dependentResourceInfos[0].scaleUp.levle",
            ),
            (
                json!({"dependentResourceInfos": [{"actuator": "pase"}]}),
                ".dependentResourceInfos[0].actuator",
            ),
            (json!({"probeInterval": {}}), ".probeInterval"),
        ];
        for (value, path) in refused {
            let found = refusal(&schema(prober::JSON_SCHEMA), &value, "");
            assert_eq!(found.as_deref(), Some(path));
        }
        let value = json!({"servicesAndDependantSelectors": {"a": {"podSelector": []}}});
        let found = refusal(&schema(weeder::JSON_SCHEMA), &value, "");
        let expected = ".servicesAndDependantSelectors.a.podSelector";
        assert_eq!(found.as_deref(), Some(expected));
    }
}
