/** The setting `audit_log`: all events as lines in a file or on a server of syslog. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdir, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { logLine } from '../../src/audit/forms.js'
import { AuditLog } from '../../src/audit/log-target.js'
import { syslogServer } from '../../src/net/addresses.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { until } from '../until.js'
import { anEvent } from './an-event.js'

function open(t: Test, place: string) {
  const listeners = new Set<() => void>()
  const warnings: string[] = []
  const set = { place }
  const settings = {
    get: () => set.place,
    onChange: (listener: () => void) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  const log = new AuditLog(settings, { warn: (_, text) => void warnings.push(text) })
  t.teardown(() => log.close())
  const move = (to: string) => {
    set.place = to
    for (const listener of listeners) listener()
  }
  return { log, move, warnings }
}

void t.test('after a part of a line, which a full disk has left, lines are whole', async (t) => {
  const file = join(t.testdir({ 'audit.log': 'whole\npart' }), 'audit.log')
  const { log } = open(t, file)
  const event = anEvent()
  log.write(event)
  await log.close()
  t.equal(await textOf(file), `whole\npart\n${logLine(event)}\n`)
})

const textOf = (file: string) => readFile(file, 'utf8').catch(() => '')

void t.test('a file gets all lines, also after it was moved away, and another one after a change', async (t) => {
  const folder = t.testdir()
  const [first, old, second] = ['audit.log', 'audit.log.1', 'second.log'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  const { log, move } = open(t, first)
  const events = Array.from({ length: 5 }, () => anEvent())
  const [one, two, three, four, five] = events.map((event) => `${logLine(event)}\n`) as [
    string,
    string,
    string,
    string,
    string,
  ]
  log.write(events[0]!)
  log.write(events[1]!)
  t.ok(await until(async () => (await textOf(first)) === one + two))
  t.equal((await stat(first)).mode & 0o777, 0o600)
  await rename(first, old)
  log.write(events[2]!)
  t.ok(await until(async () => (await textOf(first)) === three))
  t.equal(await textOf(old), one + two)
  log.write(events[3]!)
  move(second)
  log.write(events[4]!)
  await log.close()
  t.equal(await textOf(first), three + four)
  t.equal(await textOf(second), five)
})

void t.test('what cannot be written is said once, and written when that is possible', async (t) => {
  const folder = join(t.testdir(), 'missing')
  const { log, warnings } = open(t, join(folder, 'audit.log'))
  const event = anEvent()
  for (let n = 0; n < 10_010; n++) log.write(event)
  t.ok(await until(async () => warnings.length > 0))
  await mkdir(folder)
  await log.close()
  const lines = (await textOf(join(folder, 'audit.log'))).split('\n')
  t.equal(lines.length, 10_001, 'those that wait are limited')
  t.strictSame(warnings, ['the log of the audit cannot be written', 'the log of the audit has lost events'])
})

void t.test('what could not be written is dropped when the setting is switched off', async (t) => {
  const { log, move, warnings } = open(t, join(t.testdir(), 'missing', 'audit.log'))
  log.write(anEvent())
  t.ok(await until(async () => warnings.length > 0))
  move('')
  await log.close()
  t.strictSame(warnings, ['the log of the audit cannot be written'])
})

void t.test('without the setting nothing is written', async (t) => {
  const { log } = open(t, '')
  log.write(anEvent())
  await log.close()
})

void t.test('a server of syslog gets a message of RFC 5424 for each event', async (t) => {
  const server = createSocket('udp4')
  t.teardown(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  const messages: string[] = []
  server.on('message', (message) => void messages.push(message.toString()))
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  const { log } = open(t, `syslog://127.0.0.1:${server.address().port}`)
  const refusal = { kind: 'signin.refused', result: 'refused', error: 'wrong_credentials' } as const
  log.write(anEvent({ time: 1764491000123, ...refusal, actor: { name: 'a"\n', protocol: 'http', address: '::1' } }))
  log.write(anEvent({ result: 'failed', error: 'x'.repeat(5000) }))
  t.ok(await until(async () => messages.length === 2))
  t.match(
    messages[0],
    /^<108>1 2025-11-30T08:23:20\.123Z \S+ tidegate \d+ signin\.refused - sign-in refused protocol=http address=::1 user="a\\"\\n" error=wrong_credentials$/,
  )
  t.match(messages[1], /^<107>1 /)
  t.ok((messages[1]?.length ?? 0) <= 2048)
})

void t.test('the setting is a file of this machine, or a server of syslog', (t) => {
  const check = coreSettings.find(({ key }) => key === 'audit_log')?.check
  for (const good of [
    '',
    '/var/log/tidegate/audit.log',
    'syslog://127.0.0.1',
    'syslog://[::1]:1514',
    'syslog://logs:514',
  ]) {
    t.doesNotThrow(() => check?.(good), good)
  }
  for (const bad of [
    'audit.log',
    '/var/lib/tidegate/data.db',
    'syslog://',
    'syslog',
    'syslog://a:70000',
    'udp://a:1',
  ]) {
    t.throws(() => check?.(bad), { code: 'invalid' }, bad)
  }
  t.strictSame(syslogServer('syslog://[::1]'), { host: '::1', port: 514 })
  t.strictSame(syslogServer('syslog://logs:1514'), { host: 'logs', port: 1514 })
  t.end()
})
