/** Notifications to systemd, recorded by a program named systemd-notify that comes first in PATH. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createLog } from '../../src/process/log.js'
import { SystemdNotifications } from '../../src/process/systemd-notifications.js'
import { until } from '../until.js'

interface Heard {
  readonly notifications: SystemdNotifications
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
  const notifications = new SystemdNotifications({ environment, log: createLog('silent'), healthCheck: alive })
  t.teardown(() => {
    process.env.PATH = path
    notifications.close()
  })
  return { notifications, states: async () => (await readFile(heard, 'utf8')).trim().split('\n') }
}

void t.test('ready() and stopping() each notify systemd', async (t) => {
  const { notifications, states } = await start(t, { NOTIFY_SOCKET: '/run/notify' })
  await notifications.ready()
  await notifications.stopping(90.5)
  t.same(await states(), ['READY=1', 'STOPPING=1 EXTEND_TIMEOUT_USEC=90500000'])
})

void t.test('without systemd, nothing is sent and nothing fails', async (t) => {
  const { notifications, states } = await start(t, {})
  await notifications.ready()
  await notifications.stopping(60)
  t.same(await states(), [''])
})

void t.test('the watchdog is notified at half its interval while the health check passes', async (t) => {
  let dead = false
  const alive = async () => {
    if (dead) throw new Error('the database does not answer')
  }
  const { notifications, states } = await start(t, { NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '400000' }, alive)
  await notifications.ready()
  const arrived = async () => (await states()).filter((state) => state === 'WATCHDOG=1').length
  t.ok(await until(async () => (await arrived()) >= 3), 'notifications arrived')
  dead = true
  const haveStopped = async () => {
    const before = await arrived()
    await wait(600)
    return (await arrived()) === before
  }
  t.ok(await until(haveStopped), 'then they stop')
})

void t.test('the watchdog of another process is not notified', async (t) => {
  const environment = { NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '100000', WATCHDOG_PID: '1' }
  const { notifications, states } = await start(t, environment)
  await notifications.ready()
  await wait(300)
  t.same(await states(), ['READY=1'])
})
