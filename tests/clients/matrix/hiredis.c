/* hiredis: one part of the client matrix. Arguments: port and part. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *client;

static redisReply *call(const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(client, format, args);
    va_end(args);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "%s: %s\n", format, reply ? reply->str : client->errstr);
        exit(1);
    }
    return reply;
}

static void integer(const char *command, long long want) {
    redisReply *reply = call(command);
    if (reply->integer != want) {
        fprintf(stderr, "%s: %lld, not %lld\n", command, reply->integer, want);
        exit(1);
    }
    freeReplyObject(reply);
}

static void text(const char *command, const char *want) {
    redisReply *reply = call(command);
    if (reply->str == NULL || strcmp(reply->str, want) != 0) {
        fprintf(stderr, "%s: %s, not %s\n", command, reply->str ? reply->str : "nothing", want);
        exit(1);
    }
    freeReplyObject(reply);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    client = redisConnect("127.0.0.1", atoi(argv[1]));
    if (client == NULL || client->err) return 1;
    const char *part = argv[2];
    if (strcmp(part, "strings") == 0) {
        text("SET k v EX 100", "OK");
        text("GET k", "v");
        integer("INCRBY n 5", 5);
    } else if (strcmp(part, "types") == 0) {
        integer("RPUSH l 1 2 3", 3);
        text("LINDEX l 1", "2");
        integer("HSET h a 1 b 2", 2);
        text("HGET h b", "2");
        integer("SADD s x y", 2);
        integer("ZADD z 1.5 m", 1);
        text("ZSCORE z m", "1.5");
        freeReplyObject(call("XADD x * f v"));
        integer("XLEN x", 1);
        integer("SETBIT b 3 1", 0);
        integer("PFADD p a b", 1);
        integer("GEOADD g 13.361389 38.115556 Palermo", 1);
    } else if (strcmp(part, "pipeline") == 0) {
        for (int n = 0; n < 10000; n++) redisAppendCommand(client, "INCR n");
        for (int n = 1; n <= 10000; n++) {
            redisReply *reply;
            if (redisGetReply(client, (void **)&reply) != REDIS_OK || reply->integer != n) return 1;
            freeReplyObject(reply);
        }
    } else if (strcmp(part, "multi") == 0) {
        text("WATCH n", "OK");
        text("MULTI", "OK");
        text("INCR n", "QUEUED");
        redisReply *reply = call("EXEC");
        if (reply->elements != 1 || reply->element[0]->integer != 1) return 1;
    } else if (strcmp(part, "script") == 0) {
        redisReply *reply = call("EVAL %s 1 n 7", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
        if (reply->integer != 7) return 1;
    } else if (strcmp(part, "pubsub") == 0) {
        redisContext *subscriber = redisConnect("127.0.0.1", atoi(argv[1]));
        redisReply *reply = redisCommand(subscriber, "SUBSCRIBE c");
        if (reply == NULL || reply->elements != 3) return 1;
        integer("PUBLISH c hello", 1);
        if (redisGetReply(subscriber, (void **)&reply) != REDIS_OK || strcmp(reply->element[2]->str, "hello") != 0) return 1;
    } else {
        return 2;
    }
    return 0;
}
