<?php
// phpredis: one part of the client matrix. Arguments: port and part.

function same($got, $want)
{
    if ($got !== $want) {
        fwrite(STDERR, 'got ' . var_export($got, true) . ', not ' . var_export($want, true) . "\n");
        exit(1);
    }
}

$client = new Redis();
$client->connect('127.0.0.1', (int) $argv[1]);

switch ($argv[2]) {
    case 'strings':
        same($client->set('k', 'v', ['ex' => 100]), true);
        same($client->mGet(['k', 'none']), ['v', false]);
        same($client->incrBy('n', 5), 5);
        break;
    case 'types':
        same($client->rPush('l', '1', '2', '3'), 3);
        same($client->lRange('l', 0, -1), ['1', '2', '3']);
        same($client->hMSet('h', ['a' => 1, 'b' => 2]), true);
        same($client->hGetAll('h'), ['a' => '1', 'b' => '2']);
        same($client->sAdd('s', 'x', 'y'), 2);
        same($client->zAdd('z', 1.5, 'm'), 1);
        same($client->zScore('z', 'm'), 1.5);
        same(is_string($client->xAdd('x', '*', ['f' => 'v'])), true);
        same($client->setBit('b', 3, true), 0);
        same($client->pfCount('p'), 0);
        same($client->geoAdd('g', 13.361389, 38.115556, 'Palermo'), 1);
        break;
    case 'pipeline':
        $client->multi(Redis::PIPELINE);
        for ($n = 0; $n < 10000; $n++) {
            $client->incr('n');
        }
        same($client->exec(), range(1, 10000));
        break;
    case 'multi':
        $client->watch('n');
        same($client->multi()->incr('n')->incr('n')->exec(), [1, 2]);
        break;
    case 'script':
        same($client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", ['n', 7], 1), 7);
        break;
    case 'pubsub':
        // The subscriber gets its message from this very script, told after it has subscribed.
        $publisher = new Redis();
        $publisher->connect('127.0.0.1', (int) $argv[1]);
        $client->setOption(Redis::OPT_READ_TIMEOUT, 10);
        $got = false;
        $child = proc_open([PHP_BINARY, __FILE__, $argv[1], 'publish'], [], $pipes);
        try {
            $client->subscribe(['c'], function ($client, $channel, $message) use (&$got) {
                same($message, 'hello');
                $got = true;
                // It ends by its timeout alone.
                $client->setOption(Redis::OPT_READ_TIMEOUT, 0.01);
            });
        } catch (RedisException $e) {
            fwrite(STDERR, $e->getMessage() . "\n");
        }
        exit($got ? 0 : 1);
    case 'publish':
        for ($tries = 0; $tries < 1000 && $client->publish('c', 'hello') === 0; $tries++) {
            usleep(1000);
        }
        break;
    default:
        exit(2);
}
