# redis-rb in a cluster: parts of the client matrix. Arguments: the ports of some nodes, and the parts. Prints each that is
# through.
require 'json'
require 'redis'
require 'timeout'

NODES = ARGV[0].split(',').map { |port| { host: '127.0.0.1', port: port.to_i } }
CLIENT = Redis.new(cluster: NODES)

def same(got, want)
  raise "got #{got.inspect}, not #{want.inspect}" unless got == want
end

def keys
  300.times do |n|
    same CLIENT.set("k#{n}", n), 'OK'
    same CLIENT.get("k#{n}"), n.to_s
  end
  same CLIENT.mset('{t}a', 1, '{t}b', 2), 'OK'
  same CLIENT.mget('{t}a', '{t}b', '{t}c'), ['1', '2', nil]
  same CLIENT.dbsize, 302
  same CLIENT.scan_each(count: 50).to_a.uniq.size, 302
end

# A pipeline is for one node.
def pipeline
  same CLIENT.pipelined { |pipe| 1000.times { |n| pipe.incr("{p}#{n % 250}") } }, Array.new(1000) { |n| n / 250 + 1 }
  raise 'two nodes' if CLIENT.pipelined { |pipe| 250.times { |n| pipe.incr("p#{n}") } }
rescue Redis::Cluster::CrossSlotPipeliningError
  nil
end

def multi
  replies = CLIENT.multi do |transaction|
    transaction.incr('{m}a')
    transaction.incr('{m}b')
    transaction.incr('{m}a')
  end
  same replies, [1, 1, 2]
  CLIENT.rename('a', 'b')
  raise 'two slots'
rescue Redis::CommandError => e
  raise unless e.message.start_with?('CROSSSLOT ')
end

def script
  source = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- redis-rb"
  digest = Digest::SHA1.hexdigest(source)
  missing = 0
  20.times do |n|
    begin
      same CLIENT.evalsha(digest, keys: ["s#{n}"], argv: [n]), n
    rescue Redis::CommandError => e
      raise unless e.message.start_with?('NOSCRIPT ')

      missing += 1
      CLIENT.script(:load, source)
      retry
    end
    same CLIENT.eval('return KEYS[1]', keys: ["s#{n}"]), "s#{n}"
    same CLIENT.call('FCALL', 'add_to', 1, "s#{n}", 7), n + 7
  end
  same missing, 1
end

def pubsub
  channels = Array.new(20) { |n| "c#{n}" }
  got = {}
  subscribed = Queue.new
  subscriber = Thread.new do
    Redis.new(cluster: NODES).subscribe(*channels) do |on|
      on.subscribe { |channel, _| subscribed << channel }
      on.message do |channel, message|
        got[channel] = message
        Thread.current.exit if got.size == channels.size
      end
    end
  end
  Timeout.timeout(10) do
    channels.each { subscribed.pop }
    nodes = NODES.map { |node| Redis.new(**node) }
    channels.each_with_index { |channel, n| nodes[n % nodes.size].publish(channel, n) }
    subscriber.join
  end
  same got, channels.each_with_index.to_h { |channel, n| [channel, n.to_s] }
end

# Counts at 30 keys until it is told to stop; prints what was acknowledged, and the errors.
def count
  acknowledged = Hash.new(0)
  errors = Hash.new(0)
  stopped = nil
  until stopped
    30.times do |n|
      CLIENT.incr("count:redis-rb:#{n}")
      acknowledged["count:redis-rb:#{n}"] += 1
    rescue Redis::BaseError => e
      errors["#{e.class}: #{e.message}"] += 1
    end
    begin
      stopped = CLIENT.get('stop')
    rescue Redis::BaseError => e
      errors["#{e.class}: #{e.message}"] += 1
    end
    sleep 0.02
  end
  puts JSON.generate({ acknowledged: acknowledged, errors: errors })
end

ARGV.drop(1).each do |part|
  send(part)
  puts part
  $stdout.flush
end
