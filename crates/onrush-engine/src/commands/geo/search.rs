//! Geo indexes: what is within a circle or a box.

use std::cmp::Ordering;
use std::ops::Bound;

use onrush_resp::parse_f64;
use onrush_store::SortedSet;
use onrush_store::geo::{Position, Shape};

use crate::command::Flags;
use crate::commands::geo::{position, reply_distance, reply_position, unit};
use crate::commands::keys;
use crate::commands::sorted_sets::ranges::store_result;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::part_sort::sort_part;

const NO_SUCH_MEMBER: CommandError = CommandError::fixed("ERR could not decode requested zset member");

/// The commands that search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS and GEORADIUSBYMEMBER; their read-only forms may not store.
    Radius {
        may_store: bool,
    },
    Search,
    SearchStore,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    #[default]
    None,
    Nearest,
    Farthest,
}

/// A search as it was asked for.
#[derive(Default)]
struct Query<'a> {
    center: Option<Position>,
    area: Option<Area>,
    order: Order,
    /// The most to find; 0 is all.
    count: usize,
    /// Any members will do, not only the nearest.
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    target: Option<Key<'a>>,
    /// Distances are stored in place of geohashes.
    stores_distances: bool,
}

/// A member within the shape.
struct Hit {
    member: Vec<u8>,
    score: f64,
    position: Position,
    /// In the unit asked for.
    distance: f64,
}

/// A distance that must not be negative.
fn length(ctx: &Ctx<'_>, index: usize, not_a_number: &'static str) -> Result<f64, CommandError> {
    parse_f64(ctx.arg(index)).ok_or(CommandError::fixed(not_a_number))
}

/// A shape, and the unit of length that its size was given in and distances are, in meters.
#[derive(Clone, Copy)]
struct Area {
    shape: Shape,
    unit: f64,
}

fn radius(ctx: &Ctx<'_>, index: usize) -> Result<Area, CommandError> {
    let radius = length(ctx, index, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(CommandError::fixed("ERR radius cannot be negative"));
    }
    let unit = unit(ctx, index + 1)?;
    Ok(Area { shape: Shape::Circle { radius: radius * unit }, unit })
}

fn sides(ctx: &Ctx<'_>, index: usize) -> Result<Area, CommandError> {
    let width = length(ctx, index, "ERR need numeric width")?;
    let height = length(ctx, index + 1, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::fixed("ERR height or width cannot be negative"));
    }
    let unit = unit(ctx, index + 2)?;
    Ok(Area { shape: Shape::Box { width: width * unit, height: height * unit }, unit })
}

/// The place of a member; `None` if there is no such key.
fn place_of(ctx: &mut Ctx<'_>, source: &Key<'_>, index: usize) -> Result<Option<Position>, CommandError> {
    let member = ctx.arg(index);
    match ctx.commit.look_as::<SortedSet>(source)? {
        Some(set) => set.score(member).map(|score| Some(Position::from_score(score))).ok_or(NO_SUCH_MEMBER),
        None => Ok(None),
    }
}

