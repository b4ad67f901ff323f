/** detach() releases the whole memory of a buffer, or nothing if other views share it. */
import { markAsUntransferable } from 'node:worker_threads'
import t from 'tap'
import { detach } from '../../../../drivers/lib/streams/detach-buffer.js'

await t.test('detach() empties a buffer and releases its memory at once', async (t) => {
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
  'detach() leaves small buffers, partial views and memory that cannot be transferred as they are',
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
