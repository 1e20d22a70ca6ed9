//! What nodes send each other over the bus.
//!
//! A message is a header of 2,256 bytes and a body, numbers in network byte order, as in redis-server 7.0 to 8.2
//! (`cluster.h`, version 1). Lengths are checked exactly, names and addresses must be such, and nothing of a message that is
//! wrong is used.

use bitflags::bitflags;

use crate::node::{Address, Flags, NODE_ID_LEN, NodeId};
use crate::slots::{SET_LEN, SlotSet};

/// Bytes of the header, and so of the shortest message.
pub const HEADER_LEN: usize = 2256;

/// Bytes that tell how long a message is.
pub const PREFIX_LEN: usize = 8;

const SIGNATURE: &[u8; 4] = b"RCmb";
const VERSION: u16 = 1;
const IP_LEN: usize = 46;
const EXTENSION_HEADER_LEN: usize = 8;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is something else.
    #[error("it does not begin with RCmb")]
    Signature,
    /// It is of another protocol.
    #[error("its version is {0}")]
    Version(u16),
    /// It is of a kind that this node does not know.
    #[error("its type is {0}")]
    Kind(u16),
    /// What is in it needs another length.
    #[error("it has {has} bytes where {needed} are needed")]
    Length {
        /// What it needs.
        needed: usize,
        /// What it has.
        has: usize,
    },
    /// The name of a node is none.
    #[error("it names what is no node")]
    Name,
    /// An address or a host name is no text.
    #[error("an address or a name in it is no text")]
    Text,
    /// An extension has no length that it can have.
    #[error("the length of an extension in it is wrong")]
    Extension,
}

bitflags! {
    /// What a message asks for besides its body.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MessageFlags: u8 {
        /// The sender holds its clients, for a manual fail-over.
        const PAUSED = 1;
        /// A vote is wanted though the primary is there.
        const FORCE_ACK = 1 << 1;
        /// The sender takes extensions.
        const EXTENSIONS = 1 << 2;
        const _ = !0;
    }
}

/// What a node says of itself in each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub sender: NodeId,
    /// Where it is reached.
    pub address: Address,
    /// What it is.
    pub flags: Flags,
    /// Whether it takes the cluster to be down.
    pub is_down: bool,
    /// What it asks for.
    pub message_flags: MessageFlags,
    /// The highest epoch that it knows.
    pub current_epoch: u64,
    /// Its own epoch, or that of its primary.
    pub config_epoch: u64,
    /// How far it is in its history, in bytes.
    pub offset: u64,
    /// Its slots, or those of its primary.
    pub slots: SlotSet,
    /// Its primary, if it has one.
    pub primary: Option<NodeId>,
}

/// What a node says of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossip {
    /// The other node.
    pub id: NodeId,
    /// When it was asked, in Unix seconds; 0: it has answered since.
    pub ping_sent_s: u32,
    /// When it answered last, in Unix seconds; 0: never.
    pub pong_received_s: u32,
    /// Where it is reached.
    pub address: Address,
    /// What is thought of it.
    pub flags: Flags,
}

/// More about the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Its host name.
    Hostname(String),
    /// Its name for people.
    NodeName(String),
    /// A node that is not to come back for so many seconds.
    Forgotten {
        /// Its name.
        id: NodeId,
        /// How long that holds, in seconds.
        ttl_s: u64,
    },
    /// The shard that it belongs to.
    Shard(NodeId),
    /// Something else, with its padding.
    Other {
        /// Its type.
        kind: u16,
        /// What is behind its header.
        data: Vec<u8>,
    },
}

/// Why there is gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// An answer is wanted.
    Ping,
    /// It is the answer, or news.
    Pong,
    /// The receiver is asked into the cluster.
    Meet,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// News of the sender and of others.
    Greeting {
        /// Why.
        greeting: Greeting,
        /// Of others.
        gossip: Vec<Gossip>,
        /// Of the sender, for receivers that take extensions.
        extensions: Vec<Extension>,
    },
    /// A node has failed.
    Fail(NodeId),
    /// A message for subscribers.
    Publish {
        /// Whether it is for those of a shard channel.
        is_sharded: bool,
        /// The channel.
        channel: Vec<u8>,
        /// What they get.
        message: Vec<u8>,
    },
    /// A replica wants to take over.
    AuthRequest,
    /// It may.
    AuthAck,
    /// Whose the slots are that the receiver takes for another's.
    Update {
        /// The epoch since which that is so.
        config_epoch: u64,
        /// Their node.
        id: NodeId,
        /// All its slots.
        slots: SlotSet,
    },
    /// A replica takes over by an operator's wish.
    ManualFailover,
    /// Of a module.
    Module {
        /// Which module.
        id: u64,
        /// Of its own types.
        kind: u8,
        /// What it says.
        data: Vec<u8>,
    },
}

