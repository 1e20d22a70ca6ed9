// Experiment 3 with ioredis: INCRs in batches. Prints `what<tab>seconds` lines.
const Redis = require('ioredis');

const [port, count, ...batches] = process.argv.slice(2).map(Number);
const client = new Redis(port, '127.0.0.1');

async function main() {
  for (const batch of batches) {
    const started = process.hrtime.bigint();
    for (let left = count; left > 0; left -= batch) {
      const some = Math.min(batch, left);
      if (some === 1) {
        await client.incr('counter');
      } else {
        const pipeline = client.pipeline();
        for (let n = 0; n < some; n += 1) pipeline.incr('counter');
        await pipeline.exec();
      }
    }
    console.log(`batches of ${batch}\t${(Number(process.hrtime.bigint() - started) / 1e9).toFixed(4)}`);
  }
  client.disconnect();
}

main();
