/** A daemon with a storage of 115 Open: large files, cut and killed uploads, redirects. */
import t, { type Test } from 'tap'
import { startOpen115, type Open115 } from '../../doubles/115-open.js'
import { driveOf, partLength } from './drive.js'
import { credentialsOf } from './open-mount.js'
import {
  checked,
  cutByClient,
  killedAfterRenewal,
  killedBeforeAnswer,
  killedTask,
  largeFile,
  redirected,
  type StagingDrive,
} from '../daemon-drive.js'

async function drive(t: Test): Promise<StagingDrive> {
  return openDriveOf(await startOpen115(t))
}

function openDriveOf(double: Open115): StagingDrive {
  return driveOf(double, '115 Open', credentialsOf(double))
}

await t.test('a large file goes up and down in flat memory', async (t) => largeFile(t, await drive(t)))
await t.test('a client that disconnects leaves the old file', async (t) => cutByClient(t, await drive(t)))
await t.test('an upload goes on after the daemon was killed', async (t) => killedTask(t, await drive(t), partLength))
await t.test('a staged file of a killed daemon is removed', async (t) => killedBeforeAnswer(t, await drive(t)))
await t.test('a download is redirected', async (t) => redirected(t, await drive(t)))
await t.test('tidegate check costs no token', async (t) => {
  const double = await startOpen115(t)
  const { account } = double
  await checked(t, openDriveOf(double), { expire: () => account.expireAccess(), refreshes: () => account.refreshes })
})
await t.test('tokens that were renewed just before a kill are used after it', async (t) => {
  const double = await startOpen115(t)
  const { account, requests } = double
  const tokens = { expire: () => account.expireAccess(), refreshes: () => account.refreshes }
  await killedAfterRenewal(t, openDriveOf(double), tokens, { requests, listing: /\/open\/ufile\/files/ })
})