impl Body {
    /// The number of its type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Greeting { greeting: Greeting::Ping, .. } => 0,
            Self::Greeting { greeting: Greeting::Pong, .. } => 1,
            Self::Greeting { greeting: Greeting::Meet, .. } => 2,
            Self::Fail(_) => 3,
            Self::Publish { is_sharded: false, .. } => 4,
            Self::AuthRequest => 5,
            Self::AuthAck => 6,
            Self::Update { .. } => 7,
            Self::ManualFailover => 8,
            Self::Module { .. } => 9,
            Self::Publish { is_sharded: true, .. } => 10,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Of the sender.
    pub header: Header,
    /// What it is about.
    pub body: Body,
}

/// How many bytes a message has that begins with these.
///
/// # Errors
/// It begins with something else, or would be shorter than a header.
pub fn len(prefix: [u8; PREFIX_LEN]) -> Result<usize, MessageError> {
    let mut bytes = Bytes(&prefix);
    if bytes.array()? != *SIGNATURE {
        return Err(MessageError::Signature);
    }
    let len = bytes.u32()? as usize;
    if len < HEADER_LEN { Err(MessageError::Length { needed: HEADER_LEN, has: len }) } else { Ok(len) }
}

impl Message {
    /// Reads a whole message. O(bytes).
    ///
    /// # Errors
    /// It is wrong in some way.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let has = bytes.len();
        let prefix = bytes.first_chunk().ok_or(MessageError::Length { needed: HEADER_LEN, has })?;
        let needed = len(*prefix)?;
        if needed != has {
            return Err(MessageError::Length { needed, has });
        }
        let mut bytes = Bytes(&bytes[PREFIX_LEN..]);
        let version = bytes.u16()?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let port = bytes.u16()?;
        let kind = bytes.u16()?;
        let count = bytes.u16()?;
        let (current_epoch, config_epoch, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let sender = bytes.id()?;
        let slots = SlotSet::from_bytes(&bytes.array::<SET_LEN>()?);
        let primary = bytes.array::<NODE_ID_LEN>()?;
        let primary = match primary.iter().all(|byte| *byte == 0) {
            true => None,
            false => Some(NodeId::from_bytes(&primary).map_err(|_| MessageError::Name)?),
        };
        let ip = bytes.ip()?;
        let extensions = bytes.u16()?;
        bytes.take(30)?;
        let (other_port, bus_port) = (bytes.u16()?, bytes.u16()?);
        let flags = Flags::from_bits_retain(bytes.u16()?);
        let is_down = bytes.u8()? != 0;
        let message_flags = MessageFlags::from_bits_retain(bytes.u8()?);
        bytes.take(2)?;
        let header = Header {
            sender,
            address: Address { ip, port, other_port, bus_port },
            flags,
            is_down,
            message_flags,
            current_epoch,
            config_epoch,
            offset,
            slots,
            primary,
        };
        let extensions = if message_flags.contains(MessageFlags::EXTENSIONS) { extensions } else { 0 };
        let body = bytes.body(kind, count, extensions)?;
        match bytes.0.len() {
            0 => Ok(Self { header, body }),
            more => Err(MessageError::Length { needed: has - more, has }),
        }
    }

    /// Appends it as it goes over the bus. O(bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { header, body } = self;
        let begin = out.len();
        let (gossip, extensions) = match body {
            Body::Greeting { gossip, extensions, .. } => (gossip.len(), extensions.len()),
            _ => (0, 0),
        };
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&header.address.port.to_be_bytes());
        out.extend_from_slice(&body.kind().to_be_bytes());
        out.extend_from_slice(&(gossip as u16).to_be_bytes());
        for number in [header.current_epoch, header.config_epoch, header.offset] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(header.sender.as_bytes());
        out.extend_from_slice(header.slots.as_bytes());
        out.extend_from_slice(&header.primary.map_or([0; NODE_ID_LEN], |primary| *primary.as_bytes()));
        push_padded(out, header.address.ip.as_bytes(), IP_LEN);
        out.extend_from_slice(&(extensions as u16).to_be_bytes());
        out.extend_from_slice(&[0; 30]);
        for number in [header.address.other_port, header.address.bus_port, header.flags.bits()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[u8::from(header.is_down), header.message_flags.bits(), 0, 0]);
        debug_assert_eq!(out.len() - begin, HEADER_LEN);
        body.encode(out);
        let len = (out.len() - begin) as u32;
        out[begin + 4..begin + PREFIX_LEN].copy_from_slice(&len.to_be_bytes());
    }
}

