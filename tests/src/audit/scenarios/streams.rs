//! Streams and their groups.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a stream",
        "
        > each XADD x {i+1}-0 f v:{i}
        > each XADD capped MAXLEN 10 {i+1}-0 f v
        > each XADD about MAXLEN ~ 1000 {i+1}-0 f v
        > each XADD recent MINID {i} {i+1}-0 f v
        > x100 XLEN x
        > x100 XRANGE x - + COUNT 10
        > x100 XREVRANGE x + - COUNT 10
        > x100 XRANGE x {r} + COUNT 10
        > x100 XREVRANGE x {r} - COUNT 10
        > x100 XREAD COUNT 10 STREAMS x {n-10}
        > x100 XREAD COUNT 10 STREAMS x 0
        > x100 XREAD STREAMS x {n}
        > once XRANGE x - +
        > once XREVRANGE x + -
        > x20 XINFO STREAM x
        > x20 XINFO STREAM x FULL COUNT 10
        > x100 XSETID x {n+100}-0
        > x100 XDEL x {r}-0
        > each/4 XDEL x {i+1}-0
        > x100 XRANGE x - + COUNT 1
        > x20 XINFO STREAM x
        > each/4 XDEL x {n-1}-0
        > x100 XREVRANGE x + - COUNT 1
        > x100 XTRIM x MINID {i+10}
        > once XTRIM x MAXLEN {n/10}
        > x20 XTRIM x MAXLEN ~ 0
        > each/4 XDELEX x KEEPREF IDS 1 {i+1}-0
        > all XDEL x | {i+1}-0
        > once XTRIM x MAXLEN 0
        ",
    ),
    Scenario::new(
        "a stream with its entries deleted",
        "
        each XADD x {i+1}-0 f v
        > all XDEL x | {i+2}-0
        each XADD y {i+1}-0 f v
        > each XDEL y {j+1}-0
        each XADD z {i+1}-0 f v
        > each/2 XDEL z {i*2+1}-0
        > x100 XRANGE x - +
        > x100 XREVRANGE x + -
        > x100 XRANGE z {n/2} + COUNT 1
        > x20 XINFO STREAM y
        > x100 XADD y {n+5}-* f v
        > once XRANGE z - +
        ",
    ),
    Scenario::new(
        "entries of many fields and many shapes",
        "
        > all XADD x 1-0 | f:{i} v
        > x5 XRANGE x - +
        > each/10 XADD y {i+1}-0 f:{i} v
        > once XRANGE y - +
        > x5 XADD z * f {bytes}
        > x5 XREVRANGE z + - COUNT 1
        ",
    ),
    Scenario::new(
        "a group and what is pending",
        "
        each XADD x {i+1}-0 f v
        > x100 XGROUP CREATE x g:{i} $
        > x100 XGROUP DESTROY x g:{i}
        once XGROUP CREATE x g 0
        > once XREADGROUP GROUP g c COUNT {n/2} STREAMS x >
        > each/2 XREADGROUP GROUP g d COUNT 1 STREAMS x >
        > x20 XPENDING x g
        > x100 XPENDING x g - + 10
        > x100 XPENDING x g {n-5} + 10
        > x20 XPENDING x g - + 10 d
        > x20 XPENDING x g IDLE 100000 - + 10
        > x20 XREADGROUP GROUP g c COUNT 10 STREAMS x 0
        > x20 XREADGROUP GROUP g d COUNT 10 STREAMS x 0
        > x20 XREADGROUP GROUP g c COUNT 10 STREAMS x {n/2-10}
        > all/10 XCLAIM x g other 0 | {i+1}-0
        > all/10 XCLAIM x g other 0 | {i+1}-0 | JUSTID
        > each/10 XCLAIM x g next 0 {i+1}-0 JUSTID
        > x20 XAUTOCLAIM x g other 0 0 COUNT 10
        > x20 XAUTOCLAIM x g other 10000000 0 COUNT 10
        > once XAUTOCLAIM x g all 0 0 COUNT {n}
        > x20 XINFO GROUPS x
        > x20 XINFO CONSUMERS x g
        > x20 XINFO STREAM x FULL COUNT 10
        > once XINFO STREAM x FULL COUNT 0
        > each/10 XACK x g {i+1}-0
        > each/10 XACKDEL x g DELREF IDS 1 {i+1}-0
        > all XACK x g | {i+1}-0
        > all XACK x g | {i+1}-0
        > once XGROUP SETID x g 0
        > once XREADGROUP GROUP g c COUNT {n} STREAMS x >
        > once XGROUP DELCONSUMER x g c
        > once XGROUP SETID x g 0
        > once XREADGROUP GROUP g c STREAMS x >
        > once XTRIM x MAXLEN 0
        > once XREADGROUP GROUP g c STREAMS x 0
        > once XAUTOCLAIM x g all 0 0 COUNT {n}
        > once XGROUP DESTROY x g
        ",
    ),
    Scenario::new(
        "messages of producers, and entries that are released",
        "
        once XADD x * f v
        > once XCFGSET x IDMP-DURATION 86400 IDMP-MAXSIZE 10000
        > each XADD x IDMP p m:{i} * f v
        > each/10 XADD x IDMP p m:{j} * f v
        > each/10 XADD x IDMP p:{i} m * f v:{i}
        > each/10 XADD x IDMPAUTO q * f v:{i}
        > each/10 XADD y {i+1}-0 f v
        > each/10 XIDMPRECORD y p m:{i} {i+1}-0
        > x20 XINFO STREAM x
        > once XCFGSET x IDMP-MAXSIZE 1
        > once XGROUP CREATE y g 0
        > once XREADGROUP GROUP g c COUNT {n} STREAMS y >
        > each/10 XNACK y g SILENT IDS 1 {i+1}-0
        > all/10 XNACK y g FAIL IDS {n/10} | {i+1}-0
        > x20 XAUTOCLAIM y g other 0 0 COUNT 10
        ",
    ),
    Scenario::new(
        "many groups and consumers",
        "
        once XADD x 1-0 f v
        > each/10 XGROUP CREATE x g:{i} 0
        > each/10 XGROUP CREATECONSUMER x g:0 c:{i}
        > each/10 XREADGROUP GROUP g:{i} c COUNT 1 STREAMS x >
        > each/10 XREADGROUP GROUP g:0 d:{i} COUNT 1 STREAMS x >
        > once XINFO GROUPS x
        > once XINFO CONSUMERS x g:0
        > once XINFO STREAM x FULL
        > x20 XPENDING x g:0
        > each/10 XACK x g:{i} 1-0
        > each/10 XCLAIM x g:1 d:{i} 0 1-0 FORCE JUSTID
        > x20 XPENDING x g:1
        > x100 XADD x * f v
        > each/10 XGROUP DELCONSUMER x g:0 c:{i}
        > each/10 XGROUP SETID x g:{i} $
        > each/10 XGROUP DESTROY x g:{i}
        ",
    ),
    Scenario::new(
        "many consumers with something pending",
        "
        each/10 XADD x {i+1}-0 f v
        once XGROUP CREATE x g 0
        > each/10 XREADGROUP GROUP g c:{i} COUNT 1 STREAMS x >
        > x20 XPENDING x g
        > x20 XPENDING x g - + 10 c:{r/10}
        > once XINFO CONSUMERS x g
        > each/10 XREADGROUP GROUP g c:{i} STREAMS x 0
        > once XAUTOCLAIM x g c:0 0 0 COUNT {n}
        > each/10 XGROUP DELCONSUMER x g c:{i}
        ",
    ),
    Scenario::new(
        "many streams in one command",
        "
        each/2 XADD x {i+1}-0 f v
        all XADD one 1-0 | f v
        > x5 XREAD COUNT 1 STREAMS x x x x 0 0 0 0
        > each/2 XADD s:{i} 1-0 f v
        > each/2 XTRIM s:{i} MAXLEN 1
        > each/2 XDEL s:{i} 1-0
        ",
    ),
];
