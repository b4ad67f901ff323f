/**
 * A daemon with a storage of AliyundriveOpen: large files, cut and killed uploads, redirects, and what costs a token.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startDaemon, storageStarted } from '../../gateway.js'
import { storeVariables } from '../../store-location.js'
import { connect } from '../../stories/task-client.js'
import { startAliyundrive } from '../../doubles/aliyundrive.js'
import { credentials, type Double } from './mount.js'
import {
  cutByClient,
  killedAfterRenewal,
  killedTask,
  largeFile,
  redirected,
  type DaemonDrive,
} from '../daemon-drive.js'

const partLength = 20 * 1024 * 1024

async function drive(t: Test): Promise<DaemonDrive> {
  return driveOf(await startAliyundrive(t))
}

function driveOf(double: Double): DaemonDrive {
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

await t.test('neither a restart nor `tidegate check` costs a token', async (t) => {
  const double = await startAliyundrive(t)
  const { environment, tokens } = double
  let daemon = await startDaemon(t, { environment })
  await storageStarted(daemon)
  const addition = JSON.stringify({ refresh_token: tokens.refreshToken, remove_way: 'trash' })
  const storage = { mount_path: '/drive', driver: 'AliyundriveOpen', addition }
  await (await connect(daemon)).post('/api/admin/storage/create', storage)
  t.equal(tokens.refreshes, 1)
  const main = fileURLToPath(new URL('../../../src/main.js', import.meta.url))
  const check = async () => {
    const { host, port } = new URL(daemon.url)
    const words = ['check', '--data', daemon.dataFolder, '--http', daemon.exited ? `127.0.0.1:${port}` : host]
    const { stdout } = await promisify(execFile)(process.execPath, [main, ...words, '--sftp', 'off'], {
      env: { ...process.env, ...(await storeVariables(daemon.dataFolder)), ...environment },
    })
    t.match(stdout, '/drive')
    t.notMatch(stdout, 'WRONG')
  }
  await check()
  t.equal(tokens.refreshes, 1, 'beside the daemon')
  await daemon.kill()
  await check()
  t.equal(tokens.refreshes, 1, 'without it')
  daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword, environment })
  const client = await connect(daemon)
  tokens.expire()
  const listed = await client.post('/api/fs/list', { path: '/drive', refresh: true })
  t.match(listed, { total: 0 })
  t.equal(tokens.refreshes, 2, 'the refresh token of the first renewal was used')
  t.equal(await daemon.stop(), 0)
})

await t.test('tokens that were renewed just before a kill are used after it', async (t) => {
  const double = await startAliyundrive(t)
  const { requests, tokens } = double
  const listing = /openFile\/list/
  const driveTokens = { expire: () => tokens.expire(), refreshes: () => tokens.refreshes }
  await killedAfterRenewal(t, driveOf(double), driveTokens, { requests, listing })
})
