//! The commands in groups, for the help: clap has no headings for subcommands.
use std::fmt::Write as _;

/// Commands that belong together.
struct Group {
    heading: &'static str,
    about: &'static str,
    commands: &'static [&'static str],
}

/// Every command, in the order of the help.
const GROUPS: [Group; 4] = [
    Group {
        heading: "Serve",
        about: "on a host on the way",
        commands: &["gateway", "config", "doctor", "top", "flows", "gain", "node", "respond", "secret"],
    },
    Group {
        heading: "Use",
        about: "relays, from an end",
        commands: &["connect", "proxy", "routes", "discover", "measure", "plan"],
    },
    Group {
        heading: "Study",
        about: "simulated and on kernels",
        commands: &["run", "merge", "scenario", "reproduce", "lab", "demo"],
    },
    Group {
        heading: "Prove",
        about: "that it does what it says",
        commands: &["conformance", "endpoint", "agreement", "harmless", "bench", "replay"],
    },
];

/// The command with help that shows its subcommands in groups.
pub fn grouped(command: clap::Command) -> clap::Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    // Writing to a string does not fail.
    for Group { heading, about, commands } in GROUPS {
        // A build for routers does not have all of them.
        let has = |name: &&&str| command.find_subcommand(name).is_some();
        let commands: Vec<&&str> = commands.iter().filter(has).collect();
        if commands.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{header}{heading}{header:#}, {about}:");
        for name in commands {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}\n\n{header}Exit status:{header:#} 0 done, 1 something failed, 2 the command line or a \
         file makes no sense,\n3 everything was run and something live is not to be trusted. `shorthaul COMMAND --help` says more."
    );
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::collections::BTreeMap;

    #[cfg(feature = "study")]
    #[test]
    fn every_command_is_in_one_group_and_every_entry_is_a_command() {
        let command = crate::Cli::command();
        let mut seen: BTreeMap<&str, u32> = command
            .get_subcommands()
            .filter(|own| !own.is_hide_set())
            .map(|own| (own.get_name(), 0))
            .collect();
        for name in GROUPS.iter().flat_map(|group| group.commands) {
            let count = seen.get_mut(name).unwrap_or_else(|| panic!("there is no command `{name}`"));
            *count += 1;
        }
        assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    }

    #[cfg(feature = "study")]
    #[test]
    fn the_help_says_what_each_command_is_for_in_a_line() {
        let help = grouped(crate::Cli::command()).render_help().to_string();
        for name in GROUPS.iter().flat_map(|group| group.commands) {
            let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
            let line = line.unwrap_or_else(|| panic!("`{name}` is missing in\n{help}"));
            assert!(line.len() > 20 && line.chars().count() <= 120, "{line}");
        }
        assert!(help.contains("Prove, ") && help.contains("--version"), "{help}");
    }
}
