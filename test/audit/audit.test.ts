/** What the audit does with events when the disk, the database or the process fails. */
import { chmod, mkdir, readFile, readdir, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mock } from 'node:test'
import { Audit, type AuditOptions } from '../../src/audit/audit.js'
import { JournalFile } from '../../src/audit/journal-file.js'
import { orderedIds } from '../../src/audit/uuid.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import type { AuditEvent, EventFacts } from '../../src/database/audit-rows.js'
import { openNewStore } from '../database/new-store.js'
import { until } from '../until.js'
import t, { type Test } from 'tap'

/** The settings, and a table in memory that may fail. */
class World {
  readonly settings = new Map<string, string>([
    ['audit_enabled', 'true'],
    ['audit_max_mib', '1024'],
    ['audit_days', '90'],
  ])
  readonly stored = new Map<string, AuditEvent>()
  readonly groups: number[] = []
  attempts = 0
  readonly logged: string[] = []
  failure: Error | undefined
  time = 1_700_000_000_000
  elapsed = 0

  constructor(readonly folder: string) {}

  get options(): AuditOptions {
    const log = (...[, text]: unknown[]) => void this.logged.push(String(text))
    return {
      folder: this.folder,
      instance: {
        name: 'own',
        isOver: (name) => name.startsWith('dead') || (name.startsWith('alive') ? false : undefined),
      },
      node: 'node',
      settings: {
        bool: (key) => this.settings.get(key) === 'true',
        number: (key) => Number(this.settings.get(key)),
      },
      store: {
        audit: {
          insert: async (events) => {
            this.attempts++
            if (this.failure) throw this.failure
            this.groups.push(events.length)
            for (const event of events) this.stored.set(event.id, event)
          },
          sweep: async () => 0,
        },
      },
      log: { error: log, warn: log },
      now: () => this.time,
      elapsed: () => this.elapsed,
    }
  }
}

async function start(t: Test): Promise<{ readonly world: World; readonly audit: Audit }> {
  const world = new World(join(t.testdir(), 'audit'))
  const audit = await Audit.open(world.options)
  t.teardown(() => audit.close())
  return { world, audit }
}

function stored(path: string, fields: Partial<EventFacts> = {}): EventFacts {
  return {
    kind: 'file.stored',
    actor: { name: 'ann', address: '192.0.2.1' },
    result: 'done',
    path: path as Path,
    ...fields,
  }
}

/** Whether there is one file at most, which is empty. */
async function isWithoutLines({ folder }: World): Promise<boolean> {
  const [name, ...others] = await readdir(folder)
  return others.length === 0 && (name === undefined || (await stat(join(folder, name))).size === 0)
}

const paths = ({ stored }: World) => [...stored.values()].map(({ path }) => path)