impl<'a> Query<'a> {
    /// Reads the options from argument `from` on.
    fn read_options(&mut self, ctx: &mut Ctx<'a>, form: Form, source: &Key<'_>, from: usize) -> CommandResult {
        let (mut has_count, mut from_member, mut from_position) = (false, false, false);
        let (is_search, may_store) = (!matches!(form, Form::Radius { .. }), form == Form::Radius { may_store: true });
        let mut rest = ctx.rest(from);
        while !rest.is_empty() {
            let is_circle = matches!(self.area, Some(Area { shape: Shape::Circle { .. }, .. }));
            let is_box = matches!(self.area, Some(Area { shape: Shape::Box { .. }, .. }));
            if rest.take("WITHDIST") {
                self.with_distance = true;
            } else if rest.take("WITHHASH") {
                self.with_hash = true;
            } else if rest.take("WITHCOORD") {
                self.with_position = true;
            } else if rest.take("ANY") {
                self.any = true;
            } else if rest.take("ASC") {
                self.order = Order::Nearest;
            } else if rest.take("DESC") {
                self.order = Order::Farthest;
            } else if rest.take_with("COUNT", 1) {
                let count = rest.next_int()?;
                if count <= 0 {
                    return Err(CommandError::fixed("ERR COUNT must be > 0").into());
                }
                (self.count, has_count) = (count as usize, true);
            } else if may_store
                && let Some(distances) = rest.take_one_of_with([("STORE", false), ("STOREDIST", true)], 1)
            {
                self.stores_distances = distances;
                self.target = Some(ctx.key(rest.next_index()));
            } else if form == Form::SearchStore && rest.take("STOREDIST") {
                self.stores_distances = true;
            } else if is_search && !from_position && rest.take_with("FROMMEMBER", 1) {
                self.center = place_of(ctx, source, rest.next_index())?;
                from_member = true;
            } else if is_search && !from_member && rest.take_with("FROMLONLAT", 2) {
                self.center = Some(position(ctx, rest.next_range(2).start)?);
                from_position = true;
            } else if is_search && !is_box && rest.take_with("BYRADIUS", 2) {
                self.area = Some(radius(ctx, rest.next_range(2).start)?);
            } else if is_search && !is_circle && rest.take_with("BYBOX", 3) {
                self.area = Some(sides(ctx, rest.next_range(3).start)?);
            } else {
                return Err(error::SYNTAX.into());
            }
        }
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let form = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::text(format!(
                "ERR {form} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            ))
            .into());
        }
        let exactly_one = |what: &str| {
            let name = String::from_utf8_lossy(ctx.arg(0));
            CommandError::text(format!("ERR exactly one of {what} can be specified for {name}"))
        };
        if is_search && !from_member && !from_position {
            return Err(exactly_one("FROMMEMBER or FROMLONLAT").into());
        }
        if is_search && self.area.is_none() {
            return Err(exactly_one("BYRADIUS and BYBOX").into());
        }
        if self.any && !has_count {
            return Err(CommandError::fixed("ERR the ANY argument requires COUNT argument").into());
        }
        if has_count && !self.any && self.order == Order::None {
            self.order = Order::Nearest;
        }
        Ok(())
    }

    /// The members within the shape, in the order asked for. O(members in the cells around).
    fn find(&self, set: &SortedSet) -> Vec<Hit> {
        let (Some(center), Some(Area { shape, unit })) = (self.center, self.area) else { return Vec::new() };
        let limit = if self.any { self.count } else { usize::MAX };
        let members = center
            .score_ranges(shape)
            .flat_map(|range| set.range_by_score(Bound::Included(range.start), Bound::Excluded(range.end)));
        let mut hits: Vec<Hit> = members
            .filter_map(|(member, score)| {
                let position = Position::from_score(score);
                let distance = center.distance_within(shape, position)?;
                Some(Hit { member: member.to_vec(), score, position, distance })
            })
            .take(limit)
            .collect();
        let is_part = self.count > 0 && self.count < hits.len();
        let mut sort = |compare: fn(&Hit, &Hit) -> Ordering| match is_part {
            true => sort_part(&mut hits, 0..self.count, compare),
            false => hits.sort_by(compare),
        };
        match self.order {
            Order::None => {}
            Order::Nearest => sort(|a, b| a.distance.total_cmp(&b.distance)),
            Order::Farthest => sort(|a, b| b.distance.total_cmp(&a.distance)),
        }
        if self.count > 0 {
            hits.truncate(self.count);
        }
        // Not before: two distances may be the same after it.
        hits.iter_mut().for_each(|hit| hit.distance /= unit);
        hits
    }

    fn reply(&self, ctx: &mut Ctx<'_>, hits: &[Hit]) {
        let options = [self.with_distance, self.with_hash, self.with_position].into_iter().filter(|on| *on).count();
        ctx.out.array(hits.len());
        for hit in hits {
            if options > 0 {
                ctx.out.array(options + 1);
            }
            ctx.out.bulk(&hit.member);
            if self.with_distance {
                reply_distance(ctx.out, hit.distance);
            }
            if self.with_hash {
                ctx.out.int(hit.score as i64);
            }
            if self.with_position {
                reply_position(ctx.out, hit.position);
            }
        }
    }

