/** A daemon with a storage of 115 Cloud: large files, cut and killed uploads, redirects. */
import t, { type Test } from 'tap'
import { start115 } from '../doubles/115/index.js'
import { cutByClient, killedTask, largeFile, redirected, type DaemonDrive } from './daemon-drive.js'

const partLength = 20 * 1024 * 1024

async function drive(t: Test): Promise<DaemonDrive> {
  const double = await start115(t)
  const { requests } = double.uploads.oss
  return {
    environment: double.environment,
    driver: '115 Cloud',
    addition: { cookie: double.account.signIn(), limit_rate: 0 },
    sentBytes: () => requests.bodyBytes(/^PUT/),
    slowDown: () => requests.inject(/partNumber/, { delay: 300 }, 1000),
    files: () =>
      double.drive
        .members('0')
        .filter(({ name }) => !name.startsWith('.~'))
        .map(({ name, content }) => [name, content?.sha1.toLowerCase() ?? ''] as const),
  }
}

await t.test('a large file goes up and down in flat memory', async (t) => largeFile(t, await drive(t)))
await t.test('a client that disconnects leaves the old file', async (t) => cutByClient(t, await drive(t)))
await t.test('an upload goes on after the daemon was killed', async (t) => killedTask(t, await drive(t), partLength))
await t.test('a download is redirected', async (t) => redirected(t, await drive(t)))
