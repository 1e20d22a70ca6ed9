//! The documentation against the code: links, the table of commands, promises, and the commands that it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onrush_tests::port::Port;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, TempDir, onrush_bin};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages: those of the root, of `docs` and of its internals.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = ["", "docs", "docs/internals", "benchmarks"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// The name of a heading in a link, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parse(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().expect("inside of a heading"));
                // The second heading of a name is called name-1, and so on.
                let again =
                    (1..).map(|n| format!("{name}-{n}")).find(|again| !found.contains(again)).expect("a number");
                found.insert(if found.contains(&name) { again } else { name });
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            _ => {}
        }
    }
    found
}

/// Why a link of a page is broken, if it is.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.starts_with("http://") || link.starts_with("https://") {
        return None;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent().expect("a folder").join(path) };
    if !target.exists() {
        return Some(format!("{}: no file {link}", page.display()));
    }
    let found = fragment.is_empty() || anchors(&read(&target)).contains(fragment);
    (!found).then(|| format!("{}: no heading {link}", page.display()))
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut links = 0;
    let mut faults = Vec::new();
    for page in pages() {
        for event in parse(&read(&page)) {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
                links += 1;
                faults.extend(broken(&page, &dest_url));
            }
        }
    }
    assert!(links > 50, "only {links} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let readme = root().join("README.md");
    for wrong in ["docs/none.md", "docs/limits.md#none", "#none"] {
        assert!(broken(&readme, wrong).is_some(), "{wrong} passes");
    }
}

#[test]
fn every_page_of_docs_is_in_the_book() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let missing: Vec<PathBuf> = pages()
        .into_iter()
        .filter(|page| page.parent().is_some_and(|folder| folder.ends_with("docs")))
        .filter(|page| !page.ends_with("SUMMARY.md"))
        .filter(|page| !summary.contains(&format!("({})", page.file_name().expect("a name").to_string_lossy())))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_promise_of_the_readme_has_its_test() {
    let readme = read(&root().join("README.md"));
    let tests = read(&root().join("tests/tests/apart/pipelining.rs"));
    let (_, rest) = readme.split_once("| promise | test |").expect("the table of promises");
    let rows: Vec<&str> = rest.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 8, "{rows:?}");
    for row in rows {
        let name = row.rsplit('`').nth(1).expect("a name in backquotes");
        assert!(tests.contains(&format!("fn {name}()")), "no test {name}");
    }
}

/// All sources of Rust in a folder, one behind the other.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&read(&path));
        }
    }
}

#[test]
fn every_published_fault_has_its_tests() {
    let page = read(&root().join("docs/security.md"));
    let mut tests = String::new();
    ["crates", "tests"].iter().for_each(|folder| sources(&root().join(folder), &mut tests));
    let (_, rest) = page.split_once("| fault | what stands against it | tests |").expect("the table of faults");
    let rows: Vec<&str> = rest.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 20, "{rows:?}");
    for row in rows {
        let column = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        let names: Vec<&str> = column.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test in {row}");
        for name in names {
            assert!(tests.contains(&format!("fn {name}(")), "no test {name}");
        }
    }
}

/// The facts of COMMAND DOCS about a command.
struct Told {
    group: String,
    since: String,
    summary: String,
}

fn fields(value: &Value) -> BTreeMap<String, Value> {
    let items = value.items().expect("an array");
    items.chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
}

fn told(name: &str, value: &Value, out: &mut BTreeMap<String, Told>) {
    let told_of = fields(value);
    let text = |field: &str| told_of.get(field).map(Value::text).unwrap_or_default();
    let told_here = Told { group: text("group"), since: text("since"), summary: text("summary") };
    out.insert(name.replace('|', " ").to_uppercase(), told_here);
    if let Some(subcommands) = told_of.get("subcommands") {
        fields(subcommands).iter().for_each(|(name, value)| told(name, value, out));
    }
}

/// The headings of differences.md under which a command stands in bold.
fn differences() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut heading, mut in_heading, mut bold) = (String::new(), false, false);
    let text = read(&root().join("docs/differences.md"));
    for event in parse(&text) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => (heading, in_heading) = (String::new(), true),
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Start(Tag::Strong) => bold = true,
            Event::End(TagEnd::Strong) => bold = false,
            Event::Text(part) if in_heading => heading.push_str(&part),
            Event::Text(part) if bold => _ = found.entry(part.to_string()).or_default().insert(heading.clone()),
            _ => {}
        }
    }
    found
}

