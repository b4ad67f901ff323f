/** A daemon with a storage of AliyundriveOpen: large files, cut and killed uploads, redirects. */
import t, { type Test } from 'tap'
import { startAliyundrive } from '../doubles/aliyundrive.js'
import { credentials } from './aliyundrive-mount.js'
import { cutByClient, killedTask, largeFile, redirected, type DaemonDrive } from './daemon-drive.js'

const partLength = 20 * 1024 * 1024

async function drive(t: Test): Promise<DaemonDrive> {
  const double = await startAliyundrive(t)
  const { requests, drives, environment } = double
  return {
    environment,
    driver: 'AliyundriveOpen',
    addition: credentials(double),
    sentBytes: () => requests.bodyBytes(/^PUT/),
    slowDown: () => requests.inject(/^PUT/, { delay: 300 }, 1000),
    files: () =>
      drives
        .members(drives.ids.resource, 'root')
        .map(({ name, content }) => [name, content?.sha1.toLowerCase() ?? ''] as const),
  }
}

await t.test('a large file goes up and down in flat memory', async (t) => largeFile(t, await drive(t)))
await t.test('a client that disconnects leaves the old file', async (t) => cutByClient(t, await drive(t)))
await t.test('an upload goes on after the daemon was killed', async (t) => killedTask(t, await drive(t), partLength))
await t.test('a download is redirected', async (t) => redirected(t, await drive(t)))
