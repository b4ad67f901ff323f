/** Files on the spool: reads and changes at any position, the size limit, and the removal of what is left. */
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type TAP } from 'tap'
import type { Source } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/base/errors.js'
import { Spool } from '../../../src/storage/fallbacks/spool.js'
import { SpooledFile } from '../../../src/storage/fallbacks/open-to-write.js'
import { entryOf, readAt } from '../open-file.js'

const instance = { name: 'run', isOver: () => true }

const sourceOf = (content: Buffer): Source => ({
  size: content.length,
  rereadable: true,
  read: async () => Readable.from([content], { objectMode: false }),
})

async function spoolOf(t: Pick<TAP, 'testdir'>): Promise<Spool> {
  return Spool.open(t.testdir(), { instance })
}

void t.test('a spooled file can be read and changed at any position, and is written back by commit', async (t) => {
  const spool = await spoolOf(t)
  const written: { content?: string; modified?: Date | undefined } = {}
  const file = await SpooledFile.open(
    spool,
    entryOf(10),
    sourceOf(Buffer.from('0123456789')),
    async (source, attributes) => {
      written.content = (await buffer(await source.read())).toString()
      t.equal(
        (await buffer(await source.read({ offset: 2, length: 3 }))).toString(),
        '2XY',
        'the source can be read again',
      )
      t.equal((await buffer(await source.read({ offset: 2, length: 0 }))).length, 0)
      written.modified = attributes.modified
      return entryOf(source.size ?? 0)
    },
  )
  await file.write([Buffer.from('X'), Buffer.from('Y')], 3)
  await file.write([Buffer.from('end')], 12)
  t.equal((await readAt(file, 0, 100)).toString('latin1'), '012XY56789\0\0end')
  await file.truncate(8)
  t.equal((await file.commit({ modified: new Date(1) })).size, 8)
  t.same(written, { content: '012XY567', modified: new Date(1) })
  await file.close()
  t.same(await readdir(spool.folder), [], 'the spool is empty')
})

void t.test('closing a spooled file without a commit writes nothing back and empties the spool', async (t) => {
  const spool = await spoolOf(t)
  const file = await SpooledFile.open(spool, entryOf(0), undefined, () => Promise.reject(new Error('written back')))
  await file.write([Buffer.from('abc')], 0)
  await file.close()
  await file.close()
  t.same(await readdir(spool.folder), [])
})

void t.test('handles and uploads share one size limit of the spool', async (t) => {
  const spool = await Spool.open(t.testdir(), { instance, limit: () => 10 })
  const stored = async () => entryOf(0)
  const file = await SpooledFile.open(spool, entryOf(4), sourceOf(Buffer.alloc(4)), stored)
  await file.write([Buffer.alloc(2), Buffer.alloc(1)], 4)
  await file.write([Buffer.alloc(7)], 0)
  const full = { code: 'no_space', message: /spool_size_limit/ }
  await t.rejects(file.write([Buffer.alloc(1)], 10), full, 'a gap counts, too')
  await t.rejects(file.truncate(11), full)
  t.equal((await buffer(await (await spool.receive(sourceOf(Buffer.alloc(3)))).read())).length, 3)
  await t.rejects(spool.receive(sourceOf(Buffer.alloc(1))), full)
  await t.rejects(file.write([Buffer.alloc(1)], 7), full)
  await file.truncate(2)
  const other = await SpooledFile.open(spool, entryOf(0), undefined, stored)
  await other.write([Buffer.alloc(5)], 0)
  await t.rejects(other.write([Buffer.alloc(1)], 5), full)
  await file.close()
  await other.write([Buffer.alloc(2)], 5)
  await other.close()
  const last = await spool.receive(sourceOf(Buffer.alloc(7)))
  t.equal(last.size, 7, 'closed files no longer count')
})

void t.test('closing a spooled file waits until it is written back', async (t) => {
  const spool = await spoolOf(t)
  let go: () => void = () => undefined
  const file = await SpooledFile.open(spool, entryOf(0), undefined, async (source) => {
    await new Promise<void>((resolve) => (go = resolve))
    return entryOf((await buffer(await source.read())).length)
  })
  await file.write([Buffer.from('abc')], 0)
  const committed = file.commit()
  while (go.length === 0) await turn()
  for (let i = 0; i < 20; i++) await turn()
  const closing = file.close()
  await turn()
  go()
  t.equal((await committed).size, 3)
  await closing
})

void t.test('a source that fails while it is spooled leaves no file on the spool', async (t) => {
  const spool = await spoolOf(t)
  const failing: Source = {
    rereadable: false,
    read: async () =>
      Readable.from(
        (function* () {
          yield Buffer.alloc(10)
          throw new GatewayError('unavailable')
        })(),
      ),
  }
  await t.rejects(spool.receive(failing), { code: 'unavailable' })
  await t.rejects(spool.receive({ ...sourceOf(Buffer.alloc(3)), size: 4 }), { code: 'invalid' })
  await t.rejects(spool.receive(sourceOf(Buffer.alloc(3)), AbortSignal.abort()), { name: 'AbortError' })
  t.same(await readdir(spool.folder), [])
})

void t.test('Spool.receive() returns a source with the same bytes and attributes', async (t) => {
  const spool = await spoolOf(t)
  const modified = new Date(7)
  const content = randomBytes(3_000_000)
  const spooled = await spool.receive({
    ...sourceOf(content),
    size: undefined,
    rereadable: false,
    modified,
    hashes: { md5: 'x' },
  })
  t.match(spooled, { size: content.length, modified, hashes: { md5: 'x' }, rereadable: true })
  t.ok((await buffer(await spooled.read())).equals(content))
  t.ok((await buffer(await spooled.read({ offset: 2_999_990 }))).equals(content.subarray(2_999_990)))
  await spooled.dispose()
  t.same(await readdir(spool.folder), [])
})

void t.test('Spool.receive() computes digests while the bytes arrive, and keeps those of the source', async (t) => {
  const spool = await spoolOf(t)
  const content = randomBytes(3_000_000)
  const digest = (name: string) => createHash(name).update(content).digest('hex')
  const source = { ...sourceOf(content), hashes: { quickxor: 'ab' } }
  const { hashes } = await spool.receive(source, undefined, false, ['sha1', 'md5'])
  t.same(hashes, { quickxor: 'ab', sha1: digest('sha1'), md5: digest('md5') })
})

void t.test('opening a spool removes the files of an earlier process', async (t) => {
  const folder = t.testdir({ left: 'over', sub: { x: '' } })
  await Spool.open(folder, { instance })
  t.same(await readdir(folder), [])
})