void t.test('ids sort in their order, whatever the clock does', (t) => {
  const idAt = orderedIds()
  const times = [5, 5, 5, 4, 6, ...Array<number>(5000).fill(6), 7]
  const ids = times.map((time) => idAt(1_700_000_000_000 + time))
  t.same([...ids].sort(), ids)
  t.equal(new Set(ids).size, ids.length)
  for (const id of ids.slice(0, 9)) t.match(id, /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  t.equal(Number.parseInt((ids[0] ?? '').replaceAll('-', '').slice(0, 12), 16), 1_700_000_000_005)
  t.end()
})

void t.test('an event is in the file when record() returns, and in the table soon', async (t) => {
  const { world, audit } = await start(t)
  t.equal(audit.record(stored('/a')), undefined, 'the caller need not wait')
  const [name = ''] = await readdir(world.folder)
  const file = join(world.folder, name)
  t.match(JSON.parse(await readFile(file, 'utf8')), { path: '/a', node: 'node', time: world.time })
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.equal((await stat(world.folder)).mode & 0o777, 0o700)
  t.ok(await until(() => world.stored.size === 1))
  t.ok(await until(() => isWithoutLines(world)))
  t.same(paths(world), ['/a'])

  void audit.record(stored('/b'))
  t.same(await readdir(world.folder), [name], 'the file is used again')
  t.match(JSON.parse(await readFile(file, 'utf8')), { path: '/b' })
  t.ok(await until(() => world.stored.size === 2))
  t.ok(await until(() => isWithoutLines(world)))
  await rm(file)
  void audit.record(stored('/c'))
  const [other = ''] = await readdir(world.folder)
  t.match(JSON.parse(await readFile(join(world.folder, other), 'utf8')), { path: '/c' }, 'there is another file')
  await audit.close()
  t.same(await readdir(world.folder), [])
  t.same(paths(world), ['/a', '/b', '/c'])
})

void t.test('the lines of a process that has ended are stored once, and torn ones are left out', async (t) => {
  const world = new World(join(t.testdir(), 'audit'))
  await mkdir(world.folder)
  const first = await Audit.open(world.options)
  world.failure = new GatewayError('unavailable')
  for (const path of ['/a', '/b']) void first.record(stored(path))
  const [name = ''] = await readdir(world.folder)
  const lines = await readFile(join(world.folder, name), 'utf8')
  await first.close()
  const write = (file: string, text: string) => writeFile(join(world.folder, file), text)
  await write('dead-1-0.ndjson', `${lines}{"id":"torn`)
  await write('dead-1-1.ndjson', lines)
  await write('alive-1-0.ndjson', lines.replaceAll('/a', '/of a living process'))
  await write('unknown-0.ndjson', lines.replaceAll('/a', '/of a process elsewhere'))
  await write('dead-2-0.ndjson', `null\n7\n{"id":3}\n{"id":"x","actor":{}}\n\n`)
  await write('something else', '')
  world.failure = undefined
  const second = await Audit.open(world.options)
  t.teardown(() => second.close())
  t.same(paths(world), ['/a', '/b'])
  t.same((await readdir(world.folder)).sort(), [name, 'alive-1-0.ndjson', 'something else', 'unknown-0.ndjson'].sort())
})

void t.test('while the table cannot be written, events wait in their files, in order', async (t) => {
  const { world, audit } = await start(t)
  world.failure = new GatewayError('unavailable')
  const count = 12_000
  for (let number = 0; number < count; number++) void audit.record(stored(`/${number}`))
  t.ok(await until(() => world.logged.length > 0))
  t.equal(audit.lost, 0)
  t.doesNotThrow(() => audit.assertWritable())
  t.ok((await readdir(world.folder)).length >= 3, 'no file has them all')
  world.failure = undefined
  t.ok(await until(() => world.stored.size === count))
  t.same(
    paths(world),
    Array.from({ length: count }, (_, number) => `/${number}`),
  )
  t.ok(Math.max(...world.groups) <= 1000, 'in transactions that are not long')
  t.ok(await until(() => isWithoutLines(world)))
})

void t.test('when somebody removes the files, what memory has is stored, and the rest is counted', async (t) => {
  const { world, audit } = await start(t)
  world.failure = new GatewayError('unavailable')
  for (let number = 0; number < 10_100; number++) void audit.record(stored(`/${number}`))
  t.ok(await until(() => world.logged.length > 0))
  for (const name of await readdir(world.folder)) await rm(join(world.folder, name))
  const { attempts } = world
  t.ok(await until(() => world.attempts >= attempts + 2), 'each attempt finds the files gone')
  world.failure = undefined
  t.ok(await until(() => world.stored.size === 10_000))
  t.ok(await until(() => audit.lost === 100))
  void audit.record(stored('/new'))
  t.ok(await until(() => world.stored.size === 10_001), 'and it goes on')
})

void t.test('while no line can be written, only removals go on, and nothing is lost', async (t) => {
  const { world, audit } = await start(t)
  // The limit of the files stands for a full disk.
  world.settings.set('audit_max_mib', '0')
  world.failure = new GatewayError('no_space')
  void audit.record(stored('/written'))
  void audit.record(stored('/removed', { kind: 'removed' }))
  t.throws(() => audit.assertWritable(), { code: 'no_space', detail: 'audit_full' })
  world.settings.set('audit_max_mib', '1024')
  t.doesNotThrow(() => audit.assertWritable(), 'it tries again')
  const [name = ''] = await readdir(world.folder)
  t.match(await readFile(join(world.folder, name), 'utf8'), /"\/written".*\n.*"\/removed".*\n$/)
  world.failure = undefined
  t.ok(await until(() => world.stored.size === 2))
  t.equal(audit.lost, 0)
})

void t.test('what can be written nowhere is counted, beyond what memory holds', async (t) => {
  const { world, audit } = await start(t)
  world.settings.set('audit_max_mib', '0')
  world.failure = new GatewayError('no_space')
  for (let number = 0; number < 10_011; number++) void audit.record(stored(`/${number}`))
  // The first one fits.
  t.equal(audit.lost, 10)
  world.failure = undefined
  t.ok(await until(() => world.stored.size === 10_001))
  t.doesNotThrow(() => audit.assertWritable())
  await audit.close()
  t.match(world.logged, ['an event of the audit cannot be written'])
  t.equal(world.logged.at(-1), 'events of the audit were lost')
})

void t.test('an event that the database refuses does not keep the others from it', async (t) => {
  const { world, audit } = await start(t)
  const { options } = world
  const insert = options.store.audit.insert
  const refusing = {
    ...options,
    store: {
      audit: {
        ...options.store.audit,
        insert: async (events: readonly AuditEvent[]) => {
          if (events.some(({ path }) => path === '/bad')) throw new GatewayError('invalid')
          return insert(events)
        },
      },
    },
  }
  const other = await Audit.open({ ...refusing, instance: { ...options.instance, name: 'other' } })
  t.teardown(() => other.close())
  for (const path of ['/a', '/bad', '/b']) void other.record(stored(path))
  t.ok(await until(() => world.stored.size === 2))
  t.same(paths(world), ['/a', '/b'])
  t.equal(other.lost, 1)
  t.equal(audit.lost, 0)
})

void t.test('of a flood of refusals, a hundred are recorded one by one, and the others are counted', async (t) => {
  const { world, audit } = await start(t)
  const heard: string[] = []
  audit.on(({ kind }) => heard.push(kind))
  const refusal = (address: string, error = 'wrong_credentials') =>
    audit.record({ kind: 'signin.refused', actor: { name: 'ann', address }, result: 'refused', error })
  for (let number = 0; number < 100_000; number++) void refusal(`2001:db8::${(number % 60_000).toString(16)}`)
  void refusal('192.0.2.1')
  void refusal('2001:db8::1', 'network_refused')
  void audit.record(stored('/a'))
  t.equal(heard.length, 100_003, 'listeners hear of each')
  t.ok(await until(() => world.stored.size === 103))
  // The minute ends by a clock that nobody sets.
  world.elapsed += 60_000
  world.time -= 3600_000
  void refusal('2001:db8::1')
  t.ok(await until(() => world.stored.size === 105))
  const counted = [...world.stored.values()].filter(({ count }) => count !== undefined)
  t.match(counted, [{ kind: 'signin.refused', result: 'refused', error: 'wrong_credentials', count: 99_900 }])
  // Held ones are recorded at the end.
  for (let number = 0; number < 200; number++) void refusal('2001:db8::1')
  await audit.close()
  t.match([...world.stored.values()].at(-1), { count: 101 })
  t.equal(audit.lost, 0)
})

void t.test('refusals from very many networks take bounded memory, and each is counted', async (t) => {
  const { world, audit } = await start(t)
  const networks = 20_000
  for (let number = 0; number < networks; number++) {
    const actor = { name: '', address: `2001:db8:${(number % 65_536).toString(16)}::1` }
    for (let times = 0; times < 3; times++) void audit.record({ kind: 'signin.refused', actor, result: 'refused' })
  }
  await audit.close()
  t.equal(world.stored.size, 3 * networks)
})

void t.test('a table that is full loses its oldest events, and gets new ones', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const world = new World(join(t.testdir(), 'audit'))
  const store = await openNewStore(join(t.testdir(), 'data.db'))
  t.teardown(() => store.close())
  world.settings.set('audit_max_mib', '1')
  world.settings.set('audit_days', '-1')
  const audit = await Audit.open({ ...world.options, store })
  const count = 10_000
  for (let number = 0; number < count; number++) await audit.record(stored(`/${number}`))
  t.ok(await until(async () => (await store.audit.last()) === count))
  mock.timers.tick(600_000)
  const oldest = async () => (await store.audit.after(0, {}, 1)).events[0]?.number ?? 0
  t.ok(await until(async () => (await oldest()) > 1))
  void audit.record(stored('/new'))
  await audit.close()
  t.match(await store.audit.list({}, 1), { events: [{ path: '/new', number: count + 1 }] })
  t.equal(audit.lost, 0)
})

