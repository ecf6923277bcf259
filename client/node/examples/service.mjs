// SPDX-License-Identifier: Apache-2.0
//
// A small service that several hosts run at once: POST /transfer?from=7&to=9&amount=5.
//
// Each transfer holds both accounts, whichever host serves it. One of the hosts, the leader, writes a report each
// minute.
//   DISTLOCK_SERVER=10.0.0.1:7420,10.0.0.2:7420 node examples/service.mjs 8080
import {createServer} from 'node:http';
import {hostname} from 'node:os';
import {setTimeout as sleep} from 'node:timers/promises';
import * as distlock from 'distlock';

const host = hostname();
const dl = distlock.connect({defaults: {owner: host}});
const stopping = new AbortController();

/** The answer to one transfer: a status and a text. */
async function transfer({from, to, amount}) {
  try {
    return await dl.using([`account/${from}`, `account/${to}`], {wait: '2s'}, async (signal, tokens) => {
      // The database refuses a write whose token is smaller than one that it has seen for the account.
      const text = `moved ${amount} under the tokens ${tokens.join(' and ')}\n`;
      signal.throwIfAborted(); // right before the commit
      return [200, text];
    });
  } catch (error) {
    if (error instanceof distlock.BusyError) return [409, `${error.message}\n`];
    if (error instanceof distlock.DistlockError) return [503, `${error.message}\n`];
    throw error;
  }
}

async function writeReports() {
  while (!stopping.signal.aborted) {
    try {
      // resume: the term outlives a restart of the broker.
      const term = await dl.campaign('reports', host, {resume: true, signal: stopping.signal});
      while (term.isHeld) {
        console.log(`the report of ${host}, term ${term.token}`);
        await sleep(60_000, undefined, {signal: term.signal, ref: false});
      }
    } catch (error) {
      if (!stopping.signal.aborted) console.error(`no longer the leader: ${error.cause?.message ?? error.message}`);
    }
  }
}

const server = createServer((request, response) => {
  const {searchParams} = new URL(request.url, 'http://service');
  transfer(Object.fromEntries(searchParams))
    .then(([status, text]) => response.writeHead(status).end(text))
    .catch(error => response.writeHead(500).end(`${error}\n`));
});

async function stop() {
  stopping.abort();
  server.close();
  await dl.close(); // gives all locks back
}

process.once('SIGTERM', stop);
process.once('SIGINT', stop);
void writeReports();
server.listen(Number(process.argv[2] ?? 8080), () => console.log(`serving on port ${server.address().port}`));
