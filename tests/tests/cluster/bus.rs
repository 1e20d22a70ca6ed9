//! The messages of the bus: those of servers are read and written byte for byte, and they take ours.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use onrush_cluster::message::{Body, Extension, Greeting, Header, Message, MessageFlags, PREFIX_LEN, len};
use onrush_cluster::node::{Address, Flags, NodeId};
use onrush_cluster::nodes_conf::NodesConf;
use onrush_cluster::slots::{SlotSet, slot};
use onrush_tests::argv;
use onrush_tests::port::Port;
use onrush_tests::server::{Oracle, Server};

/// A node that knows nothing but its own name.
struct Node {
    id: NodeId,
    listener: TcpListener,
}

impl Node {
    fn new() -> Self {
        let id = "0123456789abcdef".repeat(3)[..40].parse().expect("a name");
        Self { id, listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    fn message(&self, body: Body) -> Message {
        let bus_port = self.listener.local_addr().expect("an address").port();
        let header = Header {
            sender: self.id,
            address: Address { ip: String::new(), port: 6379, other_port: 0, bus_port },
            flags: Flags::PRIMARY | Flags::NO_FAILOVER,
            is_down: true,
            message_flags: MessageFlags::EXTENSIONS,
            current_epoch: 7,
            config_epoch: 7,
            offset: 0,
            slots: SlotSet::new(),
            primary: None,
        };
        Message { header, body }
    }

    fn greeting(&self, greeting: Greeting) -> Message {
        let extensions = vec![Extension::Hostname("a.fake.node".to_owned()), Extension::Shard(self.id)];
        self.message(Body::Greeting { greeting, gossip: Vec::new(), extensions })
    }
}

fn send(stream: &mut TcpStream, message: &Message) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    stream.write_all(&bytes).expect("it is sent");
}

/// The next message, which is the same when it is written again.
fn receive(stream: &mut TcpStream) -> Message {
    let mut prefix = [0; PREFIX_LEN];
    stream.read_exact(&mut prefix).expect("a message");
    let mut bytes = vec![0; len(prefix).expect("a length")];
    bytes[..PREFIX_LEN].copy_from_slice(&prefix);
    stream.read_exact(&mut bytes[PREFIX_LEN..]).expect("the rest");
    let message = Message::decode(&bytes).unwrap_or_else(|wrong| panic!("{wrong}: {}", bytes.escape_ascii()));
    let mut again = Vec::new();
    message.encode(&mut again);
    assert!(bytes == again, "{message:?}\n{}\n{}", bytes.escape_ascii(), again.escape_ascii());
    message
}

fn start(oracle: Oracle, bus: &Port) -> Server {
    let port = bus.number().to_string();
    Server::start_oracle(oracle, &["--cluster-enabled", "yes", "--cluster-port", &port, "--save", ""])
}

#[test]
fn the_partners_take_messages_and_theirs_are_read() {
    for oracle in Oracle::PARTNERS {
        let bus = Port::choose();
        let server = start(oracle, &bus);
        let mut conn = server.connect();
        assert_eq!(conn.run("CLUSTER ADDSLOTSRANGE 0 100 16383 16383").text(), "OK");
        assert_eq!(conn.run("CONFIG SET cluster-announce-hostname the.host.name").text(), "OK");
        let their_id: NodeId = conn.run("CLUSTER MYID").text().parse().expect("a name");
        let node = Node::new();
        let mut ours = TcpStream::connect(("127.0.0.1", bus.number())).expect("the bus");
        ours.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        send(&mut ours, &node.greeting(Greeting::Meet));
        let answer = receive(&mut ours);
        let Body::Greeting { greeting: Greeting::Pong, gossip, .. } = &answer.body else { panic!("{answer:?}") };
        assert_eq!((answer.header.sender, gossip.len()), (their_id, 0), "{oracle:?}");
        assert_eq!(answer.header.slots, (0..=100).chain([16_383]).collect());
        assert_eq!(answer.header.address.bus_port, bus.number());
        assert!(answer.header.flags.contains(Flags::PRIMARY) && answer.header.primary.is_none());
        // It makes its own connection, and asks who this is.
        let (mut theirs, _) = node.listener.accept().expect("its connection");
        theirs.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let mut extensions = Vec::new();
        for _ in 0..100 {
            let message = receive(&mut theirs);
            if let Body::Greeting { greeting, extensions: found, .. } = message.body {
                if greeting != Greeting::Pong {
                    send(&mut theirs, &node.greeting(Greeting::Pong));
                }
                if !found.is_empty() {
                    extensions = found;
                    break;
                }
            }
        }
        assert!(extensions.contains(&Extension::Hostname("the.host.name".to_owned())), "{oracle:?}: {extensions:?}");
        assert!(extensions.iter().any(|extension| matches!(extension, Extension::Shard(_))) || oracle == Oracle::Older);
        // The first answer told its name; what else it says counts from the next message on.
        send(&mut ours, &node.greeting(Greeting::Ping));
        assert!(matches!(receive(&mut ours).body, Body::Greeting { greeting: Greeting::Pong, .. }));
        let nodes = conn.run("CLUSTER NODES").text();
        let line = nodes.lines().find(|line| line.starts_with(node.id.as_str()));
        assert!(
            line.is_some_and(|line| line.contains("a.fake.node") && line.contains("master")),
            "{oracle:?}: {nodes}"
        );
        // What it takes of a node that it knows.
        let (channel, message) = (b"channel".to_vec(), b"a\r\nmessage".to_vec());
        let mut hears = server.connect();
        hears.run("SUBSCRIBE channel");
        send(&mut ours, &node.message(Body::Publish { is_sharded: false, channel, message }));
        let heard = hears.read_reply().expect("a message");
        assert!(heard.ends_with(b"$10\r\na\r\nmessage\r\n"), "{}", heard.escape_ascii());
        let info = conn.run("CLUSTER INFO").text();
        assert!(info.contains("cluster_known_nodes:2\r\n") && info.contains("cluster_current_epoch:7\r\n"), "{info}");
    }
}

#[test]
fn the_files_of_the_partners_are_read_and_written_as_they_are() {
    for oracle in Oracle::PARTNERS {
        let bus = Port::choose();
        let server = start(oracle, &bus);
        let mut conn = server.connect();
        let other = "b".repeat(40);
        conn.run("CLUSTER ADDSLOTSRANGE 0 100 16383 16383");
        conn.run("CONFIG SET cluster-announce-hostname the.host.name");
        conn.run("CLUSTER SET-CONFIG-EPOCH 5");
        conn.run("CLUSTER MEET 127.0.0.1 1");
        // It does not know that node, so nothing moves.
        assert!(conn.run(&format!("CLUSTER SETSLOT 5 MIGRATING {other}")).is_error());
        assert_eq!(conn.run("CLUSTER SAVECONFIG").text(), "OK");
        let text = std::fs::read_to_string(server.dir().join("nodes.conf")).expect("the file");
        let conf = NodesConf::parse(&text).unwrap_or_else(|wrong| panic!("{oracle:?}: {wrong}: {text}"));
        assert_eq!(conf.to_string(), text, "{oracle:?}");
        assert_eq!((conf.current_epoch, conf.nodes[0].slots.len()), (5, 2), "{text}");
    }
}

#[test]
fn keys_belong_where_the_oracle_says() {
    let bus = Port::choose();
    let server = start(Oracle::Newer, &bus);
    let mut conn = server.connect();
    let mut seed = 1_u64;
    let mut keys: Vec<Vec<u8>> =
        [&b""[..], b"{", b"}", b"{}", b"{}a", b"{a", b"a{b}c", b"a{{b}}c", b"{a}{b}", b"a}{b}", b"{\0}x"]
            .map(<[u8]>::to_vec)
            .to_vec();
    keys.extend((0..2000).map(|nth| {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u8
        };
        (0..nth % 40).map(|_| if next() % 8 == 0 { b"{}"[usize::from(next() % 2)] } else { next() }).collect()
    }));
    let commands: Vec<_> = keys.iter().map(|key| argv!["CLUSTER", "KEYSLOT", key]).collect();
    for (key, reply) in keys.iter().zip(conn.pipeline(&commands)) {
        assert_eq!(reply, format!(":{}\r\n", slot(key)).as_bytes(), "{}", key.escape_ascii());
    }
}
