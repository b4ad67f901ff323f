/** Bodies that arrive too slowly end: nobody else can have what their uploads have reserved. */
import { PassThrough, type Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { ShareUploads } from '../../src/shares/share-uploads.js'

const rows = {
  reserve: async () => 1,
  finish: async () => undefined,
  release: async () => undefined,
  extend: async () => 1_000_000,
  isClaimed: async () => false,
  claim: async () => true,
}
const pace = { bytesPerSecond: 1000, patience: 100, interval: 20 }
const uploads = new ShareUploads(rows, { warn: () => undefined }, pace)

/** The body of a new upload, as the storage reads it. */
async function counted(body: Readable): Promise<Readable> {
  const upload = await uploads.begin('x')
  return upload.counted({ rereadable: false, read: async () => body }).read()
}

/** Sends a byte now and then. */
async function trickle(body: PassThrough): Promise<void> {
  while (!body.destroyed) {
    body.write('x')
    await delay(10)
  }
}

void t.test('a body of which little arrives is ended, and one that is silent', async (t) => {
  const [slow, silent] = [new PassThrough(), new PassThrough()]
  const bodies = await Promise.all([counted(slow), counted(silent)])
  void trickle(slow)
  for (const body of bodies) await t.rejects(buffer(body), { code: 'timeout' })
  t.ok(slow.destroyed && silent.destroyed, 'nothing more of it is received')
})

void t.test('a body that has arrived is not late, however slowly it is stored', async (t) => {
  const [ended, more] = [new PassThrough(), new PassThrough({ highWaterMark: 1_000_000 })]
  const bodies = await Promise.all([counted(ended), counted(more)])
  ended.end('x'.repeat(50))
  more.write('x'.repeat(200_000))
  await delay(400)
  t.equal((await buffer(bodies[0])).length, 50)
  more.end()
  t.equal((await buffer(bodies[1])).length, 200_000)
})