impl Body {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Greeting { gossip, extensions, .. } => {
                gossip.iter().for_each(|gossip| gossip.encode(out));
                extensions.iter().for_each(|extension| extension.encode(out));
            }
            Self::Fail(id) => out.extend_from_slice(id.as_bytes()),
            Self::Publish { channel, message, .. } => {
                out.extend_from_slice(&(channel.len() as u32).to_be_bytes());
                out.extend_from_slice(&(message.len() as u32).to_be_bytes());
                out.extend_from_slice(channel);
                out.extend_from_slice(message);
            }
            Self::AuthRequest | Self::AuthAck | Self::ManualFailover => {}
            Self::Update { config_epoch, id, slots } => {
                out.extend_from_slice(&config_epoch.to_be_bytes());
                out.extend_from_slice(id.as_bytes());
                out.extend_from_slice(slots.as_bytes());
            }
            Self::Module { id, kind, data } => {
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&(data.len() as u32).to_be_bytes());
                out.push(*kind);
                out.extend_from_slice(data);
            }
        }
    }
}

impl Gossip {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.ping_sent_s.to_be_bytes());
        out.extend_from_slice(&self.pong_received_s.to_be_bytes());
        push_padded(out, self.address.ip.as_bytes(), IP_LEN);
        let Address { port, other_port, bus_port, .. } = self.address;
        for number in [port, bus_port, self.flags.bits(), other_port, 0] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

impl Extension {
    fn kind(&self) -> u16 {
        match self {
            Self::Hostname(_) => 0,
            Self::NodeName(_) => 1,
            Self::Forgotten { .. } => 2,
            Self::Shard(_) => 3,
            Self::Other { kind, .. } => *kind,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.kind().to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        match self {
            Self::Hostname(text) | Self::NodeName(text) => {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            Self::Forgotten { id, ttl_s } => {
                out.extend_from_slice(id.as_bytes());
                out.extend_from_slice(&ttl_s.to_be_bytes());
            }
            Self::Shard(id) => out.extend_from_slice(id.as_bytes()),
            Self::Other { data, .. } => out.extend_from_slice(data),
        }
        let len = (out.len() - begin).next_multiple_of(EXTENSION_HEADER_LEN);
        out.resize(begin + len, 0);
        out[begin..begin + 4].copy_from_slice(&(len as u32).to_be_bytes());
    }
}

/// Appends bytes, and zeros up to `len`; what is longer is cut, so that a zero ends it.
fn push_padded(out: &mut Vec<u8>, bytes: &[u8], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(&bytes[..bytes.len().min(len - 1)]);
    out.resize(end, 0);
}

/// What is left of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        let wrong = MessageError::Length { needed: len, has: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(len).ok_or(wrong)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let wrong = MessageError::Length { needed: N, has: self.0.len() };
        let (taken, rest) = self.0.split_first_chunk().ok_or(wrong)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, MessageError> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        self.array().map(u64::from_be_bytes)
    }

    fn id(&mut self) -> Result<NodeId, MessageError> {
        NodeId::from_bytes(self.take(NODE_ID_LEN)?).map_err(|_| MessageError::Name)
    }

    fn ip(&mut self) -> Result<String, MessageError> {
        text(self.take(IP_LEN)?)
    }

    fn body(&mut self, kind: u16, count: u16, extensions: u16) -> Result<Body, MessageError> {
        Ok(match kind {
            0..=2 => {
                let greeting = [Greeting::Ping, Greeting::Pong, Greeting::Meet][usize::from(kind)];
                // A wrong count ends with the bytes, so it takes no memory.
                let gossip = (0..count).map(|_| self.gossip()).collect::<Result<_, _>>()?;
                let extensions = (0..extensions).map(|_| self.extension()).collect::<Result<_, _>>()?;
                Body::Greeting { greeting, gossip, extensions }
            }
            3 => Body::Fail(self.id()?),
            4 | 10 => {
                let (channel_len, message_len) = (self.u32()? as usize, self.u32()? as usize);
                let (channel, message) = (self.take(channel_len)?.to_vec(), self.take(message_len)?.to_vec());
                Body::Publish { is_sharded: kind == 10, channel, message }
            }
            5 => Body::AuthRequest,
            6 => Body::AuthAck,
            7 => {
                let (config_epoch, id) = (self.u64()?, self.id()?);
                Body::Update { config_epoch, id, slots: SlotSet::from_bytes(&self.array()?) }
            }
            8 => Body::ManualFailover,
            9 => {
                let (id, len, kind) = (self.u64()?, self.u32()? as usize, self.u8()?);
                Body::Module { id, kind, data: self.take(len)?.to_vec() }
            }
            kind => return Err(MessageError::Kind(kind)),
        })
    }