    /// Searches, and replies or stores.
    fn run(&self, ctx: &mut Ctx<'a>, source: &Key<'_>, event: &'static str) -> CommandResult {
        let hits = match ctx.commit.look_as::<SortedSet>(source)? {
            Some(set) => self.find(set),
            None => Vec::new(),
        };
        let Some(target) = &self.target else {
            self.reply(ctx, &hits);
            return Ok(());
        };
        let limits = ctx.engine.settings.encodings.sorted_set();
        let mut result = SortedSet::default();
        for hit in &hits {
            result.insert(&hit.member, if self.stores_distances { hit.distance } else { hit.score }, &limits);
        }
        store_result(ctx, target, result, event)
    }
}

/// Locks the source and the target key, if there is one: it follows one of two words.
fn lock<'a>(ctx: &mut Ctx<'a>, source: &Key<'_>, options: usize) -> CommandResult {
    let targets: Vec<Key<'a>> = (options..ctx.argc().saturating_sub(1))
        .filter(|&index| ctx.is(index, "STORE") || ctx.is(index, "STOREDIST"))
        .map(|index| ctx.key(index + 1))
        .collect();
    if !targets.is_empty() {
        keys::lock(ctx, targets.iter().chain([source]))?;
    }
    Ok(())
}

/// Only the forms that write may store.
fn search_radius(ctx: &mut Ctx<'_>, by_member: bool) -> CommandResult {
    let source = ctx.key(1);
    let may_store = ctx.command.flags.contains(Flags::WRITE);
    let options = if by_member { 5 } else { 6 };
    if may_store {
        lock(ctx, &source, options)?;
    }
    let mut query = Query::default();
    let is_there = ctx.commit.read_as::<SortedSet>(&source)?.is_some();
    if by_member {
        query.center = place_of(ctx, &source, 2)?;
    } else {
        query.center = Some(position(ctx, 2)?);
    }
    if is_there || !by_member {
        query.area = Some(radius(ctx, options - 2)?);
    }
    query.read_options(ctx, Form::Radius { may_store }, &source, options)?;
    query.run(ctx, &source, "georadiusstore")
}

/// `GEORADIUS key longitude latitude radius <M | KM | FT | MI> [options]`, or GEORADIUS_RO.
pub(crate) fn georadius(ctx: &mut Ctx<'_>) -> CommandResult {
    search_radius(ctx, false)
}

/// `GEORADIUSBYMEMBER key member radius <M | KM | FT | MI> [options]`, or GEORADIUSBYMEMBER_RO.
pub(crate) fn georadiusbymember(ctx: &mut Ctx<'_>) -> CommandResult {
    search_radius(ctx, true)
}

/// `GEOSEARCH key <FROMMEMBER … | FROMLONLAT …> <BYRADIUS … | BYBOX …> [options]`
pub(crate) fn geosearch(ctx: &mut Ctx<'_>) -> CommandResult {
    let source = ctx.key(1);
    ctx.commit.read_as::<SortedSet>(&source)?;
    let mut query = Query::default();
    query.read_options(ctx, Form::Search, &source, 2)?;
    query.run(ctx, &source, "geosearch")
}

/// `GEOSEARCHSTORE destination source <FROMMEMBER … | FROMLONLAT …> <BYRADIUS … | BYBOX …> [options]`
pub(crate) fn geosearchstore(ctx: &mut Ctx<'_>) -> CommandResult {
    let (target, source) = (ctx.key(1), ctx.key(2));
    keys::lock(ctx, [&target, &source])?;
    ctx.commit.read_as::<SortedSet>(&source)?;
    let mut query = Query { target: Some(target), ..Query::default() };
    query.read_options(ctx, Form::SearchStore, &source, 3)?;
    query.run(ctx, &source, "geosearchstore")
}
