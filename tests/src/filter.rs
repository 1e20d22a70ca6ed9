//! Filters of tools: a filter without a match is an error that lists the names, so that no run passes without doing
//! anything.

/// The names that contain `part`; all for an empty part.
///
/// # Errors
/// None does: the message lists them.
pub fn by_part<T>(all: impl IntoIterator<Item = T>, part: &str, text: impl Fn(&T) -> String) -> Result<Vec<T>, String> {
    let (chosen, others): (Vec<T>, Vec<T>) = all.into_iter().partition(|one| text(one).contains(part));
    if chosen.is_empty() {
        let names: Vec<String> = others.iter().map(text).collect();
        return Err(format!("{part:?} matches nothing; the names are:\n  {}", names.join("\n  ")));
    }
    Ok(chosen)
}

/// Checks that each of some names is one of those that are known.
///
/// # Errors
/// One is not: the message lists those that are.
pub fn check_names<'a>(wanted: &[String], known: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let known: Vec<&str> = known.into_iter().collect();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("there is no {name:?}; the names are {}", known.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_chooses_by_name_and_lists_the_names_when_none_has_it() {
        let all = || ["sets: add", "sets: pop", "lists: push"];
        assert_eq!(by_part(all(), "sets", |name| name.to_string()), Ok(vec!["sets: add", "sets: pop"]));
        assert_eq!(by_part(all(), "", |name| name.to_string()).map(|all| all.len()), Ok(3));
        let text = by_part(all(), "hashes", |name| name.to_string()).unwrap_err();
        assert!(text.contains("\"hashes\" matches nothing") && text.contains("\n  lists: push"), "{text}");
    }

    #[test]
    fn every_name_has_to_be_known() {
        let wanted = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(check_names(&wanted(&["a", "b"]), ["a", "b"]), Ok(()));
        assert_eq!(check_names(&wanted(&["a", "c"]), ["a", "b"]).unwrap_err(), "there is no \"c\"; the names are a, b");
    }
}
