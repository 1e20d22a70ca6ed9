# redis-rb: one part of the client matrix. Arguments: port and part. With files in the environment, over TLS.
require 'openssl'
require 'redis'
require 'timeout'

def tls
  return {} unless (ca = ENV['TLS_CA'])

  params = { ca_file: ca }
  if (cert = ENV['TLS_CERT'])
    params[:cert] = OpenSSL::X509::Certificate.new(File.read(cert))
    params[:key] = OpenSSL::PKey.read(File.read(ENV['TLS_KEY']))
  end
  { ssl: true, ssl_params: params }
end

OPTIONS = { port: ARGV[0].to_i, **tls }
CLIENT = Redis.new(**OPTIONS)

def same(got, want)
  raise "got #{got.inspect}, not #{want.inspect}" unless got == want
end

def strings
  same CLIENT.set('k', 'v', ex: 100), 'OK'
  same CLIENT.mget('k', 'none'), ['v', nil]
  same CLIENT.incrby('n', 5), 5
end

def types
  same CLIENT.rpush('l', [1, 2, 3]), 3
  same CLIENT.lrange('l', 0, -1), %w[1 2 3]
  same CLIENT.hset('h', 'a', 1, 'b', 2), 2
  same CLIENT.hgetall('h'), { 'a' => '1', 'b' => '2' }
  same CLIENT.sadd('s', %w[x y]), 2
  same CLIENT.zadd('z', 1.5, 'm'), true
  same CLIENT.zscore('z', 'm'), 1.5
  raise 'no id' unless CLIENT.xadd('x', { 'f' => 'v' })
  same CLIENT.setbit('b', 3, 1), 0
  same CLIENT.pfadd('p', %w[a b]), true
  same CLIENT.geoadd('g', 13.361389, 38.115556, 'Palermo'), 1
end

def pipeline
  same CLIENT.pipelined { |pipe| 10_000.times { pipe.incr('n') } }, (1..10_000).to_a
end

def multi
  CLIENT.watch('n') do
    same CLIENT.multi { |transaction| 2.times { transaction.incr('n') } }, [1, 2]
  end
end

def script
  digest = CLIENT.script(:load, "return redis.call('INCRBY', KEYS[1], ARGV[1])")
  same CLIENT.evalsha(digest, keys: ['n'], argv: [7]), 7
end

def pubsub
  got = nil
  subscriber = Thread.new do
    Redis.new(**OPTIONS).subscribe('c') do |on|
      on.message do |_, message|
        got = message
        Thread.current.exit
      end
    end
  end
  Timeout.timeout(10) { nil while CLIENT.publish('c', 'hello').zero? && subscriber.alive? }
  subscriber.join(10)
  same got, 'hello'
end

send(ARGV[1])