fn table_of_commands() -> String {
    let mut all = BTreeMap::new();
    let docs = Server::start_onrush(&[]).connect().run("COMMAND DOCS");
    fields(&docs).iter().for_each(|(name, value)| told(name, value, &mut all));
    let newer = Server::start_oracle(Oracle::Newer, &[]).connect().run("COMMAND LIST");
    let newer: Vec<String> =
        newer.items().expect("names").iter().map(|name| name.text().replace('|', " ").to_uppercase()).collect();
    let mut missing: Vec<&String> = newer.iter().filter(|name| !all.contains_key(*name)).collect();
    missing.sort();
    let differences = differences();
    let unknown: Vec<&String> = differences.keys().filter(|name| !all.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "in bold in differences.md, but no commands: {unknown:?}");
    let mut groups: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    all.iter().for_each(|(name, told)| groups.entry(&told.group).or_default().push(name));

    let mut text = String::from("# Commands\n\n");
    let _ = writeln!(
        text,
        "The {} commands that Onrush has, {} with their subcommands. This page is made from what the server says of itself\n\
         (`COMMAND DOCS`): `make docs`. \"Since\" is the version of Redis that had the command first. The last column says where it differs.\n",
        all.keys().filter(|name| !name.contains(' ')).count(),
        all.len()
    );
    for (group, names) in groups {
        let _ = write!(text, "## {group}\n\n| Command | Since | What it does | Differs |\n|---|---|---|---|\n");
        for name in names {
            let Told { since, summary, .. } = &all[name];
            let links = differences.get(name).into_iter().flatten();
            let links: Vec<String> =
                links.map(|heading| format!("[{heading}](differences.md#{})", anchor(heading))).collect();
            let _ = writeln!(text, "| {name} | {since} | {} | {} |", summary.replace('|', "\\|"), links.join(", "));
        }
        text.push('\n');
    }
    text.push_str("## Not there\n\nCommands of Redis 8.2 that Onrush does not know: ");
    let missing: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(text, "{}.", missing.join(", "));
    text
}

/// Run with `UPDATE_DOCS=1` to rewrite the page.
#[test]
fn the_table_of_commands_is_up_to_date() {
    let path = root().join("docs/commands.md");
    let text = table_of_commands();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, text).expect("docs/commands.md");
    } else {
        assert!(read(&path) == text, "docs/commands.md is outdated; run `make docs`");
    }
}

/// A block of commands that a page shows.
struct Shown {
    page: String,
    text: String,
    /// Whether it has prompts and outputs.
    is_console: bool,
    /// Why it is not run, if so.
    not_run: Option<String>,
}

fn shown() -> Vec<Shown> {
    let mut found = Vec::new();
    for path in pages() {
        let text = read(&path);
        let page = path.file_name().expect("a name").to_string_lossy().into_owned();
        let (mut block, mut not_run): (Option<Shown>, Option<String>) = (None, None);
        for event in parse(&text) {
            match event {
                Event::Html(html) => {
                    let reason = html.trim().strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
                    not_run = reason.map(str::to_owned).or(not_run);
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if matches!(&*info, "sh" | "console") => {
                    let is_console = &*info == "console";
                    block =
                        Some(Shown { page: page.clone(), text: String::new(), is_console, not_run: not_run.take() });
                }
                Event::Text(part) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&part);
                    }
                }
                Event::End(TagEnd::CodeBlock) => found.extend(block.take()),
                _ => {}
            }
        }
    }
    found
}

/// Where commands of the docs run: beside a server, with programs that find it first on the search path.
struct Stage {
    server: Server,
    programs: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let server = Server::start_onrush(&["--appendonly", "yes"]);
        let mut conn = server.connect();
        assert_eq!(conn.run("SAVE").text(), "OK");
        fs::write(server.dir().join("onrush.conf"), "maxclients 100\n").expect("a file");
        let stage = Stage { server, programs: TempDir::new() };
        let port = stage.server.port();
        let bin = |name: &str, variable: &str| {
            let beside = onrush_bin().with_file_name(name);
            std::env::var_os(variable).map_or(beside, PathBuf::from).display().to_string()
        };
        let cli = bin("onrush-cli", "ONRUSH_CLI_BIN");
        stage.program("onrush-cli", &format!("exec {cli} -p {port} \"$@\""));
        stage.program("onrush-check", &format!("exec {} \"$@\"", bin("onrush-check", "ONRUSH_CHECK_BIN")));
        let benchmark = bin("onrush-benchmark", "ONRUSH_BENCHMARK_BIN");
        // Fewer commands than shown: only that they work is tested.
        stage.program("onrush-benchmark", &format!("exec {benchmark} -p {port} \"$@\" -n 20000"));
        stage.program("nc", &format!("shift 2; exec /usr/bin/env -i /bin/nc -N {} {port}", "127.0.0.1"));
        stage.program("make", "exec /usr/bin/make -n \"$@\" >/dev/null");
        let other = Port::choose();
        let number = other.number();
        // A server is started, asked whether it is there, and ended.
        stage.program(
            "onrush-server",
            &format!(
                "{} \"$@\" --port {number} --bind 127.0.0.1 --save '' &\nfor i in $(seq 500); do {cli} -p {number} ping && break; sleep 0.02; done\n\
                 {cli} -p {number} shutdown nosave\nwait $!",
                onrush_bin().display()
            ),
        );
        stage
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.programs.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    /// Runs a line of shell; what it prints to standard output and error, or all of that as an error.
    fn run(&self, line: &str, folder: &Path) -> Result<String, String> {
        let line = line.replace("/etc/onrush.conf", &self.server.dir().join("onrush.conf").display().to_string());
        let path = format!("{}:{}", self.programs.0.display(), std::env::var("PATH").expect("a search path"));
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -eo pipefail; exec 2>&1; {line}")]).env("PATH", path);
        let done = command.current_dir(folder).stdin(Stdio::null()).output().expect("bash");
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.success() { Ok(printed) } else { Err(format!("{line}\n{}\n{printed}", done.status)) }
    }
}

