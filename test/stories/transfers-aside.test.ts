/**
 * The daemon is killed while an old folder is set aside for a file that is copied over it, and the disk is not there when it is
 * started again. Whatever happens until the disk is back: the old folder comes back, and nobody takes its content away.
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

/** Resolves once the storage shows its files. */
async function names(ask: Ask): Promise<readonly string[]> {
  for (;;) {
    const { code, data } = await ask('/api/fs/list', { path: '/disk', refresh: true })
    if (code === 200) return (data as { content: { name: string }[] }).content.map(({ name }) => name).sort()
    await wait(100)
  }
}

/** A killed daemon, an old folder that is aside, and the disk away. */
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
    again: () => startDaemon(t, { dataFolder, adminPassword }),
    comesBack: () => rename(`${disk}-away`, disk),
  }
}

void t.test('what was set aside comes back with its disk, before anybody can take its name', async (t) => {
  const { disk, again, comesBack } = await cutOff(t)
  const daemon = await again()
  await comesBack()
  t.same(await names(await connect(daemon)), ['x'])
  t.equal(await readFile(join(disk, 'x', 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})

void t.test('what was set aside is not forgotten while its storage is disabled', async (t) => {
  const { disk, id, again, comesBack } = await cutOff(t)
  let daemon = await again()
  t.equal((await (await connect(daemon))(`/api/admin/storage/disable?id=${id}`)).code, 200)
  await daemon.stop()
  await comesBack()
  daemon = await again()
  const ask = await connect(daemon)
  t.equal((await ask(`/api/admin/storage/enable?id=${id}`)).code, 200)
  t.same(await names(ask), ['x'])
  t.equal(await readFile(join(disk, 'x', 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})

void t.test('what was set aside is kept beside what somebody else gave its name to', async (t) => {
  const { disk, away, again, comesBack } = await cutOff(t)
  await mkdir(join(away, 'x'))
  await writeFile(join(away, 'x', 'other'), 'other')
  await comesBack()
  const daemon = await again()
  const [x, kept = '', ...others] = await names(await connect(daemon))
  t.equal(x, 'x')
  t.match(kept, /^x~replaced-[0-9a-f]{8}$/)
  t.same(others, [])
  t.same(await readdir(join(disk, 'x')), ['other'])
  t.equal(await readFile(join(disk, kept, 'precious'), 'utf8'), 'precious')
  await daemon.stop()
})
