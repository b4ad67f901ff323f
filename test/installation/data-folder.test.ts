/** The lock of the data folder: which processes hold it, and the content of its file. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { lockDataFolder, lockHolderOf } from '../../src/installation/data-folder.js'
import { startDaemon, startGateway } from '../gateway.js'
import { zombie } from '../zombie.js'

void t.test(
  'a second daemon is rejected while the first one runs, but not after the first one was killed',
  async (t) => {
    const first = await startDaemon(t)
    const options = { dataFolder: first.dataFolder, adminPassword: first.adminPassword }
    await t.rejects(startDaemon(t, options), /another tidegate \(process \d+\) serves the data folder/)
    await t.rejects(startGateway(t, options), { code: 'busy' })
    t.equal((await fetch(`${first.url}/ping`)).status, 200, 'the first one still answers')
    await first.kill()
    const second = await startDaemon(t, options)
    t.equal(await second.stop(), 0)
    await t.rejects(readFile(join(first.dataFolder, 'daemon.pid')), { code: 'ENOENT' })
  },
)

void t.test('a process with the reused number of a dead daemon does not hold the lock', async (t) => {
  const folder = t.testdir()
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  t.teardown(() => child.kill())
  await writeFile(join(folder, 'daemon.pid'), `${child.pid ?? 0} 1`)
  const giveBack = await lockDataFolder(folder)
  await giveBack()
})

const skip = process.platform === 'linux' ? false : 'only Linux shows the state of processes'
void t.test('a killed daemon that is still a zombie does not hold the lock', { skip }, async (t) => {
  const folder = t.testdir()
  const { pid, started } = await zombie(t)
  await writeFile(join(folder, 'daemon.pid'), `${pid} ${started}`)
  const giveBack = await lockDataFolder(folder)
  await giveBack()
})

void t.test('the lock file is never visible without its content', async (t) => {
  const folder = t.testdir()
  let isOver = false
  const texts = new Set<string>()
  const reading = (async () => {
    while (!isOver) texts.add(await readFile(join(folder, 'daemon.pid'), 'utf8').catch(() => 'none'))
  })()
  for (let round = 0; round < 300; round++) await (await lockDataFolder(folder))()
  isOver = true
  await reading
  t.ok(texts.size > 1, 'the lock was read')
  t.notOk(texts.has(''), 'it was never empty')
  t.same(await readdir(folder), [], 'the folder is empty again')
})

void t.test('a stopping daemon removes its address from the lock file', async (t) => {
  const daemon = await startDaemon(t)
  t.match(await lockHolderOf(daemon.dataFolder), { url: daemon.url })
  const upload = request(`${daemon.davUrl}slow`, {
    method: 'PUT',
    headers: { Authorization: `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}` },
  })
  upload.on('error', () => undefined).write('the beginning')
  await once(upload, 'socket')
  // The running upload delays the end of the daemon until it is destroyed.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const stopped = daemon.stop()
  for (;;) {
    const holder = await lockHolderOf(daemon.dataFolder)
    if (!holder) return void t.fail('the daemon had stopped before the lock file was read')
    if (holder.url === undefined) break
  }
  upload.destroy()
  await stopped
})

void t.test('of several processes that find the lock of a dead one, one gets it', async (t) => {
  const module = new URL('../../src/installation/data-folder.js', import.meta.url).href
  const program = `
    const { lockDataFolder } = await import(${JSON.stringify(module)})
    process.stdin.once('data', (folder) => lockDataFolder(folder.toString()).then(
      () => console.log('locked'),
      ({ code }) => console.log(code),
    ))
    console.log('waiting')`
  for (let round = 0; round < 4; round++) {
    const folder = t.testdir({ 'daemon.pid': '999999 1' })
    const children = Array.from({ length: 5 }, () => spawn(process.execPath, ['--input-type=module', '-e', program]))
    t.teardown(() => children.forEach((child) => child.kill('SIGKILL')))
    const answer = async ({ stdout }: (typeof children)[number]) => String(await once(stdout, 'data')).trim()
    await Promise.all(children.map(answer))
    const answers = Promise.all(children.map(answer))
    for (const { stdin } of children) stdin.write(folder)
    t.same((await answers).sort(), ['busy', 'busy', 'busy', 'busy', 'locked'])
    for (const child of children) child.kill('SIGKILL')
  }
})
