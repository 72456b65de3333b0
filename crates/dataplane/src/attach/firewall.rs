//! Whether a firewall drops what a gateway with routing rules has forwarded: by a policy, or by rules that come last, as firewalld has them, RHEL's
//! `-A FORWARD -j REJECT`, and many a set that somebody has written.
//!
//! Such a packet is forwarded twice, from an access interface to our first device and from our second one to the rest of the world, and the other
//! way round. A rule that accepts what goes from one interface to the other accepts neither.
use crate::Config;
use serde_json::{Value, json};

/// Steps from chain to chain that are looked at: no firewall has more.
const MOST_STEPS: usize = 4_096;
/// Chains that lead one into the next: the kernel takes no more.
const MOST_JUMPS: usize = 16;

/// Whether a chain drops what is forwarded, unless a rule accepts it.
pub(super) fn drops_what_it_forwards(ruleset: &Value, config: &Config) -> bool {
    let objects = ruleset["nftables"].as_array().map_or(&[][..], Vec::as_slice);
    let [access, wan] = config.interfaces();
    let ours = [[format!("sh-{}-e", config.name)], [format!("sh-{}-w", config.name)]];
    let both_ways = |these: &[String], those: &[String]| {
        let pairs = these.iter().flat_map(|this| those.iter().map(move |that| [this.clone(), that.clone()]));
        pairs.flat_map(|[this, that]| [[this.clone(), that.clone()], [that, this]]).collect::<Vec<Pass>>()
    };
    let with = [both_ways(&access, &ours[0]), both_ways(&wan, &ours[1])].concat();
    let mut search = Search { objects, with, without: both_ways(&access, &wan), steps: 0 };
    let mut of_forwarding = objects.iter().map(|object| &object["chain"]).filter(|chain| {
        chain["hook"] == "forward" && matches!(chain["family"].as_str(), Some("ip" | "ip6" | "inet"))
    });
    of_forwarding.any(|chain| {
        let name = chain["name"].as_str().unwrap_or_default();
        chain["policy"] == "drop" || search.drops(Chain::beside(chain, name), &[], 0)
    })
}

/// The interfaces that a packet comes in by and leaves by.
type Pass = [String; 2];

/// A chain, told from others of its name.
#[derive(Clone, Copy, PartialEq)]
struct Chain<'a> {
    family: &'a str,
    table: &'a str,
    name: &'a str,
}

impl<'a> Chain<'a> {
    /// In the table in which this object is.
    fn beside(object: &'a Value, name: &'a str) -> Self {
        let word = |key: &str| object[key].as_str().unwrap_or_default();
        Chain { family: word("family"), table: word("table"), name }
    }
}

struct Search<'a> {
    objects: &'a [Value],
    /// How packets are forwarded with the gateway, and how without.
    with: Vec<Pass>,
    without: Vec<Pass>,
    steps: usize,
}

