# Sidekiq: jobs now and later, retries, the dead set: PORT=6379 ruby sidekiq.rb
require 'sidekiq/api'
require_relative 'jobs'

def wait_until(what)
  600.times do
    return if yield
    sleep 0.05
  end
  abort "not within 30 seconds: #{what}"
end

(1..200).each_slice(50) { |some| Sidekiq::Client.push_bulk('class' => Count, 'args' => some.map { |n| [n] }) }
Count.perform_in(1, 1000)
Count.perform_in(3600, 1)
Second.perform_async
Hopeless.perform_async
puts "waiting #{Sidekiq::Queue.new('default').size} #{Sidekiq::Queue.new('high').size} #{Sidekiq::ScheduledSet.new.size}"
here = File.join(__dir__, 'jobs.rb')
worker = spawn('sidekiq', '-r', here, '-c', '5', '-q', 'high,2', '-q', 'default', '-t', '1', %i[out err] => File::NULL)
begin
  stats = -> { Sidekiq::Stats.new }
  wait_until('the jobs') { Sidekiq.redis { |redis| redis.get('sum') }.to_i == 200 * 201 / 2 + 1000 }
  wait_until('the second try') { Sidekiq.redis { |redis| redis.get('tries') }.to_i == 2 }
  wait_until('the dead set') { Sidekiq::DeadSet.new.size == 1 }
  wait_until('the statistics') { stats.call.processed == 204 }
  puts "failed #{stats.call.failed}, scheduled #{stats.call.scheduled_size}, retries #{stats.call.retry_size}"
  puts "dead #{Sidekiq::DeadSet.new.first.klass}, queued #{stats.call.enqueued}"
ensure
  Process.kill('TERM', worker)
  Process.wait(worker)
end