    fn gossip(&mut self) -> Result<Gossip, MessageError> {
        let id = self.id()?;
        let (ping_sent_s, pong_received_s) = (self.u32()?, self.u32()?);
        let ip = self.ip()?;
        let (port, bus_port) = (self.u16()?, self.u16()?);
        let flags = Flags::from_bits_retain(self.u16()?);
        let other_port = self.u16()?;
        self.u16()?;
        let address = Address { ip, port, other_port, bus_port };
        Ok(Gossip { id, ping_sent_s, pong_received_s, address, flags })
    }

    fn extension(&mut self) -> Result<Extension, MessageError> {
        let len = self.u32()? as usize;
        let kind = self.u16()?;
        self.u16()?;
        if len < EXTENSION_HEADER_LEN || !len.is_multiple_of(EXTENSION_HEADER_LEN) {
            return Err(MessageError::Extension);
        }
        let mut data = Bytes(self.take(len - EXTENSION_HEADER_LEN)?);
        let extension = match kind {
            0 => Extension::Hostname(text(data.0)?),
            1 => Extension::NodeName(text(data.0)?),
            2 => Extension::Forgotten { id: data.id()?, ttl_s: data.u64()? },
            3 => Extension::Shard(data.id()?),
            kind => Extension::Other { kind, data: data.0.to_vec() },
        };
        match (&extension, data.0.len()) {
            (Extension::Forgotten { .. } | Extension::Shard(_), 1..) => Err(MessageError::Extension),
            _ => Ok(extension),
        }
    }
}

