/** Memory that is given back: all of it or none, and never what somebody else has a view of. */
import { markAsUntransferable } from 'node:worker_threads'
import t from 'tap'
import { detach } from '../../../drivers/lib/detach-buffer.js'

await t.test('a buffer that is freed is empty, and its memory is there again at once', async (t) => {
  const size = 1024 * 1024
  const before = process.memoryUsage().arrayBuffers
  for (let count = 0; count < 100; count++) {
    const buffer = Buffer.allocUnsafeSlow(size)
    detach(buffer)
    t.equal(buffer.length, 0)
    detach(buffer)
  }
  t.ok(process.memoryUsage().arrayBuffers - before < 2 * size)
})

await t.test(
  'a buffer that shows a part of its memory, has few bytes, or cannot be moved, is left as it is',
  async (t) => {
    const whole = Buffer.allocUnsafeSlow(64 * 1024)
    const pool = Buffer.allocUnsafeSlow(64 * 1024)
    markAsUntransferable(pool.buffer)
    const shared = Buffer.from(new SharedArrayBuffer(64 * 1024))
    const few = [Buffer.allocUnsafe(10), Buffer.allocUnsafeSlow(100)]
    const parts = [whole.subarray(1), whole.subarray(0, 60_000), ...few, pool, shared]
    const lengths = parts.map(({ length }) => length)
    for (const part of parts) detach(part)
    t.same(
      parts.map(({ length }) => length),
      lengths,
    )
    t.equal(whole.length, 64 * 1024)
  },
)
