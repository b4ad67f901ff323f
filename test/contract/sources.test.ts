/** Sources of bytes in memory. */
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { byteSource } from '../../src/contract/sources.js'

void t.test('byteSource() can be read again, as a whole and in ranges', async (t) => {
  const modified = new Date(5000)
  const source = byteSource(Buffer.from('abcdef'), { modified })
  t.match(source, { size: 6, modified, rereadable: true })
  for (let count = 0; count < 2; count++) t.equal((await buffer(await source.read())).toString(), 'abcdef')
  const read = async (offset: number, length?: number) =>
    (await buffer(await source.read({ offset, length }))).toString()
  t.equal(await read(2), 'cdef')
  t.equal(await read(2, 3), 'cde')
  t.equal(await read(2, 0), '')
  t.equal(await read(6), '')
  t.equal(await read(4, 100), 'ef')
})

void t.test('byteSource() of no bytes is an empty stream', async (t) => {
  t.equal((await buffer(await byteSource(Buffer.alloc(0)).read())).length, 0)
})
