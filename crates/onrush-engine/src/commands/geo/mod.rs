//! Geo indexes: sorted sets whose scores are geohashes. Searches are in `geo_search`.

pub(crate) mod search;
pub(crate) mod specs;

use onrush_resp::{Reply, parse_f64};
use onrush_store::SortedSet;
use onrush_store::geo::Position;
use smallvec::SmallVec;

use crate::commands::sorted_sets::{AddOptions, add_scored};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};

/// Metres in a unit of length.
///
/// # Errors
/// `ERR unsupported unit provided. …`
pub(super) fn unit(ctx: &Ctx<'_>, index: usize) -> Result<f64, CommandError> {
    let units = [("m", 1.0), ("km", 1_000.0), ("ft", 0.3048), ("mi", 1_609.34)];
    let found = units.into_iter().find(|(name, _)| ctx.is(index, name));
    found
        .map(|(_, metres)| metres)
        .ok_or(CommandError::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Longitude and latitude from argument `index` on.
///
/// # Errors
/// `ERR value is not a valid float`, `ERR invalid longitude,latitude pair …`
pub(super) fn position(ctx: &Ctx<'_>, index: usize) -> Result<Position, CommandError> {
    let number = |index| parse_f64(ctx.arg(index)).ok_or(error::NOT_FLOAT);
    let position = Position { longitude: number(index)?, latitude: number(index + 1)? };
    if position.is_valid() {
        return Ok(position);
    }
    let Position { longitude, latitude } = position;
    Err(CommandError::text(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Appends a distance: four decimals, as text over both protocols.
pub(super) fn reply_distance(out: &mut Reply, distance: f64) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

/// Appends longitude and latitude, with all their decimals up to the 17th.
pub(super) fn reply_position(out: &mut Reply, position: Position) {
    out.array(2);
    for coordinate in [position.longitude, position.latitude] {
        let text = format!("{coordinate:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if out.is_resp3() {
            out.raw(format!(",{text}\r\n").as_bytes());
        } else {
            out.bulk(text.as_bytes());
        }
    }
}

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member …]`
pub(crate) fn geoadd(ctx: &mut Ctx<'_>) -> CommandResult {
    let mut options = AddOptions::default();
    let mut rest = ctx.rest(2);
    loop {
        let flags = [("NX", &mut options.nx), ("XX", &mut options.xx), ("CH", &mut options.ch)];
        let Some(flag) = rest.take_one_of(flags) else { break };
        *flag = true;
    }
    let first = rest.index();
    if !rest.len().is_multiple_of(3) || options.nx && options.xx {
        return Err(error::SYNTAX.into());
    }
    let scores: SmallVec<[f64; 4]> = (first..ctx.argc())
        .step_by(3)
        .map(|index| Ok(position(ctx, index)?.to_score()))
        .collect::<Result<_, CommandError>>()?;
    add_scored(ctx, options, scores.iter().copied().zip((first + 2..).step_by(3)))
}

/// `GEODIST key member1 member2 [M | KM | FT | MI]`
pub(crate) fn geodist(ctx: &mut Ctx<'_>) -> CommandResult {
    let metres = match ctx.argc() {
        4 => 1.0,
        5 => unit(ctx, 4)?,
        _ => return Err(error::SYNTAX.into()),
    };
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    let place = |index| set.and_then(|set| set.score(ctx.argv.get(index))).map(Position::from_score);
    match place(2).zip(place(3)) {
        Some((from, to)) => reply_distance(ctx.out, from.distance(to) / metres),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `GEOHASH key member [member …]`
pub(crate) fn geohash(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    ctx.out.array(ctx.argv.len() - 2);
    for member in ctx.argv.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.out.bulk(&Position::from_score(score).to_geohash()),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

/// `GEOPOS key member [member …]`
pub(crate) fn geopos(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    ctx.out.array(ctx.argv.len() - 2);
    for member in ctx.argv.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply_position(ctx.out, Position::from_score(score)),
            None => ctx.out.null_array(),
        }
    }
    Ok(())
}