void t.test('kinds that a setting has to ask for are not recorded without it', async (t) => {
  const { world, audit } = await start(t)
  const kinds = ['read', 'locked', 'unlocked', 'attributes.set', 'removed'] as const
  const record = () => {
    for (const kind of kinds) void audit.record(stored('/a', { kind }))
  }
  record()
  t.ok(await until(() => world.stored.size === 1))
  world.settings.set('audit_reads', 'true')
  world.settings.set('audit_details', 'true')
  record()
  t.ok(await until(() => world.stored.size === 6))
  world.settings.set('audit_enabled', 'false')
  record()
  await audit.close()
  t.equal(world.stored.size, 6)
})

void t.test('texts are made storable, and are not longer than a path', async (t) => {
  const { world, audit } = await start(t)
  void audit.record({
    kind: 'signin.refused',
    actor: { name: `a\0b\ud800c${'x'.repeat(100_000)}` },
    result: 'refused',
    fields: Array<string>(1000).fill('field\u0001'),
  })
  await audit.close()
  const [event] = world.stored.values()
  t.ok(event?.actor.name.startsWith('a\ufffdb\ufffdcxxx'))
  t.equal(event?.actor.name.length, 4096)
  t.equal(event?.fields?.length, 100)
  t.equal(event?.fields?.[0], 'field\u0001')
})

