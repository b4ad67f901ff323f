/** A daemon with a storage of 115 Cloud: large files, cut and killed uploads, redirects. */
import t, { type Test } from 'tap'
import { start115 } from '../../doubles/115/index.js'
import { driveOf, partLength } from './drive.js'
import {
  cutByClient,
  killedBeforeAnswer,
  killedTask,
  largeFile,
  redirected,
  type StagingDrive,
} from '../daemon-drive.js'

async function drive(t: Test): Promise<StagingDrive> {
  const double = await start115(t)
  return driveOf(double, '115 Cloud', { cookie: double.account.signIn(), limit_rate: 0 })
}

await t.test('a large file goes up and down in flat memory', async (t) => largeFile(t, await drive(t)))
await t.test('a client that disconnects leaves the old file', async (t) => cutByClient(t, await drive(t)))
await t.test('an upload goes on after the daemon was killed', async (t) => killedTask(t, await drive(t), partLength))
await t.test('a staged file of a killed daemon is removed', async (t) => killedBeforeAnswer(t, await drive(t)))
await t.test('a download is redirected', async (t) => redirected(t, await drive(t)))
