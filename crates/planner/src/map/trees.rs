//! Regression trees, summed.
use serde::Deserialize;

/// A sum of regression trees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trees {
    trees: Vec<Tree>,
}

/// Inner nodes by number, from 0 at the root.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    /// Which feature an inner node looks at.
    feature: Vec<u16>,
    /// It goes left where the feature is at most this.
    threshold: Vec<f64>,
    /// To which node: an inner one by its number, or a leaf by −1 − its number.
    left: Vec<i32>,
    right: Vec<i32>,
    /// The leaves' values.
    leaf: Vec<f64>,
}

impl Trees {
    /// Whether every way through every tree ends at a leaf, and looks at no feature that is not there.
    pub(super) fn check(&self, features: usize) -> Result<(), String> {
        for (number, tree) in self.trees.iter().enumerate() {
            tree.check(features).map_err(|problem| format!("tree {number}: {problem}"))?;
        }
        Ok(())
    }

    /// The sum for these features.
    pub(super) fn value(&self, features: &[f64]) -> f64 {
        self.trees.iter().map(|tree| tree.value(features)).sum()
    }
}

impl Tree {
    fn check(&self, features: usize) -> Result<(), &'static str> {
        let inner = self.feature.len();
        if [self.threshold.len(), self.left.len(), self.right.len()] != [inner; 3] {
            return Err("its lists have different lengths");
        }
        if self.feature.iter().any(|feature| usize::from(*feature) >= features) {
            return Err("it looks at a feature that there is not");
        }
        // Each node is behind those that lead to it, so no way goes round in a circle.
        for (at, to) in self.left.iter().enumerate().chain(self.right.iter().enumerate()) {
            let leads_on = match usize::try_from(*to) {
                Ok(node) => node > at && node < inner,
                Err(_) => ((-1 - *to) as usize) < self.leaf.len(),
            };
            if !leads_on {
                return Err("a node leads nowhere");
            }
        }
        if inner == 0 && self.leaf.len() != 1 { Err("it has neither nodes nor one leaf") } else { Ok(()) }
    }

    fn value(&self, features: &[f64]) -> f64 {
        if self.feature.is_empty() {
            return self.leaf[0];
        }
        let mut at = 0;
        loop {
            let goes_left = features[usize::from(self.feature[at])] <= self.threshold[at];
            let to = if goes_left { self.left[at] } else { self.right[at] };
            match usize::try_from(to) {
                Ok(node) => at = node,
                Err(_) => return self.leaf[(-1 - to) as usize],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Trees {
        serde_json::from_str(&format!("{{\"trees\": [{text}]}}")).unwrap()
    }

    #[test]
    fn a_way_through_a_tree_ends_at_a_leaf() {
        let two = tree(
            r#"{"feature": [0, 1], "threshold": [1.0, 5.0], "left": [-1, -2], "right": [1, -3], "leaf": [10.0, 20.0, 30.0]},
               {"feature": [], "threshold": [], "left": [], "right": [], "leaf": [0.5]}"#,
        );
        two.check(2).unwrap();
        assert_eq!(two.value(&[1.0, 9.0]), 10.5);
        assert_eq!(two.value(&[2.0, 5.0]), 20.5);
        assert_eq!(two.value(&[2.0, 6.0]), 30.5);
        assert!(two.check(1).unwrap_err().contains("feature"));
    }

    #[test]
    fn circles_and_ends_without_a_leaf_are_found() {
        for broken in [
            r#"{"feature": [0], "threshold": [1.0], "left": [0], "right": [-1], "leaf": [1.0]}"#,
            r#"{"feature": [0], "threshold": [1.0], "left": [-1], "right": [-2], "leaf": [1.0]}"#,
            r#"{"feature": [0], "threshold": [1.0], "left": [7], "right": [-1], "leaf": [1.0]}"#,
            r#"{"feature": [0], "threshold": [], "left": [-1], "right": [-1], "leaf": [1.0]}"#,
            r#"{"feature": [], "threshold": [], "left": [], "right": [], "leaf": []}"#,
        ] {
            assert!(tree(broken).check(3).is_err(), "{broken}");
        }
    }
}