/// Text that a zero ends, of printable ASCII.
fn text(bytes: &[u8]) -> Result<String, MessageError> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(MessageError::Text)?;
    let text = &bytes[..end];
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(MessageError::Text);
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    fn id() -> impl Strategy<Value = NodeId> {
        "[0-9a-f]{40}".prop_map(|text| text.parse().unwrap())
    }

    fn address() -> impl Strategy<Value = Address> {
        ("([0-9.]{0,15}|[0-9a-f:]{0,39})", any::<u16>(), any::<u16>(), any::<u16>())
            .prop_map(|(ip, port, other_port, bus_port)| Address { ip, port, other_port, bus_port })
    }

    fn slots() -> impl Strategy<Value = SlotSet> {
        vec(0..crate::slots::SLOTS, 0..20).prop_map(SlotSet::from_iter)
    }

    fn header() -> impl Strategy<Value = Header> {
        let epochs = (any::<u64>(), any::<u64>(), any::<u64>());
        let rest = (any::<u16>(), any::<bool>(), any::<u8>());
        (id(), address(), slots(), proptest::option::of(id()), epochs, rest).prop_map(
            |(sender, address, slots, primary, (current_epoch, config_epoch, offset), (flags, is_down, bits))| Header {
                sender,
                address,
                flags: Flags::from_bits_retain(flags),
                is_down,
                message_flags: MessageFlags::from_bits_retain(bits) | MessageFlags::EXTENSIONS,
                current_epoch,
                config_epoch,
                offset,
                slots,
                primary,
            },
        )
    }

    fn extension() -> impl Strategy<Value = Extension> {
        prop_oneof![
            "[a-z0-9.-]{0,80}".prop_map(Extension::Hostname),
            "[a-z0-9]{0,20}".prop_map(Extension::NodeName),
            (id(), any::<u64>()).prop_map(|(id, ttl_s)| Extension::Forgotten { id, ttl_s }),
            id().prop_map(Extension::Shard),
            (4..u16::MAX, vec(any::<u8>(), 0..5))
                .prop_map(|(kind, data)| Extension::Other { kind, data: data.repeat(8) }),
        ]
    }

    fn greeting() -> impl Strategy<Value = Body> {
        let gossip = (id(), any::<u32>(), any::<u32>(), address(), any::<u16>()).prop_map(
            |(id, ping_sent_s, pong_received_s, address, flags)| Gossip {
                id,
                ping_sent_s,
                pong_received_s,
                address,
                flags: Flags::from_bits_retain(flags),
            },
        );
        let kinds = prop_oneof![Just(Greeting::Ping), Just(Greeting::Pong), Just(Greeting::Meet)];
        (kinds, vec(gossip, 0..5), vec(extension(), 0..5)).prop_map(|(greeting, gossip, extensions)| Body::Greeting {
            greeting,
            gossip,
            extensions,
        })
    }

    fn body() -> impl Strategy<Value = Body> {
        let bytes = || vec(any::<u8>(), 0..50);
        prop_oneof![
            greeting(),
            id().prop_map(Body::Fail),
            (any::<bool>(), bytes(), bytes()).prop_map(|(is_sharded, channel, message)| Body::Publish {
                is_sharded,
                channel,
                message
            }),
            Just(Body::AuthRequest),
            Just(Body::AuthAck),
            (any::<u64>(), id(), slots()).prop_map(|(config_epoch, id, slots)| Body::Update {
                config_epoch,
                id,
                slots
            }),
            Just(Body::ManualFailover),
            (any::<u64>(), any::<u8>(), bytes()).prop_map(|(id, kind, data)| Body::Module { id, kind, data }),
        ]
    }

    fn encoded(message: &Message) -> Vec<u8> {
        let mut bytes = b"before".to_vec();
        message.encode(&mut bytes);
        bytes.split_off(6)
    }

    fn example() -> Message {
        let digits = |digit: &str| digit.repeat(NODE_ID_LEN).parse().unwrap();
        let header = Header {
            sender: digits("a"),
            address: Address { ip: "10.0.0.1".to_owned(), port: 7000, other_port: 7001, bus_port: 17_000 },
            flags: Flags::REPLICA | Flags::EXTENSIONS,
            is_down: true,
            message_flags: MessageFlags::EXTENSIONS,
            current_epoch: 3,
            config_epoch: 2,
            offset: 0x0102_0304,
            slots: [0, 9, 16_383].into_iter().collect(),
            primary: Some(digits("b")),
        };
        Message { header, body: Body::Fail(digits("c")) }
    }

    #[test]
    fn everything_has_its_place() {
        let bytes = encoded(&example());
        assert_eq!((bytes.len(), len(*bytes.first_chunk().unwrap())), (HEADER_LEN + 40, Ok(HEADER_LEN + 40)));
        let at = |at: usize, wanted: &[u8]| assert_eq!(&bytes[at..at + wanted.len()], wanted, "at {at}");
        at(0, b"RCmb\0\0\x08\xf8\0\x01\x1b\x58\0\x03\0\0");
        at(16, &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 2, 3, 4]);
        at(40, &[b'a'; 40]);
        at(80, &[1, 2, 0]);
        at(80 + 2047, &[0x80]);
        at(2128, &[b'b'; 40]);
        at(2168, b"10.0.0.1\0");
        at(2214, &[0; 32]);
        at(2246, b"\x1b\x59\x42\x68\x04\x02\x01\x04\0\0");
        at(2256, &[b'c'; 40]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let good = encoded(&example());
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            Message::decode(&bytes).unwrap_err()
        };
        assert_eq!(changed(&|bytes| bytes[0] = b'r'), MessageError::Signature);
        assert_eq!(changed(&|bytes| bytes[9] = 2), MessageError::Version(2));
        assert_eq!(changed(&|bytes| bytes[13] = 11), MessageError::Kind(11));
        assert!(matches!(changed(&|bytes| bytes.truncate(6)), MessageError::Length { .. }));
        assert!(matches!(changed(&|bytes| bytes.push(0)), MessageError::Length { .. }));
        assert_eq!(changed(&|bytes| bytes[40] = b'A'), MessageError::Name);
        assert_eq!(changed(&|bytes| bytes[2128] = 0), MessageError::Name);
        assert_eq!(changed(&|bytes| bytes[2168] = b' '), MessageError::Text);
        assert_eq!(changed(&|bytes| bytes[2168..2214].fill(b'1')), MessageError::Text);
        // A greeting cannot be that short.
        assert!(matches!(changed(&|bytes| bytes[13] = 0), MessageError::Length { .. }));
        assert_eq!(len(*b"RCmb\0\0\0\x10"), Err(MessageError::Length { needed: HEADER_LEN, has: 16 }));
    }

    proptest! {
        #[test]
        fn messages_come_back_as_they_were(header in header(), body in body()) {
            let message = Message { header, body };
            let bytes = encoded(&message);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
            for cut in [0, 7, HEADER_LEN - 1, bytes.len() - 1] {
                prop_assert!(Message::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn damaged_messages_are_refused_or_read(
            header in header(),
            body in body(),
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = encoded(&Message { header, body });
            damage.into_iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = byte);
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&encoded(&message)), Ok(message));
            }
        }
    }
}