void t.test('with audit_strict, record() resolves when the line is on disk', async (t) => {
  const { world, audit } = await start(t)
  world.settings.set('audit_strict', 'true')
  const all = Array.from({ length: 50 }, (_, number) => audit.record(stored(`/${number}`)) ?? 'at once')
  for (const one of all) t.equal(await one, undefined)
  t.ok(await until(() => world.stored.size === 50))
})

void t.test('with audit_strict, record() resolves when an event that no file takes is in the database', async (t) => {
  const { world, audit } = await start(t)
  world.settings.set('audit_strict', 'true')
  world.settings.set('audit_max_mib', '0')
  // The first one fits.
  const both = ['/in the file', '/in no file'].map((path) => audit.record(stored(path)))
  await both[1]
  t.same(paths(world), ['/in the file', '/in no file'])
  world.failure = new GatewayError('no_space')
  for (const path of ['/in the file too', '/nowhere']) await audit.record(stored(path, { kind: 'removed' }))
  t.equal(world.stored.size, 2, 'nobody waits for what is not possible')
  world.failure = undefined
  t.ok(await until(() => world.stored.size === 4))
})

void t.test('a file that was cut in the middle of a line goes on with a whole one', async (t) => {
  const folder = t.testdir()
  const file = new JournalFile(join(folder, 'file'))
  file.append('one\n')
  await file.sync()
  file.append('two\n')
  t.equal(file.size, 8)
  await file.close()
  t.equal(await readFile(join(folder, 'file'), 'utf8'), 'one\ntwo\n')
  t.throws(() => new JournalFile(join(folder, 'file', 'below')).append('one\n'), { code: 'ENOTDIR' })
  const removed = new JournalFile(join(folder, 'removed', 'file'))
  removed.append('one\n')
  t.equal(await readFile(removed.path, 'utf8'), 'one\n', 'the folder is made again')
  await removed.remove()
  await rmdir(join(folder, 'removed'))
  await chmod(folder, 0o700)
  const other = new JournalFile(join(folder, 'other'))
  other.append('one\n')
  await other.remove()
  t.same(await readdir(folder), ['file'])
})

void t.test('of an error, one event is recorded', async (t) => {
  const { world, audit } = await start(t)
  const error = new GatewayError('denied')
  void audit.recordError(error, stored('/a', { result: 'refused' }))
  void audit.recordError(error, stored('/a', { result: 'refused' }))
  t.ok(audit.hasRecorded(error))
  t.notOk(audit.hasRecorded(new GatewayError('denied')))
  t.notOk(audit.hasRecorded(undefined))
  await audit.close()
  t.same(paths(world), [asPath('/a')])
})
