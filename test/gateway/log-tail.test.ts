/** The last lines of the log: what they hold, and that their number and size are limited. */
import t from 'tap'
import { LogTail, type LogLevel } from '../../src/gateway/log-tail.js'

const time = '2026-01-02T03:04:05.678Z'
const line = (msg: string, fields: object = {}, level = 30) => `${JSON.stringify({ level, time, ...fields, msg })}\n`

void t.test('lines have an id, a level, a time, a message and details', async (t) => {
  const tail = new LogTail()
  t.equal(tail.lastId, 0)
  t.strictSame(tail.after(0, 'trace'), [])
  tail.add(line('ready', { address: '192.0.2.1', nested: { a: [1] } }))
  tail.add('{"level":50,"time":"x"}')
  tail.add('{"level":35,"time":"x","msg":"of a level without a name"}')
  t.strictSame(tail.after(0, 'trace'), [
    { id: 1, level: 'info', time, message: 'ready', fields: { address: '192.0.2.1', nested: { a: [1] } } },
    { id: 2, level: 'error', time: 'x', message: '', fields: {} },
    { id: 3, level: 'info', time: 'x', message: 'of a level without a name', fields: {} },
  ])
})

void t.test('lines are selected by id and level', async (t) => {
  const tail = new LogTail()
  for (const level of [10, 20, 30, 40, 50, 60]) tail.add(line(String(level), {}, level))
  const messages = (after: number, lowest: LogLevel) => tail.after(after, lowest).map(({ message }) => message)
  t.strictSame(messages(0, 'trace'), ['10', '20', '30', '40', '50', '60'])
  t.strictSame(messages(0, 'warn'), ['40', '50', '60'])
  t.strictSame(messages(4, 'trace'), ['50', '60'])
  t.strictSame(messages(5, 'fatal'), ['60'])
  t.strictSame(messages(6, 'trace'), [])
  t.strictSame(messages(7, 'fatal'), ['60'], 'an id of an earlier process')
  t.equal(tail.lastId, 6)
})

void t.test('the oldest lines are dropped beyond a thousand', async (t) => {
  const tail = new LogTail()
  for (let number = 1; number <= 2500; number++) tail.add(line(String(number)))
  const held = tail.after(0, 'trace')
  t.equal(held.length, 1000)
  t.match(held[0], { id: 1501, message: '1501' })
  t.match(held.at(-1), { id: 2500, message: '2500' })
})

void t.test('long lines lose their details, and all lines together are limited in size', async (t) => {
  const tail = new LogTail()
  tail.add(line('x'.repeat(2000), { stack: 'y'.repeat(20_000) }, 50))
  t.strictSame(tail.after(0, 'trace'), [{ id: 1, level: 'error', time, message: 'x'.repeat(1000), fields: {} }])
  for (let number = 0; number < 500; number++) tail.add(line(String(number), { detail: 'z'.repeat(10_000) }))
  const held = tail.after(0, 'trace')
  t.ok(held.length > 40 && held.length < 53, `${held.length} lines`)
  t.match(held.at(-1), { message: '499' })
})
