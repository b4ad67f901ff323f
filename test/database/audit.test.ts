/** The table of the audit, on both engines. */
import t from 'tap'
import { asPath, type Path } from '../../src/base/path.js'
import type { AuditEvent, AuditFilter, NumberedEvent } from '../../src/database/audit-rows.js'
import type { Store } from '../../src/database/tables.js'
import { isPostgresUrl } from '../../src/database/store-url.js'
import { openStore } from '../../src/database/store.js'
import { engines } from './engines.js'
import { openNewStore } from './new-store.js'

function event(number: number, fields: Partial<AuditEvent> = {}): AuditEvent {
  return {
    id: `01900000-0000-7000-8000-${String(number).padStart(12, '0')}`,
    time: 1_000_000 + number,
    node: 'here',
    kind: 'file.stored',
    actor: { userId: 3, name: 'ann', protocol: 'webdav', address: '192.0.2.1', credential: 'password' },
    result: 'done',
    path: asPath(`/a/${number}`),
    size: number,
    entry: 'file',
    storage: asPath('/'),
    ...fields,
  }
}

const plain = ({ number: _, ...rest }: NumberedEvent): AuditEvent => rest

/** All events that match, by pages of so many. */
async function all(store: Store, filter: AuditFilter, limit = 7): Promise<readonly AuditEvent[]> {
  const found: AuditEvent[] = []
  let before
  do {
    const page = await store.audit.list(filter, limit, before)
    found.push(...page.events.map(plain))
    before = page.next
  } while (before)
  return found
}

