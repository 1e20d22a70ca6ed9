//! The receiver of a value's pieces.

use super::stream::{StreamConsumer, StreamEntry, StreamGroup, StreamId, StreamPending, StreamState};
use super::text::Text;

/// Why a visitor refuses a piece; the decoder returns it as [`RdbError::Malformed`](super::RdbError::Malformed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub &'static str);

/// The result of a visitor's method.
pub type Told = Result<(), Refused>;

impl Refused {
    /// A member of a set or a sorted set comes twice.
    pub const DUPLICATE_MEMBER: Refused = Refused("a member that comes twice");
    /// A field of a hash comes twice.
    pub const DUPLICATE_FIELD: Refused = Refused("a field that comes twice");
    /// A consumer group comes twice.
    pub const DUPLICATE_GROUP: Refused = Refused("a consumer group that comes twice");
    /// A consumer comes twice.
    pub const DUPLICATE_CONSUMER: Refused = Refused("a consumer that comes twice");
    /// An entry comes twice among a group's pending ones.
    pub const DUPLICATE_PENDING: Refused = Refused("a pending entry that comes twice");
    /// A consumer has an entry that is not pending in the group, or that another consumer has.
    pub const FOREIGN_PENDING: Refused = Refused("a consumer's entry that is not pending, or that another one has");
    /// No consumer has a pending entry of the group.
    pub const UNOWNED_PENDING: Refused = Refused("a pending entry that no consumer has");
}

/// The types of collections, except streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A hash.
    Hash,
}

/// Takes the pieces of one value in the order of the file: a string; or [`Visitor::collection`] and then elements, members or
/// fields; or [`Visitor::stream`], the entries, the state, and each group with its pending entries and consumers.
///
/// The decoder checks everything that it can check without memory of its own. The visitor must refuse pieces that
/// contradict earlier ones: there is a constant of type [`Refused`] for each such case. When the decoder returns an
/// error, the caller must drop what the visitor has.
pub trait Visitor {
    /// A string.
    fn string(&mut self, value: Text<'_>) -> Told;

    /// A string that was compressed and has memory of its own.
    fn string_owned(&mut self, value: Vec<u8>) -> Told {
        self.string(Text::Bytes(&value))
    }

    /// A collection begins. For a set, sorted set or hash `len_hint` is the number of members or fields, 0 if unknown;
    /// for a list it is a guess. The payload has at least a byte for each.
    fn collection(&mut self, kind: CollectionKind, len_hint: usize) -> Told;

    /// The next element of a list.
    fn element(&mut self, element: Text<'_>) -> Told;

    /// A member of a set. Refuses a member that comes twice.
    fn member(&mut self, member: Text<'_>) -> Told;

    /// A member of a sorted set; the score is never NaN. Refuses a member that comes twice.
    fn scored(&mut self, member: Text<'_>, score: f64) -> Told;

    /// A field of a hash, with the Unix time in milliseconds when it expires. Refuses a name that comes twice.
    fn field(&mut self, name: Text<'_>, value: Text<'_>, expires_at_ms: Option<i64>) -> Told;

    /// A stream begins.
    fn stream(&mut self) -> Told;

    /// The next entry of a stream; its identifier is greater than all before.
    fn stream_entry(&mut self, entry: StreamEntry<'_>) -> Told;

    /// The stream's state beside its entries. No entry has an identifier greater than the last one.
    fn stream_state(&mut self, state: &StreamState) -> Told;

    /// A consumer group. Refuses a name that comes twice.
    fn group(&mut self, group: StreamGroup<'_>) -> Told;

    /// An entry that is pending in the group. Refuses an entry that comes twice.
    fn pending(&mut self, pending: StreamPending) -> Told;

    /// A consumer of the group. Refuses a name that comes twice.
    fn consumer(&mut self, consumer: StreamConsumer<'_>) -> Told;

    /// A pending entry of the consumer. Refuses an entry that is not pending in the group, or that a consumer already
    /// has.
    fn consumer_pending(&mut self, id: StreamId) -> Told;

    /// The group is complete. Refuses it if one of its pending entries has no consumer.
    fn group_end(&mut self) -> Told;
}
