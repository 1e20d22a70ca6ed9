//! COMMAND: the command table for clients.

use crate::command::replies;
use crate::ctx::{CommandResult, Ctx};

/// COMMAND
pub(crate) fn command(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::command(&ctx.engine.commands, ctx.out);
    Ok(())
}

/// COMMAND COUNT
pub(crate) fn command_count(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::count(&ctx.engine.commands, ctx.out);
    Ok(())
}

/// COMMAND LIST
pub(crate) fn command_list(ctx: &mut Ctx<'_>) -> CommandResult {
    Ok(replies::list(&ctx.engine.commands, &ctx.argv, ctx.out)?)
}

/// COMMAND INFO
pub(crate) fn command_info(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::info(&ctx.engine.commands, &ctx.argv, ctx.out);
    Ok(())
}

/// COMMAND DOCS
pub(crate) fn command_docs(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::docs(&ctx.engine.commands, &ctx.argv, ctx.out);
    Ok(())
}

/// COMMAND GETKEYS
pub(crate) fn command_getkeys(ctx: &mut Ctx<'_>) -> CommandResult {
    Ok(replies::getkeys(&ctx.engine.commands, &ctx.argv, ctx.out)?)
}

/// COMMAND GETKEYSANDFLAGS
pub(crate) fn command_getkeysandflags(ctx: &mut Ctx<'_>) -> CommandResult {
    Ok(replies::getkeysandflags(&ctx.engine.commands, &ctx.argv, ctx.out)?)
}

#[cfg(test)]
mod tests {
    use crate::command::spec::Flags;
    use crate::command::{Command, CommandTable, KeyRange, argument, syntax};

    fn table() -> CommandTable {
        CommandTable::new(crate::commands::FAMILIES)
    }

    #[test]
    fn every_syntax_line_is_in_the_notation() {
        for command in table().all() {
            let line = command.spec.syntax;
            let arguments =
                argument::arguments(command.spec).unwrap_or_else(|error| panic!("{}: {error}", command.full_name));
            assert_eq!(syntax::tests::render(&arguments), line, "{}", command.full_name);
        }
    }

    #[test]
    fn every_row_says_what_people_and_planner_need() {
        for command in table().all() {
            let Command { spec, full_name, .. } = command;
            assert!(!spec.summary.is_empty() && spec.summary.ends_with('.'), "{full_name}: summary");
            assert_eq!(spec.name, spec.name.to_lowercase(), "{full_name}: name");
            assert_ne!(spec.arity, 0, "{full_name}: arity");
            assert!(!spec.flags.contains(Flags::WRITE | Flags::READONLY), "{full_name}: flags");
            assert!(!spec.flags.contains(Flags::MOVABLEKEYS), "{full_name}: movablekeys is derived");
            if let Some(KeyRange { first, last, step }) = command.plan {
                assert!(first > 0 && step > 0 && (last < 0 || last >= first), "{full_name}: keys");
                assert!(command.first_key > 0, "{full_name}: first key");
            }
        }
    }

    #[test]
    fn a_fixed_arity_agrees_with_the_syntax_line() {
        for command in table().all().filter(|command| !command.is_container()) {
            let arguments = argument::arguments(command.spec).unwrap();
            let names_len = if command.parent.is_some() { 2 } else { 1 };
            let fixed =
                arguments.iter().all(|argument| !argument.optional && !argument.multiple && !argument.is_group());
            if fixed && command.spec.arity > 0 {
                let words = arguments
                    .iter()
                    .filter(|argument| argument.token.is_some() && argument.kind.name() != "pure-token");
                let expected = names_len + arguments.len() + words.count();
                assert_eq!(command.spec.arity as usize, expected, "{}", command.full_name);
            }
        }
    }
}
