# What Sidekiq's process loads: jobs that count, one that fails the first time, one that goes to the dead set.
require 'sidekiq'

Sidekiq.configure_server do |config|
  config.redis = { url: "redis://127.0.0.1:#{ENV.fetch('PORT')}/4" }
  # Without this it waits 10 seconds before it looks at scheduled jobs.
  Sidekiq.options[:poll_interval_average] = 1
end
Sidekiq.configure_client { |config| config.redis = { url: "redis://127.0.0.1:#{ENV.fetch('PORT')}/4" } }

class Count
  include Sidekiq::Worker
  sidekiq_options queue: 'default'

  def perform(number)
    Sidekiq.redis { |redis| redis.incrby('sum', number) }
  end
end

class Second
  include Sidekiq::Worker
  sidekiq_options queue: 'high', retry: 3
  sidekiq_retry_in { 1 }

  def perform
    tries = Sidekiq.redis { |redis| redis.incr('tries') }
    raise 'the first time' if tries < 2
  end
end

class Hopeless
  include Sidekiq::Worker
  sidekiq_options queue: 'high', retry: 0

  def perform
    raise 'never'
  end
end
