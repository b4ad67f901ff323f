/** Transfers are reported once, with their bytes and outcome; measuring does not change the stream. */
import { once } from 'node:events'
import { PassThrough, Readable, Writable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { Events } from '../../src/storage/events.js'
import { TransferMeter, type TransferEvent } from '../../src/storage/transfer-meter.js'
import { storageRow } from '../database/store-rows.js'
import { sourceOf } from '../tree/tree-fixture.js'
import { countBytes } from '../../src/storage/transfer-meter.js'

const storage = { row: { ...storageRow({}), id: 7 } }

function measured() {
  const events = new Events()
  const heard: Omit<TransferEvent, 'storage' | 'seconds'>[] = []
  events.onTransfer(({ by, direction, bytes, outcome }) => heard.push({ by, direction, bytes, outcome }))
  return { events, meter: new TransferMeter(events, 'webdav'), heard }
}

const chunks = [Buffer.alloc(10), Buffer.alloc(20), Buffer.alloc(3)]
const stream = () => Readable.from(chunks, { objectMode: false })

void t.test('countBytes() counts bytes however a stream is consumed', async (t) => {
  const ways: Record<string, (bytes: Readable) => Promise<unknown>> = {
    'by iteration': (bytes) => buffer(bytes),
    'by pipeline': (bytes) => pipeline(bytes, new Writable({ write: (_chunk, _encoding, done) => done() })),
    'by events': (bytes) =>
      once(
        bytes.on('data', () => undefined),
        'end',
      ),
    'by read()': async (bytes) => {
      await turn()
      while (!bytes.readableEnded) {
        bytes.read()
        await turn()
      }
    },
    discarded: (bytes) => once(bytes.resume(), 'end'),
  }
  for (const [way, consume] of Object.entries(ways)) {
    let count = 0
    await consume(countBytes(stream(), (bytes) => (count += bytes)))
    t.equal(count, 33, way)
  }
})

void t.test('countBytes() does not start a stream, and loses no bytes for a late consumer', async (t) => {
  let count = 0
  const bytes = countBytes(new PassThrough(), (more) => (count += more))
  bytes.end('content')
  for (let turns = 0; turns < 5; turns++) await turn()
  t.equal(count, 0)
  t.equal((await buffer(bytes)).toString(), 'content')
  t.equal(count, 7)
})

void t.test('a stream is reported as one transfer when it closes', async (t) => {
  const { events, meter, heard } = measured()
  const transfer = meter.start(storage, 'read')
  t.equal(events.openTransfers, 1)
  await buffer(transfer.deliver(stream()))
  await turn()
  t.equal(events.openTransfers, 0)
  t.same(heard, [{ by: 'webdav', direction: 'read', bytes: 33, outcome: 'completed' }])
})

void t.test('a destroyed stream is reported as aborted, and a failed one as failed', async (t) => {
  const { meter, heard } = measured()
  const left = meter.start(storage, 'read').deliver(new PassThrough())
  left.destroy()
  await once(left, 'close')
  const broken = meter.start(storage, 'read').deliver(new PassThrough())
  broken.destroy(new GatewayError('unavailable'))
  await t.rejects(buffer(broken))
  await turn()
  t.same(
    heard.map(({ outcome }) => outcome),
    ['aborted', 'failed'],
  )
})

void t.test('the bytes of a source are counted as they are read', async (t) => {
  const { meter, heard } = measured()
  const transfer = meter.start(storage, 'write')
  const source = transfer.counted(sourceOf('some content'))
  t.equal(source.size, 12)
  await buffer(await source.read())
  transfer.end()
  transfer.end(new GatewayError('internal'))
  t.same(heard, [{ by: 'webdav', direction: 'write', bytes: 12, outcome: 'completed' }], 'once')
})

void t.test('a rejected request is not reported as a transfer, unless bytes were sent', async (t) => {
  const { meter, heard } = measured()
  const ended = (bytes: number, error?: Error) => {
    const transfer = meter.start(storage, 'write')
    transfer.count(bytes)
    transfer.end(error)
  }
  ended(0)
  ended(0, new GatewayError('not_found'))
  ended(0, new GatewayError('locked'))
  t.same(heard, [])
  ended(5, new GatewayError('locked'))
  ended(0, new GatewayError('unavailable'))
  ended(0, new Error('unforeseen'))
  ended(0, new GatewayError('aborted'))
  ended(0, new GatewayError('unauthenticated'))
  t.same(
    heard.map(({ outcome }) => outcome),
    ['failed', 'failed', 'failed', 'aborted', 'aborted'],
  )
})
