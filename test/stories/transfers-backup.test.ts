/**
 * The daemon is killed while a folder is renamed to a backup because a file is copied over it, and the disk is missing
 * when the daemon restarts. When the disk is back, the folder is restored with its content.
 */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'

async function connect(daemon: Daemon) {
  const send = async (path: string, body?: unknown, token = ''): Promise<{ code: number; data: unknown }> => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(daemon.url + path, { method: 'POST', headers, body: JSON.stringify(body ?? {}) })
    return (await response.json()) as { code: number; data: unknown }
  }
  const { data } = await send('/api/auth/login', { username: 'admin', password: daemon.adminPassword })
  const { token } = data as { token: string }
  return (path: string, body?: unknown) => send(path, body, token)
}
type Ask = Awaited<ReturnType<typeof connect>>

/** Resolves when the storage lists its files. */
async function names(ask: Ask): Promise<readonly string[]> {
  for (;;) {
    const { code, data } = await ask('/api/fs/list', { path: '/disk', refresh: true })
    if (code === 200) return (data as { content: { name: string }[] }).content.map(({ name }) => name).sort()
    await wait(100)
  }
}

/** Kills a daemon that has renamed a folder to a backup, and removes its disk. */
async function cutOff(t: Test) {
  const folder = t.testdir({ source: { x: '' }, disk: { x: { precious: 'precious' } } })
  const [source, disk] = [join(folder, 'source'), join(folder, 'disk')]
  await truncate(join(source, 'x'), 3e9)
  const daemon = await startDaemon(t)
  const ask = await connect(daemon)
  let id = 0
  for (const [name, root] of Object.entries({ source, disk })) {
    const addition = JSON.stringify({ root_folder_path: root })
    const { data } = await ask('/api/admin/storage/create', { mount_path: `/${name}`, driver: 'Local', addition })
    id = (data as { id: number }).id
  }
  const credentials = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
  const headers = { Authorization: `Basic ${credentials}`, Destination: `${daemon.davUrl}disk/x`, Overwrite: 'T' }
  const copying = fetch(`${daemon.davUrl}source/x`, { method: 'COPY', headers }).catch(() => undefined)
  while (existsSync(join(disk, 'x'))) await wait(2)
  await daemon.kill()
  await copying
  await rename(disk, `${disk}-away`)
  const { dataFolder, adminPassword } = daemon
  return {
    disk,
    away: `${disk}-away`,
    id,
    restart: () => startDaemon(t, { dataFolder, adminPassword }),
    returnDisk: () => rename(`${disk}-away`, disk),
  }
}

void t.test('a backup is restored when its disk is back, before the storage can be used', async (t) => {
  const { disk, restart, returnDisk } = await cutOff(t)
  const daemon = await restart()
  await returnDisk()
  t.same(await names(await connect(daemon)), ['x'])
  t.equal(await readFile(join(disk, 'x', 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})

void t.test('a backup is restored after its storage was disabled and enabled', async (t) => {
  const { disk, id, restart, returnDisk } = await cutOff(t)
  let daemon = await restart()
  t.equal((await (await connect(daemon))(`/api/admin/storage/disable?id=${id}`)).code, 200)
  await daemon.stop()
  await returnDisk()
  daemon = await restart()
  const ask = await connect(daemon)
  t.equal((await ask(`/api/admin/storage/enable?id=${id}`)).code, 200)
  t.same(await names(ask), ['x'])
  t.equal(await readFile(join(disk, 'x', 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})

void t.test('a backup whose name is taken is preserved under a visible name', async (t) => {
  const { disk, away, restart, returnDisk } = await cutOff(t)
  await mkdir(join(away, 'x'))
  await writeFile(join(away, 'x', 'other'), 'other')
  await returnDisk()
  const daemon = await restart()
  const [x, kept = '', ...others] = await names(await connect(daemon))
  t.equal(x, 'x')
  t.match(kept, /^x~replaced-[0-9a-f]{8}$/)
  t.same(others, [])
  t.same(await readdir(join(disk, 'x')), ['other'])
  t.equal(await readFile(join(disk, kept, 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})