impl<'a> Search<'a> {
    /// Whether packets that come to a chain under these conditions are dropped there, or in one that it leads to.
    fn drops(&mut self, chain: Chain<'a>, under: &[Condition], jumps: usize) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS || jumps > MOST_JUMPS {
            return false;
        }
        let (objects, mut some_are_accepted) = (self.objects, false);
        let rules = objects.iter().map(|object| &object["rule"]);
        let own = |rule: &&Value| {
            let name = rule["chain"].as_str().unwrap_or_default();
            rule["chain"].is_string() && Chain::beside(rule, name) == chain
        };
        for rule in rules.filter(own) {
            for Rule { conditions, is_by_interface, is_for_some, verdict } in self.read(rule) {
                let conditions = [under, &conditions].concat();
                let is_met = |passes: &[Pass]| {
                    passes.iter().any(|pass| conditions.iter().all(|condition| condition.holds(pass)))
                };
                let is_for_all = conditions.is_empty() && !is_for_some;
                match verdict {
                    // What is dropped without a gateway, too, is meant to be.
                    Verdict::Drop if !is_for_some => {
                        if is_for_all || is_met(&self.with) && (some_are_accepted || !is_met(&self.without)) {
                            return true;
                        }
                    }
                    Verdict::Drop => {}
                    Verdict::End if is_for_all => return false,
                    Verdict::End => some_are_accepted |= is_by_interface,
                    Verdict::To(target, is_for_good) => {
                        some_are_accepted |= is_by_interface;
                        let reached = !is_for_some && (conditions.is_empty() || is_met(&self.with));
                        if reached && self.drops(Chain { name: target, ..chain }, &conditions, jumps + 1) {
                            return true;
                        }
                        if is_for_good && is_for_all {
                            return false;
                        }
                    }
                }
            }
        }
        false
    }

    /// What a rule says: several things, where it is a map of verdicts.
    fn read(&self, rule: &'a Value) -> Vec<Rule<'a>> {
        let mut read = Rule {
            conditions: Vec::new(),
            is_by_interface: false,
            is_for_some: false,
            verdict: Verdict::End,
        };
        for expression in rule["expr"].as_array().into_iter().flatten() {
            let Some((kind, about)) = expression.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            match kind.as_str() {
                "match" => read.narrow(about),
                "vmap" => return self.read_map(rule, about, &read),
                "limit" | "quota" | "ct count" => read.is_for_some = true,
                "xt" => match (about["type"].as_str(), about["name"].as_str()) {
                    (Some("target"), Some("REJECT" | "DROP")) => {
                        return vec![Rule { verdict: Verdict::Drop, ..read }];
                    }
                    (Some("target" | "watcher"), _) | (_, Some("comment")) => {}
                    _ => read.is_for_some = true,
                },
                _ => {
                    if let Some(verdict) = verdict(kind, about) {
                        return vec![Rule { verdict, ..read }];
                    }
                }
            }
        }
        Vec::new()
    }

    fn read_map(&self, rule: &'a Value, map: &'a Value, read: &Rule<'a>) -> Vec<Rule<'a>> {
        let elements = match map["data"].as_str().and_then(|name| name.strip_prefix('@')) {
            Some(name) => {
                let maps = self.objects.iter().map(|object| &object["map"]);
                let is_it = |map: &&Value| {
                    map["name"] == name && Chain::beside(map, name) == Chain::beside(rule, name)
                };
                maps.filter(is_it).map(|map| &map["elem"]).next()
            }
            None => Some(&map["data"]["set"]),
        };
        let pairs = elements.and_then(Value::as_array).into_iter().flatten();
        let rules = pairs.filter_map(|pair| {
            let (kind, about) = pair[1].as_object()?.iter().next()?;
            let mut rule = Rule { verdict: verdict(kind, about)?, ..read.clone() };
            rule.narrow(&json!({"op": "==", "left": map["key"], "right": pair[0]}));
            Some(rule)
        });
        rules.collect()
    }
}

/// What is done to a packet.
#[derive(Clone, Copy)]
enum Verdict<'a> {
    /// It is dropped.
    Drop,
    /// No rule behind this one sees it.
    End,
    /// The rules of another chain are asked, for good or before those that follow.
    To(&'a str, bool),
}

fn verdict<'a>(kind: &str, about: &'a Value) -> Option<Verdict<'a>> {
    match kind {
        "drop" | "reject" => Some(Verdict::Drop),
        "accept" | "return" | "queue" => Some(Verdict::End),
        "jump" | "goto" => Some(Verdict::To(about["target"].as_str()?, kind == "goto")),
        _ => None,
    }
}

#[derive(Clone)]
struct Rule<'a> {
    /// Those about interfaces.
    conditions: Vec<Condition>,
    /// It names interfaces, as such or in a way that is not understood here.
    is_by_interface: bool,
    /// There are other conditions, which not all first packets of connections meet.
    is_for_some: bool,
    verdict: Verdict<'a>,
}

impl Rule<'_> {
    /// It is for what this matches.
    fn narrow(&mut self, about: &Value) {
        let (left, is_not) = (&about["left"], about["op"] == "!=");
        let key = left["meta"]["key"].as_str().unwrap_or_default();
        match key {
            "iifname" | "iif" | "oifname" | "oif" => {
                self.is_by_interface = true;
                match words(&about["right"]) {
                    Some(names) => {
                        self.conditions.push(Condition { leaves: key.starts_with('o'), is_not, names });
                    }
                    None => self.is_for_some = true,
                }
            }
            "nfproto" | "protocol" if !is_not => {}
            _ => {
                let is_broad = match (key, left["ct"]["key"].as_str(), left["payload"]["field"].as_str()) {
                    ("l4proto", ..) | (_, _, Some("protocol" | "nexthdr")) => Some("tcp"),
                    (_, Some("state"), _) => Some("new"),
                    _ => None,
                };
                let has = |word| {
                    words(&about["right"]).is_some_and(|words| words.iter().any(|known| known == word))
                };
                self.is_for_some |= is_not || !is_broad.is_some_and(has);
                self.is_by_interface |= left["concat"].to_string().contains("ifname");
            }
        }
    }
}

/// That a packet comes in, or leaves, by one of these; or by none of them.
#[derive(Clone)]
struct Condition {
    leaves: bool,
    is_not: bool,
    names: Vec<String>,
}

impl Condition {
    fn holds(&self, pass: &Pass) -> bool {
        let interface = &pass[usize::from(self.leaves)];
        let is_it = |name: &String| match name.strip_suffix('*') {
            Some(beginning) => interface.starts_with(beginning),
            None => interface == name,
        };
        self.names.iter().any(is_it) != self.is_not
    }
}