#[test]
fn the_commands_that_the_docs_show_work() {
    let blocks = shown();
    assert!(blocks.len() > 8, "only {} blocks", blocks.len());
    let folder = root();
    for wrong in [
        "onrush-cli --no-such-flag",
        "onrush-benchmark --no-such-flag",
        "make nosuchtarget",
        "onrush-server --nosuch 1",
    ] {
        let stage = Stage::new();
        assert!(stage.run(wrong, &folder).is_err(), "{wrong} passes");
    }
    let mut faults = Vec::new();
    for block in blocks {
        if let Some(reason) = &block.not_run {
            println!("not run, {reason}: {}", block.text.trim());
            let checked = Command::new("bash").args(["-n", "-c", &block.text]).status().expect("bash");
            assert!(checked.success(), "{}", block.text);
            continue;
        }
        let stage = Stage::new();
        let commands = if block.is_console {
            block.text.split("$ ").skip(1).map(|part| part.split_once('\n').expect("a line")).collect()
        } else {
            block.text.lines().map(|line| (line, "")).collect::<Vec<_>>()
        };
        for (line, output) in commands {
            let folder = if line.starts_with("make ") { root() } else { stage.server.dir().to_owned() };
            match stage.run(line, &folder) {
                Ok(printed) if block.is_console && printed.replace('\r', "") != output => {
                    faults.push(format!("{}: {line}\nprints {printed:?}\nnot    {output:?}", block.page));
                }
                Ok(_) => {}
                Err(error) => faults.push(format!("{}: {error}", block.page)),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn targets_of_make_that_the_docs_name_exist() {
    let makefile = read(&root().join("Makefile"));
    let mut named = 0;
    for page in pages() {
        for event in parse(&read(&page)) {
            let (Event::Code(code) | Event::Text(code)) = event else { continue };
            let target = code.strip_prefix("make ").and_then(|rest| rest.split_whitespace().next());
            let Some(target) = target.filter(|target| target.chars().all(|c| c.is_ascii_lowercase())) else { continue };
            named += 1;
            assert!(makefile.contains(&format!("\n{target}:")), "{}: no target {target}", page.display());
        }
    }
    assert!(named > 10, "only {named}");
}

/// The spans in backticks of `text`.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_step_of_the_walk_is_in_the_code() {
    let walk = read(&root().join("docs/internals/walk.md"));
    let is_step = |line: &&str| line.split_once(". `").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let mut steps = 0;
    let lines: Vec<&str> = walk.lines().collect();
    for (at, step) in lines.iter().enumerate().filter(|(_, line)| is_step(line)) {
        // The functions may go on in the next line; what is said of them stands behind the dash.
        let wrapped = lines.get(at + 1).filter(|next| next.starts_with("   ")).unwrap_or(&"");
        let text = format!("{step} {}", wrapped.trim_start());
        let mut named = code_spans(text.split(" - ").next().unwrap_or_default());
        let file = named.next().unwrap_or_else(|| panic!("no file: {step}"));
        let (krate, path) = file.split_once('/').unwrap_or_else(|| panic!("no crate: {step}"));
        let mut path = root().join(format!("crates/onrush-{krate}/src/{path}"));
        let mut functions = 0;
        for name in named {
            // In brackets, a file beside this one.
            if name.ends_with(".rs") {
                path.set_file_name(name);
                continue;
            }
            let function = name.rsplit("::").next().unwrap_or(name);
            let source = read(&path);
            let is_there = ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")));
            assert!(is_there, "{function} is not in {}: {step}", path.display());
            functions += 1;
        }
        assert!(functions > 0, "no function: {step}");
        steps += 1;
    }
    assert!(steps > 150, "only {steps}");
}
