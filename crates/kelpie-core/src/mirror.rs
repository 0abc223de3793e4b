//! A set of objects, kept up by a watch.

use std::collections::{BTreeMap, BTreeSet};

/// What a watch has told so far.
///
/// After every new list the watch says what there is; what it did not name until the list was
/// complete is gone. Until then nothing goes: half a list must not look like a deletion.
#[derive(Debug)]
pub struct Mirror<K, V> {
    items: BTreeMap<K, V>,
    /// While a list is coming in: what it has not named yet.
    unnamed: Option<BTreeSet<K>>,
    was_complete: bool,
}

impl<K: Ord + Clone, V> Default for Mirror<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V> Mirror<K, V> {
    /// Nothing was told yet.
    pub const fn new() -> Self {
        Self {
            items: BTreeMap::new(),
            unnamed: None,
            was_complete: false,
        }
    }

    /// A new list begins.
    pub fn begin_list(&mut self) {
        self.unnamed = Some(self.items.keys().cloned().collect());
    }

    /// The list is complete; gives what is gone.
    pub fn end_list(&mut self) -> BTreeSet<K> {
        self.was_complete = true;
        let gone = self.unnamed.take().unwrap_or_default();
        for key in &gone {
            self.items.remove(key);
        }
        gone
    }

    /// Whether there ever was a complete list.
    pub fn is_known(&self) -> bool {
        self.was_complete
    }

    /// Takes an object over; gives what it replaces.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.remove(&key);
        }
        self.items.insert(key, value)
    }

    /// The object is gone.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.items.remove(key)
    }

    /// What is known of an object.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key)
    }

    /// Everything that is known, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.items.iter()
    }

    /// The same from a key on.
    pub fn range_from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        self.items.range(key..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_complete_list_does_not_name_is_gone_and_nothing_before() {
        let mut mirror = Mirror::new();
        mirror.begin_list();
        mirror.put("a", 1);
        mirror.put("b", 1);
        assert!(!mirror.is_known());
        assert!(mirror.end_list().is_empty());
        assert!(mirror.is_known());

        mirror.begin_list();
        assert_eq!(mirror.put("b", 2), Some(1));
        assert_eq!(mirror.get(&"a"), Some(&1), "the list is not complete");
        assert_eq!(mirror.end_list(), BTreeSet::from(["a"]));
        assert_eq!(mirror.iter().collect::<Vec<_>>(), [(&"b", &2)]);
    }

    #[test]
    fn a_list_that_begins_again_starts_over() {
        let mut mirror = Mirror::new();
        mirror.put("a", 1);
        mirror.begin_list();
        mirror.put("a", 1);
        mirror.begin_list();
        assert_eq!(mirror.end_list(), BTreeSet::from(["a"]));
    }

    #[test]
    fn what_went_while_a_list_came_in_is_not_gone_twice() {
        let mut mirror = Mirror::new();
        mirror.put("a", 1);
        mirror.begin_list();
        mirror.put("a", 1);
        assert_eq!(mirror.remove(&"a"), Some(1));
        assert!(mirror.end_list().is_empty());
    }
}
