/** The sums of the traffic: of this minute and day, of all processes, in both databases. */
import t from 'tap'
import { Traffic, type TrafficOf } from '../../src/audit/traffic.js'
import { openStore } from '../../src/database/store.js'
import { engines } from '../database/engines.js'

const minute = 60_000
const day = 24 * 60 * minute
const log = { warn: () => undefined }

const sumsOf = ({ bytesIn, bytesOut, changes, refusals }: TrafficOf) => [bytesIn, bytesOut, changes, refusals]
const withoutNothing = (all: readonly TrafficOf[]) =>
  all.flatMap((each) => (sumsOf(each).some((sum) => sum > 0) ? [[each.start, ...sumsOf(each)]] : []))

const stored = (size: number, protocol = 'webdav') =>
  ({ kind: 'file.stored', result: 'done', actor: { name: 'ann', protocol }, size }) as const
const read = (size: number) => ({ ...stored(size), kind: 'read' }) as const

for (const engine of engines) {
  void t.test(`the traffic of two processes is summed on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const store = await openStore(location)
    t.teardown(() => store.close())
    let now = 20_000 * day + 12 * 60 * minute
    const start = now
    const [one, two] = [new Traffic(store.traffic, log, () => now), new Traffic(store.traffic, log, () => now)]
    const empty = await one.of('minute')
    t.equal(empty.length, 60)
    t.strictSame(withoutNothing(empty), [])
    t.equal((await one.of('day')).length, 31)

    one.count(stored(5))
    one.count(read(7))
    one.count({ ...stored(11), result: 'failed' })
    one.count({ ...read(13), result: 'failed' })
    one.count(stored(17, 'task'))
    one.count({ kind: 'moved', result: 'refused', actor: { name: 'ann' } })
    one.count({ kind: 'signin.refused', result: 'refused', actor: { name: '' }, count: 100 })
    one.count({ kind: 'signin.ok', result: 'done', actor: { name: 'ann' } })
    two.count({ kind: 'removed', result: 'done', actor: { name: 'ann' } })
    t.strictSame(withoutNothing(await one.of('minute')), [[start, 5, 20, 2, 101]], 'before it is stored')
    await two.close()
    now += minute
    one.count(stored(1))
    const minutes = [
      [start, 5, 20, 3, 101],
      [start + minute, 1, 0, 1, 0],
    ]
    t.strictSame(withoutNothing(await one.of('minute')), minutes)
    await one.close()
    t.strictSame(withoutNothing(await one.of('minute')), minutes, 'the same after it is stored')
    t.strictSame(withoutNothing(await one.of('day')), [[20_000 * day, 6, 20, 4, 101]])

    now += 59 * minute
    t.strictSame(withoutNothing(await one.of('minute')), minutes.slice(1))
    now += 31 * day
    const last = new Traffic(store.traffic, log, () => now)
    last.count(stored(1))
    await last.close()
    t.strictSame(withoutNothing(await last.of('day')), [[now - (now % day), 1, 0, 1, 0]])
    const rows = await engine.query(location, 'select count(*) as number from traffic')
    t.equal(Number(rows[0]?.number), 2, 'old sums are deleted')
  })
}

void t.test('sums that cannot be stored are kept', async (t) => {
  let fails = true
  const added: unknown[] = []
  const table = {
    since: async () => new Map(),
    add: async (rows: readonly unknown[]) => {
      if (fails) throw new Error('no database')
      added.push(...rows)
    },
  }
  const traffic = new Traffic(table, log, () => 90 * minute)
  traffic.count(stored(5))
  await traffic.close()
  fails = false
  await traffic.close()
  t.match(added, [
    { period: 'minute', start: 90 * minute, bytesIn: 5, changes: 1 },
    { period: 'day', start: 0, bytesIn: 5, changes: 1 },
  ])
})