for (const engine of engines) {
  const { skip } = engine
  void t.test(`${engine.name}: an event is stored once, as it was`, { skip }, async (t) => {
    const store = await openNewStore(await engine.newDatabase(t))
    t.teardown(() => store.close())
    const full = event(1, {
      kind: 'moved',
      result: 'refused',
      target: '/b/ü "x" \\ 😀' as Path,
      error: 'denied',
      decidedBy: 'the grant of group:2 at /b',
      subject: `it's`,
      fields: ['one', 'two'],
      duration: 2 ** 40,
      size: Number.MAX_SAFE_INTEGER,
      count: 3,
    })
    const bare: AuditEvent = { ...event(2), actor: { name: 'gateway' }, path: undefined, size: undefined }
    await store.audit.insert([full, bare, full])
    await store.audit.insert([bare, event(3)])
    await store.audit.insert([])
    const { path: _path, size: _size, ...stored } = bare
    t.strictSame(await all(store, {}), [event(3), stored, full])
    t.strictSame(await store.audit.get(full.id), { ...full, number: 1 })
    t.equal(await store.audit.get('nothing'), undefined)
  })

  void t.test(`${engine.name}: each filter finds its events, the newest first`, { skip }, async (t) => {
    const store = await openNewStore(await engine.newDatabase(t))
    t.teardown(() => store.close())
    const long = `/long/${'é'.repeat(300)}/${'x'.repeat(600)}` as Path
    const events = [
      ...Array.from({ length: 20 }, (_, number) => event(number)),
      event(20, { actor: { name: 'share:x', address: '2001:db8::1' }, kind: 'removed', path: asPath('/b') }),
      event(21, { kind: 'moved', path: asPath('/c/1'), target: asPath('/a/5/new') }),
      event(22, { result: 'refused', error: 'denied', path: asPath('/a5') }),
      event(23, { path: long }),
      event(24, { path: `${long}y` as Path }),
      event(25, { path: `${long}/below` as Path }),
      event(26, { path: undefined, kind: 'signin.ok' }),
    ]
    await store.audit.insert(events)
    const numbers = async (filter: AuditFilter) => (await all(store, filter)).map(({ time }) => time - 1_000_000)
    const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, index) => from - index)
    t.same(await numbers({}), down(26, 0))
    t.same(await numbers({ from: 1_000_003, to: 1_000_005 }), [4, 3])
    t.same(await numbers({ user: 'share:x' }), [20])
    t.same(await numbers({ user: 'ann', to: 1_000_002 }), [1, 0])
    t.same(await numbers({ path: asPath('/a/5') }), [21, 5], 'by the path and by the target')
    t.same(await numbers({ path: asPath('/a') }), [21, ...down(19, 0)])
    t.same(await numbers({ path: asPath('/') }), down(25, 0))
    t.same(await numbers({ at: asPath('/a/5/new') }), [21])
    t.same(await numbers({ at: asPath('/a') }), [])
    t.same(await numbers({ path: long }), [25, 23], 'a path that is longer than what is indexed')
    t.same(await numbers({ at: long }), [23])
    t.same(await numbers({ kinds: ['moved', 'removed'] }), [21, 20])
    t.same(await numbers({ kinds: [] }), [])
    t.same(await numbers({ result: 'refused' }), [22])
    t.same(await numbers({ address: '2001:db8::1' }), [20])
    t.same(await numbers({ address: '2001:db8:*' }), [20])
    t.same(await numbers({ address: '2001:%' }), [])
  })

  void t.test(`${engine.name}: who follows gets events by their numbers`, { skip }, async (t) => {
    const store = await openNewStore(await engine.newDatabase(t))
    t.teardown(() => store.close())
    t.equal(await store.audit.last(), 0)
    await store.audit.insert([event(5), event(1)])
    const last = await store.audit.last()
    // An older event of a process that was killed is stored later.
    await store.audit.insert([event(0), event(6, { kind: 'removed' })])
    const after = async (...asked: Parameters<typeof store.audit.after>) => {
      const { events, last } = await store.audit.after(...asked)
      return [events.map(plain), last]
    }
    t.same(await after(last, {}, 10), [[event(0), event(6, { kind: 'removed' })], last + 2])
    t.same(await after(last, { kinds: ['removed'] }, 10), [[event(6, { kind: 'removed' })], last + 2])
    t.same(await after(last, { kinds: ['moved'] }, 10), [[], last + 2], 'those that do not match were looked at')
    t.same(await after(0, {}, 2), [[event(5), event(1)], 2])
    t.same(await after(last + 2, {}, 2), [[], last + 2])
  })

  void t.test(`${engine.name}: who follows gets each event once, whoever stores it meanwhile`, { skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const store = await openNewStore(location)
    const writers = await Promise.all(Array.from({ length: 3 }, () => openStore(location)))
    t.teardown(() => Promise.all([store, ...writers].map((each) => each.close())))
    let isOver = false
    const writing = writers.map(async ({ audit }, writer) => {
      for (let group = 0; group < 30; group++) {
        const first = writer * 1000 + group * 10
        await audit.insert(Array.from({ length: 1 + (group % 7) }, (_, index) => event(first + index)))
      }
    })
    const ended = Promise.all(writing).then(() => (isOver = true))
    const followed: string[] = []
    const matching: string[] = []
    for (let [number, other, wasOver] = [0, 0, false]; ; wasOver = isOver) {
      const { events, last } = await store.audit.after(number, {}, 5)
      followed.push(...events.map(({ id }) => id))
      const some = await store.audit.after(other, { path: asPath('/a/1003') }, 5)
      matching.push(...some.events.map(({ id }) => id))
      if (wasOver && last === number && some.last === other) break
      ;[number, other] = [last, some.last]
    }
    await ended
    t.equal(new Set(followed).size, followed.length, 'none twice')
    t.same(followed.sort(), (await all(store, {}, 100)).map(({ id }) => id).sort(), 'and all')
    t.same(
      matching,
      (await all(store, { path: asPath('/a/1003') })).map(({ id }) => id),
    )
  })

  void t.test(`${engine.name}: the oldest are deleted, by time and by size`, { skip }, async (t) => {
    const store = await openNewStore(await engine.newDatabase(t))
    t.teardown(() => store.close())
    for (let start = 0; start < 3000; start += 1000) {
      await store.audit.insert(Array.from({ length: 1000 }, (_, index) => event(start + index)))
    }
    let pauses = 0
    const pause = async () => pauses++
    t.equal(await store.audit.sweep(1_000_000 + 1500, Infinity, pause), 1500)
    t.equal(pauses, 2, 'in steps')
    t.equal(await store.audit.sweep(0, Infinity, pause), 0)
    // A row has about 420 bytes.
    const removed = await store.audit.sweep(0, 420 * 500, pause)
    t.ok(removed > 900 && removed < 1100, `${removed}`)
    const left = await all(store, {}, 1000)
    t.equal(left.length, 1500 - removed)
    t.equal(left[0]?.time, 1_000_000 + 2999, 'the newest are left')
  })

  void t.test(
    `${engine.name}: deliveries are stored with new events only, to hooks that exist`,
    { skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const store = await openNewStore(location)
      t.teardown(() => store.close())
      await engine.query(
        location,
        `insert into webhooks (name, url, secret, kinds, paths, enabled, created)
       values ('one', 'http://x', 's', '[]', '[]', ${isPostgresUrl(location) ? 'true' : '1'}, 0)`,
      )
      const deliveriesOf = (events: readonly AuditEvent[]) =>
        events.flatMap(({ id: eventId }) => [1, 2].map((hookId) => ({ hookId, eventId, body: 'body', nextAt: 7 })))
      await store.audit.insert([event(1)], deliveriesOf)
      await engine.query(location, 'delete from webhook_outbox')
      await store.audit.insert([event(1), event(2)], deliveriesOf)
      const rows = await engine.query(location, 'select hook_id, event_id, attempts from webhook_outbox order by id')
      t.same(rows, [{ hook_id: 1, event_id: event(2).id, attempts: 0 }], 'one that was stored is not delivered again')
    },
  )
}
