// SPDX-License-Identifier: Apache-2.0
//
// A task of which each run is on one host. On several hosts, with a broker at DISTLOCK_SERVER:
//
//   node examples/node-cron.mjs ['* * * * *' [MILLISECONDS_OF_A_RUN]]
import {setTimeout} from 'node:timers/promises';
import cron from 'node-cron';
import * as distlock from 'distlock';
import {Coordinator} from 'distlock/node-cron';

const [, , schedule = '* * * * *', length = '10'] = process.argv;
const dl = distlock.connect();
const runCoordinator = new Coordinator(dl, {wait: '5s'}); // to take over the run of a host that has died

async function report(run) {
  const {token, signal} = runCoordinator.lockOf(run); // the store refuses smaller tokens than it has seen
  console.log('run', run.date.toISOString(), token);
  await setTimeout(Number(length), undefined, {signal});
  console.log('done', run.date.toISOString(), token);
}

const task = cron.schedule(schedule, report, {name: 'report', distributed: true, runCoordinator});
task.on('execution:failed', ({execution}) => { console.log('failed', execution.error.cause?.name); });
task.on('execution:skipped', ({reason}) => { console.log('skipped', reason); });
process.once('SIGTERM', async () => {
  await task.stop();
  await dl.close();
});
