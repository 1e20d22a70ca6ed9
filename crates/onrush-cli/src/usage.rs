//! What `--help` prints.

/// The flags, in groups.
pub const USAGE: &str = "\
Usage: onrush-cli [flags] [command [argument ...]]

Without a command, commands are read from standard input, line by line; at a terminal with history, completion and
hints (type \"help\" there).

Server
  -h HOST                Name or address of the server (127.0.0.1)
  -p PORT                Its port (6379)
  -s SOCKET              A Unix socket instead of host and port
  -u URL                 redis://[[user]:password@]host[:port][/db], rediss://... or redis+unix:///path
  -t SECONDS             How long connecting may take
  -a PASSWORD, --pass    Log in. Safer: the environment variable REDISCLI_AUTH
  --user NAME            Log in as this user; needs a password
  --askpass              Ask for the password at the terminal
  --no-auth-warning      Do not warn of a password on the command line
  -n NUMBER              Database
  -2, -3                 Speak RESP2 (the default) or RESP3
  --tls                  Encrypt (needs a build with TLS); see also
                         --sni NAME, --cacert FILE, --cacertdir FOLDER, --cert FILE, --key FILE, --insecure

Command
  -r COUNT               Run it so many times, -1 for ever
  -i SECONDS             Pause between two runs, samples or cycles; fractions are fine
  -x                     Standard input is the last argument
  -X TAG                 Standard input takes the place of the argument TAG
  --quoted-input         Arguments are written in quotes: '\"a\\x00b\"'
  -c                     Go where a cluster's MOVED and ASK send
  -e                     End with 1 when the server answers with an error
  --eval FILE            Run a script: --eval FILE key ... , argument ...

Output
  --raw, --no-raw        The bytes alone (default into files and pipes), or for people (default at a terminal)
  -d TEXT, -D TEXT       Between the elements of a raw reply, and after it (newline)
  --csv                  Comma-separated values
  --json, --quoted-json  JSON, by RESP3 unless -2 is given; the latter in ASCII alone
  --show-pushes yes|no   Show messages that come unasked
  --verbose              Tell more

Mass insertion
  --pipe                 Send what standard input holds (commands as the protocol or as lines); count the replies
  --pipe-timeout SECONDS Give up when no reply comes for so long after the last command (30; 0 never)
  --from csv|jsonl       Standard input holds records, which become commands by
  --template 'COMMAND'   for instance 'SET user:{0} \"{1}\"' or 'HSET {id} name {name}'; {{ is a brace
  --csv-header           The first CSV record names the columns

Keys
  --scan                 List the keys
  --bigkeys              The biggest key of each type, by elements
  --memkeys              The biggest key of each type, by memory
  --memkeys-samples N    As --memkeys, with N elements of each key sampled; 0 means all
  --hotkeys              The keys used most; the server needs an LFU policy
  --pattern GLOB, --quoted-pattern GLOB, --count N, --type TYPE
                         What is scanned, and how much at once

Server's health
  --stat                 A line of figures every second
  --latency              Round-trip times until interrupted; for a second when standard output is no terminal
  --latency-history      The same, a line every 15 seconds
  --latency-dist         The same as a spectrum of colors
  --intrinsic-latency S  The longest pause this machine makes by itself within S seconds
  --lru-test KEYS        Hits and misses of a cache with an 80-20 load

Replication
  --rdb FILE             Copy the data set; - is standard output
  --functions-rdb FILE   Copy the functions alone
  --replica              Show the commands a replica receives

  --docs-table           The server's commands as the table this program has built in
  --help, --version

Not offered: --cluster, --ldb. Environment: REDISCLI_AUTH, REDISCLI_HISTFILE, REDISCLI_RCFILE, NO_COLOR, FAKETTY.

Examples
  onrush-cli -x set motd < /etc/motd
  onrush-cli --scan --pattern 'user:*'
  onrush-cli --pipe < commands.resp
  onrush-cli --pipe --from csv --csv-header --template 'SET user:{id} \"{name}\"' < users.csv
";
