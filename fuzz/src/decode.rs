//! The command decoder.

use onrush_resp::{Decoded, Decoder, Limits, ProtocolError};

type Commands = Vec<Vec<Vec<u8>>>;

/// The first bytes say how the rest is cut; cut or whole, the commands and the error must be the same.
pub fn decode(data: &[u8]) {
    let (cuts, stream) = data.split_at(data.len().min(4));
    let limits = Limits { bulk_len_max: 1 << 20, big_bulk_len_min: 64, ..Limits::default() };
    let whole = feed(stream, &[255, 255], &Limits { big_bulk_len_min: usize::MAX, ..limits.clone() });
    assert_eq!(feed(stream, cuts, &limits), whole);
}

/// Feeds a stream in pieces, as a connection does.
fn feed(stream: &[u8], cuts: &[u8], limits: &Limits) -> (Commands, Option<ProtocolError>) {
    let mut decoder = Decoder::new();
    let (mut commands, mut query, mut args) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = stream;
    let mut cuts = cuts.iter().cycle();
    let mut take = |rest: &mut &[u8], len_max: usize| {
        let wanted = cuts.next().map_or(usize::MAX, |&cut| if cut == 255 { usize::MAX } else { cut as usize + 1 });
        let (piece, behind) = rest.split_at(wanted.min(len_max).min(rest.len()));
        *rest = behind;
        piece.to_vec()
    };
    loop {
        args.clear();
        match decoder.decode(&query, &mut args, limits) {
            Ok(Decoded::Command { len }) => {
                let owned = decoder.take_owned();
                commands.push(args.iter().map(|arg| arg.of(&query, &owned).to_vec()).collect());
                query.drain(..len);
            }
            Ok(Decoded::Nothing { len }) => drop(query.drain(..len)),
            Ok(Decoded::Incomplete) if rest.is_empty() => return (commands, None),
            Ok(Decoded::Incomplete) => query.extend(take(&mut rest, usize::MAX)),
            Ok(Decoded::NeedBulk { at, len }) => {
                let mut big = query.split_off(at);
                while big.len() < len + 2 && !rest.is_empty() {
                    let missing = len + 2 - big.len();
                    big.extend(take(&mut rest, missing));
                }
                if big.len() < len + 2 {
                    return (commands, None);
                }
                big.truncate(len);
                decoder.supply_owned(big);
            }
            Err(error) => return (commands, Some(error)),
        }
    }
}
