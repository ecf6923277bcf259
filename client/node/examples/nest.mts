// SPDX-License-Identifier: Apache-2.0
//
// A Nest application with a method of which each run is on one host. On several hosts, with a broker at
// DISTLOCK_SERVER, and compiled with experimentalDecorators and emitDecoratorMetadata:
//
//   node nest.mjs ['* * * * *' [MILLISECONDS_OF_A_RUN]]
import 'reflect-metadata';
import {setTimeout} from 'node:timers/promises';
import {Injectable, Logger, Module} from '@nestjs/common';
import {NestFactory} from '@nestjs/core';
import {Cron, ScheduleModule} from '@nestjs/schedule';
import {Client} from 'distlock';
import {DistlockModule, lockOfRun, Locked} from 'distlock/nest';

const [, , schedule = '* * * * *', length = '10'] = process.argv;

@Injectable()
class Reports {
  private readonly log = new Logger('Reports');

  constructor(readonly distlock: Client) {}

  @Cron(schedule, {threshold: 1000}) // milliseconds that a run may begin late
  @Locked('report', {minHold: '1s', wait: '500ms'})
  async report(): Promise<void> {
    const {token, signal} = lockOfRun(); // the store refuses smaller tokens than it has seen
    this.log.log(`run ${token} ${Date.now()}`);
    await setTimeout(Number(length), undefined, {signal});
    this.log.log(`done ${token} ${Date.now()}`);
  }
}

@Module({imports: [ScheduleModule.forRoot(), DistlockModule.forRoot()], providers: [Reports]})
class Application {}

const application = await NestFactory.createApplicationContext(Application);
application.enableShutdownHooks(); // SIGTERM ends it when no run is going on any more
