//! A set of objects that a watch keeps up to date.

use std::collections::{BTreeMap, BTreeSet};

/// The objects that a watch has reported.
///
/// Every new list names all objects that exist. Objects that it has not named are removed when the
/// list is complete, and not before, so that half a list does not look like a deletion.
#[derive(Debug)]
pub struct WatchCache<K, V> {
    items: BTreeMap<K, V>,
    /// The objects that the current list has not named yet; `None` outside of a list.
    unnamed: Option<BTreeSet<K>>,
    has_synced: bool,
}

impl<K: Ord + Clone, V> Default for WatchCache<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V> WatchCache<K, V> {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self {
            items: BTreeMap::new(),
            unnamed: None,
            has_synced: false,
        }
    }

    /// Begins a new list.
    pub fn begin_list(&mut self) {
        self.unnamed = Some(self.items.keys().cloned().collect());
    }

    /// Ends the list. Removes the objects that it did not name, and returns their keys.
    pub fn end_list(&mut self) -> BTreeSet<K> {
        self.has_synced = true;
        let gone = self.unnamed.take().unwrap_or_default();
        for key in &gone {
            self.items.remove(key);
        }
        gone
    }

    /// Returns whether a list was ever complete.
    pub fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// Inserts or replaces an object. Returns the object that was replaced.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.remove(&key);
        }
        self.items.insert(key, value)
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.items.remove(key)
    }

    /// Returns an object by its key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key)
    }

    /// Returns all objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.items.iter()
    }

    /// Returns the objects from `key` on, in the order of their keys.
    pub fn range_from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        self.items.range(key..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_list_removes_unnamed_objects() {
        let mut cache = WatchCache::new();
        cache.begin_list();
        cache.put("a", 1);
        cache.put("b", 1);
        assert!(!cache.has_synced());
        assert!(cache.end_list().is_empty());
        assert!(cache.has_synced());

        cache.begin_list();
        assert_eq!(cache.put("b", 2), Some(1));
        assert_eq!(cache.get(&"a"), Some(&1), "the list is not complete");
        assert_eq!(cache.end_list(), BTreeSet::from(["a"]));
        assert_eq!(cache.iter().collect::<Vec<_>>(), [(&"b", &2)]);
    }

    #[test]
    fn restarted_list_starts_over() {
        let mut cache = WatchCache::new();
        cache.put("a", 1);
        cache.begin_list();
        cache.put("a", 1);
        cache.begin_list();
        assert_eq!(cache.end_list(), BTreeSet::from(["a"]));
    }

    #[test]
    fn object_removed_during_list_is_removed_once() {
        let mut cache = WatchCache::new();
        cache.put("a", 1);
        cache.begin_list();
        cache.put("a", 1);
        assert_eq!(cache.remove(&"a"), Some(1));
        assert!(cache.end_list().is_empty());
    }
}
