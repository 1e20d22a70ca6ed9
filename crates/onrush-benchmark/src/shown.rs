//! The command line as reports show it: without passwords.

use clap::{Arg, Command};

/// In place of a password.
const HIDDEN: &str = "…";

/// Options of a URL that are no secrets.
const OPEN_OPTIONS: [&str; 7] = ["db", "database", "user", "username", "protocol", "client_name", "clientName"];

/// The arguments, the program's name first, with spaces between them. `command` says which options take values, `-a` a
/// password and `-u` a URL among them. Linear in their length.
pub fn command_line(command: &Command, args: impl IntoIterator<Item = String>) -> String {
    let mut args = args.into_iter();
    let mut shown: Vec<String> = args.next().into_iter().collect();
    while let Some(arg) = args.next() {
        match open_option(command, &arg) {
            Found::Value(at, secret) => shown.push(format!("{}{}", &arg[..at], secret.hide(&arg[at..]))),
            Found::Next(secret) => {
                shown.push(arg);
                shown.extend(args.next().map(|value| secret.hide(&value)));
            }
            Found::Nothing => shown.push(arg),
        }
    }
    shown.join(" ")
}

/// What an argument holds.
enum Found {
    /// An option's value from that byte on.
    Value(usize, Secret),
    /// An option whose value is the next argument.
    Next(Secret),
    Nothing,
}

#[derive(Clone, Copy)]
enum Secret {
    No,
    Whole,
    Url,
}

impl Secret {
    fn of(option: &Arg) -> Secret {
        match option.get_short() {
            Some('a') => Secret::Whole,
            Some('u') => Secret::Url,
            _ => Secret::No,
        }
    }

    fn hide(self, value: &str) -> String {
        match self {
            Secret::No => value.to_owned(),
            Secret::Whole => HIDDEN.to_owned(),
            Secret::Url => url(value),
        }
    }
}

/// Finds the option with a value in `--name`, `--name=value`, `-n`, `-nvalue`, or several short ones together.
fn open_option(command: &Command, arg: &str) -> Found {
    let takes_value = |option: &&Arg| option.get_action().takes_values();
    if let Some(long) = arg.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let option = command.get_arguments().find(|option| option.get_long() == Some(name)).filter(takes_value);
        return match (option.map(Secret::of), value) {
            (Some(secret), Some(value)) => Found::Value(arg.len() - value.len(), secret),
            (Some(secret), None) => Found::Next(secret),
            _ => Found::Nothing,
        };
    }
    let Some(shorts) = arg.strip_prefix('-') else { return Found::Nothing };
    for (at, short) in shorts.char_indices() {
        let option = command.get_arguments().find(|option| option.get_short() == Some(short)).filter(takes_value);
        let Some(secret) = option.map(Secret::of) else { continue };
        let behind = 1 + at + short.len_utf8();
        return match &arg[behind..] {
            "" => Found::Next(secret),
            value if value.starts_with('=') => Found::Value(behind + 1, secret),
            _ => Found::Value(behind, secret),
        };
    }
    Found::Nothing
}

/// A URL without its password, whatever characters that has by mistake. Of its options only those are shown that are
/// known to be no secrets, and none behind the first other one; nothing is shown if a login may end within the options.
pub fn url(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = text.split_at(start);
    let (place, options) = rest.split_once('?').map_or((rest, None), |(place, options)| (place, Some(options)));
    if options.is_some_and(|options| options.contains('@')) {
        return format!("{scheme}{HIDDEN}");
    }
    let mut shown = scheme.to_owned();
    match place.rsplit_once('@').map(|(login, host)| (login.split_once(':'), login, host)) {
        Some((Some((user, _)), _, host)) => shown.extend([user, ":", HIDDEN, "@", host]),
        // A password alone.
        Some((None, "", host)) => shown.extend(["@", host]),
        Some((None, _, host)) => shown.extend([HIDDEN, "@", host]),
        None => shown.push_str(place),
    }
    for (index, option) in options.iter().flat_map(|options| options.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match option.split_once('=') {
            Some((name, _)) if OPEN_OPTIONS.contains(&name) => shown.push_str(option),
            // What looks like a later option may be a part of its value.
            Some((name, _)) => {
                shown.extend([name, "=", HIDDEN]);
                break;
            }
            None => {
                shown.push_str(HIDDEN);
                break;
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_password_is_shown() {
        let command = crate::args::command();
        for (line, want) in [
            ("-a secret -q", "-a … -q"),
            ("-asecret", "-a…"),
            ("-a=secret", "-a=…"),
            ("-qasecret -n 10", "-qa… -n 10"),
            ("-q3a secret", "-q3a …"),
            ("-h a -p 1 --user bob -a -secret", "-h a -p 1 --user bob -a …"),
            ("-u redis://bob:secret@h:1/2", "-u redis://bob:…@h:1/2"),
            ("-uredis://:se@c/r#et@h", "-uredis://:…@h"),
            ("-uredis://:se@c/r#e?t@h", "-uredis://…"),
            ("-u redis://bob@h?db=1&pass=secret&other=secret", "-u redis://…@h?db=1&pass=…"),
            ("-u redis://secret@h/3", "-u redis://…@h/3"),
            ("-u redis://h?db=1&pass=se&cret&db=2", "-u redis://h?db=1&pass=…"),
            ("-u redis://h?pass=se&db=cret", "-u redis://h?pass=…"),
            ("-u redis://bob:x@h?pass=se@cret", "-u redis://…"),
            ("-u redis://h?token=se?cr=et", "-u redis://h?token=…"),
            ("-u redis://h?secret", "-u redis://h?…"),
            ("-u redis://h:1", "-u redis://h:1"),
            ("-n 10 -t set,get --report r.html", "-n 10 -t set,get --report r.html"),
        ] {
            let args = std::iter::once("tool").chain(line.split(' ')).map(str::to_owned);
            assert_eq!(command_line(&command, args), format!("tool {want}"), "{line}");
        }
    }

    #[test]
    fn what_is_not_text_is_shown_all_the_same() {
        let args = ["tool", "-", "--", "-ü", "--ü=é", ""].map(str::to_owned);
        assert_eq!(command_line(&crate::args::command(), args), "tool - -- -ü --ü=é ");
    }
}