/// A word, or those of a list or set; `None` if they stand elsewhere.
fn words(right: &Value) -> Option<Vec<String>> {
    match right {
        Value::String(word) if word.starts_with('@') => None,
        Value::String(word) => Some(vec![word.clone()]),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        Value::Object(object) => words(object.get("set")?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(objects: Value) -> bool {
        let config = Config { access: vec!["lan0".into()], wan: vec!["wan0".into()], ..Config::default() };
        drops_what_it_forwards(&json!({ "nftables": objects }), &config)
    }

    fn forward(policy: &str) -> Value {
        json!({"chain": {"family": "inet", "table": "t", "name": "f", "type": "filter", "hook": "forward", "prio": 0, "policy": policy}})
    }

    fn rule(chain: &str, expr: Value) -> Value {
        json!({"rule": {"family": "inet", "table": "t", "chain": chain, "handle": 9, "expr": expr}})
    }

    fn from(key: &str, op: &str, right: Value) -> Value {
        json!({"match": {"op": op, "left": {"meta": {"key": key}}, "right": right}})
    }

    fn state(names: Value) -> Value {
        json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": names}})
    }

    #[test]
    fn a_policy_of_the_forward_chain_is_heeded() {
        assert!(drops(json!([forward("drop")])));
        assert!(!drops(json!([forward("accept")])));
        let other = json!({"chain": {"family": "inet", "table": "t", "name": "i", "hook": "input", "policy": "drop"}});
        assert!(!drops(json!([other, rule("i", json!([{"drop": null}]))])));
    }

    #[test]
    fn rules_that_drop_what_none_before_has_accepted_are_found() {
        let known = rule("f", json!([state(json!(["established", "related"])), {"accept": null}]));
        let out = rule(
            "f",
            json!([from("iifname", "==", json!("lan0")), from("oifname", "==", json!("wan0")), {"accept": null}]),
        );
        let drop = json!({"drop": null});
        for (what, rules, expected) in [
            (
                "RHEL",
                json!([[{"counter": {"packets": 7, "bytes": 9}}, {"xt": {"type": "target", "name": "REJECT"}}]]),
                true,
            ),
            (
                "by hand",
                json!([[{"log": {"prefix": "no "}}, {"counter": null}, {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}]]),
                true,
            ),
            ("of new ones", json!([[state(json!("new")), drop]]), true),
            (
                "of TCP",
                json!([[from("l4proto", "==", json!("tcp")), {"reject": {"type": "tcp reset"}}]]),
                true,
            ),
            ("all else into the world", json!([[from("oifname", "==", json!("wan0")), drop]]), true),
            ("of strangers", json!([[from("iifname", "!=", json!({"set": ["lan0", "wan0"]})), drop]]), true),
            ("of invalid ones", json!([[state(json!("invalid")), drop]]), false),
            ("some", json!([[{"limit": {"rate": 9}}, drop]]), false),
            ("of another interface", json!([[from("iifname", "==", json!("guest*")), drop]]), false),
            (
                "of an address",
                json!([[{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "192.0.2.1"}}, drop]]),
                false,
            ),
            ("behind one that accepts all", json!([[{"counter": null}, {"accept": null}], [drop]]), false),
            ("none", json!([]), false),
        ] {
            let rules = rules.as_array().unwrap().iter().map(|expr| rule("f", expr.clone()));
            let objects = [forward("accept"), known.clone(), out.clone()].into_iter().chain(rules);
            assert_eq!(drops(objects.collect()), expected, "{what}");
        }
        // Who comes from the world is kept out, with a gateway or without.
        let kept_out = rule("f", json!([from("iifname", "==", json!("wan0")), {"drop": null}]));
        assert!(!drops(json!([forward("accept"), known, kept_out])));
    }

    #[test]
    fn chains_that_packets_come_to_are_looked_at() {
        let chain = |name: &str| json!({"chain": {"family": "inet", "table": "t", "name": name}});
        let to = |how: &str, name: &str| json!({how: {"target": name}});
        let map = |data: Value| json!({"vmap": {"key": {"meta": {"key": "iifname"}}, "data": data}});
        let pairs = json!([["lan0", {"jump": {"target": "last"}}], ["guest0", {"drop": null}]]);
        let named = json!({"map": {"family": "inet", "table": "t", "name": "m", "type": "ifname", "map": "verdict", "elem": pairs}});
        let last = rule("last", json!([{"drop": null}]));
        let accepting = rule("last", json!([from("oifname", "==", json!("wan0")), {"accept": null}]));
        let both = [from("iifname", "==", json!("lan0")), from("oifname", "==", json!("wan0"))];
        for (what, objects, expected) in [
            ("firewalld", json!([rule("f", json!([to("jump", "last")])), last]), true),
            ("for good", json!([rule("f", json!([to("goto", "last")])), last]), true),
            ("not reached", json!([last]), false),
            (
                "for invalid ones",
                json!([rule("f", json!([state(json!("invalid")), to("jump", "last")])), last]),
                false,
            ),
            (
                "for new ones",
                json!([rule("f", json!([state(json!(["new"])), to("jump", "last")])), last]),
                true,
            ),
            (
                "what is not ours",
                json!([rule("f", json!([both[0], both[1], to("jump", "last")])), last]),
                false,
            ),
            ("a map", json!([rule("f", json!([map(json!({"set": pairs}))])), accepting, last]), true),
            ("a named map", json!([named, rule("f", json!([map(json!("@m"))])), accepting, last]), true),
            ("round and round", json!([rule("f", json!([to("jump", "f")]))]), false),
        ] {
            let objects = objects.as_array().unwrap().clone();
            let objects = [forward("accept"), chain("last")].into_iter().chain(objects);
            assert_eq!(drops(objects.collect()), expected, "{what}");
        }
    }
}
