/** What systemd hears: a program named systemd-notify that stands first in the PATH writes it down. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createLog } from '../../src/process/log.js'
import { ServiceManager } from '../../src/process/service-manager.js'

interface Heard {
  readonly manager: ServiceManager
  readonly states: () => Promise<readonly string[]>
}

async function start(
  t: Test,
  environment: Readonly<Record<string, string>>,
  alive: () => Promise<unknown> = async () => undefined,
): Promise<Heard> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-notify-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const heard = join(folder, 'heard')
  await writeFile(heard, '')
  await writeFile(join(folder, 'systemd-notify'), `#!/bin/sh\necho "$*" >> '${heard}'\n`, { mode: 0o755 })
  const path = process.env.PATH ?? ''
  process.env.PATH = `${folder}:${path}`
  const manager = new ServiceManager({ environment, log: createLog('silent'), healthCheck: alive })
  t.teardown(() => {
    process.env.PATH = path
    manager.close()
  })
  return { manager, states: async () => (await readFile(heard, 'utf8')).trim().split('\n') }
}

void t.test('ready and stopping are told', async (t) => {
  const { manager, states } = await start(t, { NOTIFY_SOCKET: '/run/notify' })
  await manager.ready()
  await manager.stopping()
  t.same(await states(), ['READY=1', 'STOPPING=1'])
})

void t.test('nothing is told where no service manager listens', async (t) => {
  const { manager, states } = await start(t, {})
  await manager.ready()
  await manager.stopping()
  t.same(await states(), [''])
})

void t.test('the watchdog is served at half its time, while the daemon is alive', async (t) => {
  let dead = false
  const alive = async () => {
    if (dead) throw new Error('the database does not answer')
  }
  const { manager, states } = await start(t, { NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '400000' }, alive)
  await manager.ready()
  await wait(1100)
  dead = true
  await wait(300)
  const before = await states()
  t.ok(before.filter((state) => state === 'WATCHDOG=1').length >= 3, 'signs of life came')
  await wait(600)
  t.same(await states(), before, 'then none comes any more')
})

void t.test("a watchdog for another process is not this one's", async (t) => {
  const environment = { NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '100000', WATCHDOG_PID: '1' }
  const { manager, states } = await start(t, environment)
  await manager.ready()
  await wait(300)
  t.same(await states(), ['READY=1'])
})
